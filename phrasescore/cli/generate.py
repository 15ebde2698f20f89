"""``phrasescore generate``: translate with networks alone, draw samples, augment a phrase table."""

import logging
from typing import Any

import click

from phrasescore.cli import foreign_options, from_settings, options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading
from phrasescore.settings.compute import Compute

_logger = logging.getLogger(__name__)

# Parameters that are no keyword of a workflow's.
_OF_BOTH = {"model", "output", "augment", *from_settings.names_of(Compute)}


@click.command(cls=Verb)
@options.argument("model", metavar="MODEL")
@options.argument("source", metavar="[SOURCE]", default="-", required=False)
@heading("Networks and features")
@options.files(
    "--ensemble",
    "One more network: the probabilities are averaged at each word. All should have one shortlist.",
    "MODEL",
)
@heading("Search")
@options.count(
    "--beam",
    "Hypotheses that are kept; the beam shrinks with each one that ends.",
    show_default="10, or as many as --nbest and --targets need",
)
@options.flag(
    "--normalize",
    "Sort complete translations by log p / (words + 1), which does not favour short ones.",
)
@options.off("--no-unknown unknown", "Never predict <unk>.")
@options.flag(
    "--copy-unknown",
    "For each <unk> write the word of the source that it is aligned with most; needs a model of "
    "the kind attention.",
)
@options.count(
    "--max-length",
    "Words at most. Translations without an end are cut, and reported.",
    show_default="twice the words of the source and 10",
)
@heading("Output")
@options.option(
    "--nbest",
    "Write the N best of each line to FILE, too, as Moses does.",
    type=(str, click.IntRange(min=1)),
    metavar="FILE N",
)
@options.option(
    "--name",
    "The name, in --nbest, of the feature whose value is log p.",
    metavar="NAME",
    show_default="LSTM0, Attention0, RNN0, GrConv0 or Ensemble0",
)
@heading("Networks and features")
@options.flag(
    "--ctranslate2",
    "MODEL is the folder of a translation model that CTranslate2 has converted.",
)
@foreign_options.foreign_text
@options.file(
    "--truecase-model",
    "Of --ctranslate2: of Moses' train-truecaser.perl, to truecase the translations by.",
)
@heading("Samples")
@options.count(
    "--sample",
    "Draw N random translations of each line, and write the distinct ones, best first: "
    "'source ||| target ||| log p ||| times'.",
)
@options.option(
    "--temperature",
    "Of --sample: words are drawn in proportion to p^(1/T).",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    metavar="T",
)
@options.count("--top", "Of --sample: write the K best of each line.", metavar="K")
@heading("New phrase pairs")
@options.file(
    "--augment",
    "Generate targets for the sources of a sorted phrase table, and write the table with the pairs "
    "that it lacks.",
    "TABLE",
)
@options.count(
    "--targets num_targets",
    "Of --augment: the most targets that are generated, and added to the table, per source.",
    default=3,
)
@options.option(
    "--min-probability",
    "Of --augment: the least p(target | source) of a new pair.",
    type=click.FloatRange(0, 1),
    default=0.0,
    metavar="P",
)
@options.option(
    "--min-count",
    "Of --augment: only sources that were extracted C times or more.",
    type=click.FloatRange(min=0),
    metavar="C",
)
@options.file(
    "--sources only_sources",
    "Of --augment: only these source phrases, one per line; the table need not have them.",
)
@options.count("--max-phrase-length", "Of --augment: the most words of a new target.", default=7)
@options.file(
    "--reverse-model",
    "Of --augment: a model trained with --reverse, for p(source | target).",
    "MODEL",
)
@options.file("--lexicon", "Of --augment: Moses' lex.f2e, for lex(target | source).")
@options.file("--reverse-lexicon", "Of --augment: Moses' lex.e2f, for lex(source | target).")
@options.option(
    "--scores score_columns",
    "Of --augment: the content of each column of a new pair, separated by commas: forward, "
    "reverse, lexicon, reverse-lexicon, or a probability. Needed where the table does not have "
    "Moses' four columns.",
    metavar="LIST",
)
@options.off(
    "--no-indicator indicator",
    "Of --augment: add no column that is 1 for the old pairs and e for the new ones.",
)
@options.file("--moses-ini", "Of --augment: the moses.ini that uses the table.", "IN")
@options.file(
    "--moses-ini-out", "Of --augment: where the moses.ini goes with the new column in it.", "OUT"
)
@heading("Long runs")
@options.flag("--resume", "Of --augment: go on with a run of this command that was killed.")
@heading("Samples")
@options.seed
@heading("Output")
@options.output
@from_settings.of(Compute)
@options.verbosity
@click.pass_context
def generate(
    ctx: click.Context,
    /,
    model: str,
    output: str,
    augment: str | None,
    ctranslate2: bool,
    **given: Any,
) -> None:
    """Write the network MODEL's translation of each line of SOURCE, a tokenised text.

    It is the best translation that a beam search finds; --sample writes random ones instead, and
    --augment new pairs of a phrase table. Without SOURCE, stdin is read. A model that was trained
    with --reverse reads the target side and writes the source side.
    """
    given["compute"] = from_settings.take(Compute, given)
    given["text"] = foreign_options.take_foreign_text(given)
    if ctranslate2:
        from phrasescore.workflows.generate_foreign import generate_foreign

        wanted = options.arguments_of(generate_foreign, given)
        allowed = {*wanted, *_OF_BOTH, *foreign_options.OF_FOREIGN_TEXT, "ctranslate2"}
        options.refuse_others(ctx, allowed - {"augment", "precision"}, "not with --ctranslate2")
        generate_foreign(model=model, output=output, **wanted, progress=show_progress)
        return
    foreign_options.refuse_foreign_text(ctx, "truecase_model")
    if augment is None:
        from phrasescore.workflows.generate import generate as run

        wanted = options.arguments_of(run, given)
        options.refuse_others(ctx, {*wanted, *_OF_BOTH}, "only with --augment")
        run(model=model, output=output, **wanted, progress=show_progress)
        return
    from phrasescore.workflows.augment import augment as augment_table

    wanted = options.arguments_of(augment_table, given)
    options.refuse_others(ctx, {*wanted, *_OF_BOTH}, "not with --augment")
    done = augment_table(augment, model, output, **wanted, progress=show_progress)
    _logger.info("%s", done.summary())

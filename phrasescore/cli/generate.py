"""``phrasescore generate``: translate with networks alone, draw samples, augment a phrase table."""

import logging
from collections.abc import Collection
from typing import Any

import click

from phrasescore.cli import options
from phrasescore.cli.progress import show_progress

_logger = logging.getLogger(__name__)

_COUNT = click.IntRange(min=1)
# Parameters of phrase tables alone, and those of texts and samples alone.
_OF_TABLES = {
    *("num_targets", "min_probability", "min_count", "only_sources", "max_phrase_length"),
    *("reverse_model", "lexicon", "reverse_lexicon", "score_columns", "indicator"),
    *("moses_ini", "moses_ini_out", "resume"),
}
_OF_TEXTS = {
    *("source", "normalize", "unknown", "copy_unknown", "max_length", "nbest", "name"),
    *("sample", "temperature", "top", "seed"),
}


@click.command()
@click.argument("model", metavar="MODEL")
@click.argument("source", metavar="[SOURCE]", default="-", required=False)
@click.option(
    "--ensemble",
    multiple=True,
    metavar="MODEL",
    help="One more network: the probabilities are averaged at each word. They should have one "
    "shortlist.",
)
@click.option(
    "--beam",
    type=_COUNT,
    metavar="N",
    show_default="10, or what --nbest and --targets need",
    help="Hypotheses that are kept; the beam shrinks with each one that ends.",
)
@click.option(
    "--normalize",
    is_flag=True,
    help="Sort complete translations by log p / (words + 1), which does not favour short ones.",
)
@options.turned_off("--no-unknown", "unknown", "Never predict <unk>.")
@click.option(
    "--copy-unknown",
    is_flag=True,
    help="For each <unk> write the word of the source that it is aligned with most; needs a model "
    "of the kind attention.",
)
@click.option(
    "--max-length",
    type=_COUNT,
    metavar="N",
    show_default="twice the words of the source and 10",
    help="Words at most. Translations without an end are cut, and reported.",
)
@click.option(
    "--nbest",
    nargs=2,
    type=(str, _COUNT),
    metavar="FILE N",
    help="Write the N best of each line to FILE, too, as Moses does.",
)
@click.option(
    "--name",
    metavar="NAME",
    show_default="LSTM0, Attention0, RNN0, GrConv0 or Ensemble0",
    help="Of the feature in --nbest that holds log p.",
)
@click.option(
    "--sample",
    type=_COUNT,
    metavar="N",
    help="Draw N random translations of each line, and write the distinct ones, best first: "
    "'source ||| target ||| log p ||| times'.",
)
@click.option(
    "--temperature",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    metavar="T",
    help="Of --sample: words are drawn in proportion to p^(1/T).",
)
@click.option("--top", type=_COUNT, metavar="K", help="Of --sample: write the K best of each line.")
@click.option(
    "--augment",
    metavar="TABLE",
    help="Generate targets for the sources of a sorted phrase table, and write the table with the "
    "pairs that it lacks.",
)
@click.option(
    "--targets",
    "num_targets",
    type=_COUNT,
    default=3,
    show_default=True,
    metavar="N",
    help="Of --augment: targets generated per source; at most so many come into the table.",
)
@click.option(
    "--min-probability",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    metavar="P",
    help="Of --augment: p(target | source) that a new pair has at least.",
)
@click.option(
    "--min-count",
    type=click.FloatRange(min=0),
    metavar="C",
    help="Of --augment: only sources that were extracted C times or more.",
)
@click.option(
    "--sources",
    "only_sources",
    metavar="FILE",
    help="Of --augment: only these source phrases, one per line; the table need not have them.",
)
@click.option(
    "--max-phrase-length",
    type=_COUNT,
    default=7,
    show_default=True,
    metavar="N",
    help="Of --augment: words of a new target at most.",
)
@click.option(
    "--reverse-model",
    metavar="MODEL",
    help="Of --augment: a model trained with --reverse, for p(source | target).",
)
@click.option(
    "--lexicon", metavar="FILE", help="Of --augment: Moses' lex.f2e, for lex(target | source)."
)
@click.option(
    "--reverse-lexicon",
    metavar="FILE",
    help="Of --augment: Moses' lex.e2f, for lex(source | target).",
)
@click.option(
    "--scores",
    "score_columns",
    metavar="LIST",
    help="Of --augment: the content of each column of a new pair, separated by commas: forward, "
    "reverse, lexicon, reverse-lexicon, or a probability. Needed where the table does not have "
    "Moses' four columns.",
)
@options.turned_off(
    "--no-indicator",
    "indicator",
    "Of --augment: add no column that is 1 for the old pairs and e for the new ones.",
)
@click.option("--moses-ini", metavar="IN", help="Of --augment: the moses.ini that uses the table.")
@click.option(
    "--moses-ini-out",
    metavar="OUT",
    help="Of --augment: where it goes with the new column in it.",
)
@click.option(
    "--resume", is_flag=True, help="Of --augment: go on with a run of this command that was killed."
)
@options.seed
@options.output
@options.precision
@options.device
@options.threads
@options.verbosity
@click.pass_context
def generate(
    ctx: click.Context, /, model: str, output: str, augment: str | None, **values: Any
) -> None:
    """Write the network MODEL's translation of each line of SOURCE, a tokenised text.

    That is the best translation that a beam search finds; with --sample random ones, with --augment
    new pairs for a phrase table. SOURCE is stdin where it is not given. A model that was trained
    with --reverse reads the target side and writes the source side.
    """
    if augment is None:
        _refuse(ctx, _OF_TABLES, "is of --augment TABLE alone")
        from phrasescore.workflows.generate import generate as generate_targets

        wanted = {name: value for name, value in values.items() if name not in _OF_TABLES}
        source = wanted.pop("source")
        generate_targets(source, model, output, **wanted, progress=show_progress)
        return
    _refuse(ctx, _OF_TEXTS, "is not of --augment")
    from phrasescore.workflows.augment import augment as augment_table

    wanted = {name: value for name, value in values.items() if name not in _OF_TEXTS}
    done = augment_table(augment, model, output, **wanted, progress=show_progress)
    _logger.info("%s", done.summary())


def _refuse(ctx: click.Context, names: Collection[str], reason: str) -> None:
    """Raise a usage error if one of some parameters, which have no effect here, was given."""
    for param in ctx.command.params:
        given = ctx.get_parameter_source(param.name or "")
        if param.name in names and given is click.core.ParameterSource.COMMANDLINE:
            shown = "SOURCE" if isinstance(param, click.Argument) else param.opts[-1]
            raise click.UsageError(f"{shown}: {reason}")

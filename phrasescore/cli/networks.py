"""``phrasescore train`` and ``export``: train networks, and write them for Moses."""

import logging
import os
from typing import Any

import click

from phrasescore.cli import next_step, options
from phrasescore.cli.options import heading, names_of
from phrasescore.cli.progress import show_progress
from phrasescore.errors import ArgumentError
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import preset_names
from phrasescore.settings.declaration import grouped
from phrasescore.settings.kinds import KINDS
from phrasescore.settings.training import ListTraining, NewNetwork, TrainingChanges, UnfinishedRun

_logger = logging.getLogger(__name__)

# Only for --objective bleu: parameters of `fine_tune`, fields of its settings, and parameters of
# `train_for_bleu`.
_OF_LISTS = ("model", "lists", "source", "references", "weights")
_OF_FINE_TUNING = ("feature", "likelihood")
_OF_SYSTEM = ("system", "text")


@options.verb(
    "Train a network on text or on a phrase table",
    "train rnnsearch train.en train.fr --minutes 60 -o model",
    main="-o --minutes --subwords --reverse --right-to-left --set --objective --from",
)
@click.argument(
    "kind",
    metavar="KIND",
    shell_complete=lambda _ctx, _param, begun: [kind for kind in KINDS if kind.startswith(begun)],
)
@options.argument("inputs", metavar="[TABLE|TEXT...|SOURCE TARGET]", nargs=-1)
@heading("Output")
@options.file("-o --output", "The folder of the new model.", "MODEL", required=True)
@options.of(
    NewNetwork, without=names_of(TrainingChanges), preset={"type": click.Choice(preset_names())}
)
@options.of(TrainingChanges)
@heading("Input")
@options.file(
    "--alignments", "For the kind joint: the word alignments of the text, such as 0-0 1-2."
)
@heading("Training for BLEU")
@options.choice(
    "--objective",
    "The training objective. bleu: after the likelihood, the expected BLEU of n-best lists "
    "of training text; either of --text, which --system translates, or of --lists.",
    ("likelihood", "bleu"),
    default="likelihood",
)
@options.file(
    "--system", "For an encoder-decoder: the tuned system that gets the column.", "SYSTEM"
)
@options.option(
    "--text",
    "The text that the system was built from, raw or in its words; --alignments has the word "
    "alignment, if it is not beside the phrase table.",
    nargs=2,
    metavar="SOURCE TARGET",
)
@options.file("--from model", "A trained network to start from.", "MODEL")
@options.files("--lists", "Moses' n-best lists for the sentences in --source.")
@options.file("--source", "The source sentences, one per line.")
@options.references()
@options.file("--weights", "The weights of all features: 'Name= value' lines, or a moses.ini.")
@options.of(ListTraining, only=_OF_FINE_TUNING)
@options.of(UnfinishedRun)
@options.of(Compute, only=("device", "threads"))
@click.pass_context
def train(ctx: click.Context, /, **given: Any) -> None:
    """Train a network of the given KIND, and write it to the folder MODEL.

    KIND is cslm, encoder-decoder, grconv, joint, lstm, rnnsearch or transformer.

    A network learns from parallel text: the files SOURCE and TARGET, with one tokenised sentence
    per line. An encoder-decoder can also learn from the pairs in the phrase table TABLE. A cslm is
    a language model and learns from files TEXT; options for the target apply to it. A joint model
    learns from aligned text. Files may be gzipped, and one of them may be - for stdin.

    With --objective bleu, the network is trained further on n-best lists, to increase the expected
    BLEU of reranking with the given weights.

    Training stops at the first limit, or when the perplexity on held-out pairs stops decreasing.
    Started by torchrun, several processes share each batch.
    """
    if given.pop("objective") == "bleu":
        (_train_for_system if given["system"] else _train_on_lists)(ctx, given)
        return
    only_bleu = {*_OF_LISTS, *_OF_FINE_TUNING, *_OF_SYSTEM}
    for name in only_bleu:
        del given[name]
    options.refuse_others(
        ctx, ctx.params.keys() - only_bleu, "can only be used with --objective bleu"
    )
    if not given["inputs"]:
        raise click.UsageError("Missing argument 'TABLE|TEXT...|SOURCE TARGET'.")
    is_first = os.environ.get("RANK", "0") == "0"
    if not is_first:
        logging.disable(logging.WARNING)  # the first process shows all messages

    from phrasescore.training.ranks import RankLostError
    from phrasescore.workflows.train import train as run

    try:
        run(**grouped(run, given), progress=show_progress)
    except RankLostError:
        if is_first:
            raise
        ctx.exit(1)
    is_table = len(given["inputs"]) == 1
    next_step.suggest(is_of_table=is_table and KINDS[given["kind"]].scores_phrases)


def _train_on_lists(ctx: click.Context, given: dict[str, Any]) -> None:
    from phrasescore.workflows.fine_tune import fine_tune

    own = {*_OF_LISTS, "kind", "output", "alignments", "device", "threads"}
    own |= names_of(ListTraining, UnfinishedRun)
    reason = "cannot be used with --objective bleu and --lists, which train an existing network"
    options.refuse_others(ctx, own | {"objective"}, reason)
    for name in _OF_LISTS:
        if not given[name]:
            flag = {"model": "from"}.get(name, name)
            raise click.UsageError(f"--objective bleu requires --{flag}, or --system and --text")
    fine_tune(**grouped(fine_tune, options.only(given, own)), progress=show_progress)
    next_step.suggest(is_of_table=KINDS[given["kind"]].scores_phrases)


def _train_for_system(ctx: click.Context, given: dict[str, Any]) -> None:
    from phrasescore.workflows.bleu_training import train_for_bleu

    others = {*_OF_LISTS, *_OF_FINE_TUNING, "inputs"} - {"model"}
    reason = "cannot be used with --objective bleu and --system, whose table the network learns"
    options.refuse_others(ctx, ctx.params.keys() - others, reason)
    if given["model"]:
        new = names_of(NewNetwork) - {"minutes", "seed"}
        reason = "cannot be used with --from, a network that is trained further"
        options.refuse_others(ctx, ctx.params.keys() - new, reason)
    if not given["text"]:
        raise click.UsageError("--system requires --text SOURCE TARGET")
    own = ctx.params.keys() - {*others, "objective"}
    run = grouped(train_for_bleu, options.only(given, own))
    train_for_bleu(**run, progress=show_progress)
    next_step.suggest(is_of_table=KINDS[given["kind"]].scores_phrases)


@options.verb(
    "Write a system, or a cslm or joint model, for Moses",
    "export system --format moses -o moses.ini",
)
@options.argument("path", metavar="MODEL|SYSTEM")
@heading("Output")
@options.choice(
    "--format",
    "nplm: the file of a network, which a Moses built with NPLM loads. moses: the moses.ini of a "
    "system, with absolute paths and the weights of the search.",
    ("nplm", "moses"),
    default="nplm",
)
@options.output
@heading("Input")
@options.file(
    "--moses-ini", "For nplm: the moses.ini that the network's feature is added to.", "IN"
)
@options.file("--weights", "For moses: weights that replace those of the system.")
@heading("Output")
@options.file("--moses-ini-out", "Write the moses.ini with the new feature, at weight 0.", "OUT")
@click.pass_context
def export(ctx: click.Context, /, path: str, output: str, **given: Any) -> None:
    """Export the network MODEL, of the kind cslm or joint, or with --format moses a SYSTEM.

    Moses scores without log Z, so a network must have been trained with
    --set model.self_normalization=0.1. The words of a joint model are written to
    OUTPUT.source_vocab and OUTPUT.target_vocab.
    """
    from phrasescore.workflows.export import export as run
    from phrasescore.workflows.export import export_system

    if given.pop("format") == "moses":
        options.refuse_others(
            ctx, {"path", "output", "format", "weights"}, "requires --format nplm"
        )
        export_system(path, output, weights=given["weights"])
        next_step.suggest()
        return
    if given.pop("weights") is not None:
        raise ArgumentError("--weights requires --format moses")
    done = run(path, output, **given)
    kind = f"{done.kind} {done.name}" if done.name else done.kind
    _logger.info("%s: order %d, %s words", kind, done.order, f"{done.input_words:,}")
    next_step.suggest()

"""``phrasescore train``: train a network on a phrase table or on text."""

import logging
import os
import sys
from typing import Any

import click

from phrasescore.cli import from_settings, options
from phrasescore.cli.from_settings import names_of, take
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading
from phrasescore.errors import ArgumentError
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import preset_names
from phrasescore.settings.kinds import KINDS
from phrasescore.settings.training import ListTraining, NewNetwork, Shortlists, UnfinishedRun

_logger = logging.getLogger(__name__)

# Parameters of the objective xbleu only: of `fine_tune`, and fields of its settings.
_OF_LISTS = ("model", "lists", "source", "references", "weights")
_OF_FINE_TUNING = ("feature", "likelihood")


def _complete_kind(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [kind for kind in KINDS if kind.startswith(incomplete)]


@click.command(cls=Verb)
@click.argument("kind", metavar="KIND", shell_complete=_complete_kind)
@options.argument("inputs", metavar="[TABLE|TEXT|SOURCE TARGET]", nargs=-1)
@heading("Output")
@options.file("-o --output", "The folder to make.", "MODEL", required=True)
@from_settings.of(NewNetwork, preset={"type": click.Choice(preset_names())})
@heading("Input")
@options.file("--alignments", "The text's word alignment, 0-0 1-2 per line; for a joint model.")
@heading("Training for BLEU")
@options.choice(
    "--objective",
    "Likelihood; or the expected BLEU of n-best lists, for which a trained network is trained on.",
    ("likelihood", "xbleu"),
    default="likelihood",
)
@options.file("--from model", "The network to train on.", "MODEL")
@options.files("--lists", "N-best lists of the sentences of --source, from Moses.")
@options.file("--source", "The sentences, one per line.")
@options.files("--references", "Their translations; NAME for NAME0, NAME1, ...")
@options.file("--weights", "A file of all features' weights, or a moses.ini.")
@from_settings.of(ListTraining, only=_OF_FINE_TUNING)
@from_settings.of(Shortlists)
@from_settings.of(UnfinishedRun)
@heading("Speed")
@options.count("--processes", "Share each batch out among this many processes.", default=1)
@from_settings.of(Compute, only=("device", "threads"))
@options.verbosity
@click.pass_context
def train(ctx: click.Context, /, processes: int, **given: Any) -> None:
    """Train a network of KIND and write the folder MODEL.

    KIND is attention, cslm, encoder-decoder, grconv, joint or lstm.

    It learns from parallel text, which is the files SOURCE and TARGET with a tokenised sentence per
    line; an encoder-decoder also from the phrase pairs of the phrase table TABLE. A cslm, which is
    a language model, learns from one file, TEXT; it goes by the options of the target. A joint
    model learns from aligned text. Files may be compressed by gzip, and one of them may be -, which
    is stdin.

    With --objective xbleu the network MODEL of --from is trained on, from n-best lists: so that the
    hypotheses that the weights choose, its own among them, have a higher expected BLEU. It stops
    when that of held-out lists no longer rises.

    Training stops at the first limit that is reached, or when the perplexity of held-out pairs
    stops falling. A run that was stopped by Ctrl-C or killed goes on with --resume.
    """
    given["state"] = take(UnfinishedRun, given)
    given["compute"] = take(Compute, given)
    if given.pop("objective") == "xbleu":
        _train_on_lists(ctx, given)
        return
    for name in (*_OF_LISTS, *_OF_FINE_TUNING):
        del given[name]
    allowed = ctx.params.keys() - {*_OF_LISTS, *_OF_FINE_TUNING}
    options.refuse_others(ctx, allowed, "only with --objective xbleu")
    if not given["inputs"]:
        raise click.UsageError("Missing argument 'TABLE|TEXT|SOURCE TARGET'.")
    given["settings"] = take(NewNetwork, given)
    given["shortlists"] = take(Shortlists, given)
    # Job systems set WORLD_SIZE, too; this is of torchrun, by which we start ranks as well.
    if processes > 1 and "TORCHELASTIC_RUN_ID" in os.environ:
        if processes != int(size := os.environ["WORLD_SIZE"]):
            raise ArgumentError(f"torchrun has started {size} processes; --processes is for none")
    elif processes > 1:
        from phrasescore.training.ranks import start_ranks

        command = (sys.executable, "-m", "phrasescore", *sys.argv[1:])
        ctx.exit(start_ranks(processes, command))
    is_first = os.environ.get("RANK", "0") == "0"
    if not is_first:
        logging.disable(logging.WARNING)  # the first one says everything

    from phrasescore.training.ranks import RankLostError
    from phrasescore.workflows.train import train as train_network

    try:
        done = train_network(progress=show_progress, **given)
    except RankLostError:
        if is_first:
            raise
        ctx.exit(1)
    _logger.info("%s: %s", given["output"], done.record.summary())


def _train_on_lists(ctx: click.Context, given: dict[str, Any]) -> None:
    from phrasescore.workflows.train import fine_tune

    own = {*_OF_LISTS, "kind", "output", "alignments"}
    allowed = own | names_of(ListTraining, UnfinishedRun) | {"objective", "device", "threads"}
    reason = "not with --objective xbleu, which trains a network on from lists"
    options.refuse_others(ctx, allowed, reason)
    for name in _OF_LISTS:
        if not given[name]:
            flag = {"model": "from"}.get(name, name)
            raise click.UsageError(f"--objective xbleu needs --{flag}")
    done = fine_tune(
        **{name: given[name] for name in own},
        settings=take(ListTraining, given),
        state=given["state"],
        compute=given["compute"],
        progress=show_progress,
    )
    _logger.info("%s: %s", given["output"], done.record.summary())

"""``phrasescore train``: train a network on a phrase table or on text."""

import logging
import os
import sys
from typing import Any

import click
from click.core import ParameterSource

from phrasescore.cli import from_settings, options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading
from phrasescore.errors import ArgumentError
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import preset_names
from phrasescore.settings.kinds import KINDS

_logger = logging.getLogger(__name__)

# Parameters of the objective xbleu alone.
_OF_LISTS = ("model", "lists", "source", "references", "weights", "feature", "likelihood")


def _complete_kind(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [kind for kind in KINDS if kind.startswith(incomplete)]


@click.command(cls=Verb)
@click.argument("kind", metavar="KIND", shell_complete=_complete_kind)
@options.argument("inputs", metavar="[TABLE|TEXT|SOURCE TARGET]", nargs=-1)
@heading("Output")
@options.file("-o --output", "The folder to make.", "MODEL", required=True)
@heading("Training")
@options.choice(
    "--preset",
    "Settings to start from.",
    preset_names(),
    show_default="small or KIND-small",
)
@options.file("--config", "A TOML file of settings, instead.")
@options.option(
    "--set settings",
    "Change a setting, as training.batch_size=32. May be repeated.",
    multiple=True,
    metavar="TABLE.KEY=VALUE",
)
@options.count(
    "--subwords", "Learn from pieces of words, this many on each side, not from shortlists."
)
@heading("Input")
@options.file("--alignments", "The text's word alignment, 0-0 1-2 per line; for a joint model.")
@heading("Training for BLEU")
@options.choice(
    "--objective",
    "Likelihood; or the expected BLEU of n-best lists, for which a trained network is trained on.",
    ("likelihood", "xbleu"),
    default="likelihood",
)
@options.file("--from model", "Of xbleu: the network to train on.", "MODEL")
@options.files("--lists", "Of xbleu: n-best lists of the sentences of --source, from Moses.")
@options.file("--source", "Of xbleu: the sentences, one per line.")
@options.files("--references", "Of xbleu: their translations; NAME for NAME0, NAME1, ...")
@options.file("--weights", "Of xbleu: a file of all features' weights, or a moses.ini.")
@options.option(
    "--feature",
    "Of xbleu: the network's in --weights; TranslationModel0_4 is the fifth score of a table.",
    metavar="NAME",
    show_default="as rescore names it",
)
@options.option(
    "--likelihood",
    "Of xbleu: the factor of -log p per word of the references, or of the phrase pairs.",
    type=click.FloatRange(min=0),
    default=0.1,
)
@heading("Training")
@options.flag("--reverse", "Learn p(source | target).")
@options.flag("--right-to-left", "Predict the last word first; the other side is read as ever.")
@options.count("--updates", "Stop after this many batches.")
@options.option("--epochs", "Stop after this many passes over the pairs.", type=float)
@options.option("--minutes", "Stop after this many minutes, all resumptions counted.", type=float)
@heading("Input")
@options.file("--source-corpus", "Take the source shortlist from this text.")
@options.file("--target-corpus", "Take the target shortlist from this text.")
@options.file("--source-vocabulary", "A source.vocab of another model.")
@options.file("--target-vocabulary", "A target.vocab of another model.")
@heading("Long runs")
@options.flag("--resume", "Go on with a run that was stopped or killed.")
@options.file("--work-dir", "For the run's state.", "DIR", show_default="MODEL.work")
@options.flag("--keep-work", "Keep that folder, to train further by --resume.")
@heading("Speed")
@options.count("--processes", "Share each batch out among this many processes.", default=1)
@heading("Training")
@options.seed
@from_settings.of(Compute, only=("device", "threads"))
@options.verbosity
@click.pass_context
def train(ctx: click.Context, /, seed: int, processes: int, **arguments: Any) -> None:
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
    # The seed is one of the settings, of which an option that is not given changes none.
    is_given = ctx.get_parameter_source("seed") != ParameterSource.DEFAULT
    arguments["seed"] = seed if is_given else None
    arguments["compute"] = from_settings.take(Compute, arguments)
    for_lists = {name: arguments.pop(name) for name in _OF_LISTS}
    if arguments.pop("objective") == "xbleu":
        _train_on_lists(ctx, {**arguments, **for_lists})
        return
    if others := [flag for name, flag in options.given_flags(ctx).items() if name in for_lists]:
        raise click.UsageError(f"{', '.join(others)}: only with --objective xbleu")
    if not arguments["inputs"]:
        raise click.UsageError("Missing argument 'TABLE|TEXT|SOURCE TARGET'.")
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
        done = train_network(progress=show_progress, **arguments)
    except RankLostError:
        if is_first:
            raise
        ctx.exit(1)
    _logger.info("%s: %s", arguments["output"], done.record.summary())


def _train_on_lists(ctx: click.Context, arguments: dict[str, Any]) -> None:
    from phrasescore.workflows.fine_tune import fine_tune

    taken = options.arguments_of(fine_tune, arguments)
    # Positional ones, which are the pairs to learn from, and those of a new network.
    reason = "not with --objective xbleu, which trains a network on from lists"
    options.refuse_others(ctx, {*taken, "objective", "device", "threads"}, reason)
    for name in ("model", "lists", "source", "references", "weights"):
        if not taken[name]:
            flag = {"model": "from"}.get(name, name)
            raise click.UsageError(f"--objective xbleu needs --{flag}")
    done = fine_tune(**taken, progress=show_progress)
    _logger.info("%s: %s", taken["output"], done.record.summary())

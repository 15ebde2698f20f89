"""``phrasescore train``: train a network on a phrase table or on text."""

import logging
import os
import sys
from typing import Any

import click
from click.core import ParameterSource

from phrasescore.cli import options
from phrasescore.cli.progress import show_progress
from phrasescore.config.config import preset_names
from phrasescore.config.settings import MODEL_CONFIGS
from phrasescore.errors import ArgumentError

_logger = logging.getLogger(__name__)


@click.command()
@click.argument("kind", metavar="KIND", type=click.Choice(sorted(MODEL_CONFIGS)))
@click.argument("inputs", metavar="TABLE|TEXT|SOURCE TARGET", nargs=-1, required=True)
@options.file("-o --output", "The folder to make.", "MODEL", required=True)
@options.choice(
    "--preset",
    "Settings to start from.",
    preset_names(),
    show_default="small, lstm-small, attention-small, grconv-small or cslm-small, by KIND",
)
@options.file("--config", "A TOML file of settings, instead.")
@options.option(
    "--set settings",
    "Change a setting, as training.batch_size=32. May be repeated.",
    multiple=True,
    metavar="TABLE.KEY=VALUE",
)
@options.flag("--reverse", "Learn p(source | target).")
@options.count("--updates", "Stop after this many batches.")
@options.option("--epochs", "Stop after this many passes over the pairs.", type=float)
@options.option("--minutes", "Stop after this many minutes, all resumptions counted.", type=float)
@options.file("--source-corpus", "Take the source shortlist from this text.")
@options.file("--target-corpus", "Take the target shortlist from this text.")
@options.file("--source-vocabulary", "A source.vocab of another model.")
@options.file("--target-vocabulary", "A target.vocab of another model.")
@options.flag("--resume", "Go on with a run that was stopped or killed.")
@options.file("--work-dir", "For the run's state.", "DIR", show_default="MODEL.work")
@options.flag("--keep-work", "Keep that folder, to train further by --resume.")
@options.count("--processes", "Share each batch out among this many processes.", default=1)
@options.seed
@options.device
@options.threads
@options.verbosity
@click.pass_context
def train(ctx: click.Context, /, output: str, seed: int, processes: int, **arguments: Any) -> None:
    """Train a network of KIND and write the folder MODEL.

    It learns from parallel text, which is the files SOURCE and TARGET with a tokenised sentence per
    line; an encoder-decoder also from the phrase pairs of the phrase table TABLE. A cslm, which is
    a language model, learns from one file, TEXT; it goes by the options of the target. Files may be
    compressed by gzip, and one of them may be -, which is stdin.

    Training stops at the first limit that is reached, or when the perplexity of held-out pairs
    stops falling. A run that was stopped by Ctrl-C or killed goes on with --resume.
    """
    # Job systems set WORLD_SIZE, too; this is of torchrun, by which we start ranks as well.
    if processes > 1 and "TORCHELASTIC_RUN_ID" in os.environ:
        if processes != int(size := os.environ["WORLD_SIZE"]):
            raise ArgumentError(f"torchrun has started {size} processes; `processes` is for none")
    elif processes > 1:
        from phrasescore.training.ranks import start_ranks

        command = (sys.executable, "-m", "phrasescore", *sys.argv[1:])
        ctx.exit(start_ranks(processes, command))
    is_first = os.environ.get("RANK", "0") == "0"
    if not is_first:
        logging.disable(logging.WARNING)  # the first one says everything

    from phrasescore.training.ranks import RankLostError
    from phrasescore.workflows.train import train as train_network

    # The seed is one of the settings, of which an option that is not given changes none.
    is_given = ctx.get_parameter_source("seed") != ParameterSource.DEFAULT
    try:
        done = train_network(
            output=output, seed=seed if is_given else None, progress=show_progress, **arguments
        )
    except RankLostError:
        if is_first:
            raise
        ctx.exit(1)
    _logger.info("%s: %s", output, done.record.summary())

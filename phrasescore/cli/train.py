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

_logger = logging.getLogger(__name__)


@click.command()
@click.argument("kind", metavar="KIND", type=click.Choice(sorted(MODEL_CONFIGS)))
@click.argument("inputs", metavar="TABLE|TEXT|SOURCE TARGET", nargs=-1, required=True)
@click.option("-o", "--output", metavar="MODEL", required=True, help="The folder to make.")
@click.option(
    "--preset",
    type=click.Choice(preset_names()),
    show_default="small, lstm-small, attention-small, grconv-small or cslm-small, by KIND",
    help="Settings to start from.",
)
@click.option("--config", "config_file", metavar="FILE", help="A TOML file of settings, instead.")
@click.option(
    "--set",
    "settings",
    metavar="TABLE.KEY=VALUE",
    multiple=True,
    help="Change a setting, as training.batch_size=32. May be repeated.",
)
@click.option("--reverse", is_flag=True, help="Learn p(source | target).")
@click.option("--updates", type=click.IntRange(min=1), help="Stop after so many batches.")
@click.option("--epochs", type=float, help="Stop after so many passes over the pairs.")
@click.option("--minutes", type=float, help="Stop after so many minutes, all resumptions counted.")
@click.option("--source-corpus", metavar="FILE", help="Take the source shortlist from this text.")
@click.option("--target-corpus", metavar="FILE", help="Take the target shortlist from this text.")
@click.option("--source-vocabulary", metavar="FILE", help="A source.vocab of another model.")
@click.option("--target-vocabulary", metavar="FILE", help="A target.vocab of another model.")
@click.option("--resume", is_flag=True, help="Go on with a run that was stopped or killed.")
@click.option("--work-dir", metavar="DIR", show_default="MODEL.work", help="For the run's state.")
@click.option("--keep-work", is_flag=True, help="Keep that folder, to train further by --resume.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=1,
    help="Share each batch out among so many processes of this machine.",
)
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
    is_rank = "WORLD_SIZE" in os.environ
    if processes > 1 and not is_rank:
        from phrasescore.training.ranks import start_ranks

        command = (sys.executable, "-m", "phrasescore", *sys.argv[1:])
        ctx.exit(start_ranks(processes, command))
    if is_rank and os.environ["RANK"] != "0":
        logging.disable(logging.WARNING)  # the first one says everything

    from phrasescore.workflows.train import train as train_network

    # The seed is one of the settings, of which an option that is not given changes none.
    is_given = ctx.get_parameter_source("seed") != ParameterSource.DEFAULT
    record = train_network(
        output=output, seed=seed if is_given else None, progress=show_progress, **arguments
    )
    _logger.info("%s: %s", output, record.summary())

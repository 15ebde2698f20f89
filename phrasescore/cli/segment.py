"""``phrasescore segment``: translate a text piece by piece, with networks alone."""

import logging
from typing import Any, get_args

import click

from phrasescore.arguments import ConfidenceName, SegmentationName
from phrasescore.cli import options
from phrasescore.cli.progress import show_progress

_logger = logging.getLogger(__name__)


@click.command()
@click.argument("source", metavar="SOURCE")
@click.option(
    "--model", metavar="FORWARD", required=True, help="The trained model that translates segments."
)
@click.option(
    "--reverse-model",
    metavar="REVERSE",
    help="A model trained with --reverse, which tells how well a translation leads back.",
)
@click.option(
    "--swapped",
    is_flag=True,
    help="REVERSE was trained without --reverse, on the two texts in the other order.",
)
@click.option(
    "--confidence",
    type=click.Choice(get_args(ConfidenceName)),
    default="penalized",
    show_default=True,
    help="The summed value: log p(target | segment) (forward); the mean of it and log q(segment | "
    "target) (both); that divided by log(words), which keeps segments from being short "
    "(penalized: equation 2), or by log(words + 2), as in the authors' program.",
)
@click.option(
    "--segmentation",
    type=click.Choice(get_args(SegmentationName)),
    default="best",
    show_default=True,
    help="The most confident segments, or a control: sentences whole; random segments, as long on "
    "average and as varied as those of --like; the best by random confidences.",
)
@click.option(
    "--like", metavar="FILE", help="For --segmentation random: the --segments of another run."
)
@click.option(
    "--max-segment",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Words of the longest segment.",
)
@click.option(
    "--min-length",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Leave sentences with fewer words whole.",
)
@click.option(
    "--beam",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="N",
    help="Width of the search for translations.",
)
@click.option(
    "--candidates",
    type=click.IntRange(min=1),
    show_default="--beam",
    metavar="N",
    help="Translations of a segment of which the one with the highest confidence is taken.",
)
@options.turned_off("--no-unknown", "unknown", "Never predict <unk>.")
@click.option("--segments", metavar="FILE", help="Write the segments: JSON, one line per sentence.")
@options.seed
@options.output
@options.precision
@options.device
@options.threads
@options.verbosity
def segment(source: str, model: str, output: str, **settings: Any) -> None:
    """Translate SOURCE, tokenised sentences, each cut into segments that networks are sure of.

    A network that reads a sentence into one vector translates long ones badly. Here every span of
    a sentence is translated, the segmentation with the highest sum of confidences is taken, and the
    translations of its segments are joined (Pouget-Abadie et al., 2014). An empty line stays one.
    """
    from phrasescore.workflows.segment import segment as translate_segments

    done = translate_segments(source, model, output, **settings, progress=show_progress)
    _logger.info("segment: %s", done.work.summary())

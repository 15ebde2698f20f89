"""``phrasescore segment``: translate a text piece by piece, with networks alone."""

import logging
from typing import Any, get_args

import click

from phrasescore.arguments import ConfidenceName, SegmentationName
from phrasescore.cli import from_settings, options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading
from phrasescore.settings.compute import Compute

_logger = logging.getLogger(__name__)


@click.command(cls=Verb)
@options.argument("source", metavar="SOURCE")
@heading("Networks and features")
@options.file("--model", "The trained model that translates segments.", "FORWARD", required=True)
@options.file(
    "--reverse-model",
    "A model trained with --reverse, which tells how well a translation leads back.",
    "REVERSE",
)
@options.flag(
    "--swapped", "REVERSE was trained without --reverse, on the two texts in the other order."
)
@heading("Method")
@options.choice(
    "--confidence",
    "The summed value: log p(target | segment) (forward); the mean of it and log q(segment | "
    "target) (both); that divided by log(words), which keeps segments from being short "
    "(penalized: equation 2), or by log(words + 2), as in the authors' program.",
    get_args(ConfidenceName),
    default="penalized",
)
@options.choice(
    "--segmentation",
    "The most confident segments, or a control: sentences whole; random segments, as long on "
    "average and as varied as those of --like; the best by random confidences.",
    get_args(SegmentationName),
    default="best",
)
@options.file("--like", "For --segmentation random: the --segments of another run.")
@options.count("--max-segment", "Words of the longest segment.", default=20)
@options.count("--min-length", "Leave sentences with fewer words whole.", default=1)
@heading("Search")
@options.count("--beam", "Width of the search for translations.", default=10)
@options.count(
    "--candidates",
    "Translations of a segment of which the one with the highest confidence is taken.",
    show_default="--beam",
)
@options.off("--no-unknown unknown", "Never predict <unk>.")
@heading("Output")
@options.file("--segments", "Write the segments: JSON, one line per sentence.")
@heading("Method")
@options.seed
@heading("Output")
@options.output
@from_settings.of(Compute, only=("precision", "device", "threads"))
@options.verbosity
def segment(source: str, model: str, output: str, **settings: Any) -> None:
    """Translate SOURCE, tokenised sentences, each cut into segments that networks are sure of.

    A network that reads a sentence into one vector translates long ones badly. Here every span of
    a sentence is translated, the segmentation with the highest sum of confidences is taken, and the
    translations of its segments are joined (Pouget-Abadie et al., 2014). An empty line stays one.
    """
    from phrasescore.workflows.segment import segment as translate_segments

    settings["compute"] = from_settings.take(Compute, settings)
    done = translate_segments(source, model, output, **settings, progress=show_progress)
    _logger.info("segment: %s", done.work.summary())

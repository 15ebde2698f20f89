"""``phrasescore segment``: translate a text piece by piece, with networks only."""

import logging
from typing import Any

import click

from phrasescore.cli import from_settings, options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading
from phrasescore.settings.compute import Compute
from phrasescore.settings.generation import Segmenting

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
@from_settings.of(Segmenting)
@heading("Output")
@options.file("--segments", "Write the segments: JSON, one line per sentence.")
@options.output
@from_settings.of(Compute, only=("precision", "device", "threads"))
@options.verbosity
def segment(source: str, model: str, output: str, **given: Any) -> None:
    """Translate SOURCE, tokenised sentences, each cut into segments that networks are sure of.

    A network that reads a sentence into one vector translates long ones badly. Here every span of
    a sentence is translated, the segmentation with the highest sum of confidences is taken, and the
    translations of its segments are joined (Pouget-Abadie et al., 2014). An empty line stays one.
    """
    from phrasescore.workflows.segment import segment as translate_segments

    given["settings"] = from_settings.take(Segmenting, given)
    given["compute"] = from_settings.take(Compute, given)
    done = translate_segments(source, model, output, **given, progress=show_progress)
    _logger.info("segment: %s", done.work.summary())

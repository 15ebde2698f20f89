"""``phrasescore segment``: translate a text piece by piece, with networks alone."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from phrasescore.cli import options

if TYPE_CHECKING:
    from phrasescore.generation.beam_search import BeamSettings
    from phrasescore.generation.segmentation import Cut, SegmentedSentence, Segmenter

_logger = logging.getLogger(__name__)

BEST, NONE, RANDOM, RANDOM_CONFIDENCE = "best", "none", "random", "random-confidence"
FORWARD = "forward"
# The keys of phrasescore.generation.segmentation.CONFIDENCES, which imports torch.
CONFIDENCE_NAMES = (FORWARD, "both", "penalized", "penalized-released")


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
    type=click.Choice(CONFIDENCE_NAMES),
    default="penalized",
    show_default=True,
    help="What is summed: log p(target | segment) (forward); the mean of it and log q(segment | "
    "target) (both); that divided by log(words), which keeps segments from being short "
    "(penalized: equation 2), or by log(words + 2), as in the authors' program.",
)
@click.option(
    "--segmentation",
    type=click.Choice((BEST, NONE, RANDOM, RANDOM_CONFIDENCE)),
    default=BEST,
    show_default=True,
    help="The most confident segments, or a control: sentences whole; random segments, as long on "
    "average and as varied as those of --like; the best by random confidences.",
)
@click.option(
    "--like", metavar="FILE", help="For --segmentation random: what --segments wrote before."
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
@click.option("--no-unknown", is_flag=True, help="Never predict <unk>.")
@click.option("--segments", metavar="FILE", help="Write the segments: JSON, a line a sentence.")
@options.seed
@options.output
@options.precision
@options.device
@options.threads
@options.verbosity
def segment(
    source: str,
    model: str,
    reverse_model: str | None,
    swapped: bool,
    confidence: str,
    segmentation: str,
    like: str | None,
    max_segment: int,
    min_length: int,
    beam: int,
    candidates: int | None,
    no_unknown: bool,
    segments: str | None,
    seed: int,
    output: str,
    precision: str,
    device: str,
    threads: int | None,
) -> None:
    """Translate SOURCE, tokenised sentences, each cut into segments that networks are sure of.

    A network that reads a sentence into one vector translates long ones badly. Here every span of
    a sentence is translated, the segmentation with the highest sum of confidences is taken, and the
    translations of its segments are joined (Pouget-Abadie et al., 2014). An empty line stays one.
    """
    from phrasescore.generation.beam_search import BeamSettings
    from phrasescore.io.file_names import check_files
    from phrasescore.io.output import check_output

    _check_usage(confidence, reverse_model, swapped, segmentation, like, beam, candidates)
    check_files((source, like), (output, segments))
    for name in (output, segments):
        if name is not None:
            check_output(name)
    cut = _cut(segmentation, like, max_segment, min_length, seed)
    segmenter, trained_on = _segmenter(
        (model, reverse_model),
        BeamSettings(width=beam, num_best=candidates or beam, unknown=not no_unknown),
        cut,
        swapped=swapped,
        confidence=confidence,
        lengths=(max_segment, min_length),
        place=(device, precision, threads),
    )
    too_long = _write(segmenter, source, output, segments, trained_on)
    if too_long:
        _logger.warning(
            "%s segments are longer than the %s words that were the most in training: networks "
            "translate such ones badly",
            f"{too_long:,}",
            f"{trained_on:,}",
        )
    _logger.info("segment: %s", segmenter.work.summary())


def _check_usage(
    confidence: str,
    reverse_model: str | None,
    swapped: bool,
    segmentation: str,
    like: str | None,
    beam: int,
    candidates: int | None,
) -> None:
    """Refuse a command line that says too little or too much."""
    if confidence == FORWARD and reverse_model is not None:
        raise click.UsageError("--confidence forward asks no --reverse-model")
    if confidence != FORWARD and reverse_model is None:
        raise click.UsageError(f"--confidence {confidence} needs a --reverse-model")
    if swapped and reverse_model is None:
        raise click.UsageError("--swapped is said of a --reverse-model, and there is none")
    if segmentation == RANDOM and like is None:
        raise click.UsageError("--segmentation random needs --like: the segments of another run")
    if segmentation != RANDOM and like is not None:
        raise click.UsageError("--like is for --segmentation random")
    if candidates is not None and candidates > beam:
        raise click.UsageError(f"--candidates {candidates} needs a --beam at least as wide")


def _cut(
    segmentation: str, like: str | None, max_segment: int, min_length: int, seed: int
) -> "Cut | None":
    """Return the control; None for the best segmentation."""
    from phrasescore.cli.segment_file import read_sizes
    from phrasescore.generation.random_segmentation import fit_random_cuts
    from phrasescore.generation.segmentation import cut_by_random_confidence, cut_nothing

    if segmentation == NONE:
        return cut_nothing
    if segmentation == RANDOM_CONFIDENCE:
        return cut_by_random_confidence(seed, max_segment)
    if like is None:
        return None
    sizes = read_sizes(like, min_length=min_length, max_segment=max_segment)
    return fit_random_cuts(sizes, max_segment=max_segment, seed=seed)


def _segmenter(
    models: tuple[str, str | None],
    beam: "BeamSettings",
    cut: "Cut | None",
    *,
    swapped: bool,
    confidence: str,
    lengths: tuple[int, int],
    place: tuple[str, str, int | None],
) -> "tuple[Segmenter, int]":
    """Return what cuts and translates, with its networks; and the words of their longest text."""
    import torch

    from phrasescore.cli.segment_networks import BackScorer, Translator, load_back, load_forward
    from phrasescore.devices import choose_device, usable_threads
    from phrasescore.generation.segmentation import CONFIDENCES, Segmenter

    device_name, precision, threads = place
    device, count = choose_device(device_name), usable_threads(threads)
    torch.set_num_threads(1)  # the work has threads of its own
    forward = load_forward(models[0])
    back = None
    if models[1] is not None:
        checkpoint = load_back(models[1], forward, swapped=swapped)
        back = BackScorer(checkpoint, device, precision=precision, threads=count)  # type: ignore[arg-type]
    translator = Translator(forward, device, beam, precision=precision, threads=count)  # type: ignore[arg-type]
    segmenter = Segmenter(
        translator,
        back,
        CONFIDENCES[confidence],
        max_segment=lengths[0],
        cut=cut,
        min_length=lengths[1],
    )
    return segmenter, forward.config.training.max_length


def _write(
    segmenter: "Segmenter", source: str, output: str, segments: str | None, trained_on: int
) -> int:
    """Write translations, and segments, as they are found.

    :return: how many segments are longer than ``trained_on`` words.
    """
    from phrasescore.cli.progress import show_progress
    from phrasescore.cli.segment_file import format_segments
    from phrasescore.io.output import open_output
    from phrasescore.progress import Meter

    too_long = 0
    with ExitStack() as stack:
        translations = stack.enter_context(open_output(output))
        details = None if segments is None else stack.enter_context(open_output(segments))
        progress = stack.enter_context(Meter("segment", "sentences", show_progress))
        for number, sentence in enumerate(_sentences(segmenter, source)):
            translations.write((" ".join(sentence.translation) + "\n").encode())
            if details is not None:
                details.write(format_segments(number, sentence))
            too_long += sum(each.end - each.start > trained_on for each in sentence.segments)
            progress.update()
    return too_long


def _sentences(segmenter: "Segmenter", source: str) -> "Iterator[SegmentedSentence]":
    from phrasescore.io.monolingual_text import read_monolingual_text

    return segmenter.segment(line.words for line in read_monolingual_text(source))

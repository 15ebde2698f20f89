"""Translate a text segment by segment, using only networks (Pouget-Abadie et al., 2014)."""

import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import msgspec

from phrasescore.arguments import StrPath
from phrasescore.devices import choose_device, torch_threads, usable_threads
from phrasescore.errors import ArgumentError, DataError, ModelError
from phrasescore.generation import segmentation
from phrasescore.generation.beam_search import BeamSettings, beam_work
from phrasescore.generation.generator import Generated, Generator, check_kinds
from phrasescore.io.corpora import read_monolingual_text
from phrasescore.io.output import check_files, open_output, optional_path
from phrasescore.io.text import decode, read_lines, shorten
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import Segmenting
from phrasescore.systems.text_checks import UnknownWordCheck
from phrasescore.vocabulary import Vocabulary
from phrasescore.workflows.load_model import ScoringModel


@torch_threads(1)  # search and scoring have their own threads
def segment(
    source: StrPath,
    model: StrPath,
    output: StrPath,
    *,
    reverse_model: StrPath | None = None,
    settings: Segmenting = Segmenting(),
    segments: StrPath | None = None,
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> segmentation.SegmentSummary:
    """Translate sentences, split into segments that networks translate confidently.

    Every span of a sentence is translated, the segmentation with the highest sum of confidences is
    chosen, and its segments' translations are concatenated. The output for a sentence depends only
    on the sentence (and, with a random control, on its number). An empty line stays empty.

    :param source: tokenised sentences, one per line.
    :param model: the model that translates segments.
    :param reverse_model: a model trained in reverse, which scores the source given a translation;
        required for every confidence except ``forward``.
    :param segments: a file for the segments: JSON, one line per sentence.
    """
    source, output = os.fspath(source), os.fspath(output)
    reverse_path, like_path = optional_path(reverse_model), optional_path(settings.like)
    details, confidence = optional_path(segments), settings.confidence
    compute.check_only("precision", "device", "threads")
    if (confidence == "forward") != (reverse_path is None):
        problem = "cannot use a" if confidence == "forward" else "requires a"
        raise ArgumentError(f"--confidence {confidence} {problem} --reverse-model")
    max_segment = settings.max_segment
    if settings.segmentation == "random" and like_path is None:
        raise ArgumentError("--segmentation random requires --like: the segments from another run")
    if settings.segmentation != "random" and like_path is not None:
        raise ArgumentError("--like requires --segmentation random")
    check_files((source, like_path), (output, details))
    cut: segmentation.Cut | None = None
    if settings.segmentation == "none":
        cut = segmentation.cut_nothing
    elif settings.segmentation == "random-confidence":
        cut = segmentation.cut_by_random_confidence(max_segment)
    elif like_path is not None:
        cut = _cut_like(like_path)
    place, num_threads = choose_device(compute.device), usable_threads(compute.threads)
    forward = _load_forward(os.fspath(model))
    scores = None
    if reverse_path is not None:
        reverse = _load_reverse(reverse_path, forward)
        scores = ScoringModel(reverse, reverse_path, compute, warns=False)
    generator = Generator([forward], place, precision=compute.precision)
    search = BeamSettings(settings.beam, num_best=settings.beam, unknown=settings.unknown)
    work = beam_work(generator, search)

    def translate(spans: Sequence[tuple[str, ...]]) -> list[list[Generated]]:
        return list(work.targets(spans, Compute(workers=num_threads)))

    segmenter = segmentation.Segmenter(
        translate,
        None if scores is None else lambda lists: list(scores.score_lists(lists)),
        segmentation.CONFIDENCES[confidence],
        max_segment=max_segment,
        cut=cut,
    )
    with ExitStack() as stack:
        translations = stack.enter_context(open_output(output))
        lines = None if details is None else stack.enter_context(open_output(details))
        meter = stack.enter_context(Meter("segment", "sentences", progress, lines_of=source))
        unknown_words = UnknownWordCheck(source, {os.fspath(model): forward.source_vocabulary})
        sentences = unknown_words.counted(line.words for line in read_monolingual_text(source))
        for number, sentence in enumerate(segmenter.segment(sentences)):
            translations.write((" ".join(sentence.translation) + "\n").encode())
            if lines is not None:
                lines.write(_format_segments(number, sentence))
            meter.update()
    return segmenter.work


def _load_forward(path: str) -> Checkpoint:
    checkpoint = load_checkpoint(path)
    check_kinds([checkpoint])
    if checkpoint.reverse:
        problem = "expected a model that predicts the target, found one trained with --reverse"
        raise ModelError(f"--model {path}: {problem}; is it the --reverse-model?")
    return checkpoint


def _load_reverse(path: str, forward: Checkpoint) -> Checkpoint:
    name = f"--reverse-model {path}"
    checkpoint = load_checkpoint(path)
    if not checkpoint.reverse:
        problem = f"{name}: expected a model trained with --reverse, found one that predicts its"
        raise ModelError(f"{problem} second text")
    reads = _words(checkpoint.source_vocabulary)
    of_source = len(reads & _words(forward.source_vocabulary))
    of_target = len(reads & _words(forward.target_vocabulary))
    if of_source > of_target:
        problem = f"{name}: expected a model that reads the language that --model writes; --model"
        raise ModelError(f"{problem} reads {of_source:,} of its words and writes {of_target:,}")
    return checkpoint


def _words(vocabulary: Vocabulary) -> set[str]:
    return {vocabulary.word(number) for number in range(len(vocabulary))}


# The file of --segments: JSON, one line per sentence. (A word may contain anything except a space,
# so no separator between segments would be safe.)


class _Bounds(msgspec.Struct):
    start: int
    end: int


class _SegmentLine(msgspec.Struct):
    segments: list[_Bounds]


def _format_segments(number: int, sentence: segmentation.SegmentedSentence) -> bytes:
    """Return a sentence's line in the file of --segments, with its 0-based number and a newline."""
    segments = [
        {
            "start": segment.start,
            "end": segment.end,
            "source": " ".join(sentence.words[segment.start : segment.end]),
            "target": " ".join(segment.target),
            # JSON has no infinity.
            "confidence": segment.confidence if math.isfinite(segment.confidence) else None,
            "finished": segment.finished,
        }
        for segment in sentence.segments
    ]
    line = {"sentence": number, "words": len(sentence.words), "segments": segments}
    return (json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _cut_like(path: str) -> segmentation.Cut:
    """Return the control with a run's segments in random order; its text must be the same."""
    segmentations = list(_read_sizes(path))
    shuffled = segmentation.cut_in_random_order(segmentations)

    def cut(number: int, length: int) -> list[int]:
        found = sum(segmentations[number]) if number < len(segmentations) else "no line"
        if found != length:
            problem = f"expected segments of {length} words, as the source has, found {found}"
            raise DataError(path, number + 1, problem)
        return shuffled(number, length)

    return cut


def _read_sizes(path: str) -> Iterator[list[int]]:
    for number, raw in enumerate(read_lines(path), start=1):
        text = decode(path, number, raw)
        try:
            line = msgspec.json.decode(text, type=_SegmentLine)
        except (msgspec.DecodeError, RecursionError) as error:
            problem = f"expected a line that --segments wrote, found {shorten(text)}"
            raise DataError(path, number, problem) from error
        sizes = [segment.end - segment.start for segment in line.segments]
        if min(sizes, default=1) < 1:
            raise DataError(path, number, f"expected segments of words, found {sizes}")
        yield sizes

"""The file of ``phrasescore segment --segments``: JSON, one line per sentence.

A word may be anything but a space, so that no separator between segments would be safe.
"""

import json
import math
from collections.abc import Iterator

import msgspec

from phrasescore.errors import DataError
from phrasescore.generation.segmentation import SegmentedSentence
from phrasescore.io.text import decode, read_lines, shorten


class _Bounds(msgspec.Struct):
    start: int
    end: int


class _SegmentLine(msgspec.Struct):
    words: int
    segments: list[_Bounds]


def format_segments(number: int, sentence: SegmentedSentence) -> bytes:
    """Return the line of a sentence, with its newline.

    :param number: of the sentence, from 0.
    """
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


def read_sizes(path: str, *, min_length: int, max_segment: int) -> Iterator[list[int]]:
    """Yield the sizes of the segments of each sentence that could be cut.

    :param min_length: sentences with fewer words were not to be cut.
    :param max_segment: words of a segment at most.
    :raises DataError: on reading, if a line is not one that ``--segments`` wrote, a segment is
        longer, or there is no sentence that could be cut.
    """
    found = False
    for number, raw in enumerate(read_lines(path), start=1):
        sizes = _sizes(path, number, decode(path, number, raw))
        if sum(sizes) < max(min_length, 1):
            continue
        if max(sizes) > max_segment:
            problem = f"expected segments of at most --max-segment {max_segment} words, found one"
            raise DataError(path, number, f"{problem} of {max(sizes)}")
        found = True
        yield sizes
    if not found:
        problem = f"expected segments of sentences of at least {max(min_length, 1)} words"
        raise DataError(path, None, f"{problem}, found none")


def _sizes(path: str, number: int, text: str) -> list[int]:
    """Return the sizes of the segments in a line."""
    try:
        line = msgspec.json.decode(text, type=_SegmentLine)
    except (msgspec.DecodeError, RecursionError) as error:
        problem = f"expected a line that --segments wrote, found {shorten(text)}"
        raise DataError(path, number, problem) from error
    bounds = [(segment.start, segment.end) for segment in line.segments]
    place = 0
    for start, end in bounds:
        if start != place or end <= start:
            raise DataError(path, number, f"expected segments side by side, found {bounds}")
        place = end
    if line.words != place:
        raise DataError(path, number, f"expected segments of {line.words} words, got {bounds}")
    return [end - start for start, end in bounds]

"""Read and write the file of ``phrasescore segment --segments``: JSON, one line per sentence.

A word may contain anything except a space, so no separator between segments would be safe.
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
    """Return the line of a sentence with this number, counted from 0, with its newline."""
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

    :param min_length: sentences with fewer words stay whole, and are skipped.
    :raises DataError: on reading, if a line is malformed, a segment is longer, or no sentence could
        be cut.
    """
    is_empty = True
    for number, raw in enumerate(read_lines(path), start=1):
        sizes = _sizes(path, number, decode(path, number, raw))
        if sum(sizes) < max(min_length, 1):
            continue
        if max(sizes) > max_segment:
            raise DataError(
                path,
                number,
                f"expected segments of at most --max-segment {max_segment} words, found one of "
                f"{max(sizes)}",
            )
        is_empty = False
        yield sizes
    if is_empty:
        raise DataError(
            path,
            None,
            f"expected segments of sentences of at least {max(min_length, 1)} words, found none",
        )


def _sizes(path: str, number: int, text: str) -> list[int]:
    try:
        line = msgspec.json.decode(text, type=_SegmentLine)
    except (msgspec.DecodeError, RecursionError) as error:
        problem = f"expected a line that --segments wrote, found {shorten(text)}"
        raise DataError(path, number, problem) from error
    bounds = [(segment.start, segment.end) for segment in line.segments]
    expected_start = 0
    for start, end in bounds:
        if start != expected_start or end <= start:
            raise DataError(path, number, f"expected segments side by side, found {bounds}")
        expected_start = end
    if line.words != expected_start:
        raise DataError(path, number, f"expected segments of {line.words} words, got {bounds}")
    return [end - start for start, end in bounds]

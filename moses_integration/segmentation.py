"""The phrase segmentation in a line of an n-best list, as Moses and the embedded search write it.

With ``-include-segmentation-in-n-best`` a field after the total says which source words became
which target words, phrase by phrase in the order of the target: ``0-1=0-2 2=3``. Both sides count
from 0, ends included; of one word only the first is written, and of a phrase without target words,
too (Moses, Manager::OutputNBest).
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from phrasescore.errors import DataError
from phrasescore.io.text import shorten

_PHRASE = re.compile(rb"(\d{1,6})(?:-(\d{1,6}))?=(\d{1,6})(?:-\d{1,6})?")


class PhraseSpan(NamedTuple):
    """A phrase of a derivation: 0-based words, ends exclusive."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int


def parse_segmentation(
    raw: bytes, source_size: int, target_size: int, path: str, line: int
) -> list[PhraseSpan]:
    """Return the phrases of a line of a list, in the order of the target.

    :param source_size: the words of the sentence.
    :param target_size: the words of the hypothesis.
    :param path: for messages, as ``line`` is.
    :raises DataError: if the line has no segmentation, or one of other words.

    >>> parse_segmentation(b"0 ||| la maison  ||| A= 1 ||| 0 ||| 1=0 0=1", 2, 2, "nbest", 1)
    [PhraseSpan(source_start=1, source_end=2, target_start=0, target_end=1),
     PhraseSpan(source_start=0, source_end=1, target_start=1, target_end=2)]
    """
    fields = [field.split() for field in raw.split(b"|||")[4:]]
    tokens = next((field for field in fields if field and b"=" in field[0]), None)
    if tokens is None:
        cure = "made by decode --segmentation, or by Moses' -include-segmentation-in-n-best"
        problem = f"expected a segmentation into phrases after the total, {cure}"
        raise DataError(path, line, f"{problem}, found none")
    matches = [_PHRASE.fullmatch(token) for token in tokens]
    if None in matches:
        token = tokens[matches.index(None)]
        raise DataError(path, line, f"expected a phrase as 0-1=0-2, found {shorten(token)}")
    found = [match.groups() for match in matches if match is not None]
    starts = [int(target) for _, _, target in found]
    spans = [
        PhraseSpan(int(first), int(last or first) + 1, start, end)
        for (first, last, _), start, end in zip(
            found, starts, [*starts[1:], target_size], strict=True
        )
    ]
    if not _covers(spans, source_size, target_size):
        problem = f"expected phrases of {source_size} source and {target_size} target words"
        raise DataError(path, line, f"{problem}, found {shorten(b' '.join(tokens))}")
    return spans


def _covers(spans: Sequence[PhraseSpan], source_size: int, target_size: int) -> bool:
    """Return whether each source word is in one phrase, and so is each target word."""
    words = [word for span in spans for word in range(span.source_start, span.source_end)]
    starts = [span.target_start for span in spans]
    return (
        sorted(words) == list(range(source_size))
        and starts[0] == 0
        and starts == sorted(starts)
        and starts[-1] <= target_size
        and all(span.source_start < span.source_end for span in spans)
    )


def format_segmentation(spans: Sequence[PhraseSpan]) -> str:
    """Return phrases as Moses writes them.

    >>> format_segmentation([PhraseSpan(0, 2, 0, 3), PhraseSpan(2, 3, 3, 4)])
    '0-1=0-2 2=3'
    """
    return " ".join(
        f"{_range(span.source_start, span.source_end)}={_range(span.target_start, span.target_end)}"
        for span in spans
    )


def _range(start: int, end: int) -> str:
    return f"{start}-{end - 1}" if end - start > 1 else f"{start}"

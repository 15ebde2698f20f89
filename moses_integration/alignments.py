"""Word alignments, phrase segmentations and affiliations of target words.

Alignments are in Pharaoh's format, ``0-0 1-2``: pairs of 0-based source and target words. In n-best
lists they may follow the total, as may the phrases in target order, ``0-1=0-2 2=3``: ranges of
source and of target words, 0-based and with inclusive ends. A range with one word, or without
target words, is written as its first number only (Moses, Manager::OutputNBest).

A joint model reads the source words around the *affiliation* of a target word (Devlin et al., 2014,
section 2.1), by the rule of Moses' BilingualLM:

* An aligned word is affiliated with the middle one of its n source words, at index (n - 1) // 2.
* An unaligned word takes the affiliation of the nearest aligned word, on ties the one on the right:
  of its phrase in a search (moses/LM/BilingualLM.cpp, getSourceWords), else of the whole sentence,
  including ``</s>`` (scripts/training/bilingual-lm/extract.py).
* ``</s>`` is affiliated with the end of the source.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from phrasescore.errors import DataError
from phrasescore.io.text import shorten
from phrasescore.records import PhrasePair

Affiliations = tuple[int, ...]
Numbers = npt.NDArray[np.int32]
Starts = npt.NDArray[np.int64]

_LINK = rb"[0-9]{1,9}-[0-9]{1,9}"
_LINKS = re.compile(rb" *(?:%b +)*%b *" % (_LINK, _LINK))
_PHRASE = re.compile(rb"(\d{1,6})(?:-(\d{1,6}))?=(\d{1,6})(?:-\d{1,6})?")


def parse_links(
    field: bytes, source_length: int, target_length: int, path: str, line: int
) -> list[list[int]]:
    """Parse an alignment such as ``0-0 1-2`` into the source word indices of each target word."""
    linked: list[list[int]] = [[] for _ in range(target_length)]
    field = field.removesuffix(b"\r").strip(b" ")
    check_links(field, path, line)
    for link in field.split():
        source, target = map(int, link.split(b"-"))
        if source >= source_length or target >= target_length:
            problem = f"the alignment link {link.decode()} (0-based) is outside the pair"
            raise DataError(path, line, f"{problem} of {source_length} and {target_length} words")
        linked[target].append(source)
    return linked


def check_links(field: bytes, path: str, line: int) -> None:
    """Check that a field is empty or a word alignment, without checking its word numbers."""
    if field and _LINKS.fullmatch(field) is None:
        problem = f"expected a word alignment, as '0-0 1-2', found {shorten(field)}"
        raise DataError(path, line, problem)


def parse_block(lines: Iterable[bytes], path: str, before: int) -> tuple[Numbers, Starts]:
    """Return the links in consecutive lines of a file, and where each line's links begin.

    :param before: number of lines in the file before these lines.
    :return: ``(links, 2)``: a source and a target word, 0-based; ``(lines + 1,)``.
    :raises DataError: if a line is malformed. Word numbers are not checked.
    """
    fields = []
    for number, line in enumerate(lines, start=before + 1):
        field = line.removesuffix(b"\r").strip(b" ")
        check_links(field, path, number)
        fields.append(field.replace(b"-", b" ").split())
    links = np.array(list(chain.from_iterable(fields)), "S9").astype(np.int32).reshape(-1, 2)
    starts = np.zeros(len(fields) + 1, np.int64)
    np.cumsum([len(field) // 2 for field in fields], out=starts[1:])
    return links, starts


def affiliate(linked: Sequence[Sequence[int]]) -> Affiliations | None:
    """Return the affiliation of each target word from its links; None if no word is aligned.

    >>> affiliate([[4, 1], [], [], [2]])
    (1, 1, 2, 2)
    """
    affiliations: list[int] = []
    for index, links in enumerate(linked):
        if not links:
            continue
        distinct = sorted(set(links))
        middle = distinct[(len(distinct) - 1) // 2]
        if waiting := index - len(affiliations):
            # The half of the preceding unaligned words that is nearer to this word: two of three.
            nearer_left = waiting // 2 if affiliations else 0
            affiliations += affiliations[-1:] * nearer_left + [middle] * (waiting - nearer_left)
        affiliations.append(middle)
    if linked and not affiliations:
        return None
    affiliations += affiliations[-1:] * (len(linked) - len(affiliations))
    return tuple(affiliations)


def affiliate_sentence(linked: Sequence[Sequence[int]], source_length: int) -> Affiliations:
    """Return the affiliation of each target word in a sentence; ``</s>`` counts as a word."""
    affiliations = affiliate([*linked, [source_length]])
    assert affiliations is not None
    return affiliations[:-1]


def affiliate_phrase(
    field: bytes, source_length: int, target_length: int, path: str, line: int
) -> Affiliations:
    """Return the affiliation of each target word in a phrase pair, from its alignment field."""
    affiliations = affiliate(parse_links(field, source_length, target_length, path, line))
    if affiliations is None:
        problem = "expected a word alignment in the fourth field, found none"
        raise DataError(path, line, f"{problem}: a joint model needs it")
    return affiliations


def has_links(raw: bytes) -> bool:
    """Return whether an n-best line has a word alignment with at least one link."""
    return any(_LINKS.fullmatch(field.rstrip(b"\r")) for field in raw.split(b"|||")[4:])


def affiliate_hypothesis(
    raw: bytes, source_length: int, target_length: int, path: str, line: int
) -> Affiliations:
    """Return the affiliations of the words in a hypothesis, given as an n-best line.

    An empty alignment means that no word is aligned. With a phrase segmentation, unaligned words
    are affiliated within their phrase; without one, and in phrases without links (from Moses' XML
    options), within the sentence.
    """
    if target_length == 0:
        return ()
    fields = [field.removesuffix(b"\r").strip(b" ") for field in raw.split(b"|||")[4:]]
    alignment = next((field for field in fields if _LINKS.fullmatch(field)), None)
    if alignment is None and b"" not in fields:
        problem = "expected a word alignment after the total, found none"
        cure = "Moses writes it with -print-alignment-info-in-n-best, phrasescore translate with"
        raise DataError(path, line, f"{problem}: {cure} --alignment")
    linked = parse_links(alignment or b"", source_length, target_length, path, line)
    in_sentence = affiliate_sentence(linked, source_length)
    if not any(field and all(map(_PHRASE.fullmatch, field.split())) for field in fields):
        return in_sentence
    affiliations: list[int] = []
    for *_, begin, end in parse_segmentation(raw, source_length, target_length, path, line):
        affiliations += affiliate(linked[begin:end]) or in_sentence[begin:end]
    return tuple(affiliations)


class PhraseSpan(NamedTuple):
    """The source and target spans of a phrase: 0-based word indices, with exclusive ends."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int

    def of(self, source: tuple[str, ...], target: tuple[str, ...]) -> PhrasePair:
        """Return the phrases in a sentence and its translation."""
        first, after, begin, end = self
        return PhrasePair._make((source[first:after], target[begin:end]))


def parse_segmentation(
    raw: bytes, source_size: int, target_size: int, path: str, line: int
) -> list[PhraseSpan]:
    """Return the phrases of an n-best line in target order.

    >>> parse_segmentation(b"0 ||| la maison  ||| A= 1 ||| 0 ||| 1=0 0=1", 2, 2, "nbest", 1)
    [PhraseSpan(source_start=1, source_end=2, target_start=0, target_end=1),
     PhraseSpan(source_start=0, source_end=1, target_start=1, target_end=2)]
    """
    fields = [field.split() for field in raw.split(b"|||")[4:]]
    tokens = next((field for field in fields if field and b"=" in field[0]), None)
    if tokens is None:
        problem = "expected a phrase segmentation after the total, written by translate"
        cure = "--segmentation or by Moses with -include-segmentation-in-n-best"
        raise DataError(path, line, f"{problem} {cure}, found none")
    ranges = []
    for token in tokens:
        match = _PHRASE.fullmatch(token)
        if match is None:
            raise DataError(path, line, f"expected a phrase like 0-1=0-2, found {shorten(token)}")
        ranges.append((int(match[1]), int(match[2] or match[1]) + 1, int(match[3])))
    borders = [*(target for _, _, target in ranges), target_size]
    spans = [
        PhraseSpan(first, after, start, end)
        for (first, after, _), (start, end) in zip(ranges, pairwise(borders), strict=True)
    ]
    words = [word for first, after, _ in ranges for word in range(first, after)]
    is_whole = sorted(words) == list(range(source_size)) and borders[0] == 0
    if not is_whole or borders != sorted(borders) or any(one[0] >= one[1] for one in ranges):
        problem = f"expected phrases for {source_size} source and {target_size} target words"
        raise DataError(path, line, f"{problem}, found {shorten(b' '.join(tokens))}")
    return spans


def format_segmentation(spans: Sequence[PhraseSpan]) -> str:
    """Format a phrase segmentation as Moses writes it.

    >>> format_segmentation([PhraseSpan(0, 2, 0, 3), PhraseSpan(2, 3, 3, 4)])
    '0-1=0-2 2=3'
    """

    def words(start: int, end: int) -> str:
        return f"{start}-{end - 1}" if end - start > 1 else f"{start}"

    return " ".join(f"{words(*span[:2])}={words(*span[2:])}" for span in spans)

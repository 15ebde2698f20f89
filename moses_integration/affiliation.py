"""Word alignments, and the source word that a target word is affiliated with.

Alignments are in Pharaoh's format, ``0-0 1-2``: a source word and a target word, from 0 on.

A joint model reads the source words around the *affiliation* of a target word (Devlin et al., 2014,
section 2.1). The rule is that of Moses' BilingualLM:

* A word that is aligned is affiliated with the middle one of its source words: of n of them, in
  their order, that with the number (n - 1) // 2, from 0 on.
* A word that is not has the affiliation of the nearest one that is. Of two at the same distance it
  is the one to the right.
* ``</s>`` is affiliated with the end of the source.

In a search the nearest word is looked for in the phrase (moses/LM/BilingualLM.cpp, getSourceWords),
in a text in the whole sentence, ``</s>`` included (scripts/training/bilingual-lm/extract.py).
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from phrasescore.errors import DataError
from phrasescore.io.text import shorten

Affiliations = tuple[int, ...]

_LINK = rb"[0-9]{1,9}-[0-9]{1,9}"
_LINKS = re.compile(rb" *(?:%b +)*%b *" % (_LINK, _LINK))
# As Moses writes it: source words and target words of a phrase, the last ones inclusive.
_SEGMENT = rb"[0-9]{1,9}(?:-[0-9]{1,9})?=[0-9]{1,9}(?:-[0-9]{1,9})?"
_SEGMENTS = re.compile(rb" *(?:%b +)*%b *" % (_SEGMENT, _SEGMENT))


def parse_links(
    field: bytes, source_length: int, target_length: int, path: str, line: int
) -> list[list[int]]:
    """Return the source words that each target word is aligned with, none for some.

    :param field: as ``0-0 1-2``; may be empty.
    :param path: for messages, as ``line`` is.
    :raises DataError: if it is no alignment, or one of another pair of sentences.
    """
    linked: list[list[int]] = [[] for _ in range(target_length)]
    field = field.removesuffix(b"\r").strip(b" ")
    check_links(field, path, line)
    for link in field.split():
        of_source, _, of_target = link.partition(b"-")
        place, linked_place = int(of_source), int(of_target)
        if place >= source_length or linked_place >= target_length:
            problem = (
                f"the words {link.decode()} of the alignment (from 0) are outside of a pair of "
                f"{source_length} and {target_length} words"
            )
            raise DataError(path, line, problem)
        linked[linked_place].append(place)
    return linked


def check_links(field: bytes, path: str, line: int) -> None:
    """Check that a field is empty or a word alignment, of words of any number.

    :raises DataError: if it is not.
    """
    if field and _LINKS.fullmatch(field) is None:
        problem = f"expected a word alignment, as '0-0 1-2', found {shorten(field)}"
        raise DataError(path, line, problem)


def affiliate(linked: Sequence[Sequence[int]]) -> Affiliations | None:
    """Return the affiliation of each target word; None where no word is aligned.

    :param linked: the source words that each target word is aligned with.

    >>> affiliate([[4, 1], [], [], [2]])
    (1, 1, 2, 2)
    """
    found: list[int] = []
    for place, links in enumerate(linked):
        if not links:
            continue
        distinct = sorted(set(links))
        middle = distinct[(len(distinct) - 1) // 2]
        if waiting := place - len(found):
            # Of the words before that are not aligned the nearer half, of three the nearer two.
            nearer_left = waiting // 2 if found else 0
            found += found[-1:] * nearer_left + [middle] * (waiting - nearer_left)
        found.append(middle)
    if linked and not found:
        return None
    found += found[-1:] * (len(linked) - len(found))
    return tuple(found)


def affiliate_sentence(linked: Sequence[Sequence[int]], source_length: int) -> Affiliations:
    """Return the affiliation of each word of a sentence; its ``</s>`` is looked at, too."""
    found = affiliate([*linked, [source_length]])
    assert found is not None
    return found[:-1]


def affiliate_phrase(
    field: bytes, source_length: int, target_length: int, path: str, line: int
) -> Affiliations:
    """Return the affiliation of each target word of a phrase pair, a line of a table.

    :param field: its word alignment.
    :raises DataError: as :func:`parse_links`, or if no word is aligned.
    """
    found = affiliate(parse_links(field, source_length, target_length, path, line))
    if found is None:
        problem = (
            "expected a word alignment in the fourth field, found none: a joint model needs it"
        )
        raise DataError(path, line, problem)
    return found


def has_links(raw: bytes) -> bool:
    """Return whether a line of an n-best list has a word alignment with a link."""
    return any(_LINKS.fullmatch(field.rstrip(b"\r")) for field in raw.split(b"|||")[4:])


def affiliate_hypothesis(
    raw: bytes, source_length: int, target_length: int, path: str, line: int
) -> Affiliations:
    """Return the affiliations of the words of a hypothesis, a line of an n-best list.

    The alignment stands in a field after the total; an empty field means that no word is aligned.
    Where there is a phrase segmentation, too, an unaligned word is affiliated inside of its phrase,
    as in the search. Without one, and in a phrase without links, as Moses has it from its XML
    options, it is affiliated in the sentence.

    :param target_length: the words of the hypothesis.
    :raises DataError: if there is no alignment of these words.
    """
    if target_length == 0:
        return ()
    fields = [field.removesuffix(b"\r").strip(b" ") for field in raw.split(b"|||")[4:]]
    found = next((field for field in fields if _LINKS.fullmatch(field)), None)
    if found is None and b"" not in fields:
        problem = (
            "expected a word alignment after the total, found none: Moses writes it with "
            "-print-alignment-info-in-n-best, phrasescore decode with --alignment"
        )
        raise DataError(path, line, problem)
    linked = parse_links(found or b"", source_length, target_length, path, line)
    segments = [field for field in fields if _SEGMENTS.fullmatch(field)]
    in_sentence = affiliate_sentence(linked, source_length)
    if not segments:
        return in_sentence
    starts = [int(part.split(b"=")[1].split(b"-")[0]) for part in segments[0].split()]
    # A phrase without words begins where the next one does.
    borders = [*starts, target_length]
    if starts[0] != 0 or borders != sorted(borders):
        problem = f"expected phrases of {target_length} words, found {shorten(segments[0])}"
        raise DataError(path, line, problem)
    affiliations: list[int] = []
    for begin, end in pairwise(borders):
        affiliations += affiliate(linked[begin:end]) or in_sentence[begin:end]
    return tuple(affiliations)

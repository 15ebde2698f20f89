"""Read the pairs of a phrase table that some sentences need, at about the speed of the file.

These lines are checked as `moses_integration.phrase_table` checks them; the others are skipped.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from moses_integration.decoder.line_filter import LineFilter
from moses_integration.table_line import LOWEST_LOG
from phrasescore.errors import DataError
from phrasescore.io.text import NUMBER, decode, shorten

_NUMBER = NUMBER.encode()
_NUMBERS = re.compile(rb"[ \t]*(?:" + _NUMBER + rb"[ \t\r]+)*" + _NUMBER + rb"[ \t\r]*")
_FLOAT32_OVERFLOW = 2.0**128 - 2.0**103  # rounds to infinity, which Moses loads


class PhrasePairs(NamedTuple):
    """Phrase pairs in groups of the same source phrase; in a group they are in the file's order."""

    # Each source phrase once, its words with single spaces between them; UTF-8.
    sources: list[bytes]
    # int64 (sources + 1,): where the pairs of a source begin.
    starts: Any
    # Likewise, one per pair.
    targets: list[bytes]
    # float64 (pairs, scores): natural logarithms, at least -100.
    log_probs: Any
    # Word alignments as the file has them, "0-0 1-2"; empty where a line has no alignment.
    alignments: list[bytes]


def read_phrase_pairs(
    path: str, sentences: Iterable[Sequence[str]], max_phrase_length: int, num_scores: int
) -> PhrasePairs:
    """Read the pairs whose source phrase stands in some sentence.

    :param num_scores: scores per pair; moses.ini's ``num-features``.
    :raises DataError: if the file cannot be read, or a line is no phrase pair with this number of
        probabilities.
    """
    places: dict[bytes, int] = {}
    groups: list[int] = []
    targets: list[bytes] = []
    alignments: list[bytes] = []
    scores: list[float] = []
    known: dict[bytes, bytes] = {}  # a text is in memory once
    wanted = LineFilter.of_phrases(sentences, max_phrase_length)
    for number, line in wanted.matching_lines(path):
        fields = line.split(b"|||", 4)
        if len(fields) < 3:
            problem = f"expected at least 3 fields separated by '|||', found {len(fields)}"
            raise DataError(path, number, f"{problem}: {shorten(line)}")
        source, target = (b" ".join(field.split()) for field in fields[:2])
        alignment = b" ".join(fields[3].split()) if len(fields) > 3 else b""
        if not target:
            raise DataError(path, number, "expected a target phrase, found none")
        if b"|" in target:
            problem = f"expected words without factors, found {shorten(target)}"
            raise DataError(path, number, f"{problem}; '|' as a word is escaped, &#124;")
        if target not in known:
            decode(path, number, target)
        scores += parse_probabilities(path, number, fields[2], num_scores)
        targets.append(known.setdefault(target, target))
        alignments.append(known.setdefault(alignment, alignment))
        groups.append(places.setdefault(source, len(places)))
    order = np.argsort(np.array(groups, np.int64), kind="stable")
    starts = np.zeros(len(places) + 1, np.int64)
    np.cumsum(np.bincount(np.array(groups, np.int64), minlength=len(places)), out=starts[1:])
    log_probs = log_of(np.array(scores).reshape(-1, num_scores))
    return PhrasePairs(
        list(places),
        starts,
        [targets[row] for row in order],
        log_probs[order],
        [alignments[row] for row in order],
    )


def parse_probabilities(path: str, number: int, field: bytes, how_many: int) -> list[float]:
    """Return the numbers of a field.

    :raises DataError: if there is another number of them, or one is not of 0 or more.
    """
    if _NUMBERS.fullmatch(field) is None:
        raise DataError(path, number, f"expected numbers as scores, found {shorten(field)}")
    values = list(map(float, field.split()))
    if len(values) != how_many:
        raise DataError(path, number, f"expected {how_many} scores, found {len(values)}")
    if min(values) < 0 or max(values) >= _FLOAT32_OVERFLOW:
        problem = "expected probabilities, of 0 or more, that float32 can hold"
        raise DataError(path, number, f"{problem}; found {shorten(field.strip())}")
    return values


def log_of(probabilities: Any) -> Any:
    """Return natural logarithms as Moses has them: of float32 numbers, -100 at least."""
    with np.errstate(divide="ignore", under="ignore"):
        logs = np.log(probabilities.astype(np.float32).astype(np.float64))
    return np.maximum(logs, LOWEST_LOG)

"""Merge the n-best lists that several systems wrote for a sentence.

Only the first system, the decoder, has all features. Features that another system's hypothesis
lacks are copied from the decoder's hypothesis with the lowest total. The decoder lists its best
hypotheses, so it gives any other hypothesis a lower total or cannot produce it. The lowest total is
therefore an upper bound, and only the values of a single hypothesis add up to it. Filling in 0
would mean the best possible log-probability. The minimum of each feature would be its best value if
its weight is negative.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from moses_integration.list_features import totals, with_total
from moses_integration.nbest import NbestList
from moses_integration.nbest_lines import format_rows, split_feature
from moses_integration.weight_lines import is_sparse
from phrasescore.errors import DataError

MADE = "Made"  # system N has the feature MadeN, counting from 0


class _Bound(NamedTuple):
    """Feature values for hypotheses that the decoder's list lacks."""

    path: str
    style: bytes  # see `NbestList.style`
    values: dict[str, bytes]  # for each dense feature its values as text, each preceded by a blank
    total: float


@dataclass
class ListCombiner:
    """Merges the lists of one sentence after another."""

    filled: set[str] = field(default_factory=set)  # features that were filled in so far
    # Features left out so far, because the decoder's hypotheses lack them.
    left_out: set[str] = field(default_factory=set)

    def __call__(self, lists: Sequence[NbestList]) -> Iterator[list[bytes]]:
        """Yield the lines to write for each list, in order and with newlines.

        A hypothesis is dropped if its text is in an earlier list. Every line gets a feature
        ``MadeN`` for each list, which is 1 if that list has the same words, else 0. Lines with all
        features are otherwise unchanged. If features are filled in, the total is replaced as well.
        """
        distinct = [nbest.distinct() for nbest in lists]
        makers = [set(words.values()) for words in distinct]
        names = [f"{MADE}{number}" for number in range(len(lists))]
        bound = _lower_bound(lists[0])
        for number, (nbest, texts) in enumerate(zip(lists, distinct, strict=True)):
            flags = {text: [words in known for known in makers] for text, words in texts.items()}
            new = {text: row for text, row in flags.items() if not any(row[:number])}
            rows = np.array([*new.values()], float).reshape(-1, len(names))
            added = dict(zip(new, format_rows(names, rows, bound.style), strict=True))
            lines = []
            for index, text in enumerate(nbest.hypotheses):
                if text in added:
                    raw, end = nbest.raws[index], nbest.ends[index]
                    if number:
                        raw, end = self._fill(nbest, index, bound)
                    lines.append(raw[:end] + added[text] + raw[end:] + b"\n")
            yield lines

    def _fill(self, nbest: NbestList, index: int, bound: _Bound) -> tuple[bytes, int]:
        """Return a line with the decoder's features, and the end of its last value."""
        key, words, features, rest = nbest.raws[index].split(b"|||", 3)
        own = _value_texts(features)
        for name in own.keys() & bound.values.keys():
            expected, found = bound.values[name].count(b" "), own[name].count(b" ")
            if expected != found:
                problem = f"expected {expected} values for {name} as in {bound.path}, found {found}"
                raise DataError(nbest.path, nbest.first_line + index, problem)
        sparse = set() if nbest.omits_zeros else set(filter(is_sparse, own))
        lacking = bound.values.keys() - own.keys()
        self.filled |= lacking
        self.left_out |= own.keys() - bound.values.keys() - sparse
        kept = bound.values | {
            name: text for name, text in own.items() if name in bound.values or name in sparse
        }
        start = key + b"|||" + words + b"|||"
        for name, text in kept.items():
            start += b" %b%b%b" % (name.encode(), bound.style, text.removeprefix(b" "))
        raw = start + b" |||" + rest
        return with_total(raw, len(start), bound.total) if lacking else raw, len(start)


def _lower_bound(nbest: NbestList) -> _Bound:
    """Return the dense features and the total from the hypothesis with the lowest total."""
    scores = totals(nbest)
    index = int(scores.argmin())
    values = _value_texts(nbest.raws[index].split(b"|||", 3)[2])
    dense = {
        name: text for name, text in values.items() if nbest.omits_zeros or not is_sparse(name)
    }
    return _Bound(nbest.path, nbest.style, dense, float(scores[index]))


def _value_texts(features: bytes) -> dict[str, bytes]:
    values: dict[str, bytes] = {}
    name = ""
    for token in filter(None, features.split(b" ")):
        text, style, number = split_feature(token)
        if style:
            name = text.decode()
            values.setdefault(name, b"")
        if number:
            values[name] += b" " + number
    return values

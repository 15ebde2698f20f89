"""Merge the n-best lists that several systems wrote for a sentence.

Only the first system, the decoder, has all features. Features that another system's hypothesis
lacks are copied from the decoder's hypothesis with the lowest total. The decoder lists its best
hypotheses, so it gives any other hypothesis a lower total or cannot produce it. The lowest total is
therefore an upper bound, and only the values of a single hypothesis add up to it. Filling in 0
would mean the best possible log-probability. The minimum of each feature would be its best value if
its weight is negative.

Votes are features that systems have in common, after Heafield and Lavie (2010), *Voting on N-grams
for Machine Translation System Combination*.
"""

from collections import Counter
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
MAX_ORDER = 4  # of the n-grams that are voted for
# The number of systems that list a hypothesis, and the votes for its n-grams of each order.
VOTES = ("Votes0", *(f"NgramVotes{order}" for order in range(1, MAX_ORDER + 1)))


class _Bound(NamedTuple):
    """Feature values for hypotheses that the decoder's list lacks."""

    path: str
    style: bytes  # see `NbestList.style`
    values: dict[str, bytes]  # for each dense feature its values as text, each preceded by a blank
    total: float


@dataclass
class ListCombiner:
    """Merges the lists of one sentence after another.

    :ivar votes: whether hypotheses get the features `VOTES`, too. The best hypothesis of each other
        list votes for each of its n-grams; a hypothesis has the votes of all its n-grams.
    """

    votes: bool = False
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
        names = [*(f"{MADE}{number}" for number in range(len(lists))), *(VOTES * self.votes)]
        bests = [_ngrams(nbest.words(0)) for nbest in lists]
        bound = _lower_bound(lists[0])
        for number, (nbest, texts) in enumerate(zip(lists, distinct, strict=True)):
            flags = {
                text: [int(words in known) for known in makers] for text, words in texts.items()
            }
            new = {text: row for text, row in flags.items() if not any(row[:number])}
            if self.votes:
                others = Counter(
                    n for place, best in enumerate(bests) if place != number for n in best
                )
                for text, row in new.items():
                    row += [sum(row), *_count_votes(texts[text], others)]
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


def _ngrams(words: Sequence[str]) -> set[tuple[str, ...]]:
    return {ngram for order in range(1, MAX_ORDER + 1) for ngram in _of_order(words, order)}


def _of_order(words: Sequence[str], order: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(order)), strict=False)


def _count_votes(words: Sequence[str], votes: Counter[tuple[str, ...]]) -> Iterator[int]:
    """Yield the number of votes for the n-grams of each order."""
    for order in range(1, MAX_ORDER + 1):
        yield sum(votes[ngram] for ngram in _of_order(words, order))


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

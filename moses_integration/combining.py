"""Make one n-best list of those that several systems have for a sentence.

Only the first system, the decoder, has all features. What a hypothesis of another one lacks is
filled with the values of the decoder's hypothesis of the lowest total. A list has the best that the
decoder can make: what is not on it has a lower total, or the decoder cannot make it at all. So this
total is a bound, and only the values of one hypothesis together have it. 0 would be the best value
of a log-probability, and the minimum of each feature would be the best one where its weight is
negative.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from moses_integration.nbest import NbestList, split_feature
from moses_integration.nbest_lines import format_features
from moses_integration.reranking import totals, with_total
from moses_integration.weight_lines import is_sparse
from phrasescore.errors import DataError

# The feature of system N is MadeN, counted from 0.
MADE = "Made"


class _Bound(NamedTuple):
    """What is known of a hypothesis that the decoder's list lacks."""

    path: str
    # Of the decoder's list; see `NbestList.style`.
    style: bytes
    # The values of each dense feature, as they are written, each after a blank.
    values: dict[str, bytes]
    total: float


@dataclass
class ListCombiner:
    """Joins lists of one sentence after another.

    :ivar filled: names of features that some hypotheses of other systems lacked, met so far.
    :ivar left_out: of features that the decoder's hypotheses lack, met so far.
    """

    filled: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)

    def __call__(self, lists: Sequence[NbestList]) -> Iterator[list[bytes]]:
        """Yield the lines that come from each list, newlines included, in its order.

        A hypothesis with the words of one in an earlier list is dropped. Every line gets a feature
        ``MadeN`` for each list: 1 where that list has its words, else 0. Lines of the first list
        stay as they are otherwise, and so do those of another that have all features; where some
        are filled, the total is, too.

        :param lists: of one sentence, the decoder's first.
        :raises DataError: naming the line, if a feature has another number of values than in the
            decoder's list, or a hypothesis is not UTF-8.
        """
        distinct = [found.distinct() for found in lists]
        makers = [set(words.values()) for words in distinct]
        bound = _lower_bound(lists[0])
        for number, (found, texts) in enumerate(zip(lists, distinct, strict=True)):
            made = {
                text: format_features(
                    ((f"{MADE}{maker}", words in known) for maker, known in enumerate(makers)),
                    bound.style,
                )
                for text, words in texts.items()
                if not any(words in known for known in makers[:number])
            }
            lines = []
            for place, text in enumerate(found.hypotheses):
                if text not in made:
                    continue
                raw, end = found.raws[place], found.ends[place]
                if number:
                    raw, end = self._fill(found, place, bound)
                lines.append(raw[:end] + made[text] + raw[end:] + b"\n")
            yield lines

    def _fill(self, nbest: NbestList, place: int, bound: _Bound) -> tuple[bytes, int]:
        """Return a line with the decoder's features, and where the last value ends."""
        key, words, features, rest = nbest.raws[place].split(b"|||", 3)
        own = _value_texts(features)
        for name in own.keys() & bound.values.keys():
            expected, found = bound.values[name].count(b" "), own[name].count(b" ")
            if expected != found:
                problem = f"expected {expected} values of {name} as in {bound.path}, found {found}"
                raise DataError(nbest.path, nbest.first_line + place, problem)
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
    """Return the dense features and the total of the hypothesis with the lowest total."""
    scores = totals(nbest)
    place = int(scores.argmin())
    values = _value_texts(nbest.raws[place].split(b"|||", 3)[2])
    dense = {
        name: text for name, text in values.items() if nbest.omits_zeros or not is_sparse(name)
    }
    return _Bound(nbest.path, nbest.style, dense, float(scores[place]))


def _value_texts(features: bytes) -> dict[str, bytes]:
    """Return the values of each feature of a field 3 that was checked, each after a blank."""
    found: dict[str, bytes] = {}
    name = ""
    for token in filter(None, features.split(b" ")):
        text, style, value = split_feature(token)
        if style:
            name = text.decode()
            found.setdefault(name, b"")
        if value:
            found[name] += b" " + value
    return found

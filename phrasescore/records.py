"""What flows through the project: phrase pairs, hypotheses, and weights of features."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class _Phrases(NamedTuple):
    source: tuple[str, ...]
    target: tuple[str, ...]


class PhrasePair(_Phrases):
    """A source phrase and a target phrase, as words without ``<s>`` and ``</s>``.

    A NamedTuple and not a frozen dataclass: it is made once per line of a phrase table, and costs a
    third of the time.

    :raises TypeError: if a side is a string, whose letters would be taken for words.
    """

    __slots__ = ()

    def __new__(cls, source: tuple[str, ...], target: tuple[str, ...]) -> Self:
        """Return the pair; ``_make`` does not look at the types, and is faster."""
        phrases: tuple[object, object] = (source, target)
        for phrase in phrases:
            if isinstance(phrase, str):
                raise TypeError(f"expected a tuple of words, got the string {phrase!r}")
        return cls._make((source, target))


class PhraseBlock(NamedTuple):
    """Phrase pairs as byte offsets into a text, so no object per pair is made."""

    # UTF-8; the bytes outside the phrases may be anything.
    text: bytes
    # (pairs, 4): where the source begins and ends, and where the target. Between the words of
    # a phrase is one space; an empty phrase has no words.
    places: "NDArray[np.int64]"

    def pairs(self) -> Iterator[PhrasePair]:
        """Yield the pairs one by one."""
        text, new = self.text, tuple.__new__  # twice as fast as a NamedTuple's own __new__
        known = b""
        source: tuple[str, ...] = ()
        for begin, end, target_begin, target_end in self.places.tolist():
            phrase = text[begin:end]
            if phrase != known:  # tables have the targets of a source side by side
                known = phrase
                source = tuple(phrase.decode().split(" ")) if phrase else ()
            phrase = text[target_begin:target_end]
            target = tuple(phrase.decode().split(" ")) if phrase else ()
            yield new(PhrasePair, (source, target))


class HypothesisList(NamedTuple):
    """A source sentence and translations of it, as tokens; the same one may come twice."""

    source: tuple[str, ...]
    hypotheses: list[tuple[str, ...]]
    # For each hypothesis the place in the source that each word is affiliated with, from 0 on; the
    # number of source words is the place of their end. None where no alignment is known.
    affiliations: list[tuple[int, ...]] | None = None

    def select(self, places: Iterable[int]) -> Self:
        """Return the list with some of its hypotheses, in their order."""
        chosen = list(places)
        affiliations = self.affiliations
        return type(self)(
            self.source,
            [self.hypotheses[place] for place in chosen],
            None if affiliations is None else [affiliations[place] for place in chosen],
        )


class FeatureLabel(NamedTuple):
    """Where a feature value stands in Moses' ``Name= v0 v1 ...``."""

    # The feature's name, without ``=``.
    name: str
    # From 0 on.
    place: int

    def __str__(self) -> str:
        """Return the label as Moses' extractor writes it: ``LM0_0``."""
        return f"{self.name}_{self.place}"


# The weights of the log-linear model: of each feature, by its name, a weight per value.
Weights = dict[str, tuple[float, ...]]


class WeightPair(NamedTuple):
    """Two sets of weights; the same where n-best lists have the decoder's features alone."""

    # Of the decoder's features: what it decodes with.
    search: Weights
    # Of all features of its n-best lists: what chooses from them.
    lists: Weights

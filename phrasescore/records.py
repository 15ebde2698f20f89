"""What flows through the project: phrase pairs, hypotheses, and weights of features."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def to_words(text: str | Iterable[str]) -> tuple[str, ...]:
    """Return the words of a tokenised text: those between the spaces (U+0020) of a string.

    Any other sequence has a word at each place.

    >>> to_words("the  house"), to_words(["the", "house"])
    (('the', 'house'), ('the', 'house'))
    """
    if isinstance(text, tuple):
        return text
    if isinstance(text, str):
        return tuple(word for word in text.split(" ") if word)
    words = tuple(text)
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"expected words, or a text of words as a string, got {text!r}")
    return words


class _Phrases(NamedTuple):
    source: tuple[str, ...]
    target: tuple[str, ...]


class PhrasePair(_Phrases):
    """A source phrase and a target phrase, as words without ``<s>`` and ``</s>``.

    A NamedTuple and not a frozen dataclass: it is made once per line of a phrase table, and costs a
    third of the time.

    :param source: words, or a string with spaces between them; ``target`` likewise.
    """

    __slots__ = ()

    def __new__(cls, source: str | Iterable[str], target: str | Iterable[str]) -> Self:
        """Return the pair; ``_make`` does not look at the types, and is faster."""
        return cls._make((to_words(source), to_words(target)))


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


class _List(NamedTuple):
    source: tuple[str, ...]
    hypotheses: list[tuple[str, ...]]
    # For each hypothesis the place in the source that each word is affiliated with, from 0 on; the
    # number of source words is the place of their end. None where no alignment is known.
    affiliations: list[tuple[int, ...]] | None = None


class HypothesisList(_List):
    """A source sentence and translations of it, as tokens; the same one may come twice.

    :param source: words, or a string with spaces between them; each of ``hypotheses`` likewise.
    :raises TypeError: if there is one string in place of several hypotheses.
    """

    __slots__ = ()

    def __new__(
        cls,
        source: str | Iterable[str],
        hypotheses: Iterable[str | Iterable[str]],
        affiliations: Sequence[Sequence[int]] | None = None,
    ) -> Self:
        """Return the list."""
        if isinstance(hypotheses, str):
            raise TypeError(f"expected a list of hypotheses, got the string {hypotheses!r}")
        places = None if affiliations is None else [tuple(each) for each in affiliations]
        return cls._make((to_words(source), list(map(to_words, hypotheses)), places))

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

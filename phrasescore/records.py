"""Common types: phrase pairs, hypotheses and feature weights."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate, islice, pairwise
from typing import TYPE_CHECKING, Annotated, NamedTuple, Self

import msgspec

from phrasescore.arguments import check_sequences
from phrasescore.errors import ArgumentError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# A tokenised text: a string with blanks between the words, or the words in order.
Sentence = str | Sequence[str]

# The bytes that divide words: all that divide them for KenLM's lmplz (NUL, tab, LF, CR and space)
# or for its query and its Python module (tab, LF, VT, FF, CR and space). Moses divides at tab and
# space. U+00A0, U+3000 and all other characters belong to words.
BLANKS = b"\0\t\n\v\f\r "
_TO_SPACES = bytes.maketrans(BLANKS, b" " * len(BLANKS))
_OTHER_BLANKS = tuple(BLANKS.decode().replace(" ", ""))

BYTE_ORDER_MARK = "\ufeff"

_PAIRS_OF_TEXT = 256  # number of pairs of parallel text that are read at once


def join_words(text: bytes) -> bytes:
    """Return the words of a line of text, which `BLANKS` divide, with single spaces between them.

    Every reader of texts, tables and n-best lists divides words with this function, with
    `split_words`, or by the same bytes in compiled code.
    """
    return b" ".join(text.translate(_TO_SPACES).split())


def split_words(text: str) -> tuple[str, ...]:
    """Return the words of a line of text; see `join_words`.

    >>> split_words(" la  maison\\tbleue ")
    ('la', 'maison', 'bleue')
    """
    for blank in _OTHER_BLANKS:
        if blank in text:
            text = text.replace(blank, " ")
    words = text.strip(" ").split(" ")
    return tuple(filter(None, words)) if "" in words else tuple(words)


def to_words(text: str | Iterable[str]) -> tuple[str, ...]:
    """Return the words in a tokenised sentence (see `split_words`) or in a sequence of words.

    A byte order mark before the first word is left out.

    :raises TypeError: if it is neither.
    :raises ArgumentError: if it has lone surrogates, which stand for no character.

    >>> to_words("the  house\\n"), to_words(["the", "house"])
    (('the', 'house'), ('the', 'house'))
    """
    try:
        if isinstance(text, str):
            joined = text.rstrip("\r\n")
            words = split_words(joined)
            are_single = "\n" not in joined
        else:
            words = text if isinstance(text, tuple) else tuple(text)
            joined = "".join(words)
            are_single = split_words(joined) in ((), (joined,))
        joined.encode()
    except TypeError as error:
        raise TypeError(f"expected words, or a sentence as a string, got {text!r}") from error
    except UnicodeEncodeError as error:
        code = ord(error.object[error.start])
        # Python's "surrogateescape" reads a byte that is not UTF-8 as one of these.
        is_byte = 0xDC80 <= code <= 0xDCFF
        found = f"byte 0x{code - 0xDC00:02x}" if is_byte else f"the lone surrogate U+{code:04X}"
        raise ArgumentError(f"expected UTF-8, found {found}") from error
    if not are_single:
        raise TypeError(f"expected single words, or one sentence as a string, got {text!r}")
    if joined.startswith(BYTE_ORDER_MARK):
        return to_words(" ".join(words).removeprefix(BYTE_ORDER_MARK))
    return words


def each_words(name: str, sentences: Iterable[Sentence]) -> Iterator[tuple[str, ...]]:
    """Yield the words of each sentence, lazily; errors begin with the name and the index."""
    for index, sentence in enumerate(sentences):
        try:
            yield to_words(sentence)
        except (TypeError, ArgumentError) as error:
            raise type(error)(f"{name}[{index}]: {error}") from error


def to_sentences(**texts: Iterable[Sentence]) -> list[list[tuple[str, ...]]]:
    """Return the words of each sentence in several texts, which must have equal lengths.

    :param texts: each by the name that it has in messages.
    :raises ArgumentError: if a text is a single string, or if lengths differ.
    :raises TypeError: if a sentence is neither a string nor a sequence of words.

    >>> to_sentences(sources=["the house"], targets=[["la", "maison"]])
    [[('the', 'house')], [('la', 'maison')]]
    """
    check_sequences(**texts)
    found = [list(each_words(*text)) for text in texts.items()]
    if len({*map(len, found)}) > 1:
        names, counts = (" and ".join(map(str, each)) for each in (texts, map(len, found)))
        raise ArgumentError(f"{names}: expected equal numbers of sentences, got {counts}")
    return found


@dataclass(frozen=True, slots=True)
class Tally:
    """Additive counts of the work done to compute values; their text is logged at the end."""

    def __add__(self, other: Self) -> Self:
        """Add the numbers; texts are kept, and None marks a number that is not counted."""
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return type(self)(
            *(
                one if isinstance(one, str) or two is None else (one or 0) + two
                for one, two in pairs
            )
        )


class _Phrases(NamedTuple):
    source: tuple[str, ...]
    target: tuple[str, ...]


class PhrasePair(_Phrases):
    """A source phrase and a target phrase, as words without ``<s>`` and ``</s>``; see `to_words`.

    A NamedTuple, because a frozen dataclass takes three times as long to create.
    """

    __slots__ = ()

    def __new__(cls, source: str | Iterable[str], target: str | Iterable[str]) -> Self:
        """Return the pair after checking the arguments; ``_make`` is faster and checks nothing."""
        return cls._make((to_words(source), to_words(target)))


class PhraseBlock(NamedTuple):
    """Phrase pairs, or sentences and translations, as byte offsets into a text.

    Pairs with the same source are adjacent, so that work for the source is done once.
    """

    text: bytes  # UTF-8 in the phrases; the bytes outside of them may be anything
    # (pairs, 4): start and end of the source, then of the target. The words of a phrase are
    # separated by one space; an empty phrase has no words.
    places: "NDArray[np.int64]"
    # For each pair, the index from 0 of the source word with which each target word is affiliated;
    # the number of source words stands for their end. None without word alignments.
    affiliations: list[tuple[int, ...]] | None = None

    @classmethod
    def of(
        cls,
        pairs: Iterable[tuple[Sequence[str], Sequence[str]]],
        affiliations: list[tuple[int, ...]] | None = None,
    ) -> "PhraseBlock":
        """Return a block with the given pairs, whose sides are sequences of words."""
        phrases = [" ".join(words).encode() for pair in pairs for words in pair]
        places = list(accumulate(map(len, phrases), initial=0))
        return cls._at(phrases, [*pairwise(places)], affiliations)

    @classmethod
    def of_source(
        cls,
        source: Sequence[str],
        targets: Iterable[Sequence[str] | bytes],
        affiliations: list[tuple[int, ...]] | None = None,
    ) -> "PhraseBlock":
        """Return a block in which one source is paired with each target, words or text."""
        phrases = [
            words if isinstance(words, bytes) else " ".join(words).encode()
            for words in (source, *targets)
        ]
        ends = list(accumulate(map(len, phrases)))
        places = [(0, ends[0], *span) for span in pairwise(ends)]
        return cls._at(phrases, places, affiliations)

    @classmethod
    def _at(
        cls,
        phrases: list[bytes],
        places: Sequence[tuple[int, ...]],
        affiliations: list[tuple[int, ...]] | None,
    ) -> "PhraseBlock":
        import numpy as np

        return cls(b"".join(phrases), np.array(places, np.int64).reshape(-1, 4), affiliations)

    def select(self, indices: "NDArray[np.int64]") -> "PhraseBlock":
        """Return a block with the pairs at ``indices``, in that order."""
        known = self.affiliations
        chosen = None if known is None else [known[index] for index in indices.tolist()]
        return PhraseBlock(self.text, self.places[indices], chosen)

    def pairs(self) -> Iterator[PhrasePair]:
        """Yield the pairs."""
        text, new = self.text, tuple.__new__  # twice as fast as a NamedTuple's own __new__
        known = b""
        source: tuple[str, ...] = ()
        for begin, end, target_begin, target_end in self.places.tolist():
            phrase = text[begin:end]
            if phrase != known:  # the targets of a source are adjacent in a table
                known = phrase
                source = tuple(phrase.decode().split(" ")) if phrase else ()
            phrase = text[target_begin:target_end]
            target = tuple(phrase.decode().split(" ")) if phrase else ()
            yield new(PhrasePair, (source, target))


class PairLines(NamedTuple):
    """A block of lines of parallel text, or of pairs passed from Python."""

    before: int
    block: PhraseBlock

    @property
    def num_lines(self) -> int:
        """Number of pairs in this block."""
        return len(self.block.places)


def group_pairs(pairs: Iterable[PhrasePair]) -> Iterator[PairLines]:
    """Lazily group pairs into blocks."""
    iterator, before = iter(pairs), 0
    while some := list(islice(iterator, _PAIRS_OF_TEXT)):
        yield PairLines(before, PhraseBlock.of(some))
        before += len(some)


class _List(NamedTuple):
    source: tuple[str, ...]
    hypotheses: list[tuple[str, ...]]
    affiliations: list[tuple[int, ...]] | None = None  # for each hypothesis, as in `PhraseBlock`


class HypothesisList(_List):
    """A source sentence and its translations, as words (see `to_words`), possibly repeated."""

    __slots__ = ()

    def __new__(
        cls,
        source: str | Iterable[str],
        hypotheses: Iterable[str | Iterable[str]],
        affiliations: Sequence[Sequence[int]] | None = None,
    ) -> Self:
        """Return the list after checking the arguments."""
        if isinstance(hypotheses, str):
            raise TypeError(f"expected a list of hypotheses, got the string {hypotheses!r}")
        words, translations = to_words(source), list(map(to_words, hypotheses))
        places = None if affiliations is None else list(map(tuple, affiliations))
        if places is not None:
            if list(map(len, places)) != list(map(len, translations)):
                raise ValueError("expected an affiliation of each word of each hypothesis")
            if any(not 0 <= place <= len(words) for row in places for place in row):
                raise ValueError(f"expected affiliations from 0 to {len(words)}, got {places}")
        return cls._make((words, translations, places))


class AlignedWords(NamedTuple):
    """A source sentence, and the affiliations of the target words to score."""

    source: Sequence[str]
    affiliations: "NDArray[np.int64]"  # for each target word, the index of its source word


class FeatureLabel(NamedTuple):
    """The name of a feature in Moses' ``Name= v0 v1 ...``, and the index of one of its values."""

    name: str
    place: int

    def __str__(self) -> str:
        """Return the label as Moses' extractor writes it: ``LM0_0``."""
        return f"{self.name}_{self.place}"


# The weights of the log-linear model by feature name: one weight per feature value.
Weights = dict[str, tuple[float, ...]]


class WeightPair(NamedTuple):
    """The weights for decoding, and the weights of all n-best list features for reranking."""

    search: Weights
    lists: Weights


@dataclass(frozen=True, slots=True)
class ConfidenceCurve:
    """A logistic function of a hypothesis's share in softmax(scale * score) over its list.

    The confidence is 1 / (1 + exp(-(slope * logit(share) + offset))). With the default values it is
    the share itself.
    """

    scale: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    slope: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    offset: float = 0.0

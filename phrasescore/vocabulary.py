"""Words and their ids: a shortlist of the most frequent words of one side.

The file is UTF-8 text: a header line, then one word per line by falling frequency. The 1-based line
number of a word is its id; ids 0 and 1 are ``</s>`` and ``<unk>``.
"""

import heapq
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from phrasescore.errors import DataError
from phrasescore.io.corpora import read_monolingual_text
from phrasescore.io.folders import MAX_WORDS
from phrasescore.io.output import open_output
from phrasescore.io.text import decode, read_lines

HEADER = "# phrasescore vocabulary 1; id 0 is </s>, id 1 is <unk>, other ids are line numbers"


class Vocabulary:
    """Word <-> id over a shortlist; every other word is ``<unk>``.

    A literal ``</s>`` or ``<unk>`` in the data is an unknown word, so data cannot end a phrase.

    >>> vocabulary = Vocabulary.from_counts({"la": 5.0, "maison": 2.0, "rue": 1.0}, size=2)
    >>> vocabulary.ids(("la", "rue", "</s>")), vocabulary.word(3), len(vocabulary)
    ([2, 1, 1], 'maison', 4)
    """

    END = 0
    UNKNOWN = 1
    SYMBOLS = ("</s>", "<unk>")
    # Whether a word may consist of several pieces (:mod:`phrasescore.subwords`).
    is_subwords = False

    def __init__(self, words: Iterable[str]) -> None:
        """Number ``words`` from 2 on, in order.

        :raises ValueError: if a word occurs twice, is empty, has a newline, or is a symbol.
        """
        self._words = [*self.SYMBOLS, *words]
        self._ids = {word: number for number, word in enumerate(self._words)}
        if len(self._ids) != len(self._words):
            raise ValueError("a word occurs twice, or is one of the symbols </s> and <unk>")
        for symbol in self.SYMBOLS:
            del self._ids[symbol]
        if any(not word or "\n" in word for word in self._ids):
            raise ValueError("a word is empty or holds a line end")

    @classmethod
    def from_counts(cls, counts: Mapping[str, float], size: int) -> "Vocabulary":
        """Return the ``size`` words with the highest counts; of equal counts by their bytes."""
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        # Code points have the same order as UTF-8's bytes.
        ranked = ((-count, word) for word, count in counts.items() if word not in cls.SYMBOLS)
        return cls(word for _, word in heapq.nsmallest(size, ranked))

    def ids(self, words: Sequence[str]) -> list[int]:
        """Return the id of each word; 1 (``<unk>``) outside the shortlist."""
        return self.ids_of_pieces(words)

    def ids_of_pieces(self, pieces: Sequence[str]) -> list[int]:
        """Return the id of each piece from `split`."""
        get = self._ids.get
        return [get(piece, 1) for piece in pieces]

    def split(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the pieces of each word; here, the word itself."""
        return [(word,) for word in words]

    def join(self, pieces: Sequence[str]) -> tuple[str, ...]:
        """Return the words that pieces form."""
        return tuple(pieces)

    def word(self, number: int) -> str:
        """Return the word with an id from 0 to ``len(self) - 1``."""
        if not 0 <= number < len(self._words):
            raise IndexError(f"expected an id from 0 to {len(self._words) - 1}, got {number}")
        return self._words[number]

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, word: object) -> bool:
        """Return whether a word is in the shortlist, which excludes the two symbols."""
        return word in self._ids

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.has_words_of(other)

    __hash__ = None  # type: ignore[assignment]

    def has_words_of(self, other: "Vocabulary") -> bool:
        """Return whether each word, or piece, has the same id in both."""
        return self._words == other._words

    def coverage(self, counts: Mapping[str, float]) -> float:
        """Return the share of running words inside the shortlist, from 0 to 1; 1 for no words."""
        total = sum(counts.values())
        inside = sum(count for word, count in counts.items() if word in self)
        return inside / total if total > 0 else 1.0

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file whole or not at all."""
        lines = [HEADER, *self._words[len(self.SYMBOLS) :]]
        with open_output(os.fspath(path)) as output:
            output.write("".join(f"{line}\n" for line in lines).encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Vocabulary":
        """Read a file that ``save`` wrote."""
        path = os.fspath(path)
        words: dict[str, int] = {}
        number = num_bytes = 0
        for number, raw in enumerate(read_lines(path), start=1):
            num_bytes += len(raw)
            if num_bytes > MAX_WORDS:  # a compressed file may be much smaller
                raise DataError(path, number, f"expected {MAX_WORDS:,} bytes at most, found more")
            word = decode(path, number, raw)
            if number == 1:
                if word != HEADER:
                    raise DataError(path, 1, f"expected the header {HEADER!r}, got {word[:60]!r}")
                continue
            if not word or word in cls.SYMBOLS:
                raise DataError(path, number, f"expected a word, got {word!r}")
            if word in words:
                raise DataError(path, number, f"{word[:60]!r} is on line {words[word]} already")
            words[word] = number
        if number == 0:
            raise DataError(path, None, "expected a vocabulary, got an empty file")
        return cls(words)


def count_words(path: str) -> Counter[str]:
    """Return the number of occurrences of each word of a text; see `read_monolingual_text`."""
    counts: Counter[str] = Counter()
    for line in read_monolingual_text(path, refuse_marks=True):
        counts.update(line.words)
    return counts

"""Read parallel text with word alignments into blocks of numbers.

A word's number is its rank: words are sorted by the bytes of the word and the space after it, as in
the lines that Moses sorts with ``LC_ALL=C sort``. The separator ``|||`` has a rank, too. As no such
text begins another one, sequences of ranks have the order of the lines.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from moses_integration.alignments import Numbers, Starts, parse_block
from phrasescore.io.corpora import FIELD_SEPARATOR, ParallelLine, read_parallel_text
from phrasescore.io.output import writing
from phrasescore.io.ragged import RaggedBuilder

# Stands for the missing word of an unaligned word in the lexical tables.
NULL = "NULL"


@dataclass(frozen=True)
class Side:
    """The vocabulary of one language.

    :ivar words: the words in the order of their ranks, each with the space after it.
    :ivar ranks: the rank of each word by its number in order of occurrence.
    :ivar end: the rank of ``|||``, which ends a phrase.
    :ivar null: the rank of `NULL`.
    """

    words: tuple[bytes, ...]
    ranks: Numbers
    end: int
    null: int

    @classmethod
    def from_words(cls, words: list[str]) -> "Side":
        """Rank the words of a text, which are given in order of occurrence, and ``|||``."""
        texts = [f"{word} ".encode() for word in (*words, FIELD_SEPARATOR)]
        order = sorted(range(len(texts)), key=texts.__getitem__)
        ranks = np.empty(len(texts), np.int32)
        ranks[order] = np.arange(len(texts), dtype=np.int32)
        null = int(ranks[words.index(NULL)])
        return cls(tuple(map(texts.__getitem__, order)), ranks, int(ranks[-1]), null)

    @property
    def bits(self) -> int:
        """Number of bits of a rank."""
        return (len(self.words) - 1).bit_length()

    def text(self) -> tuple[npt.NDArray[np.uint8], Starts]:
        """Return the bytes of all words, and where each word begins."""
        starts = np.zeros(len(self.words) + 1, np.int64)
        np.cumsum([len(word) for word in self.words], out=starts[1:])
        return np.frombuffer(b"".join(self.words), np.uint8), starts


@dataclass(frozen=True)
class SentenceBlock:
    """Consecutive sentence pairs; ``starts`` have the length ``sentences + 1``."""

    source: Numbers
    source_starts: Starts
    target: Numbers
    target_starts: Starts
    links: Numbers  # (links, 2): a source and a target word, 0-based in the sentence
    link_starts: Starts

    def save(self, path: Path) -> None:
        """Write the block to a file."""
        with writing(path), open(path, "wb") as file:
            np.savez(file, **vars(self))

    @classmethod
    def load(cls, path: Path, source: Side, target: Side) -> "SentenceBlock":
        """Read a block that `read_corpus` has written, with words as ranks."""
        with np.load(path, allow_pickle=False) as arrays:
            values = {name: arrays[name] for name in arrays.files}
        values["source"] = source.ranks[values["source"]]
        values["target"] = target.ranks[values["target"]]
        return cls(**values)


@dataclass(frozen=True)
class AlignedCorpus:
    """Parallel text in blocks on disk."""

    source: Side
    target: Side
    blocks: tuple[Path, ...]


class _NumberedWords(dict[str, int]):
    """Numbers words in order of occurrence, after `NULL`."""

    def __init__(self) -> None:
        super().__init__({NULL: 0})

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


def read_corpus(
    source: str,
    target: str,
    alignments: str,
    folder: Path,
    *,
    block_words: int,
) -> AlignedCorpus:
    """Read parallel text and its alignments, and write it in blocks to a folder.

    :param source: sentences; no word in them or in ``target`` has ``|``.
    :param alignments: a file with the links of each sentence pair, such as ``0-0 1-2``.
    :param block_words: number of words, of both sides together, after which a block ends.
    """
    numbers = _NumberedWords(), _NumberedWords()
    text = read_parallel_text(source, target, alignments)
    blocks: list[Path] = []
    sentences = 0
    while pairs := _take(text, block_words):
        arrays: list[Any] = []
        for side in range(2):
            rows = RaggedBuilder()
            for line in pairs:
                rows.add([numbers[side][word] for word in line.pair[side]])
            built = rows.build()
            arrays += [built.values, built.starts]
        links = [line.raw.rpartition(b"\n")[2] for line in pairs]
        arrays += parse_block(links, alignments, sentences)
        blocks.append(folder / f"sentences.{len(blocks)}")
        SentenceBlock(*arrays).save(blocks[-1])
        sentences += len(pairs)
    first, second = (Side.from_words(list(words)) for words in numbers)
    return AlignedCorpus(first, second, tuple(blocks))


def _take(text: Iterator[ParallelLine], most: int) -> list[ParallelLine]:
    """Return the next sentence pairs, until they have ``most`` words or the text ends."""
    taken, words = [], 0
    for line in text:
        taken.append(line)
        words += sum(map(len, line.pair))
        if words >= most:
            break
    return taken

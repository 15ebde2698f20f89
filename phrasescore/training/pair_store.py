"""Distinct phrase pairs as compact arrays on disk, memory-mapped for drawing at random.

A folder of flat arrays, about 12 bytes a pair and 2 a word, so that a table of 100 million pairs
takes some 3 GB of disk and next to no memory: ``words.bin`` holds the ids of each pair's source
and then of its target, ``starts.bin`` where each pair begins and ``source_lengths.bin`` where its
target does. :mod:`phrasescore.training.pair_store_writer` makes it.
"""

import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import torch

from phrasescore.errors import ModelError
from phrasescore.io.state import read_state
from phrasescore.models.batches import BatchSide, PairBatch
from phrasescore.vocabulary import Vocabulary

# The file of a store's record.
RECORD = "pairs.json"
Indices = npt.NDArray[np.int64]


class PairStoreRecord(msgspec.Struct, frozen=True):
    """What a pair store was made from, and what became of it."""

    # Lines of the table; each is one of the three below.
    lines: int
    # Distinct pairs that are stored.
    pairs: int
    # Lines whose text was there before.
    duplicates: int
    # Lines with more than ``max_length`` words on a side.
    too_long: int
    max_length: int
    # Running words of both sides of the stored pairs, without ``</s>``.
    words: int
    # blake2b of the lines of the table or of both texts, uncompressed.
    fingerprint: str
    # Whether the table's target side is read and its source side predicted.
    reverse: bool
    # What the shortlists were made from, and the share of its running words inside them.
    source_shortlist_from: str
    target_shortlist_from: str
    source_coverage: float
    target_coverage: float


class PairStore:
    """Pairs by their index, from 0 to ``len(self) - 1`` in the order of the table.

    Source is what the network reads and target what it predicts, whichever sides of the table
    they were.

    :raises PhrasescoreError: if ``folder`` holds no whole pair store of this format.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        record = read_state(self.folder / RECORD, PairStoreRecord)
        if record is None:
            raise ModelError(f"{self.folder / RECORD}: cannot be read: it is missing")
        self.record = record
        self.source_vocabulary = Vocabulary.load(self.folder / "source.vocab")
        self.target_vocabulary = Vocabulary.load(self.folder / "target.vocab")
        sizes = (len(self.source_vocabulary), len(self.target_vocabulary))
        self._words = self._map("words.bin", word_type(*sizes))
        self._starts = self._map("starts.bin", np.int64)
        self._source_lengths = self._map("source_lengths.bin", np.uint16)
        sizes = (len(self._starts) - 1, len(self._source_lengths))
        if sizes != (len(self), len(self)) or len(self._words) != self._starts[-1]:
            raise ModelError(f"{self.folder}: expected {len(self)} pairs, got other sizes of files")

    def _map(self, name: str, kind: Any) -> npt.NDArray[Any]:
        # A plain array over the map: indexing a numpy.memmap makes Python objects at every step.
        try:
            return np.asarray(np.memmap(self.folder / name, dtype=kind, mode="r"))
        except (OSError, ValueError) as error:
            raise ModelError(f"{self.folder / name}: cannot be read: {error}") from error

    def __len__(self) -> int:
        """Return the number of pairs."""
        return self.record.pairs

    def lengths(self, indices: Indices) -> tuple[Indices, Indices]:
        """Return the words of the sources and of the targets, without ``</s>``."""
        starts = self._starts[indices]
        source_lengths = self._source_lengths[indices].astype(np.int64)
        return source_lengths, self._starts[indices + 1] - starts - source_lengths

    def batch(self, indices: Indices) -> PairBatch:
        """Return the pairs of these indices, in their order."""
        starts = self._starts[indices]
        source_lengths, target_lengths = self.lengths(indices)
        return PairBatch(
            self._side(starts, source_lengths), self._side(starts + source_lengths, target_lengths)
        )

    def _side(self, starts: Indices, lengths: Indices) -> BatchSide:
        """Return the words from ``starts`` on, so many of each pair, with ``</s>`` after them."""
        ends = np.cumsum(lengths)  # (batch,)
        places = np.repeat(starts - ends + lengths, lengths) + np.arange(lengths.sum())  # (words,)
        words = self._words[places].astype(np.int64)
        ids = np.insert(words, ends, Vocabulary.END)  # (words + batch,)
        return BatchSide(torch.from_numpy(ids), torch.from_numpy(lengths))


def word_type(source_size: int, target_size: int) -> type[np.uint16] | type[np.int32]:
    """Return the smallest type for ids below both sizes."""
    return np.uint16 if max(source_size, target_size) <= 1 << 16 else np.int32

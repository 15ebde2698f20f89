"""Pairs of word ids as ragged arrays, in memory or as a folder of memory-mapped files.

A folder has ``source.words``, ``source.starts``, ``target.words`` and ``target.starts``, a joint
model's also ``target.affiliations``, and the two vocabularies. It takes about 16 bytes per pair and
2 per word, so that a table of 100 million pairs takes some 3.5 GB of disk and next to no memory.
:mod:`phrasescore.training.pair_store_writer` makes it.
"""

import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from phrasescore.errors import ModelError
from phrasescore.io.journal import Number, Share, read_journal
from phrasescore.io.plain_file import MAX_WORDS, check_plain
from phrasescore.io.ragged import Array, Indices, RaggedArray, map_array
from phrasescore.models.batches import BatchSide, PairBatch, absolute_affiliations
from phrasescore.subwords import load_vocabulary
from phrasescore.vocabulary import Vocabulary

# The file of a store's record.
RECORD = "pairs.json"
SIDES = ("source", "target")
# The ends of the names of a side's files.
WORDS, STARTS, AFFILIATIONS, VOCABULARY = ".words", ".starts", ".affiliations", ".vocab"

# Pairs that are checked at a time.
_CHECKED_ROWS = 1 << 18


class PairStoreRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """From which input a pair store was made, and how many of its lines are stored."""

    # Lines of the table; each is one of the next three.
    lines: Number
    # Distinct pairs that are stored.
    pairs: Number
    # Lines that repeat an earlier pair.
    duplicates: Number
    # Lines with more than ``max_length`` words, or pieces of words, on either side.
    too_long: Number
    max_length: Number
    # Running words of both sides of the stored pairs, without ``</s>``.
    words: Number
    # blake2b of the lines of the table or of both texts, uncompressed.
    fingerprint: str
    # Whether the table's target side is read and its source side predicted.
    reverse: bool
    # The origin of each shortlist, and the share of the origin's running words inside it.
    source_shortlist_from: str
    target_shortlist_from: str
    source_coverage: Share
    target_coverage: Share
    # Whether the words of the predicted side are stored with the last one first.
    right_to_left: bool = False


class Pairs:
    """Pairs of word ids by their index. The network reads the source and predicts the target.

    :param affiliations: for a joint model, for each target word the position of the source word
        that it is affiliated with.
    """

    def __init__(
        self, sources: RaggedArray, targets: RaggedArray, affiliations: RaggedArray | None = None
    ) -> None:
        self.sources, self.targets, self.affiliations = sources, targets, affiliations

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.targets)

    def lengths(self, rows: Indices) -> tuple[Indices, Indices]:
        """Return the number of source words and of target words, without ``</s>``."""
        return self.sources.lengths(rows), self.targets.lengths(rows)

    def batch(self, rows: Indices) -> PairBatch:
        """Return the pairs of these indices, in their order."""
        source, target = (_batch_side(side.take(rows)) for side in (self.sources, self.targets))
        if self.affiliations is None:
            return PairBatch(source, target)
        absolute = absolute_affiliations(
            self.affiliations.take(rows).values.astype(np.int64),
            source.lengths.numpy(),
            target.lengths.numpy(),
        )
        return PairBatch(source, target._replace(affiliations=torch.from_numpy(absolute)))


def _batch_side(words: RaggedArray) -> BatchSide:
    """Return sequences with ``</s>`` after each."""
    ids = np.insert(words.values.astype(np.int64), words.starts[1:], Vocabulary.END)
    return BatchSide(torch.from_numpy(ids), torch.from_numpy(np.diff(words.starts)))


class PairStore(Pairs):
    """The pairs in a folder, in the order of the table.

    :raises PhrasescoreError: if ``folder`` holds no whole pair store of this format.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        record = read_journal(self.folder / RECORD, PairStoreRecord)
        if record is None:
            raise ModelError(f"{self.folder / RECORD}: cannot be read: it is missing")
        self.record = record
        self.source_vocabulary, self.target_vocabulary = map(self._load_vocabulary, SIDES)
        sizes = (len(self.source_vocabulary), len(self.target_vocabulary))
        source, target = (
            RaggedArray(
                self._map(side + WORDS, word_type(size)), self._map(side + STARTS, np.int64)
            )
            for side, size in zip(SIDES, sizes, strict=True)
        )
        arrays = [source, target]
        if (self.folder / f"target{AFFILIATIONS}").exists():
            arrays.append(RaggedArray(self._map(f"target{AFFILIATIONS}", np.uint16), target.starts))
        super().__init__(*arrays)
        for array in arrays:
            if len(array.starts) != record.pairs + 1 or array.starts[-1] != len(array.values):
                problem = f"expected {record.pairs} pairs, got other sizes of files"
                raise ModelError(f"{self.folder}: {problem}")

    def check(self) -> None:
        """Check all numbers in the arrays, which takes about as long as reading them.

        :raises ModelError: if a pair lies outside the words, or a word outside its vocabulary.
        """
        for first in range(0, len(self), _CHECKED_ROWS):
            if not self._is_sound(slice(first, first + _CHECKED_ROWS)):
                problem = "expected pairs of words of the vocabularies, found others"
                raise ModelError(f"{self.folder}: {problem}: an array is damaged")

    def _is_sound(self, rows: slice) -> bool:
        limits: list[Array | int] = [len(self.source_vocabulary), len(self.target_vocabulary)]
        arrays = [self.sources, self.targets]
        lengths = []
        for array in arrays:
            starts = array.starts[rows.start : rows.stop + 1]
            # Within these limits, no difference overflows.
            if not 0 <= starts.min() <= starts.max() <= len(array.values):
                return False
            lengths.append(np.diff(starts))
            if lengths[-1].min() < 0 or array.starts[0] != 0:
                return False
        if self.affiliations is not None:
            arrays.append(self.affiliations)
            limits.append(np.repeat(lengths[0] + 1, lengths[1]))
        for array, limit in zip(arrays, limits, strict=True):
            starts = array.starts[rows.start : rows.stop + 1]
            values = array.values[starts[0] : starts[-1]]
            if not ((values >= 0) & (values < limit)).all():
                return False
        return True

    def _load_vocabulary(self, side: str) -> Vocabulary:
        path = self.folder / f"{side}{VOCABULARY}"
        try:
            check_plain(path, MAX_WORDS)
        except OSError as error:
            raise ModelError(f"{path}: cannot be read: {error}") from error
        return load_vocabulary(path)

    def _map(self, name: str, kind: Any) -> Array:
        try:
            return map_array(self.folder / name, kind)
        except (OSError, ValueError) as error:
            raise ModelError(f"{self.folder / name}: cannot be read: {error}") from error


def word_type(size: int) -> type[np.uint16] | type[np.int32]:
    """Return the smallest type for ids below ``size``."""
    return np.uint16 if size <= 1 << 16 else np.int32

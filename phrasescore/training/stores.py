"""Training data: pairs of word ids, or n-best lists of such pairs, as ragged arrays.

Pairs are in memory or in a folder of memory-mapped files, which contains ``source.words``,
``source.starts``, ``target.words``, ``target.starts``, for a joint model also
``target.affiliations``, and both vocabularies. The folder is written by
:mod:`phrasescore.training.pair_store_writer` and takes about 16 bytes per pair and 2 per word. In
memory, a list takes about 4 bytes per word of its pairs and 50 per hypothesis.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from torch import Tensor

from phrasescore.arguments import StrPath
from phrasescore.devices import move
from phrasescore.errors import ModelError
from phrasescore.io.journal import Number, Share, read_journal
from phrasescore.io.plain_file import MAX_WORDS, check_plain
from phrasescore.io.ragged import Array, Indices, RaggedArray, RaggedBuilder, map_array
from phrasescore.models.batches import PairBatch, Pairs
from phrasescore.vocabulary import Vocabulary, load_vocabulary

# The name of the file with a store's record.
RECORD = "pairs.json"
SIDES = ("source", "target")
# Suffixes for the files of each side.
WORDS, STARTS, AFFILIATIONS, VOCABULARY = ".words", ".starts", ".affiliations", ".vocab"

# Number of pairs or words that are checked at a time.
_CHECKED = 1 << 18


class PairStoreRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The input of a pair store, and the number of its lines that are stored."""

    lines: Number  # of the table; each is one of the next three
    pairs: Number  # stored lines
    duplicates: Number
    too_long: Number  # lines with more than ``max_length`` words, or pieces, on either side
    max_length: Number
    # blake2b of the uncompressed lines of the table or of both texts.
    fingerprint: str
    # Whether the table's target side is read and its source side predicted.
    reverse: bool
    # The share of the running words inside each shortlist.
    source_coverage: Share
    target_coverage: Share
    # Whether the words on the predicted side are stored in reverse order.
    right_to_left: bool = False


class PairStore(Pairs):
    """The pairs in a folder, in the order of the table."""

    def __init__(self, folder: StrPath) -> None:
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
        for rows in arrays:
            if len(rows.starts) != record.pairs + 1 or rows.starts[-1] != len(rows.values):
                raise ModelError(
                    f"{self.folder}: the sizes of the files do not match {record.pairs} pairs"
                )

    def target_counts(self) -> Array:
        """Return how often each predicted word occurs, ``(words,)``, without ``</s>``."""
        return self.targets.count(len(self.target_vocabulary))

    def check(self) -> None:
        """Raise a ModelError if a pair or word id is out of range, as in damaged files."""
        is_whole = is_sound(self.sources, len(self.source_vocabulary))
        is_whole = is_whole and is_sound(self.targets, len(self.target_vocabulary))
        if not (is_whole and self._has_sound_affiliations()):
            raise ModelError(
                f"{self.folder}: expected pairs of words in the vocabularies, found other "
                "numbers: an array is damaged"
            )

    def _has_sound_affiliations(self) -> bool:
        if self.affiliations is None:
            return True
        for first in range(0, len(self), _CHECKED):
            rows = np.arange(first, min(first + _CHECKED, len(self)))
            source_lengths, target_lengths = self.lengths(rows)
            limits = np.repeat(source_lengths + 1, target_lengths)
            if (self.affiliations.take(rows).values >= limits).any():
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
    """Return the smallest integer type for ids below ``size``."""
    return np.uint16 if size <= 1 << 16 else np.int32


def is_sound(rows: RaggedArray, limit: int) -> bool:
    """Return whether the rows follow one another, and their values are below ``limit``."""
    starts, values = rows.starts, rows.values
    follow = starts[0] == 0 and bool((starts[1:] >= starts[:-1]).all())
    return follow and not (len(values) and (values.min() < 0 or values.max() >= limit))


# N-best lists


class KnownScores(NamedTuple):
    """Hypotheses' scores and gains that do not depend on the network."""

    model_scores: Tensor  # (hypotheses,) float64: without the network's feature
    gains: Tensor  # (hypotheses,) float64: sentence BLEU, about 0 to 1
    lists: Tensor  # (hypotheses,) int64: the list of each hypothesis, counted from 0
    num_lists: int


class ListBatch(NamedTuple):
    """A batch of n-best lists."""

    pairs: PairBatch  # distinct pairs of the hypotheses
    # (parts,) indices of pairs; the value of a hypothesis is the sum over its parts.
    part_pairs: Tensor
    part_hypotheses: Tensor
    scores: KnownScores
    # Pairs whose likelihood is part of the loss; None if they are the same as ``pairs``.
    taught: PairBatch | None

    def pin_memory(self) -> "ListBatch":
        """Return a copy in pinned memory."""
        taught = self.taught and self.taught.pin_memory()
        return self._replace(pairs=self.pairs.pin_memory(), taught=taught)

    def to(self, device: torch.device) -> "ListBatch":
        """Return a copy on ``device``."""
        model_scores, gains, lists, size = self.scores
        pairs, hypotheses, lists = move(device, self.part_pairs, self.part_hypotheses, lists)
        model_scores, gains = move(device, model_scores, gains)
        known = KnownScores(model_scores, gains, lists, size)
        taught = self.taught and self.taught.to(device)
        return ListBatch(self.pairs.to(device), pairs, hypotheses, known, taught)

    def values(self, log_probs: Tensor) -> Tensor:
        """Return the sum over the pairs of each hypothesis, ``(hypotheses,)`` float64."""
        parts = log_probs.double().index_select(0, self.part_pairs)
        return parts.new_zeros(len(self.scores.gains)).index_add(0, self.part_hypotheses, parts)


@dataclass(frozen=True)
class ListStore:
    """Pairs grouped into hypotheses, and hypotheses into lists, in the order of the sentences."""

    pairs: Pairs
    parts: RaggedArray  # the pairs of each hypothesis, at least one
    hypotheses: RaggedArray  # the hypotheses of each list, at least one
    taught: RaggedArray  # pairs of each list whose likelihood is part of the loss, at least one
    # (hypotheses,) float64: scores of the log-linear model without the network.
    model_scores: Array
    gains: Array  # (hypotheses,) float64: sentence BLEU, which is 1 for a reference
    inputs: dict[str, str]  # everything on which scores and gains depend, by name

    def __len__(self) -> int:
        return len(self.hypotheses)

    def in_epoch(self, epoch: int) -> "ListStore":  # noqa: ARG002
        """Return the lists, which are the same in every epoch."""
        return self

    def lengths(self, rows: Indices) -> tuple[Indices, Indices]:
        """Return the number of hypotheses in each list, twice: `Draw` sorts by two lengths."""
        sizes = self.hypotheses.lengths_of(rows)
        return sizes, sizes

    def batch(self, rows: Indices) -> ListBatch:
        """Return a batch of the lists at ``rows``, in that order."""
        hypotheses = self.hypotheses.take(rows)
        parts = self.parts.take(hypotheses.values)
        pairs, part_pairs = np.unique(parts.values, return_inverse=True)
        taught = np.unique(self.taught.take(rows).values)
        return ListBatch(
            self.pairs.batch(pairs),
            torch.from_numpy(part_pairs),
            torch.from_numpy(parts.owners()),
            KnownScores(
                torch.from_numpy(self.model_scores[hypotheses.values]),
                torch.from_numpy(self.gains[hypotheses.values]),
                torch.from_numpy(hypotheses.owners()),
                len(rows),
            ),
            None if np.array_equal(taught, pairs) else self.pairs.batch(taught),
        )


class ListStoreBuilder:
    """Collects pairs and n-best lists without a Python object for each."""

    def __init__(self) -> None:
        self._sources, self._targets, self._affiliations = (RaggedBuilder() for _ in range(3))
        self._parts, self._taught = RaggedBuilder(), RaggedBuilder()
        self._sizes, self._scores = array("i"), array("d")

    def __len__(self) -> int:
        return len(self._sizes)

    def add_pair(
        self, read: Sequence[int], predicted: Sequence[int], affiliations: Sequence[int] = ()
    ) -> int:
        """Add a pair of ids, with affiliations for a joint model; return its index."""
        self._sources.add(read)
        self._affiliations.add(affiliations)
        return self._targets.add(predicted)

    def add_list(
        self, model_scores: Sequence[float], pairs: Sequence[Sequence[int]], taught: Sequence[int]
    ) -> None:
        """Add a list of one or more hypotheses, whose pairs are indices from `add_pair`."""
        self._sizes.append(len(model_scores))
        self._scores.extend(model_scores)
        for row in pairs:
            self._parts.add(row)
        self._taught.add(taught)

    def build(self, gains: Sequence[float], inputs: dict[str, str]) -> ListStore:
        """Return the store; ``gains`` contains the gain of each hypothesis."""
        affiliations = self._affiliations.build()
        return ListStore(
            Pairs(
                self._sources.build(),
                self._targets.build(),
                affiliations if len(affiliations.values) else None,
            ),
            self._parts.build(),
            RaggedArray.from_lengths(np.arange(len(gains)), np.array(self._sizes)),
            self._taught.build(),
            np.array(self._scores),
            np.array(gains, np.float64),
            inputs,
        )

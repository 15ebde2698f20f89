"""Training data: pairs of word ids, or n-best lists of such pairs, as ragged arrays.

Pairs are in memory or in a folder of memory-mapped files, which contains ``source.words``,
``source.starts``, ``target.words``, ``target.starts``, for a joint model also
``target.affiliations``, and both vocabularies. The folder is written by
:mod:`phrasescore.training.pair_store_writer` and takes about 16 bytes per pair and 2 per word. In
memory, a list takes about 4 bytes per word of its pairs and 50 per hypothesis.

An epoch is a pseudo-random permutation of the items, computed position by position. The epoch and
batch numbers are therefore sufficient to resume a run, and no list of 100 million pairs is needed.
"""

import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from phrasescore.devices import move
from phrasescore.errors import ModelError
from phrasescore.io.journal import Number, Share, read_journal
from phrasescore.io.plain_file import MAX_WORDS, check_plain
from phrasescore.io.ragged import Array, Indices, RaggedArray, RaggedBuilder, map_array
from phrasescore.models.batches import PairBatch, Pairs
from phrasescore.settings.config import TrainingConfig
from phrasescore.vocabulary import Vocabulary, load_vocabulary

# The name of the file with a store's record.
RECORD = "pairs.json"
SIDES = ("source", "target")
# Suffixes for the files of each side.
WORDS, STARTS, AFFILIATIONS, VOCABULARY = ".words", ".starts", ".affiliations", ".vocab"

# Number of pairs that are checked at a time.
_CHECKED_ROWS = 1 << 18


class PairStoreRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The input of a pair store, and the number of its lines that are stored."""

    lines: Number  # of the table; each is one of the next three
    pairs: Number  # stored lines
    duplicates: Number
    too_long: Number  # lines with more than ``max_length`` words, or pieces, on either side
    max_length: Number
    words: Number  # running words of both sides of the stored pairs, without ``</s>``
    # blake2b of the uncompressed lines of the table or of both texts.
    fingerprint: str
    # Whether the table's target side is read and its source side predicted.
    reverse: bool
    # The origin of each shortlist, and the share of the origin's running words inside it.
    source_shortlist_from: str
    target_shortlist_from: str
    source_coverage: Share
    target_coverage: Share
    # Whether the words on the predicted side are stored in reverse order.
    right_to_left: bool = False


class PairStore(Pairs):
    """The pairs in a folder, in the order of the table."""

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
        for rows in arrays:
            if len(rows.starts) != record.pairs + 1 or rows.starts[-1] != len(rows.values):
                raise ModelError(
                    f"{self.folder}: the sizes of the files do not match {record.pairs} pairs"
                )

    def check(self) -> None:
        """Raise a ModelError if a pair or word id is out of range, as in damaged files."""
        for first in range(0, len(self), _CHECKED_ROWS):
            if not self._is_sound(slice(first, first + _CHECKED_ROWS)):
                raise ModelError(
                    f"{self.folder}: expected pairs of words in the vocabularies, found other "
                    "numbers: an array is damaged"
                )

    def _is_sound(self, rows: slice) -> bool:
        limits: list[Array | int] = [len(self.source_vocabulary), len(self.target_vocabulary)]
        arrays = [self.sources, self.targets]
        lengths = []
        for side in arrays:
            starts = side.starts[rows.start : rows.stop + 1]
            # Within these limits, no difference overflows.
            if not 0 <= starts.min() <= starts.max() <= len(side.values):
                return False
            lengths.append(np.diff(starts))
            if lengths[-1].min() < 0 or side.starts[0] != 0:
                return False
        if self.affiliations is not None:
            arrays.append(self.affiliations)
            limits.append(np.repeat(lengths[0] + 1, lengths[1]))
        for side, limit in zip(arrays, limits, strict=True):
            starts = side.starts[rows.start : rows.stop + 1]
            values = side.values[starts[0] : starts[-1]]
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
    """Return the smallest integer type for ids below ``size``."""
    return np.uint16 if size <= 1 << 16 else np.int32


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
    taught: PairBatch  # pairs whose likelihood is part of the loss

    def pin_memory(self) -> "ListBatch":
        """Return a copy in pinned memory."""
        return self._replace(pairs=self.pairs.pin_memory(), taught=self.taught.pin_memory())

    def to(self, device: torch.device) -> "ListBatch":
        """Return a copy on ``device``."""
        model_scores, gains, lists, size = self.scores
        pairs, hypotheses, lists = move(device, self.part_pairs, self.part_hypotheses, lists)
        model_scores, gains = move(device, model_scores, gains)
        known = KnownScores(model_scores, gains, lists, size)
        return ListBatch(self.pairs.to(device), pairs, hypotheses, known, self.taught.to(device))

    def values(self, log_probs: Tensor) -> Tensor:
        """Return the sum over the pairs of each hypothesis, ``(hypotheses,)`` float64."""
        parts = log_probs.double().index_select(0, self.part_pairs)
        zeros = parts.new_zeros(len(self.scores.gains))
        return zeros.index_add(0, self.part_hypotheses, parts)


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

    def lengths(self, rows: Indices) -> tuple[Indices, Indices]:
        """Return the number of hypotheses in each list, twice: `Draw` sorts by two lengths."""
        sizes = self.hypotheses.lengths_of(rows)
        return sizes, sizes

    def batch(self, rows: Indices) -> ListBatch:
        """Return a batch of the lists at ``rows``, in that order."""
        hypotheses = self.hypotheses.take(rows)
        parts = self.parts.take(hypotheses.values)
        pairs, part_pairs = np.unique(parts.values, return_inverse=True)
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
            self.pairs.batch(np.unique(self.taught.take(rows).values)),
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


# The order in which items are drawn

# Items that a network learns from.
Store = Pairs | ListStore

# Number of rounds of a permutation's Feistel network.
_ROUNDS = 6


def mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Map 64-bit numbers one to one to pseudo-random ones (splitmix64; Steele et al., 2014)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def stream_key(seed: int, stream: int) -> npt.NDArray[np.uint64]:
    """Return the 64-bit key, ``(1,)``, for one of a seed's random streams."""
    numbers: npt.NDArray[np.uint64] = np.array([seed, stream], np.uint64)
    return mix(numbers[:1]) ^ numbers[1:]


class Permutation:
    """A pseudo-random permutation of the numbers below ``size``.

    A Feistel network (Luby and Rackoff, 1988) over the next power of 4, applied until the number
    is in the range again (Black and Rogaway, 2002), which takes fewer than 4 steps on average.

    >>> sorted(Permutation(10, seed=3, stream=0)(np.arange(10)).tolist()) == list(range(10))
    True
    """

    def __init__(self, size: int, *, seed: int, stream: int) -> None:
        self.size = size
        self._half_bits = np.uint64(max(1, (max(size - 1, 1).bit_length() + 1) // 2))
        self._mask = np.uint64((1 << int(self._half_bits)) - 1)
        self._keys = mix(stream_key(seed, stream) + np.arange(_ROUNDS).astype(np.uint64))

    def __call__(self, positions: Indices) -> Indices:
        values = self._apply_network(positions.astype(np.uint64))
        outside = values >= self.size
        while outside.any():
            values[outside] = self._apply_network(values[outside])
            outside = values >= self.size
        return values.astype(np.int64)

    def _apply_network(self, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        left, right = values >> self._half_bits, values & self._mask
        for key in self._keys:
            left, right = right, left ^ (mix(right ^ key) & self._mask)
        return (left << self._half_bits) | right


def held_out_size(config: TrainingConfig, size: int) -> int:
    """Return how many of ``size`` items to hold out for validation."""
    return min(config.validation_pairs, int(config.validation_share * size))


class Draw:
    """Chooses the held-out items, and the items in each epoch's batches.

    Every epoch uses each item that is not held out exactly once, in uniformly random order. If
    ``window_batches`` is above 1, the items for that many batches are drawn together, sorted by
    length, split, and used in random order, as in the released code of Cho et al. and Bahdanau et
    al. Pairs are sorted by their longer side and then by the difference between the sides,
    alternately ascending and descending, so that neighbours have similar lengths on both sides.
    """

    def __init__(self, store: Store, config: TrainingConfig, num_held_out: int) -> None:
        self._store = store
        self._config = config
        self.num_held_out = num_held_out
        # Stream 0 splits the items; epoch n, counted from 0, has stream n + 1.
        self._split = Permutation(len(store), seed=config.seed, stream=0)
        self.num_drawn = len(store) - num_held_out
        self._batch_size = config.batch_size
        if config.batch_words and isinstance(store, Pairs):
            self._batch_size = max(1, round(config.batch_words * len(store) / store.num_words))
        self.batches_per_epoch = -(-self.num_drawn // self._batch_size)
        # A draw has a fixed cost, so unsorted batches are also drawn many at a time.
        self._window_size = config.window_batches if config.window_batches > 1 else 64
        self._window: tuple[tuple[int, int], list[Indices]] | None = None

    def held_out(self) -> Indices:
        """Return the held-out items, sorted by length."""
        return self._sort_by_length(self._split(np.arange(self.num_held_out)))

    def batch(self, epoch: int, number: int) -> Indices:
        """Return the items in a batch; ``number`` is below ``batches_per_epoch``."""
        window, position = divmod(number, self._window_size)
        if self._window is None or self._window[0] != (epoch, window):
            self._window = (epoch, window), self._draw_window(epoch, window)
        return self._window[1][position]

    def _draw_window(self, epoch: int, window: int) -> list[Indices]:
        size, seed = self._batch_size * self._window_size, self._config.seed
        positions = np.arange(window * size, min((window + 1) * size, self.num_drawn))
        order = Permutation(self.num_drawn, seed=seed, stream=epoch + 1)
        rows = self._split(order(positions) + self.num_held_out)
        if self._config.window_batches == 1:
            return self._cut(rows)
        batches = self._cut(self._sort_by_length(rows))
        places = np.random.default_rng((seed, epoch, window)).permutation(len(batches))
        return [batches[place] for place in places]

    def _cut(self, rows: Indices) -> list[Indices]:
        """Return the batches of a window, with equal numbers of items or about as many words."""
        cuts = np.arange(self._batch_size, len(rows), self._batch_size)
        if self._config.batch_words and len(cuts):
            words = np.cumsum(self._store.lengths(rows)[1] + 1)
            shares = 1 + np.arange(len(cuts))
            cuts = np.searchsorted(words, words[-1] * shares / (1 + len(cuts)))
            # No batch is empty.
            cuts = np.maximum.accumulate(np.maximum(cuts, 1) - shares) + shares
            cuts = np.minimum(cuts, len(rows) - shares[::-1])
        return np.split(rows, cuts)

    def _sort_by_length(self, rows: Indices) -> Indices:
        source_lengths, target_lengths = self._store.lengths(rows)
        longer = np.maximum(source_lengths, target_lengths)
        difference = np.where(longer % 2, 1, -1) * (source_lengths - target_lengths)
        return rows[np.lexsort((difference, longer))]

"""Distinct phrase pairs as compact arrays on disk, and the random order in which they are drawn.

A store is a folder of flat arrays, about 12 bytes per pair and 2 per word, so that a table of 100
million pairs takes some 3 GB of disk and next to no memory: ``words.bin`` holds the ids of each
pair's source and then of its target, ``starts.bin`` where each pair begins and
``source_lengths.bin`` where its target does. ``affiliations.bin``, which is there for a joint model
alone, holds for each word of ``words.bin`` the place in the source that it is affiliated with; of
source words it means nothing. It is made by :mod:`phrasescore.training.pair_store_writer`.

An epoch is a pseudo-random permutation of the pairs, computed place by place: so a run is resumed
in the middle of an epoch by its number and the number of the batch, and 100 million pairs need no
list of 100 million numbers.
"""

import os
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import torch

from phrasescore.config.settings import TrainingConfig
from phrasescore.errors import ModelError
from phrasescore.io.plain_file import MAX_ARRAYS, MAX_WORDS, check_plain
from phrasescore.io.state import Number, Share, read_state
from phrasescore.models.batches import BatchSide, PairBatch, absolute_affiliations
from phrasescore.subwords import load_vocabulary
from phrasescore.vocabulary import Vocabulary

# The file of a store's record.
RECORD = "pairs.json"
# The file of the words' affiliations.
AFFILIATIONS = "affiliations.bin"
Indices = npt.NDArray[np.int64]

# Pairs that are checked at a time.
_CHECKED = 1 << 18

# Of the Feistel network of a permutation.
_ROUNDS = 6


class PairStoreRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """From which input a pair store was made, and how many of its lines are stored."""

    # Lines of the table; each is one of the three below.
    lines: Number
    # Distinct pairs that are stored.
    pairs: Number
    # Lines whose text was there before.
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


class PairStore:
    """Pairs by their index, from 0 to ``len(self) - 1`` in the order of the table.

    The network reads the source and predicts the target, whichever sides of the table they were.

    :raises PhrasescoreError: if ``folder`` holds no whole pair store of this format.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        record = read_state(self.folder / RECORD, PairStoreRecord)
        if record is None:
            raise ModelError(f"{self.folder / RECORD}: cannot be read: it is missing")
        self.record = record
        self.source_vocabulary, self.target_vocabulary = (
            self._vocabulary(f"{side}.vocab") for side in ("source", "target")
        )
        sizes = (len(self.source_vocabulary), len(self.target_vocabulary))
        self._words = self._map("words.bin", word_type(*sizes))
        self._starts = self._map("starts.bin", np.int64)
        self._source_lengths = self._map("source_lengths.bin", np.uint16)
        self._affiliations = None
        if (self.folder / AFFILIATIONS).exists():
            self._affiliations = self._map(AFFILIATIONS, np.uint16)
        sizes = (len(self._starts) - 1, len(self._source_lengths))
        num_words = {len(each) for each in (self._words, self._affiliations) if each is not None}
        if sizes != (len(self), len(self)) or num_words != {int(self._starts[-1])}:
            raise ModelError(f"{self.folder}: expected {len(self)} pairs, got other sizes of files")

    def check(self) -> None:
        """Check all numbers in the arrays, which takes about as long as reading them.

        :raises ModelError: if a pair lies outside of the words, or a word outside of its
            vocabulary.
        """
        sizes = [len(self.source_vocabulary), len(self.target_vocabulary)]
        for first in range(0, len(self), _CHECKED):
            starts = self._starts[first : first + _CHECKED + 1]
            indices = np.arange(first, first + len(starts) - 1)
            # Within these limits, no difference overflows.
            is_good = 0 <= starts.min() <= starts.max() <= len(self._words)
            lengths = np.stack(self.lengths(indices), axis=1)  # (pairs, 2)
            if is_good := is_good and lengths.min() >= 0 and (first > 0 or starts[0] == 0):
                chosen = slice(starts[0], starts[-1])
                each = lengths.ravel()
                ids = self._words[chosen]
                is_good = bool((ids < np.repeat(np.tile(sizes, len(indices)), each)).all())
                is_good = is_good and (not len(ids) or ids.min() >= 0)
                if self._affiliations is not None:
                    # Of source words they mean nothing; 0 is always in range.
                    last = np.stack([np.full(len(indices), 1 << 16), lengths[:, 0]], axis=1)
                    places = self._affiliations[chosen]
                    is_good = is_good and bool((places <= np.repeat(last.ravel(), each)).all())
            if not is_good:
                problem = "expected pairs of words of the vocabularies, found others"
                raise ModelError(f"{self.folder}: {problem}: an array is damaged")

    def _vocabulary(self, name: str) -> Vocabulary:
        try:
            check_plain(self.folder / name, MAX_WORDS)
        except OSError as error:
            raise ModelError(f"{self.folder / name}: cannot be read: {error}") from error
        return load_vocabulary(self.folder / name)

    def _map(self, name: str, kind: Any) -> npt.NDArray[Any]:
        # A plain array over the map: indexing a numpy.memmap makes Python objects at every step.
        try:
            check_plain(self.folder / name, MAX_ARRAYS)
            return np.asarray(np.memmap(self.folder / name, dtype=kind, mode="r"))
        except (OSError, ValueError) as error:
            raise ModelError(f"{self.folder / name}: cannot be read: {error}") from error

    @property
    def is_aligned(self) -> bool:
        """Whether target words have affiliations."""
        return self._affiliations is not None

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
        source = self._side(_places(starts, source_lengths), source_lengths)
        of_targets = _places(starts + source_lengths, target_lengths)
        target = self._side(of_targets, target_lengths)
        if self._affiliations is None:
            return PairBatch(source, target)
        affiliated = self._affiliations[of_targets].astype(np.int64)
        absolute = absolute_affiliations(affiliated, source_lengths, target_lengths)
        return PairBatch(source, target._replace(affiliations=torch.from_numpy(absolute)))

    def _side(self, places: Indices, lengths: Indices) -> BatchSide:
        """Return the words at some places, with ``</s>`` after each pair's."""
        words = self._words[places].astype(np.int64)
        ids = np.insert(words, np.cumsum(lengths), Vocabulary.END)  # (words + batch,)
        return BatchSide(torch.from_numpy(ids), torch.from_numpy(lengths))


def _places(starts: Indices, lengths: Indices) -> Indices:
    """Return the places from each start on, ``lengths`` of them, ``(words,)``."""
    ends = np.cumsum(lengths)  # (batch,)
    return np.repeat(starts - ends + lengths, lengths) + np.arange(lengths.sum())


def word_type(source_size: int, target_size: int) -> type[np.uint16] | type[np.int32]:
    """Return the smallest type for ids below both sizes."""
    return np.uint16 if max(source_size, target_size) <= 1 << 16 else np.int32


def mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return 64-bit numbers that look random, one to one (splitmix64; Steele et al., 2014)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


class Permutation:
    """A pseudo-random permutation of the numbers below ``size``, chosen by a key.

    A Feistel network (Luby and Rackoff, 1988) over the next power of 4, walked until it comes
    back into the range (Black and Rogaway, 2002): on average fewer than 4 walks.

    >>> sorted(Permutation(10, seed=3, stream=0)(np.arange(10)).tolist()) == list(range(10))
    True
    """

    def __init__(self, size: int, *, seed: int, stream: int) -> None:
        """
        :param seed: from 0; with ``stream`` it is the key.
        :param stream: from 0, as the number of an epoch.
        """
        self.size = size
        self._half_bits = np.uint64(max(1, (max(size - 1, 1).bit_length() + 1) // 2))
        self._mask = np.uint64((1 << int(self._half_bits)) - 1)
        numbers: npt.NDArray[np.uint64] = np.array([seed, stream], np.uint64)
        key = mix(numbers[:1])
        key ^= numbers[1:]
        rounds: npt.NDArray[np.uint64] = np.arange(_ROUNDS).astype(np.uint64)
        self._keys = mix(key + rounds)

    def __call__(self, places: Indices) -> Indices:
        """Return the numbers at these places, each from 0 to ``size - 1``."""
        values = self._network(places.astype(np.uint64))
        outside = values >= self.size
        while outside.any():
            values[outside] = self._network(values[outside])
            outside = values >= self.size
        return values.astype(np.int64)

    def _network(self, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        left, right = values >> self._half_bits, values & self._mask
        for key in self._keys:
            left, right = right, left ^ (mix(right ^ key) & self._mask)
        return (left << self._half_bits) | right


class Drawn(Protocol):
    """What a `PairDraw` draws from: pairs, or others that have a source and a target side."""

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    def lengths(self, indices: Indices) -> tuple[Indices, Indices]:
        """Return the words of the sources and of the targets, without ``</s>``."""
        ...


class PairDraw:
    """Which pairs are held out, and which make up each batch of each epoch.

    Every epoch takes each pair that is not held out once, uniformly. With ``window_batches`` above
    1, that many batches are drawn together, sorted by length, cut, and taken in random order, as
    in the released code of Cho et al. and Bahdanau et al. Pairs are sorted by the longer of
    their sides and then by how much longer it is, up and down in turn: neighbours are alike on both
    sides, and batches of 64 from a window of 64 batches of sentences would hold 5 % padding, where
    the order by target and then by source leaves 8 %.

    :param held_out: how many pairs are held out.
    """

    def __init__(self, store: Drawn, config: TrainingConfig, held_out: int) -> None:
        if not 0 <= held_out < len(store):
            raise ValueError(f"cannot hold out {held_out} of {len(store)} pairs")
        self._store = store
        self._config = config
        self._num_held_out = held_out
        # Stream 0 splits the pairs; the epochs, counted from 0, have the streams from 1 on.
        self._split = Permutation(len(store), seed=config.seed, stream=0)
        self.pairs = len(store) - held_out
        self.batches_per_epoch = -(-self.pairs // config.batch_size)
        # Small draws are dear: unsorted batches, too, are drawn many at a time.
        self._drawn_batches = config.window_batches if config.window_batches > 1 else 64
        self._window: tuple[tuple[int, int], list[Indices]] | None = None

    def held_out(self) -> Indices:
        """Return the held-out pairs, sorted by length."""
        return self._by_length(self._split(np.arange(self._num_held_out)))

    def batch(self, epoch: int, number: int) -> Indices:
        """Return the pairs of a batch; ``number`` is below ``batches_per_epoch``."""
        window, place = divmod(number, self._drawn_batches)
        if self._window is None or self._window[0] != (epoch, window):
            self._window = (epoch, window), self._draw(epoch, window)
        return self._window[1][place]

    def _draw(self, epoch: int, window: int) -> list[Indices]:
        config = self._config
        size = config.batch_size * self._drawn_batches
        places = np.arange(window * size, min((window + 1) * size, self.pairs))
        order = Permutation(self.pairs, seed=config.seed, stream=epoch + 1)
        pairs = self._split(order(places) + self._num_held_out)
        cuts = range(config.batch_size, len(pairs), config.batch_size)
        if config.window_batches == 1:
            return np.split(pairs, cuts)
        batches = np.split(self._by_length(pairs), cuts)
        key = (config.seed, epoch, window)
        return [batches[place] for place in np.random.default_rng(key).permutation(len(batches))]

    def _by_length(self, pairs: Indices) -> Indices:
        source_lengths, target_lengths = self._store.lengths(pairs)
        longer = np.maximum(source_lengths, target_lengths)
        back_and_forth = np.where(longer % 2, 1, -1) * (source_lengths - target_lengths)
        return pairs[np.lexsort((back_and_forth, longer))]

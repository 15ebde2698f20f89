"""The random order in which the items of a store are drawn.

An epoch is a pseudo-random permutation of the items, computed position by position. The numbers of
the epoch and the batch are therefore enough to resume a run, and 100 million pairs need no list.
"""

import numpy as np
import numpy.typing as npt

from phrasescore.io.ragged import Indices
from phrasescore.models.batches import Pairs
from phrasescore.settings.networks import TrainingConfig
from phrasescore.training.stores import ListStore

Store = Pairs | ListStore

# Rounds of a permutation's Feistel network.
_ROUNDS = 6


def mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return 64-bit numbers that look random, one to one (splitmix64; Steele et al., 2014)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def stream_key(seed: int, stream: int) -> npt.NDArray[np.uint64]:
    """Return a 64-bit key of one of the random streams of a seed, ``(1,)``."""
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
        """Return the numbers at these positions."""
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
    """Return how many of ``size`` items are held out for validation."""
    return min(config.validation_pairs, int(config.validation_share * size))


class Draw:
    """Which items are held out, and which items make up each batch of each epoch.

    Every epoch takes each item that is not held out once, uniformly. If ``window_batches`` is above
    1, that many batches are drawn together, sorted by length, cut, and taken in random order, as
    in the released code of Cho et al. and Bahdanau et al. Pairs are sorted by their longer side
    and then by the difference of the sides, alternately ascending and descending, so that
    neighbours are alike on both sides.
    """

    def __init__(self, store: Store, config: TrainingConfig, num_held_out: int) -> None:
        if not 0 <= num_held_out < len(store):
            raise ValueError(f"cannot hold out {num_held_out} of {len(store)} pairs")
        self._store = store
        self._config = config
        self.num_held_out = num_held_out
        # Stream 0 splits the items; epoch n, counted from 0, has stream n + 1.
        self._split = Permutation(len(store), seed=config.seed, stream=0)
        self.num_drawn = len(store) - num_held_out
        self.batches_per_epoch = -(-self.num_drawn // config.batch_size)
        # A draw has a fixed cost, so many unsorted batches are drawn together, too.
        self._window_size = config.window_batches if config.window_batches > 1 else 64
        self._window: tuple[tuple[int, int], list[Indices]] | None = None

    def held_out(self) -> Indices:
        """Return the held-out items, sorted by length."""
        return self._sort_by_length(self._split(np.arange(self.num_held_out)))

    def batch(self, epoch: int, number: int) -> Indices:
        """Return the items of a batch; ``number`` is below ``batches_per_epoch``."""
        window, position = divmod(number, self._window_size)
        if self._window is None or self._window[0] != (epoch, window):
            self._window = (epoch, window), self._draw_window(epoch, window)
        return self._window[1][position]

    def _draw_window(self, epoch: int, window: int) -> list[Indices]:
        config = self._config
        size = config.batch_size * self._window_size
        positions = np.arange(window * size, min((window + 1) * size, self.num_drawn))
        order = Permutation(self.num_drawn, seed=config.seed, stream=epoch + 1)
        rows = self._split(order(positions) + self.num_held_out)
        cuts = range(config.batch_size, len(rows), config.batch_size)
        if config.window_batches == 1:
            return np.split(rows, cuts)
        batches = np.split(self._sort_by_length(rows), cuts)
        key = (config.seed, epoch, window)
        return [batches[index] for index in np.random.default_rng(key).permutation(len(batches))]

    def _sort_by_length(self, rows: Indices) -> Indices:
        source_lengths, target_lengths = self._store.lengths(rows)
        longer = np.maximum(source_lengths, target_lengths)
        difference = np.where(longer % 2, 1, -1) * (source_lengths - target_lengths)
        return rows[np.lexsort((difference, longer))]

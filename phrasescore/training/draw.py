"""The order in which a network's items are drawn for training.

An epoch is a pseudo-random permutation of the items, computed position by position. The epoch and
batch numbers are therefore sufficient to resume a run, and no list of 100 million pairs is needed.
"""

import numpy as np
import numpy.typing as npt

from phrasescore.io.ragged import Indices
from phrasescore.kernels.pieces import mix
from phrasescore.models.batches import Pairs
from phrasescore.settings.config import TrainingConfig
from phrasescore.training.stores import ListStore

# Items that a network learns from.
Store = Pairs | ListStore

# Number of rounds of a permutation's Feistel network.
_ROUNDS = 6


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
        return _sort_by_length(self._store, self._split(np.arange(self.num_held_out)))

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
        store = self._store.in_epoch(epoch)
        if self._config.window_batches == 1:
            return self._cut(store, rows)
        batches = self._cut(store, _sort_by_length(store, rows))
        places = np.random.default_rng((seed, epoch, window)).permutation(len(batches))
        return [batches[place] for place in places]

    def _cut(self, store: Store, rows: Indices) -> list[Indices]:
        """Return the batches of a window, with equal numbers of items or about as many words."""
        cuts = np.arange(self._batch_size, len(rows), self._batch_size)
        if self._config.batch_words and len(cuts):
            words = np.cumsum(store.lengths(rows)[1] + 1)
            shares = 1 + np.arange(len(cuts))
            cuts = np.searchsorted(words, words[-1] * shares / (1 + len(cuts)))
            # No batch is empty.
            cuts = np.maximum.accumulate(np.maximum(cuts, 1) - shares) + shares
            cuts = np.minimum(cuts, len(rows) - shares[::-1])
        return np.split(rows, cuts)


def _sort_by_length(store: Store, rows: Indices) -> Indices:
    source_lengths, target_lengths = store.lengths(rows)
    longer = np.maximum(source_lengths, target_lengths)
    difference = np.where(longer % 2, 1, -1) * (source_lengths - target_lengths)
    return rows[np.lexsort((difference, longer))]

"""BPE-dropout: a word has other pieces in every epoch (Provilkov et al., 2020).

The folder of a pair store then also contains, for each side with subwords, the numbers of its words
(``source.tokens``) and `NUM_SPLITS` random splits of each word (``source.splits``). These take 4
bytes per word of the text and about 600 per distinct word. In an epoch, each word of a pair has one
of its splits. A hash of the seed, the epoch and the word's place chooses it, so a resumed run and
all processes choose the same. Held-out pairs keep the usual pieces.
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from phrasescore.errors import ModelError
from phrasescore.io.ragged import Array, Indices, RaggedArray
from phrasescore.models.batches import Pairs
from phrasescore.training.draw import mix, stream_key
from phrasescore.training.stores import SIDES, PairStore, word_type

# Suffixes for the files of each side; `starts_path` names the files with the starts of the rows.
TOKENS, SPLITS = ".tokens", ".splits"
# Number of random splits of each word.
NUM_SPLITS = 32


def starts_path(path: Path) -> Path:
    """Return the path of the starts of the rows in a file of `TOKENS` or `SPLITS`."""
    return Path(f"{path}.starts")


class _SplitSide(NamedTuple):
    """The words of one side of all pairs."""

    tokens: RaggedArray  # the numbers of the words of each pair
    splits: RaggedArray  # NUM_SPLITS rows of piece ids for each word number

    def take(self, rows: Indices, key: npt.NDArray[np.uint64]) -> RaggedArray:
        """Return the piece ids of the selected pairs, in the splits that ``key`` chooses."""
        places = self.tokens.positions(rows)
        choices = mix(key + places.values.astype(np.uint64)) % np.uint64(NUM_SPLITS)
        words = self.tokens.values[places.values].astype(np.int64)
        splits = words * NUM_SPLITS + choices.astype(np.int64)
        return RaggedArray(splits, places.starts).expand(self.splits)


class SplitStore(PairStore):
    """The pairs in a folder that was written with ``subword_dropout``.

    :param seed: the seed for the choice among a word's splits.
    """

    def __init__(self, folder: str | os.PathLike[str], seed: int) -> None:
        super().__init__(folder)
        self._seed = seed
        vocabularies = (self.source_vocabulary, self.target_vocabulary)
        self.split_sides = [
            self._open_side(name, len(vocabulary)) if vocabulary.is_subwords else None
            for name, vocabulary in zip(SIDES, vocabularies, strict=True)
        ]

    def _open_side(self, name: str, num_pieces: int) -> _SplitSide:
        rows = [
            RaggedArray(
                self._map(name + suffix, kind),
                self._map(f"{starts_path(Path(name + suffix))}", np.int64),
            )
            for suffix, kind in ((TOKENS, np.int32), (SPLITS, word_type(num_pieces)))
        ]
        side = _SplitSide(*rows)
        is_whole = all(len(each) >= 0 and each.starts[-1] == len(each.values) for each in rows)
        if not is_whole or len(side.tokens) != len(self):
            raise ModelError(
                f"{self.folder}: the sizes of {name}{TOKENS} and {name}{SPLITS} do not match "
                f"{len(self)} pairs"
            )
        return side

    def check(self) -> None:
        """See `PairStore`."""
        super().check()
        vocabularies = (self.source_vocabulary, self.target_vocabulary)
        for side, vocabulary in zip(self.split_sides, vocabularies, strict=True):
            if side is not None and not (
                _is_sound(side.tokens, len(side.splits) // NUM_SPLITS)
                and _is_sound(side.splits, len(vocabulary))
            ):
                raise ModelError(f"{self.folder}: the random splits of words are damaged")

    def target_counts(self) -> Array:
        """See `PairStore`; words are counted with the pieces of one split each."""
        side = self.split_sides[1]
        if side is None:
            return super().target_counts()
        firsts = np.arange(0, len(side.splits), NUM_SPLITS)
        counts = np.bincount(side.tokens.values, minlength=len(firsts))
        pieces = side.splits.take(firsts)
        weights = np.repeat(counts, pieces.lengths)
        return np.bincount(pieces.values, weights, len(self.target_vocabulary))

    def in_epoch(self, epoch: int) -> Pairs:
        """See `Pairs`."""
        # `mix` again, because other random streams are keyed by a seed and a small number, too.
        return _EpochPairs(self, mix(stream_key(self._seed, epoch)))


class _EpochPairs(Pairs):
    """The pairs of a store, with the splits of one epoch."""

    def __init__(self, store: SplitStore, key: npt.NDArray[np.uint64]) -> None:
        super().__init__(store.sources, store.targets)
        self._split_sides, self._key = store.split_sides, key

    def sides(self, rows: Indices) -> tuple[RaggedArray, RaggedArray]:
        """See `Pairs`."""
        source, target = (
            usual.take(rows) if split is None else split.take(rows, mix(self._key + np.uint64(n)))
            for n, (usual, split) in enumerate(
                zip((self.sources, self.targets), self._split_sides, strict=True)
            )
        )
        return source, target

    def lengths(self, rows: Indices) -> tuple[Indices, Indices]:
        """See `Pairs`."""
        source, target = self.sides(rows)
        return source.lengths, target.lengths


def _is_sound(rows: RaggedArray, limit: int) -> bool:
    """Return whether the rows follow one another, and their values are below ``limit``."""
    starts, values = rows.starts, rows.values
    if starts[0] != 0 or (starts[1:] < starts[:-1]).any():
        return False
    return not len(values) or 0 <= int(values.min()) <= int(values.max()) < limit

"""BPE-dropout: words have other pieces in every epoch (Provilkov et al., 2020).

The folder of a pair store then also contains, for each side with subwords, the numbers of the words
of each pair (``source.tokens``) and the characters of each word (``source.characters``). Words are
split when they are read. The random numbers depend on the seed, the epoch and the word's place, so
a resumed run and all processes have the same pieces. Held-out pairs have the usual pieces.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from phrasescore.arguments import StrPath
from phrasescore.errors import ModelError
from phrasescore.io.ragged import Array, Indices, RaggedArray
from phrasescore.kernels.pieces import mix, split_words
from phrasescore.models.batches import Pairs
from phrasescore.settings.config import TrainingConfig
from phrasescore.training.draw import stream_key
from phrasescore.training.stores import SIDES, PairStore, is_sound, word_type
from phrasescore.vocabulary import BEGIN, Vocabulary

# Suffixes for the files of each side; `starts_path` names the files with the starts of the rows.
TOKENS, CHARACTERS = ".tokens", ".characters"


def starts_path(path: str | Path) -> Path:
    """Return the path of the starts of the rows in a file of `TOKENS` or `CHARACTERS`."""
    return Path(f"{path}.starts")


def character_ids(words: Sequence[str], known: Vocabulary) -> RaggedArray:
    """Return the ids of the pieces that each word is merged from: its characters, after ``▁``."""
    unknown, rows = known.UNKNOWN, []
    for word in words:
        # A word with the mark in it has fixed pieces.
        ids = known.ids([word]) if BEGIN in word else known.ids_of_pieces([BEGIN, *word])
        # As in `Vocabulary.split`, unknown characters in a row are one <unk>.
        last = [0, *ids[:-1]]
        rows.append([n for n, before in zip(ids, last, strict=True) if n != unknown or before != n])
    return RaggedArray.from_rows(rows)


class SplitSide:
    """One side of the pairs, whose words are split into random pieces; see `split_words`.

    :param tokens: the numbers of the words of each pair.
    :param characters: the ids of the characters of each word.
    :param step: -1 for the pieces of a word in reverse order, otherwise 1.
    """

    def __init__(
        self,
        tokens: RaggedArray,
        characters: RaggedArray,
        known: Vocabulary,
        dropout: float,
        step: int = 1,
    ) -> None:
        self.tokens, self.characters = tokens, characters
        self._size, self._dropout, self._step = len(known), dropout, step
        keys = {}
        for number in range(2, len(known)):
            piece = known.word(number)
            for middle in range(1, len(piece)):
                one, other = known.ids_of_pieces([piece[:middle], piece[middle:]])
                if known.UNKNOWN not in (one, other):
                    keys[one * self._size + other] = number
        self._pairs = np.array(sorted(keys), np.int64)
        self._merged = np.array([keys[key] for key in sorted(keys)], np.int64)

    def split(self, words: Indices, states: npt.NDArray[np.uint64]) -> RaggedArray:
        """Return the piece ids of each word, given the state of its random numbers."""
        table = (self._pairs, self._merged, self._size)
        parts = (self.characters.values, self.characters.starts, words, states)
        return RaggedArray.from_lengths(*split_words(*parts, *table, self._dropout, self._step))

    def take(self, rows: Indices, key: npt.NDArray[np.uint64]) -> RaggedArray:
        """Return the piece ids of the selected pairs, in the splits that ``key`` chooses."""
        places = self.tokens.positions(rows)
        states = mix(key + places.values.astype(np.uint64))
        split = self.split(self.tokens.values[places.values], states)
        return RaggedArray(split.values, split.starts[places.starts])

    def counts(self) -> Array:
        """Return how often each piece occurs if each word has one random split."""
        words = np.arange(len(self.characters))
        split = self.split(words, mix(words.astype(np.uint64)))
        counts = self.tokens.count(len(words))
        return np.bincount(split.values, np.repeat(counts, split.lengths), self._size)


class SplitStore(PairStore):
    """The pairs in a folder that was written with ``keep_words``, for BPE-dropout."""

    def __init__(self, folder: StrPath, config: TrainingConfig) -> None:
        super().__init__(folder)
        self._seed = config.seed
        steps = (1, -1 if self.record.right_to_left else 1)
        vocabularies = (self.source_vocabulary, self.target_vocabulary)
        self.split_sides = [
            SplitSide(*self._open_words(name, len(known)), known, config.subword_dropout, step)
            if known.is_subwords
            else None
            for name, known, step in zip(SIDES, vocabularies, steps, strict=True)
        ]

    def _open_words(self, name: str, size: int) -> tuple[RaggedArray, RaggedArray]:
        """Return the numbers of the words of each pair, and the characters of each word."""
        tokens, characters = (
            RaggedArray(
                self._map(name + suffix, kind), self._map(f"{starts_path(name + suffix)}", np.int64)
            )
            for suffix, kind in ((TOKENS, np.int32), (CHARACTERS, word_type(size)))
        )
        is_whole = all(
            len(rows) >= 0 and rows.starts[-1] == len(rows.values) for rows in (tokens, characters)
        )
        if not is_whole or len(tokens) != len(self):
            raise ModelError(
                f"{self.folder}: the sizes of {name}{TOKENS} and {name}{CHARACTERS} do not match "
                f"{len(self)} pairs"
            )
        return tokens, characters

    def check(self) -> None:
        super().check()
        vocabularies = (self.source_vocabulary, self.target_vocabulary)
        for name, side, known in zip(SIDES, self.split_sides, vocabularies, strict=True):
            if side is not None and not (
                is_sound(side.tokens, len(side.characters))
                and is_sound(side.characters, len(known))
            ):
                raise ModelError(f"{self.folder}: {name}{TOKENS} or {name}{CHARACTERS} is damaged")

    def target_counts(self) -> Array:
        side = self.split_sides[1]
        return super().target_counts() if side is None else side.counts()

    def in_epoch(self, epoch: int) -> Pairs:
        # `mix` again, because other random streams are keyed by a seed and a small number, too.
        return _EpochPairs(self, mix(stream_key(self._seed, epoch)))


class _EpochPairs(Pairs):
    def __init__(self, store: SplitStore, key: npt.NDArray[np.uint64]) -> None:
        super().__init__(store.sources, store.targets)
        self._split_sides, self._key = store.split_sides, key

    def sides(self, rows: Indices) -> tuple[RaggedArray, RaggedArray]:
        source, target = (
            usual.take(rows) if split is None else split.take(rows, mix(self._key + np.uint64(n)))
            for n, (usual, split) in enumerate(
                zip((self.sources, self.targets), self._split_sides, strict=True)
            )
        )
        return source, target

    def lengths(self, rows: Indices) -> tuple[Indices, Indices]:
        source, target = self.sides(rows)
        return source.lengths, target.lengths

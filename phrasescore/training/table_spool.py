"""A phrase table or parallel text as arrays on disk, with provisional ids of its words."""

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from phrasescore.io.digests import new_digest
from phrasescore.records import PhrasePair
from phrasescore.training.random_order import mix
from phrasescore.vocabulary import Vocabulary

# Lines that become arrays together: more of them fall out of the cache.
CHUNK = 1 << 11
# Lines that are read back together.
_CHUNK_BACK = 1 << 15

Array = npt.NDArray[Any]


class CountedPair(NamedTuple):
    """A line of a table or of parallel text: its bytes, its pair, and how often it counts."""

    raw: bytes
    pair: PhrasePair
    weight: float


class ProvisionalWords:
    """Provisional ids of one side's words, and the words' counts."""

    def __init__(self) -> None:
        self._ids: defaultdict[str, int] = defaultdict()
        # A new word gets the number of words so far.
        self._ids.default_factory = self._ids.__len__
        self._counts: Array = np.zeros(0)

    def add(self, words: Sequence[str], weights: Array) -> Array:
        """Return the ids of running words, each of which counts ``weights``."""
        ids = np.fromiter(map(self._ids.__getitem__, words), np.int32, len(words))
        if len(self._ids) > len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros(len(self._ids))])
        np.add.at(self._counts, ids, weights)
        return ids

    def counts(self) -> dict[str, float]:
        """Return the count of each word."""
        return dict(zip(self._ids, self._counts[: len(self._ids)].tolist(), strict=True))

    def ids_in(self, vocabulary: Vocabulary) -> Array:
        """Return, at the place of each provisional id, the id in a vocabulary."""
        return np.array(vocabulary.ids(list(self._ids)), np.int32)


class TableSpool:
    """The first pass: the table as provisional ids, lengths and hashes in part files."""

    PARTS = ("words.part", "lengths.part", "hashes.part")

    def __init__(self, folder: Path, *, max_length: int, reverse: bool) -> None:
        self.lines = 0
        self._max_length = max_length
        self._fits = bytearray()
        self.fingerprint = new_digest()
        self.sides = (ProvisionalWords(), ProvisionalWords())
        self._order = (1, 0) if reverse else (0, 1)
        self._paths = [folder / name for name in self.PARTS]
        with contextlib.ExitStack() as stack:
            self._files = [stack.enter_context(path.open("wb")) for path in self._paths]
            self._stack = stack.pop_all()

    def add(self, chunk: Sequence[CountedPair]) -> None:
        """Append some lines of the table."""
        self.lines += len(chunk)
        self.fingerprint.update(b"".join([b"%b\n" % line.raw for line in chunk]))
        counts = np.array([line.weight for line in chunk])
        ids, lengths = [], []
        for words, side in zip(self.sides, self._order, strict=True):
            phrases = [line.pair[side] for line in chunk]
            lengths.append(np.fromiter(map(len, phrases), np.uint32, len(phrases)))
            running = [word for phrase in phrases for word in phrase]
            ids.append(words.add(running, np.repeat(counts, lengths[-1])))
        interleaved, positions = _interleave(ids, lengths)
        starts = np.concatenate([[0], np.cumsum(lengths[0] + lengths[1], dtype=np.int64)])
        hashes = _hashes(interleaved, positions, starts)
        self._fits += (np.maximum(*lengths) <= self._max_length).tobytes()
        for file, array in zip(
            self._files, (interleaved, np.stack(lengths, axis=1), hashes), strict=True
        ):
            file.write(array.tobytes())

    def __enter__(self) -> Self:
        """Leave the files open for :meth:`add`."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the files: nothing is added any more."""
        self._stack.close()

    def fits(self) -> Array:
        """Return whether both sides of each line are short enough, ``(lines,)``."""
        return np.frombuffer(self._fits, bool)

    def hashes(self) -> Array:
        """Return a hash of the pair of each line, ``(lines,)``, from the disk."""
        return np.memmap(self._paths[2], np.uint64, mode="r") if self.lines else np.zeros(0)

    def chunks(self) -> Iterator[tuple[slice, Array, Array]]:
        """Yield which lines, their lengths ``(lines, 2)`` and their provisional ids, in order."""
        with self._paths[0].open("rb") as words, self._paths[1].open("rb") as lengths:
            for start in range(0, self.lines, _CHUNK_BACK):
                part = np.fromfile(lengths, np.uint32, 2 * _CHUNK_BACK).reshape(-1, 2)
                yield (
                    slice(start, start + len(part)),
                    part,
                    np.fromfile(words, np.int32, int(part.sum(dtype=np.int64))),
                )

    def remove(self) -> None:
        """Remove the part files."""
        for path in self._paths:
            path.unlink()


def _interleave(ids: Sequence[Array], lengths: Sequence[Array]) -> tuple[Array, Array]:
    """Return each pair's source ids and then its target ids, and a number for each position.

    The number has the word's place in its phrase in the low bits, and the side above them.
    """
    source_lengths, target_lengths = (part.astype(np.int64) for part in lengths)
    source_before = np.cumsum(source_lengths) - source_lengths
    target_before = np.cumsum(target_lengths) - target_lengths
    source_shift = np.repeat(target_before, source_lengths)
    target_shift = np.repeat(source_before + source_lengths, target_lengths)
    source_running = np.arange(len(ids[0]))
    target_running = np.arange(len(ids[1]))
    mixed = np.empty(len(ids[0]) + len(ids[1]), np.int32)
    positions = np.empty(len(mixed), np.uint64)
    mixed[source_running + source_shift] = ids[0]
    mixed[target_running + target_shift] = ids[1]
    positions[source_running + source_shift] = source_running - np.repeat(
        source_before, source_lengths
    )
    positions[target_running + target_shift] = (
        target_running - np.repeat(target_before, target_lengths)
    ) + (1 << 31)
    return mixed, positions


def _hashes(ids: Array, positions: Array, starts: Array) -> Array:
    """Return a 64-bit hash of each pair: the sum of mixed (id, position) numbers, modulo 2^64."""
    mixed = mix((positions << np.uint64(32)) | ids.astype(np.uint64))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    hashes: Array = sums[starts[1:]] - sums[starts[:-1]]
    return hashes

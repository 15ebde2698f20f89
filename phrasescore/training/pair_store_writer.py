"""Make a pair store from a phrase table or parallel text that is read once, as a stream.

The words get provisional ids in the order of their appearance, because the shortlists are known
only at the end; a second pass, over arrays on disk, drops the duplicates and renumbers the rest.
In memory are the table's distinct words and a byte per pair; no pair is kept as an object.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from phrasescore.config.settings import VocabularyConfig
from phrasescore.errors import PhrasescoreError
from phrasescore.io.folders import writing_folder
from phrasescore.io.state import new_digest, write_state
from phrasescore.io.text import read_blocks, read_lines
from phrasescore.records import PhrasePair
from phrasescore.subwords import SubwordVocabulary
from phrasescore.training.pair_store import (
    AFFILIATIONS,
    RECORD,
    PairStore,
    PairStoreRecord,
    word_type,
)
from phrasescore.vocabulary import Vocabulary

# Lines that become arrays together: more of them fall out of the cache.
_CHUNK = 1 << 11
# Lines that are read back together.
_CHUNK_BACK = 1 << 15
# Hashes that are compared with one another at a time.
_HASHES = 1 << 23

Array = npt.NDArray[Any]


class CountedPair(NamedTuple):
    """A line of a table or of parallel text: its bytes, its pair, and how often it counts."""

    raw: bytes
    pair: PhrasePair
    weight: float
    # Of aligned text: the place in the source that each target word is affiliated with.
    affiliations: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Shortlist:
    """Where a side's vocabulary comes from: it is ready, or a corpus's, or (neither) the table's.

    :param origin: its name in the record.
    """

    origin: str = "table"
    vocabulary: Vocabulary | None = None
    counts: Mapping[str, float] | None = None

    @property
    def is_table(self) -> bool:
        """Whether it comes from the table itself."""
        return self.vocabulary is None and self.counts is None

    def build(
        self, table: Mapping[str, float], size: int, subwords: int = 0
    ) -> tuple[Vocabulary, float]:
        """Return the vocabulary, and its coverage of the text that it was made from.

        A ready vocabulary is measured on the table. A side without words has no subwords.

        :param size: of a shortlist.
        :param subwords: pieces in place of it; 0 for a shortlist.
        """
        counts = table if self.counts is None else self.counts
        vocabulary = self.vocabulary
        if vocabulary is None and subwords and counts:
            vocabulary = SubwordVocabulary.from_counts(counts, subwords)
        elif vocabulary is None:
            vocabulary = Vocabulary.from_counts(counts, size)
        return vocabulary, vocabulary.coverage(counts)


_TABLE = Shortlist()


def write_pair_store(
    folder: str | os.PathLike[str],
    lines: Iterable[CountedPair],
    sizes: VocabularyConfig,
    *,
    max_length: int,
    reverse: bool = False,
    right_to_left: bool = False,
    shortlists: tuple[Shortlist, Shortlist] = (_TABLE, _TABLE),
    distinct: bool = True,
) -> PairStore:
    """Make a pair store in ``folder``, which appears whole or not at all, and open it.

    Two lines are the same pair when the words of both sides are, by a hash of 64 bits: in a table
    of 100 million distinct pairs one is lost to it with a probability below 0.0003.

    :param lines: read once; whatever reading them raises is passed on.
    :param sizes: of the shortlists, or of the subwords; no matter where a vocabulary is ready.
    :param max_length: pairs with more words, or pieces of words, on either side are counted and not
        stored.
    :param reverse: read the table's target side and predict its source side.
    :param right_to_left: store the words of the predicted side with the last one first.
    :param shortlists: of the side that the network reads and of the one that it predicts.
    :param distinct: leave out repeated pairs; a language model learns how often a sentence comes,
        and so does a joint model.
    :raises PhrasescoreError: if no pair is left, or the folder cannot be written.
    """
    with writing_folder(folder) as new:
        table = TableSpool(new, max_length=max_length, reverse=reverse, right_to_left=right_to_left)
        reader = iter(lines)
        while chunk := list(islice(reader, _CHUNK)):
            table.add(chunk)
        keep = _distinct(table.hashes()) if distinct else np.ones(table.lines, bool)
        duplicates = int(table.lines - keep.sum())
        keep &= table.fits()
        if not keep.any():
            raise _no_pair(table.lines, max_length)
        built = [
            shortlist.build(side.counts(), size, sizes.subwords)
            for shortlist, side, size in zip(
                shortlists, table.sides, (sizes.source_size, sizes.target_size), strict=True
            )
        ]
        vocabularies = [vocabulary for vocabulary, _ in built]
        words = _write_arrays(new, table, keep, vocabularies, max_length)
        pairs = int(keep.sum())
        if not pairs:
            raise _no_pair(table.lines, max_length)
        table.remove()
        record = PairStoreRecord(
            lines=table.lines,
            pairs=pairs,
            duplicates=duplicates,
            too_long=table.lines - duplicates - pairs,
            max_length=max_length,
            words=words,
            fingerprint=table.fingerprint.hexdigest(),
            reverse=reverse,
            source_shortlist_from=shortlists[0].origin,
            target_shortlist_from=shortlists[1].origin,
            source_coverage=built[0][1],
            target_coverage=built[1][1],
            right_to_left=right_to_left,
        )
        write_state(new / RECORD, record)
    return PairStore(folder)


def _no_pair(lines: int, max_length: int) -> PhrasescoreError:
    return PhrasescoreError(
        f"no pair to train on: {lines} lines, none with at most {max_length} words per side "
        "(training.max_length)"
    )


def fingerprint_input(paths: Sequence[str]) -> str:
    """Return the fingerprint that a pair store of these files has in its record.

    They are decompressed and not parsed, about 20 times faster than making the store.

    :param paths: a phrase table, or the files of a parallel text, its alignments the last.
    :raises DataError: as :func:`phrasescore.io.text.read_blocks`.
    """
    digest = new_digest()
    if len(paths) == 1:
        last = b"\n"
        for block in read_blocks(paths[0]):
            digest.update(block)
            last = block[-1:]
        if last != b"\n":
            digest.update(b"\n")
    else:
        # As phrasescore.io.corpora joins the lines of a pair. That a file has more lines than the
        # other changes the digest, too.
        for lines in zip_longest(*map(read_lines, paths), fillvalue=b""):
            digest.update(b"%b\n" % b"\n".join(lines))
    return digest.hexdigest()


def _distinct(hashes: Array) -> Array:
    """Return, for each hash, whether it is the first of its value, ``(lines,)``."""
    first = np.zeros(len(hashes), bool)
    parts = -(-len(hashes) // _HASHES)
    for part in range(parts):
        chosen = np.arange(len(hashes)) if parts == 1 else _members(hashes, parts, part)
        first[chosen[np.unique(hashes[chosen], return_index=True)[1]]] = True
    return first


def _members(hashes: Array, parts: int, part: int) -> Array:
    """Return where the hashes are that leave ``part`` when divided by ``parts``, in order."""
    found = [
        start + np.flatnonzero(hashes[start : start + _HASHES] % np.uint64(parts) == part)
        for start in range(0, len(hashes), _HASHES)
    ]
    return np.concatenate(found)


def _write_arrays(
    folder: Path,
    table: "TableSpool",
    keep: Array,
    vocabularies: Sequence[Vocabulary],
    max_length: int,
) -> int:
    """Write the arrays of the pairs to keep, and the vocabularies; return their running words.

    :param keep: ``(lines,)``: pairs of too many pieces are taken out.
    """
    for vocabulary, name in zip(vocabularies, ("source.vocab", "target.vocab"), strict=True):
        vocabulary.save(folder / name)
    kind = word_type(len(vocabularies[0]), len(vocabularies[1]))
    pieces = [
        _Pieces.of(vocabulary, list(side.ids), kind, step)
        for side, vocabulary, step in zip(table.sides, vocabularies, table.steps, strict=True)
    ]
    end = 0
    with (
        (folder / "words.bin").open("wb") as words_file,
        (folder / "starts.bin").open("wb") as starts_file,
        (folder / "source_lengths.bin").open("wb") as lengths_file,
    ):
        starts_file.write(np.zeros(1, np.int64).tobytes())
        for chosen, lengths, ids, affiliations in table.chunks():
            is_target = _find_targets(lengths)
            # Pieces of each word, and of each side of each pair.
            sizes = np.empty(len(ids), np.int64)
            for number, place in enumerate((~is_target, is_target)):
                sizes[place] = pieces[number].sizes[ids[place]]
            ends = np.concatenate([[0], np.cumsum(sizes)])
            lengths_of_pieces = np.diff(ends[np.cumsum([0, *lengths.ravel()])]).reshape(-1, 2)
            keep[chosen] &= (lengths_of_pieces <= max_length).all(axis=1)
            kept = keep[chosen]
            kept_words = np.repeat(kept, lengths.sum(axis=1))
            if affiliations is not None:  # of whole words alone
                with (folder / AFFILIATIONS).open("ab") as file:
                    file.write(affiliations[kept_words].astype(np.uint16).tobytes())
            ids, is_target, sizes = ids[kept_words], is_target[kept_words], sizes[kept_words]
            is_target_piece = np.repeat(is_target, sizes)
            final = np.empty(len(is_target_piece), kind)
            final[~is_target_piece] = pieces[0].take(ids[~is_target])
            final[is_target_piece] = pieces[1].take(ids[is_target])
            lengths = lengths_of_pieces[kept]
            ends = end + np.cumsum(lengths.sum(axis=1))
            words_file.write(final.tobytes())
            starts_file.write(ends.tobytes())
            lengths_file.write(lengths[:, 0].astype(np.uint16).tobytes())
            end = int(ends[-1]) if len(ends) else end
    return end


class _Pieces(NamedTuple):
    """The ids of the pieces of one side's words, by the words' provisional ids."""

    ids: Array
    starts: Array
    sizes: Array

    @classmethod
    def of(cls, vocabulary: Vocabulary, words: Sequence[str], kind: Any, step: int) -> "_Pieces":
        """Return the pieces of some words.

        :param step: -1 for the last piece first.
        """
        split = vocabulary.split(words)
        ids = vocabulary.ids_of_pieces([piece for pieces in split for piece in pieces[::step]])
        sizes = np.fromiter(map(len, split), np.int64, len(split))
        return cls(np.array(ids, kind), np.cumsum(sizes) - sizes, sizes)

    def take(self, words: Array) -> Array:
        """Return the pieces of running words."""
        if len(self.ids) == len(self.sizes):  # each word is its own
            return self.ids[words]
        sizes = self.sizes[words]
        shifts = self.starts[words] - (np.cumsum(sizes) - sizes)
        found: Array = self.ids[np.arange(sizes.sum()) + np.repeat(shifts, sizes)]
        return found


def _find_targets(lengths: Array) -> Array:
    """Return which words are a target's, ``(words,)``, where each pair's follow its source's.

    :param lengths: of both sides of each pair, ``(pairs, 2)``.
    """
    return np.repeat(np.tile([False, True], len(lengths)), lengths.ravel())


class ProvisionalWords:
    """Provisional ids of one side's words, and the words' counts."""

    def __init__(self) -> None:
        ids: defaultdict[str, int] = defaultdict()
        # A new word gets the number of words so far.
        ids.default_factory = ids.__len__
        self.ids = ids
        self._counts: Array = np.zeros(0)

    def add(self, words: Sequence[str], weights: Array) -> Array:
        """Return the ids of running words, each of which counts ``weights``."""
        ids = np.fromiter(map(self.ids.__getitem__, words), np.int32, len(words))
        self._counts = np.pad(self._counts, (0, len(self.ids) - len(self._counts)))
        np.add.at(self._counts, ids, weights)
        return ids

    def counts(self) -> dict[str, float]:
        """Return the count of each word."""
        return dict(zip(self.ids, self._counts.tolist(), strict=True))


class TableSpool:
    """The first pass: the table as provisional ids, lengths and hashes in part files."""

    def __init__(
        self, folder: Path, *, max_length: int, reverse: bool, right_to_left: bool
    ) -> None:
        self.lines = 0
        self._max_length = max_length
        self._fits = bytearray()
        self.fingerprint = new_digest()
        self.sides = (ProvisionalWords(), ProvisionalWords())
        self._order = (1, 0) if reverse else (0, 1)
        # Of the words of the side that is read, and of the predicted one.
        self.steps = (1, -1 if right_to_left else 1)
        self._words, self._lengths, self._hashes, self._affiliations = self._paths = [
            folder / f"{name}.part" for name in ("words", "lengths", "hashes", "affiliations")
        ]

    def add(self, chunk: Sequence[CountedPair]) -> None:
        """Append some lines of the table."""
        self.lines += len(chunk)
        self.fingerprint.update(b"".join([b"%b\n" % line.raw for line in chunk]))
        weights = np.array([line.weight for line in chunk])
        lengths = np.empty((len(chunk), 2), np.int64)
        ids = []
        for words, side, step, of_side in zip(
            self.sides, self._order, self.steps, lengths.T, strict=True
        ):
            phrases = [line.pair[side] for line in chunk]
            of_side[:] = np.fromiter(map(len, phrases), np.int64, len(phrases))
            running = [word for phrase in phrases for word in phrase[::step]]
            ids.append(words.add(running, np.repeat(weights, of_side)))
        is_target = _find_targets(lengths)
        mixed = np.empty(len(is_target), np.int32)
        mixed[~is_target], mixed[is_target] = ids
        self._fits += (lengths.max(axis=1) <= self._max_length).tobytes()
        # Python's hash of text is a keyed one of 64 bits (SipHash).
        hashes = np.fromiter((hash(line.pair) for line in chunk), np.int64, len(chunk))
        arrays: list[Array] = [mixed, lengths.astype(np.uint32), hashes]
        found = [line.affiliations for line in chunk if line.affiliations is not None]
        if found:  # of all lines, or of none
            affiliations = np.zeros(len(is_target), np.int32)
            affiliations[is_target] = np.fromiter(chain.from_iterable(found), np.int32)
            arrays.append(affiliations)
        for path, array in zip(self._paths, arrays, strict=False):
            with path.open("ab") as file:
                file.write(array.tobytes())

    def fits(self) -> Array:
        """Return whether both sides of each line are short enough, ``(lines,)``."""
        return np.frombuffer(self._fits, bool)

    def hashes(self) -> Array:
        """Return a hash of the pair of each line, ``(lines,)``, from the disk."""
        return np.memmap(self._hashes, np.uint64, mode="r") if self.lines else np.zeros(0)

    def chunks(self) -> Iterator[tuple[slice, Array, Array, Array | None]]:
        """Yield which lines, their lengths ``(lines, 2)``, provisional ids and affiliations."""
        with ExitStack() as stack:
            words, lengths = (
                stack.enter_context(path.open("rb")) for path in (self._words, self._lengths)
            )
            aligned = None
            if self._affiliations.exists():
                aligned = stack.enter_context(self._affiliations.open("rb"))
            for start in range(0, self.lines, _CHUNK_BACK):
                part = np.fromfile(lengths, np.uint32, 2 * _CHUNK_BACK).astype(np.int64)
                part = part.reshape(-1, 2)
                chosen, size = slice(start, start + len(part)), part.sum()
                affiliations = None if aligned is None else np.fromfile(aligned, np.int32, size)
                yield chosen, part, np.fromfile(words, np.int32, size), affiliations

    def remove(self) -> None:
        """Remove the part files."""
        for path in self._paths:
            path.unlink(missing_ok=True)

"""Write a pair store from a phrase table or parallel text, which is read once as a stream.

The first pass assigns provisional ids to words, because the shortlists are known only at the end.
The second pass, over arrays on disk, removes duplicates and long pairs and renumbers the words.
Only the table's distinct words and a byte per pair are in memory.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from phrasescore.arguments import StrPath
from phrasescore.errors import PhrasescoreError
from phrasescore.io.folders import writing_folder
from phrasescore.io.journal import new_digest, write_journal
from phrasescore.io.ragged import Array, Indices, RaggedArray, map_array
from phrasescore.io.text import read_blocks, read_lines
from phrasescore.records import PhrasePair
from phrasescore.settings.config import VocabularyConfig
from phrasescore.training.stores import (
    AFFILIATIONS,
    RECORD,
    SIDES,
    STARTS,
    VOCABULARY,
    WORDS,
    PairStore,
    PairStoreRecord,
    word_type,
)
from phrasescore.training.subword_dropout import CHARACTERS, TOKENS, character_ids, starts_path
from phrasescore.vocabulary import SubwordVocabulary, Vocabulary

# Number of lines that are converted to arrays together; more do not fit into the processor's cache.
_CHUNK = 1 << 11
# Number of lines that are read back together.
_CHUNK_BACK = 1 << 15
# Number of hashes that are compared at a time.
_HASHES = 1 << 23


class CountedPair(NamedTuple):
    """A line of a table or of parallel text: its bytes, its pair, and the count of the pair."""

    raw: bytes
    pair: PhrasePair
    weight: float
    # For aligned text, the position of the source word with which each target word is affiliated.
    affiliations: tuple[int, ...] | None = None


def write_pair_store(
    folder: StrPath,
    lines: Iterable[CountedPair],
    sizes: VocabularyConfig,
    *,
    max_length: int,
    reverse: bool = False,
    right_to_left: bool = False,
    distinct: bool = True,
    keep_words: bool = False,
) -> PairStore:
    """Write a pair store to ``folder``, which appears whole or not at all, and open it.

    Equal pairs are detected by a 64-bit hash: in a table with 100 million distinct pairs, the
    probability of losing a pair is below 0.0003.

    :param max_length: pairs with more words, or pieces of words, on either side are omitted.
    :param reverse: read the table's target side and predict its source side.
    :param right_to_left: store the words on the predicted side in reverse order.
    :param distinct: omit repeated pairs.
    :param keep_words: also store which words the pieces are from, for `SplitStore`.
    """
    with writing_folder(folder) as new:
        table = TableSpool(new, reverse=reverse, right_to_left=right_to_left)
        reader = iter(lines)
        while chunk := list(islice(reader, _CHUNK)):
            table.add(chunk)
        is_kept = table.find_distinct() if distinct else np.ones(table.lines, bool)
        duplicates = int(table.lines - is_kept.sum())
        for side, size in zip(table.sides, (sizes.source_size, sizes.target_size), strict=True):
            side.choose_vocabulary(size, sizes.subwords)
        _write_arrays(new, table, is_kept, max_length)
        pairs = int(is_kept.sum())
        if not pairs:
            raise PhrasescoreError(
                f"no pair to train on: {table.lines} lines, none with at most {max_length} words "
                "per side (training.max_length)"
            )
        if keep_words:
            for side in table.sides:
                if side.vocabulary.is_subwords:
                    side.write_words(np.flatnonzero(is_kept))
        table.remove_files()
        record = PairStoreRecord(
            lines=table.lines,
            pairs=pairs,
            duplicates=duplicates,
            too_long=table.lines - duplicates - pairs,
            max_length=max_length,
            fingerprint=table.fingerprint.hexdigest(),
            reverse=reverse,
            source_coverage=table.sides[0].coverage,
            target_coverage=table.sides[1].coverage,
            right_to_left=right_to_left,
        )
        write_journal(new / RECORD, record)
    return PairStore(folder)


def build_vocabulary(counts: Mapping[str, float], size: int, subwords: int) -> Vocabulary:
    """Return the vocabulary of a side.

    :param subwords: number of subwords to learn instead; 0 for a shortlist.
    """
    if subwords and counts:
        return SubwordVocabulary.from_counts(counts, subwords)
    return Vocabulary.from_counts(counts, size)


def fingerprint_input(paths: Sequence[str], *, is_parallel: bool = True) -> str:
    """Return the fingerprint of a pair store that is written from these files.

    :param paths: a phrase table, or the files of a parallel text and of its alignments.
    :param is_parallel: False for texts of a language model, which follow one another.
    """
    digest = new_digest()
    if len(paths) == 1 or not is_parallel:
        for path in paths:
            last = b"\n"
            for block in read_blocks(path):
                digest.update(block)
                last = block[-1:]
            if last != b"\n":
                digest.update(b"\n")
    else:
        # phrasescore.io.corpora joins the lines of a pair like this. Additional lines of one file
        # change the digest, too.
        for lines in zip_longest(*map(read_lines, paths), fillvalue=b""):
            digest.update(b"%b\n" % b"\n".join(lines))
    return digest.hexdigest()


def _write_arrays(folder: Path, table: "TableSpool", is_kept: Array, max_length: int) -> None:
    """Write the pairs to keep and the vocabularies.

    :param is_kept: ``(lines,)``; set to False for pairs that are too long.
    """
    for spool in table.sides:
        spool.vocabulary.save(folder / f"{spool.name}{VOCABULARY}")
    pieces = [side.split_words() for side in table.sides]
    words = [side.words() for side in table.sides]
    affiliations = table.affiliations()
    files = [
        _RowsFile(
            folder / f"{side.name}{WORDS}",
            folder / f"{side.name}{STARTS}",
            word_type(len(side.vocabulary)),
        )
        for side in table.sides
    ]
    for first in range(0, table.lines, _CHUNK_BACK):
        lines = np.arange(first, min(first + _CHUNK_BACK, table.lines))
        sides = [side.take(lines).expand(split) for side, split in zip(words, pieces, strict=True)]
        for side in sides:
            is_kept[lines] &= side.lengths <= max_length
        rows = np.flatnonzero(is_kept[lines])
        for file, side in zip(files, sides, strict=True):
            file.append(side.take(rows))
        if affiliations is not None:  # words are not split into pieces
            kept = affiliations.take(lines[rows])
            _append(folder / f"target{AFFILIATIONS}", kept.values.astype(np.uint16))


class _RowsFile:
    def __init__(self, values: Path, starts: Path, kind: type[np.generic]) -> None:
        self._values, self._starts, self._kind = values, starts, kind
        self._num_values = 0
        _append(values, np.zeros(0, kind))
        _append(starts, np.zeros(1, np.int64))

    def append(self, rows: RaggedArray) -> None:
        _append(self._values, rows.values.astype(self._kind))
        _append(self._starts, rows.starts[1:] + self._num_values)
        self._num_values += len(rows.values)


class SideSpool:
    """The first pass over one side: part files with provisional ids, and word counts.

    :param step: -1 to store each phrase in reverse order, otherwise 1.
    :ivar vocabulary: the words that the network will know; see `choose_vocabulary`.
    :ivar coverage: their share of the running words.
    """

    vocabulary: Vocabulary
    coverage: float

    def __init__(self, folder: Path, name: str, step: int) -> None:
        ids: defaultdict[str, int] = defaultdict()
        # The id of a new word is the number of words so far.
        ids.default_factory = ids.__len__
        self._ids, self._step, self._folder, self.name = ids, step, folder, name
        self._counts: Array = np.zeros(0)
        self.paths = [folder / f"{name}.{part}.part" for part in ("words", "starts")]
        self._file = _RowsFile(self.paths[0], self.paths[1], np.int32)

    def add(self, phrases: Sequence[Sequence[str]], weights: Array) -> None:
        """Append phrases; each word adds its phrase's weight to the word's count."""
        lengths = np.fromiter(map(len, phrases), np.int64, len(phrases))
        words = [word for phrase in phrases for word in phrase[:: self._step]]
        ids = np.fromiter(map(self._ids.__getitem__, words), np.int32, len(words))
        self._counts = np.pad(self._counts, (0, len(self._ids) - len(self._counts)))
        np.add.at(self._counts, ids, np.repeat(weights, lengths))
        self._file.append(RaggedArray.from_lengths(ids, lengths))

    def words(self) -> RaggedArray:
        """Return the provisional word ids of all phrases."""
        return RaggedArray(map_array(self.paths[0], np.int32), map_array(self.paths[1], np.int64))

    def choose_vocabulary(self, size: int, subwords: int) -> None:
        """Build the vocabulary from the counts of all words; see `build_vocabulary`."""
        counts = dict(zip(self._ids, self._counts.tolist(), strict=True))
        self.vocabulary = build_vocabulary(counts, size, subwords)
        self.coverage = self.vocabulary.coverage(counts)

    def split_words(self) -> RaggedArray:
        """Return the piece ids of each word, indexed by the word's provisional id."""
        ids_of, split = self.vocabulary.ids_of_pieces, self.vocabulary.split(list(self._ids))
        return RaggedArray.from_rows([ids_of(pieces[:: self._step]) for pieces in split])

    def write_words(self, lines: Indices) -> None:
        """Write the words of the phrases on these lines, and their characters; see `SplitStore`."""
        tokens = self._folder / f"{self.name}{TOKENS}"
        characters = self._folder / f"{self.name}{CHARACTERS}"
        words, file = self.words(), _RowsFile(tokens, starts_path(tokens), np.int32)
        for first in range(0, len(lines), _CHUNK_BACK):
            file.append(words.take(lines[first : first + _CHUNK_BACK]))
        file = _RowsFile(characters, starts_path(characters), word_type(len(self.vocabulary)))
        file.append(character_ids(list(self._ids), self.vocabulary))


class TableSpool:
    """The first pass over a table: both sides, and a hash of each line."""

    def __init__(self, folder: Path, *, reverse: bool, right_to_left: bool) -> None:
        self.lines = 0
        self.fingerprint = new_digest()
        self._order = (1, 0) if reverse else (0, 1)
        steps = (1, -1 if right_to_left else 1)
        self.sides = [SideSpool(folder, *each) for each in zip(SIDES, steps, strict=True)]
        self._hashes, self._affiliations = (
            folder / f"{n}.part" for n in ("hashes", "affiliations")
        )

    def add(self, chunk: Sequence[CountedPair]) -> None:
        """Append a chunk of lines."""
        self.lines += len(chunk)
        self.fingerprint.update(b"".join([b"%b\n" % line.raw for line in chunk]))
        weights = np.array([line.weight for line in chunk])
        for side, number in zip(self.sides, self._order, strict=True):
            side.add([line.pair[number] for line in chunk], weights)
        # Python's hash of text is a keyed one of 64 bits (SipHash).
        _append(self._hashes, np.fromiter((hash(line.pair) for line in chunk), np.int64))
        aligned = [line.affiliations for line in chunk if line.affiliations is not None]
        if aligned:  # all lines have affiliations, or none
            _append(self._affiliations, np.fromiter(chain.from_iterable(aligned), np.int32))

    def affiliations(self) -> RaggedArray | None:
        """Return the affiliations of each line's target words, or None without alignments."""
        if not self._affiliations.exists():
            return None
        return RaggedArray(map_array(self._affiliations, np.int32), self.sides[1].words().starts)

    def find_distinct(self) -> Array:
        """Return whether each line is the first one with its pair, ``(lines,)``."""
        is_first = np.zeros(self.lines, bool)
        hashes = map_array(self._hashes, np.uint64) if self.lines else np.zeros(0, np.uint64)
        parts = -(-self.lines // _HASHES)
        starts = range(0, self.lines, _HASHES)
        for part in range(parts):
            # Equal hashes are in the same part.
            members = [
                start + np.flatnonzero(hashes[start : start + _HASHES] % np.uint64(parts) == part)
                for start in starts
            ]
            chosen = np.concatenate(members)
            is_first[chosen[np.unique(hashes[chosen], return_index=True)[1]]] = True
        return is_first

    def remove_files(self) -> None:
        """Remove the part files."""
        for path in (*self.sides[0].paths, *self.sides[1].paths, self._hashes, self._affiliations):
            path.unlink(missing_ok=True)


def _append(path: Path, numbers: Array) -> None:
    with path.open("ab") as file:
        file.write(numbers.tobytes())

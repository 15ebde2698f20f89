"""Make a pair store from a phrase table or parallel text that is read once, as a stream.

The words get provisional ids in the order of their appearance, because the shortlists are known
only at the end; a second pass, over arrays on disk, drops the duplicates and renumbers the rest.
In memory are the table's distinct words and a byte a pair; no pair is kept as an object.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np

from phrasescore.config.settings import VocabularyConfig
from phrasescore.errors import PhrasescoreError
from phrasescore.io.digests import new_digest
from phrasescore.io.folders import writing_folder
from phrasescore.io.text import read_blocks, read_lines
from phrasescore.training.pair_store import PairStore, PairStoreRecord, word_type, write_record
from phrasescore.training.table_spool import CHUNK, Array, CountedPair, TableSpool
from phrasescore.vocabulary import Vocabulary

# Hashes that are compared with one another at a time.
_HASHES = 1 << 23


@dataclass(frozen=True)
class Shortlist:
    """Where a side's vocabulary comes from: it is ready, or a corpus's, or (neither) the table's.

    :param origin: what the record calls it.
    """

    origin: str = "table"
    vocabulary: Vocabulary | None = None
    counts: Mapping[str, float] | None = None

    @property
    def is_table(self) -> bool:
        """Whether it comes from the table itself."""
        return self.vocabulary is None and self.counts is None

    def build(self, table: Mapping[str, float], size: int) -> tuple[Vocabulary, float]:
        """Return the vocabulary, and its coverage of what it was made from.

        A ready vocabulary is measured on the table.
        """
        counts = table if self.counts is None else self.counts
        vocabulary = self.vocabulary or Vocabulary.from_counts(counts, size)
        return vocabulary, vocabulary.coverage(counts)


_TABLE = Shortlist()


def write_pair_store(
    folder: str | os.PathLike[str],
    lines: Iterable[CountedPair],
    sizes: VocabularyConfig,
    *,
    max_length: int,
    reverse: bool = False,
    shortlists: tuple[Shortlist, Shortlist] = (_TABLE, _TABLE),
    distinct: bool = True,
) -> PairStore:
    """Make a pair store in ``folder``, which appears whole or not at all, and open it.

    Two lines are the same pair when the words of both sides are, by a hash of 64 bits: in a table
    of 100 million distinct pairs one is lost to it with a probability below 0.0003.

    :param lines: read once; whatever reading them raises is passed on.
    :param sizes: of the shortlists; no matter where a vocabulary is ready.
    :param max_length: pairs with more words on a side are counted and not stored.
    :param reverse: read the table's target side and predict its source side.
    :param shortlists: of the side that the network reads and of the one that it predicts.
    :param distinct: leave out what was there before; a language model learns how often it comes.
    :raises PhrasescoreError: if no pair is left, or the folder cannot be written.
    """
    with writing_folder(folder) as new:
        table = TableSpool(new, max_length=max_length, reverse=reverse)
        with table:
            for chunk in _chunks(lines):
                table.add(chunk)
        keep = _distinct(table.hashes()) if distinct else np.ones(table.lines, bool)
        duplicates = int(table.lines - keep.sum())
        keep &= table.fits()
        pairs = int(keep.sum())
        if pairs == 0:
            raise PhrasescoreError(
                f"no pair to train on: {table.lines} lines, none with at most {max_length} words "
                "a side (training.max_length)"
            )
        built = [
            shortlist.build(side.counts(), size)
            for shortlist, side, size in zip(
                shortlists, table.sides, (sizes.source_size, sizes.target_size), strict=True
            )
        ]
        words = _write_arrays(new, table, keep, [vocabulary for vocabulary, _ in built])
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
        )
        write_record(new, record)
    return PairStore(folder)


def _chunks(lines: Iterable[CountedPair]) -> Iterator[list[CountedPair]]:
    reader = iter(lines)
    while chunk := list(islice(reader, CHUNK)):
        yield chunk


def fingerprint_input(paths: Sequence[str]) -> str:
    """Return the fingerprint that a pair store of these files has in its record.

    They are decompressed and not parsed, about 20 times faster than making the store.

    :param paths: a phrase table, or the two files of a parallel text.
    :raises DataError: as :func:`phrasescore.io.text.read_blocks`.
    """
    if len(paths) == 1:
        return _fingerprint_table(paths[0])
    digest = new_digest()
    # As phrasescore.io.corpora joins the lines of a pair. That a file has more lines than the
    # other changes the digest, too.
    for lines in zip_longest(*map(read_lines, paths), fillvalue=b""):
        digest.update(b"%b\n" % b"\n".join(lines))
    return digest.hexdigest()


def _fingerprint_table(path: str) -> str:
    digest = new_digest()
    last = b"\n"
    for block in read_blocks(path):
        digest.update(block)
        last = block[-1:]
    if last != b"\n":
        digest.update(b"\n")
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
    folder: Path, table: TableSpool, keep: Array, vocabularies: Sequence[Vocabulary]
) -> int:
    """Write the arrays of the pairs to keep, and the vocabularies; return their running words."""
    maps = [
        side.ids_in(vocabulary) for side, vocabulary in zip(table.sides, vocabularies, strict=True)
    ]
    for vocabulary, name in zip(vocabularies, ("source.vocab", "target.vocab"), strict=True):
        vocabulary.save(folder / name)
    kind = word_type(len(vocabularies[0]), len(vocabularies[1]))
    end = 0
    with (
        (folder / "words.bin").open("wb") as words_file,
        (folder / "starts.bin").open("wb") as starts_file,
        (folder / "source_lengths.bin").open("wb") as lengths_file,
    ):
        starts_file.write(np.zeros(1, np.int64).tobytes())
        for chosen, lengths, ids in table.chunks():
            kept = keep[chosen]
            is_target = np.repeat(np.tile([False, True], len(lengths)), lengths.ravel())
            in_kept = np.repeat(kept, lengths.sum(axis=1, dtype=np.int64))
            ids, is_target = ids[in_kept], is_target[in_kept]
            final = np.empty(len(ids), kind)
            final[~is_target] = maps[0][ids[~is_target]]
            final[is_target] = maps[1][ids[is_target]]
            ends = end + np.cumsum(lengths[kept].sum(axis=1, dtype=np.int64))
            words_file.write(final.tobytes())
            starts_file.write(ends.tobytes())
            lengths_file.write(lengths[kept, 0].astype(np.uint16).tobytes())
            end = int(ends[-1]) if len(ends) else end
    return end

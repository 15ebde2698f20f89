"""Read phrase pairs from the phrase table and the reordering table.

Lines are found by key: the hash of the first field (a source phrase) or of the first two (a phrase
pair), as in `moses_integration.source_text`. Compiled code reads the keys, regardless of the blanks
between words.
"""

import math
import mmap
import re
import tempfile
from array import array
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from moses_integration.alignments import Affiliations, affiliate_phrase, check_links
from moses_integration.decoder import configuration as kinds
from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.source_text import read_key
from moses_integration.table_line import FLOAT32_OVERFLOW, LOWEST_LOG, check_no_rules
from phrasescore.errors import DataError
from phrasescore.io.hashing import EMPTY, add_key, find, make_table
from phrasescore.io.kernel_cache import kept_njit
from phrasescore.io.text import NUMBER, decode, read_blocks, shorten
from phrasescore.records import join_words

_KERNEL = kept_njit()

_NUMBER = NUMBER.encode()
_NUMBERS = re.compile(rb"[ \t]*(?:" + _NUMBER + rb"[ \t\r]+)*" + _NUMBER + rb"[ \t\r]*")


class PhraseAlignment(NamedTuple):
    """The word alignment of a phrase pair; equal ones are shared."""

    text: bytes  # as in the file, "0-0 1-2"; empty for none
    # The source word that each target word is affiliated with; None if not requested.
    affiliations: Affiliations | None


class PhrasePairs(NamedTuple):
    """Phrase pairs with feature values and without weights.

    They are grouped by source phrase, in file order within each group.
    """

    sources: list[bytes]  # each source phrase once, UTF-8, with single spaces between words
    starts: Any  # int64 (sources + 1,): where the pairs of each source begin
    targets: list[bytes]  # the target phrase of each pair, in the same form
    alignments: list[PhraseAlignment]
    values: Any  # float64 (pairs, columns): the stateless features, in the order of the slots
    reordering: Any  # float64 (pairs, 6): natural logarithms; 0 until `PhraseTables.reorder`

    def keys(self) -> list[bytes]:
        """Return each pair as ``source|||target``."""
        rows = np.repeat(np.arange(len(self.sources)), np.diff(self.starts)).tolist()
        sources = (self.sources[row] for row in rows)
        return list(map(b"%b|||%b".__mod__, zip(sources, self.targets, strict=True)))

    def take(self, sources: list[bytes], rows: Sequence[int], starts: Any) -> "PhrasePairs":
        """Return the pairs in some rows, given their source phrases and where these begin."""
        return PhrasePairs(
            sources,
            starts,
            [self.targets[row] for row in rows],
            [self.alignments[row] for row in rows],
            self.values[rows],
            self.reordering[rows],
        )


def join_pairs(parts: Sequence[PhrasePairs]) -> PhrasePairs:
    """Return the pairs of all parts, at least one, which have different source phrases."""
    sizes = np.concatenate([np.diff(part.starts) for part in parts])
    return PhrasePairs(
        list(chain.from_iterable(part.sources for part in parts)),
        np.concatenate([[0], np.cumsum(sizes)]),
        list(chain.from_iterable(part.targets for part in parts)),
        list(chain.from_iterable(part.alignments for part in parts)),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.reordering for part in parts]),
    )


class PhraseTables:
    """Finds phrase pairs in the phrase table and the reordering table of a moses.ini.

    :param aligned: whether the affiliations of the words are needed.
    """

    def __init__(
        self, configuration: DecoderConfiguration, *, aligned: bool, indexed: bool
    ) -> None:
        self._aligned, self._drop_unknown = aligned, configuration.search.drop_unknown
        self._slots = [slot for slot in configuration.slots if slot.kind in kinds.STATELESS]
        table, order = configuration.slot(kinds.PHRASE_TABLE), configuration.find(kinds.REORDERING)
        self._num_scores = len(table.weights)
        self._table = TableLines(table.arguments["path"], 1, indexed=indexed)
        self._orders: TableLines | None = None
        if order is not None:
            # The logarithms of the scores of pairs that are missing from the table.
            scores = order.arguments["default-scores"].split(",")
            self._default = [math.log(float(score)) for score in scores]
            self._orders = TableLines(order.arguments["path"], 2, indexed=indexed)

    def copied(self, words: list[bytes]) -> PhrasePairs:
        """Return a pair for each of the words, which are not in the phrase table.

        A word is copied to the target, or dropped with ``[drop-unknown]``
        (TranslationOptionCollection::ProcessOneUnknownWord).
        """
        targets = [
            b"" if self._drop_unknown and re.search(b"[0-9]", word) is None else word
            for word in words
        ]
        return self._make_pairs(
            words,
            np.arange(len(words) + 1),
            targets,
            [PhraseAlignment(b"0-0" * bool(each), (0,) * bool(each)) for each in targets],
            np.zeros((len(words), self._num_scores)),
            unknown_words=LOWEST_LOG,
        )

    def pairs(self, phrases: Any) -> PhrasePairs:
        """Return the pairs of source phrases, without reordering scores."""
        path = self._table.path
        group_of: dict[bytes, int] = {}
        groups, scores = array("q"), array("d")
        targets: list[bytes] = []
        known: dict[bytes, bytes] = {}
        alignments: list[PhraseAlignment] = []
        known_alignments: dict[tuple[bytes, int, int], PhraseAlignment] = {}
        field = source = b""
        for number, line in self._table.find(phrases):
            fields = line.removesuffix(b"\r").split(b"|||", 4)
            if len(fields) < 3:
                problem = f"expected at least 3 fields separated by '|||', found {len(fields)}"
                raise DataError(path, number, f"{problem}: {shorten(line)}")
            if fields[0] != field:  # most lines have the source phrase of the line before
                field, source = fields[0], join_words(fields[0])
            target = join_words(fields[1])
            if target not in known:
                _check_target(path, number, target)
            scores.extend(_parse_probabilities(path, number, fields[2], self._num_scores))
            targets.append(known.setdefault(target, target))
            text = join_words(fields[3]) if len(fields) > 3 else b""
            key = (text, source.count(b" ") + 1, target.count(b" ") + 1)
            if key not in known_alignments:
                check_links(text, path, number)
                affiliations = affiliate_phrase(*key, path, number) if self._aligned else None
                known_alignments[key] = PhraseAlignment(text, affiliations)
            alignments.append(known_alignments[key])
            groups.append(group_of.setdefault(source, len(group_of)))
        order = np.argsort(np.array(groups), kind="stable")
        sizes = np.bincount(np.array(groups), minlength=len(group_of))
        return self._make_pairs(
            list(group_of),
            np.concatenate([[0], np.cumsum(sizes)]),
            [targets[row] for row in order],
            [alignments[row] for row in order],
            log_of(np.array(scores).reshape(-1, self._num_scores))[order],
        )

    def _make_pairs(
        self,
        sources: list[bytes],
        starts: Any,
        targets: list[bytes],
        alignments: list[PhraseAlignment],
        log_probs: Any,
        unknown_words: float = 0.0,
    ) -> PhrasePairs:
        """Return pairs with the values of all stateless features.

        :param log_probs: float64 (pairs, scores): the scores in the table, natural logarithms.
        """
        lengths = [target.count(b" ") + 1 if target else 0 for target in targets]
        values = {
            kinds.PHRASE_TABLE: log_probs,
            kinds.WORDS: -np.array(lengths, np.int64)[:, None],
            kinds.PHRASES: np.ones((len(targets), 1)),
            kinds.UNKNOWN_WORDS: np.full((len(targets), 1), unknown_words),
        }
        return PhrasePairs(
            sources,
            starts,
            targets,
            alignments,
            np.hstack([values[slot.kind] for slot in self._slots]),
            np.zeros((len(targets), kinds.NUM_REORDERING_SCORES)),
        )

    def reorder(self, pairs: PhrasePairs) -> PhrasePairs:
        """Return the pairs with their scores in the reordering table, if there is one.

        If a pair has several lines, the last one is used, as in Moses
        (LexicalReorderingTableMemory::LoadFromFile).
        """
        if self._orders is None:
            return pairs
        path, size, keys = self._orders.path, len(self._default), pairs.keys()
        latest = dict.fromkeys(keys, 0)  # the number of the pair's last line; 0 for none
        scores = array("d")
        for number, line in self._orders.find(keys_of(latest, 2)):
            fields = line.split(b"|||")
            if len(fields) != 3:
                problem = "expected 'source ||| target ||| scores'"
                raise DataError(path, number, f"{problem}, found {shorten(line)}")
            key = b"%b|||%b" % (join_words(fields[0]), join_words(fields[1]))
            values = _parse_probabilities(path, number, fields[2], size)
            if key in latest:  # always, except on a hash collision between two pairs
                scores.extend(values)
                latest[key] = len(scores) // size
        logs = np.concatenate([[self._default], log_of(np.array(scores).reshape(-1, size))])
        return pairs._replace(reordering=logs[[latest[key] for key in keys]])


def _check_target(path: str, number: int, target: bytes) -> None:
    if not target:
        raise DataError(path, number, "expected a target phrase, found none")
    if b"|" in target:
        problem = f"expected words without factors, found {shorten(target)}"
        raise DataError(path, number, f"{problem}; write &#124; for '|' in a word")
    decode(path, number, target)


def _parse_probabilities(path: str, number: int, field: bytes, how_many: int) -> list[float]:
    if _NUMBERS.fullmatch(field) is None:
        raise DataError(path, number, f"expected numbers as scores, found {shorten(field)}")
    values = list(map(float, field.split()))
    if len(values) != how_many:
        raise DataError(path, number, f"expected {how_many} scores, found {len(values)}")
    if min(values) < 0 or max(values) >= FLOAT32_OVERFLOW:
        problem = "expected probabilities that are 0 or more and within the range of float32"
        raise DataError(path, number, f"{problem}; found {shorten(field.strip())}")
    return values


def log_of(probabilities: Any) -> Any:
    """Return natural logarithms as Moses computes them: from float32 numbers, floored at -100."""
    with np.errstate(divide="ignore", under="ignore"):
        logs = np.log(probabilities.astype(np.float32).astype(np.float64))
    return np.maximum(logs, LOWEST_LOG)


class TableLines:
    """Finds the lines of a table by key.

    :param num_fields: number of fields in a key.
    :param indexed: whether the table is read once, to find lines again and again. Its lines are
        then copied to a file without a name, which is mapped into memory, so that processes share
        them and the system can page them out. Otherwise each search reads the table.
    """

    def __init__(self, path: str, num_fields: int, *, indexed: bool = False) -> None:
        self.path, self._num_fields = path, num_fields
        self._text: mmap.mmap | bytes | None = None
        if indexed:
            self._make_index()

    def _make_index(self) -> None:
        parts, size = [np.empty((0, 4), np.uint64)], 0
        try:
            with tempfile.TemporaryFile() as copy:
                for block, runs in self._scan(None):
                    runs[:, 1:3] += np.uint64(size)
                    size += copy.write(block)
                    parts.append(runs)
                copy.flush()
                self._text = mmap.mmap(copy.fileno(), size, prot=mmap.PROT_READ) if size else b""
        except OSError as error:
            folder = tempfile.gettempdir()
            problem = f"cannot copy the table to {folder}: {error.strerror} (set TMPDIR)"
            raise DataError(self.path, None, problem) from error
        runs = np.concatenate(parts)
        # Runs with equal keys stay in the order of the file.
        self._runs = runs[np.argsort(runs[:, 0], kind="stable")]
        self._keys = np.ascontiguousarray(self._runs[:, 0])

    def find(self, keys: Any) -> Iterator[tuple[int, bytes]]:
        """Yield (1-based number, text) of each line with one of the keys, in the table's order.

        :param keys: a hash table of keys, from `keys_of` or `source_text.keys_of_sentences`.
        """
        found = self._scan(keys) if self._text is None else [(self._text, self._look_up(keys))]
        for text, runs in found:
            for start, end, number in runs[:, 1:].tolist():
                yield from enumerate(text[start:end].split(b"\n"), start=number)

    def _look_up(self, keys: Any) -> Any:
        wanted = keys[keys[:, 0] != EMPTY, 0]
        first = np.searchsorted(self._keys, wanted, "left").tolist()
        after = np.searchsorted(self._keys, wanted, "right").tolist()
        runs = self._runs[list(chain.from_iterable(map(range, first, after)))]
        return runs[np.argsort(runs[:, 3], kind="stable")]

    def _scan(self, keys: Any | None) -> Iterator[tuple[bytes, Any]]:
        """Yield the blocks of the table, and their runs of lines with one of the keys.

        A run is a row of uint64: the key, the start, the end, and the number of its first line.
        """
        number = 1
        wanted = make_table(0) if keys is None else keys
        for block in read_blocks(self.path):
            if number == 1:
                check_no_rules(self.path, block)
            text = np.frombuffer(block, np.uint8)
            runs, lines, broken = _list_runs(text, self._num_fields, wanted, keys is None)
            runs[:, 3] += np.uint64(number)
            yield block, runs
            number += lines
            if broken >= 0:
                found = shorten(block[broken:].partition(b"\n")[0])
                problem = f"expected at least {self._num_fields + 1} fields separated by '|||'"
                raise DataError(self.path, number, f"{problem}, found {found}")


def keys_of(phrases: Collection[bytes], num_fields: int) -> Any:
    """Return a hash table of the keys of source phrases, or of pairs as ``source|||target``."""
    keys = make_table(len(phrases))
    text = b"|||\n".join([*phrases, b""])
    _add_keys(np.frombuffer(text, np.uint8), num_fields, keys)
    return keys


@_KERNEL
def _add_keys(text: Any, num_fields: int, keys: Any) -> None:
    position = 0
    while position < len(text):
        key, _, position = read_key(text, position, num_fields)
        add_key(keys, key)
        position += 1  # skip the newline


@_KERNEL
def _list_runs(text: Any, num_fields: int, keys: Any, every: bool) -> tuple[Any, int, int]:
    """Return the runs of lines with equal keys, the lines read, and where a line is too short."""
    # A run is uint64 (4,): the key, the start, the end without the last newline, and the number of
    # lines before it.
    runs = np.empty((64, 4), np.uint64)
    size, line, start = 0, 0, 0
    while start < len(text):
        key, fields, position = read_key(text, start, num_fields)
        if fields < num_fields:
            return runs[:size], line, start
        while position < len(text) and text[position] != 10:
            position += 1
        is_found = every or find(keys, key) >= 0
        if is_found and size > 0 and runs[size - 1, 0] == key and runs[size - 1, 2] == start - 1:
            runs[size - 1, 2] = position
        elif is_found:
            if size == len(runs):
                longer = np.empty((2 * size, 4), np.uint64)
                longer[:size] = runs
                runs = longer
            runs[size, 0], runs[size, 1], runs[size, 2], runs[size, 3] = key, start, position, line
            size += 1
        line += 1
        start = position + 1
    return runs[:size], line, -1

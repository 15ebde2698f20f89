"""Read n-best lists from Moses and other decoders, and add features to their lines.

A line is ``id ||| hypothesis ||| Name0= v v ... Name1= v ||| total [||| more fields]``. The lines
of a sentence are adjacent, and ids are ascending. A line is valid if Moses' tuning reads it
correctly (mert/Data.cpp, loadNBest and AddFeatures):

* ``|||`` is the separator wherever it occurs; the spaces around it belong to the fields.
* A token in field 3 that ends in ``=`` is the name of a feature; the numbers after it are its
  values. Moses treats a name with an underscore as a sparse feature, which has one value.
* Two other styles are also read: ``Name0=v`` from Joshua and cdec, in one token, and ``name: v v``
  from Moses before 2013, where a repeated name appends values.
* Fields after the total are read only by :mod:`moses_integration.alignments`.
* Moses reads ``nan``, ``inf`` and ``0,5`` with atof, without a warning. Here they are rejected, and
  so are numbers that are out of range for Moses' float32 values.

Values are natural logarithms, written unchanged (a phrase table holds ``exp`` of them).
"""

import contextlib
import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_integration import nbest_lines
from moses_integration.nbest_kernels import insert_texts, scan_lines
from phrasescore.errors import DataError
from phrasescore.io.text import decode, read_blocks
from phrasescore.records import BLANKS, join_words, split_words

Ids = NDArray[np.int64]
Values = NDArray[np.float64]

_NEWLINE = 10
_OTHER_BLANKS = BLANKS.replace(b" ", b"")


@dataclass(frozen=True)
class NbestList:
    """All hypotheses for one sentence, in file order."""

    path: str
    id: int  # 0-based number of the sentence, as the decoder counts
    first_line: int  # 1-based number of the first line
    data: bytes  # bytes that contain the lines, possibly with other lines before and after
    # (lines + 1,): where each line begins, and where the last line ends, with its newline if any.
    begins: Ids
    fields: Ids  # (lines, 2): begin and end of field 2, with the spaces around the hypothesis
    value_ends: Ids  # (lines,): where the last value of field 3 ends; new features follow it
    numbers: Values  # (lines, values + 1): feature values and total of lines that `is_plain`
    # (lines,): whether a line has the same features in the same order as the first line of the
    # file.
    is_plain: NDArray[np.bool_]
    sizes: Mapping[str, int]  # number of values per feature in the first line of the file

    @classmethod
    def empty(cls, path: str, sent_id: int) -> "NbestList":
        """Return a list with one empty hypothesis that is not in the file."""
        nothing, begins = np.zeros((1, 0)), np.zeros(2, np.int64)
        is_plain = np.ones(1, np.bool_)
        return cls(path, sent_id, 0, b"", begins, begins[None], begins[:1], nothing, is_plain, {})

    @property
    def num_lines(self) -> int:
        """The number of hypotheses."""
        return len(self.value_ends)

    @property
    def raw(self) -> bytes:
        """The bytes of all lines."""
        return self.data[self.begins[0] : self.begins[-1]]

    @cached_property
    def raws(self) -> list[bytes]:
        """The lines without their newlines, byte for byte."""
        spans = pairwise(self.begins.tolist())
        return [self.data[begin:end].removesuffix(b"\n") for begin, end in spans]

    @cached_property
    def hypotheses(self) -> list[bytes]:
        """Field 2 of each line, including the spaces around it."""
        return [self.data[begin:end] for begin, end in self.fields.tolist()]

    @cached_property
    def numbering(self) -> tuple[Ids, Ids]:
        """The first line of each distinct hypothesis, and the index of each line's hypothesis."""
        return number_distinct(self.hypotheses)

    def hypothesis(self, index: int) -> bytes:
        """Return field 2 of a line (0-based index), including the spaces around it."""
        begin, end = self.fields[index].tolist()
        return self.data[begin:end]

    def texts(self, indices: Ids) -> list[bytes]:
        """Return hypotheses (0-based indices) as valid UTF-8, with single spaces between words."""
        spans = self.fields[indices].tolist()
        texts = [self.data[begin:end].strip(b" ") for begin, end in spans]
        joined = b" ".join(texts)
        try:
            joined.decode()
        except UnicodeDecodeError:
            for index in indices.tolist():
                decode(self.path, self.first_line + index, self.raws[index])
            raise
        if b"  " in joined or joined.translate(None, _OTHER_BLANKS) != joined:
            texts = list(map(join_words, texts))
        return texts

    def words(self, index: int) -> tuple[str, ...]:
        """Return the words of a hypothesis (0-based index)."""
        (text,) = self.texts(np.array([index]))
        return split_words(text.decode())

    def distinct(self) -> dict[bytes, tuple[str, ...]]:
        """Map each distinct hypothesis, as in `hypotheses`, to its words, in file order."""
        firsts = self.numbering[0].tolist()
        return {self.hypothesis(index): self.words(index) for index in firsts}

    def lines(self, first: int, after: int) -> "NbestList":
        """Return a list with the lines from ``first`` up to but excluding ``after`` (0-based)."""
        return replace(
            self,
            first_line=self.first_line + first,
            begins=self.begins[first : after + 1],
            fields=self.fields[first:after],
            value_ends=self.value_ends[first:after],
            numbers=self.numbers[first:after],
            is_plain=self.is_plain[first:after],
        )

    def features(self, index: int) -> dict[str, tuple[float, ...]]:
        """Return the features of a hypothesis (0-based index)."""
        return nbest_lines.parse_features(self.raws[index], self.path, self.first_line + index)

    def total(self, index: int) -> float:
        """Return the decoder's total of a hypothesis (0-based index)."""
        if self.is_plain[index]:
            return float(self.numbers[index, -1])
        return nbest_lines.parse_total(self.raws[index], self.path, self.first_line + index)

    @property
    def omits_zeros(self) -> bool:
        """Whether a missing feature, sparse or dense, means 0, as in lists with ``Name0=v``."""
        return self.style == b"="

    @cached_property
    def style(self) -> bytes:
        """The text between a name and its value: ``= ``, ``=`` or ``: ``."""
        first = nbest_lines.feature_style(self.data[self.begins[0] : self.begins[1]])
        return first or next(filter(None, map(nbest_lines.feature_style, self.raws)), b"= ")

    def with_features(self, added: Sequence[bytes], numbers: Ids | None = None) -> bytes:
        """Return the lines with new features; ``numbers`` has the index of each line's text."""
        numbers = np.arange(len(added)) if numbers is None else numbers
        starts = np.cumsum([0, *map(len, added)], dtype=np.int64)
        data, texts = (np.frombuffer(part, np.uint8) for part in (self.data, b"".join(added)))
        spans = starts[:-1][numbers], starts[1:][numbers]
        lines = insert_texts(
            data, self.begins[:-1], self.begins[1:], self.value_ends, texts, *spans
        )
        return lines.tobytes()  # type: ignore[no-any-return]


def number_distinct(items: Iterable[Hashable]) -> tuple[Ids, Ids]:
    """Return the index of the first of each distinct item, and each item's distinct number."""
    known: dict[Hashable, int] = {}
    numbers = np.array([known.setdefault(item, len(known)) for item in items], np.int64)
    return np.unique(numbers, return_index=True)[1], numbers


def _pattern(sizes: Mapping[str, int], style: bytes) -> tuple[Any, ...]:
    """Return the features of a file's first line as the ``pattern`` for `scan_lines`."""
    names = [name.encode() for name in sizes]
    ends = np.cumsum([len(name) for name in names], dtype=np.int64)
    text = np.frombuffer(b"".join(names), np.uint8)
    return text, ends, np.array([*sizes.values()], np.int64), style[0], len(style) > 1


_NO_FEATURES = _pattern({"": 1}, b"=")  # no line has these features


def _scan(data: bytes, pattern: tuple[Any, ...]) -> tuple[Ids, Ids, Values, NDArray[np.bool_]]:
    """Call `scan_lines` for a text; return ``begins``, ``spans``, ``numbers`` and ``is_new``."""
    text = np.frombuffer(data, np.uint8)
    (ends,) = np.nonzero(text == _NEWLINE)
    if text[-1] != _NEWLINE:
        ends = np.append(ends, len(text))
    begins = np.concatenate([[0], ends + 1])
    spans, is_new = np.empty((len(ends), 4), np.int64), np.empty(len(ends), np.bool_)
    numbers = np.empty((len(ends), pattern[2].sum() + 1))
    scan_lines(text, begins, pattern, spans, numbers, is_new)
    begins[-1] = len(text)
    nbest_lines.read_inexact(data, begins, spans, numbers)
    return begins, spans, numbers, is_new


def read_nbest(path: str, new_names: Collection[str] = ()) -> Iterator[NbestList]:
    """Yield the lists in a file in order, lazily, with one list in memory at a time.

    All lines are checked, in compiled code if they have the features of the first line.

    :param new_names: names of features to be added; a line that already has one is an error.
    :raises DataError: at the first ``next`` if the file cannot be opened or is empty; later, on
        reaching an invalid line.
    """
    yield from parse_nbest(read_blocks(path), path, new_names)


def parse_nbest(
    blocks: Iterable[bytes], path: str, new_names: Collection[str] = ()
) -> Iterator[NbestList]:
    """Yield the lists in blocks of whole lines; ``path`` is their name in messages."""
    reader = _NbestReader(path, new_names)
    for data in _whole_lists(blocks):
        yield from reader.read(data)
    if not reader.num_lines:
        raise DataError(path, None, "expected an n-best list, found no lines")


def _whole_lists(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of blocks of lines in other blocks, which do not end within a list."""
    waiting: list[bytes] = []
    for block in blocks:
        last_line = block[block.rfind(b"\n", 0, -1) + 1 :]
        number = last_line.partition(b"|||")[0].strip(b" ").lstrip(b"0")
        found = re.search(rb"\n *0*%b *\|\|\|" % re.escape(number), b"\n" + block)
        last = 0 if found is None else found.start()
        if last > 0:
            yield b"".join((*waiting, block[:last]))
            waiting = []
        waiting.append(block[last:])
    if waiting:
        yield b"".join(waiting)


def read_every_list(
    path: str,
    size: int | None = None,
    *,
    new_names: Collection[str] = (),
    allow_missing: bool = False,
    cure: str = "",
) -> Iterator[NbestList]:
    """Yield the list of each sentence in order, lazily; one that is missing may be empty.

    :param size: the number of sentences; None if the last list is of the last sentence.
    :param new_names: as in `read_nbest`.
    :param allow_missing: whether a sentence may have no list.
    :param cure: what a message suggests for a sentence without a list.
    :raises DataError: if there is no list for a sentence, or no sentence for a list.
    """
    expected, hint = 0, f" ({cure})" if cure else ""
    for found in read_nbest(path, new_names):
        if size is not None and found.id >= size:
            problem = f"expected lists of {size:,} sentences, found id {found.id}"
            raise DataError(path, found.first_line, problem)
        if found.id > expected and not allow_missing:
            problem = f"expected id {expected}, found {found.id}: a sentence has no hypotheses"
            raise DataError(path, found.first_line, f"{problem}{hint}")
        yield from (NbestList.empty(path, number) for number in range(expected, found.id))
        yield found
        expected = found.id + 1
    if size is not None and expected < size and not allow_missing:
        problem = f"expected lists of {size:,} sentences, found {expected:,}"
        raise DataError(path, None, f"{problem}{hint}")
    yield from (NbestList.empty(path, number) for number in range(expected, size or 0))


class _NbestReader:
    """Reads blocks of whole lists."""

    def __init__(self, path: str, new_names: Collection[str]) -> None:
        self._path, self._new_names = path, new_names
        self.num_lines = 0  # so far
        self._id = -1
        self._first_lines: dict[int, int] = {}  # first line of each sentence so far
        self._sizes: dict[str, int] = {}  # number of values per feature in the first line
        self._pattern = _NO_FEATURES

    def read(self, data: bytes) -> Iterator[NbestList]:
        """Yield the lists in a block."""
        if self.num_lines == 0:
            first_line = data.partition(b"\n")[0]
            with contextlib.suppress(DataError, ValueError):
                self._sizes = _sizes(nbest_lines.parse_features(first_line, self._path, 1))
                self._pattern = _pattern(
                    self._sizes, nbest_lines.feature_style(first_line) or b"= "
                )
        begins, spans, numbers, is_new = _scan(data, self._pattern)
        is_plain, fields, value_ends = spans[:, 3] >= 0, spans[:, 1:3], spans[:, 3]
        place = self._path, self._id, self.num_lines + 1
        block = NbestList(*place, data, begins, fields, value_ends, numbers, is_plain, self._sizes)

        def part(first: int, after: int) -> NbestList:
            return replace(block.lines(first, after), id=self._id)

        first, known = 0, b""  # the first line of the current list, and its first field
        for line in np.flatnonzero(is_new | ~is_plain).tolist():
            number, (begin, end) = self.num_lines + line + 1, begins[line : line + 2]
            raw = data[begin:end].removesuffix(b"\n")
            if raw.count(b"|||") < 3:
                raise nbest_lines.too_few_fields(self._path, number, raw)
            key = raw[: spans[line, 0] - begin]
            if line == 0 or key != known:
                sent_id = nbest_lines.parse_id(self._path, number, key)
                if line == 0 or sent_id != self._id:
                    if line > 0:
                        yield part(first, line)
                    self._begin(sent_id, number)
                    first = line
                known = key
            if number == 1 or not is_plain[line]:
                features, total = self._parse(raw, number)
                spans[line, 3] = begin + nbest_lines.feature_span(raw)[1]
                if list(_sizes(features).items()) == list(self._sizes.items()):
                    is_plain[line] = True
                    numbers[line] = [*chain.from_iterable(features.values()), total]
        yield part(first, len(is_new))
        self.num_lines += len(is_new)

    def _begin(self, sent_id: int, number: int) -> None:
        if sent_id in self._first_lines:
            first = f"sentence {sent_id} already has a list, in line {self._first_lines[sent_id]}"
            cure = "all hypotheses for a sentence must follow one another"
            raise DataError(self._path, number, f"{first}: {cure}")
        if sent_id < self._id:
            raise DataError(self._path, number, f"expected an id above {self._id}, found {sent_id}")
        self._id = sent_id
        self._first_lines[sent_id] = number

    def _parse(self, raw: bytes, number: int) -> tuple[dict[str, tuple[float, ...]], float]:
        features = nbest_lines.parse_features(raw, self._path, number)
        total = nbest_lines.parse_total(raw, self._path, number)
        for name in filter(self._new_names.__contains__, features):
            problem = f"already has the feature {name}; name the new one differently"
            raise DataError(self._path, number, problem)
        return features, total


def _sizes(features: Mapping[str, Sequence[float]]) -> dict[str, int]:
    return {name: len(values) for name, values in features.items()}

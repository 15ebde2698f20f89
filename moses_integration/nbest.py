"""Read n-best lists of Moses and other decoders, and add features to their lines.

A line is ``id ||| hypothesis ||| Name0= v v ... Name1= v ||| total [||| more fields]``. The lines
of a sentence stand together, and ids rise. A line is valid if Moses' own tuning reads it
(mert/Data.cpp, loadNBest and AddFeatures) without damage:

* ``|||`` is the separator wherever it stands; the spaces around it belong to the fields. Moses
  writes two spaces after a hypothesis, and an empty hypothesis for an empty line of input.
* A token of field 3 that ends in ``=`` names a feature, and the numbers after it are its values.
  Moses treats a name with an underscore as a sparse feature, which has one value.
* Two other styles are read as well, and new features are written in the style of the list:
  ``Name0=v`` of Joshua and cdec, in one token, and ``name: v v`` of Moses before 2013, where a
  repeated name adds values to the first ones.
* Fields after the total (phrase segmentation, word alignment) are read only by
  :mod:`moses_integration.affiliation`.
* Moses reads ``nan``, ``inf`` and ``0,5`` with atof, without a warning. They are refused here, and
  so are numbers that overflow the float32 values of Moses.

Values are natural logarithms, written as they are (a phrase table holds ``exp`` of them).
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from phrasescore.errors import DataError
from phrasescore.io.text import (
    NUMBER,
    decode,
    read_blocks,
    shorten,
    split_block,
    split_words,
)

_VALUE = re.compile(NUMBER.encode())
# The largest float32.
LARGEST_VALUE = 3.4028234663852886e38
# The usual form of a number; every match is also a _VALUE and fits float32.
_PLAIN_VALUE = rb"-?+[0-9]{1,38}+(?:\.[0-9]*+)?+(?:e-[0-9]++)?+"
# Marian's feature with one value per word (--word-scores); no weight can multiply it.
WORD_SCORES = "WordScores"
# Most values of a line that one pattern reads: compiling thousands of groups takes seconds.
_MOST_GROUPS = 500


class NbestList(NamedTuple):
    """All hypotheses of one sentence, in the order of the file."""

    path: str
    # 0-based number of the sentence, as the decoder counts.
    id: int
    # 1-based number of the first line.
    first_line: int
    # The whole lines without their newlines, byte for byte.
    raws: list[bytes]
    # Field 2 of each line, with the spaces around it.
    hypotheses: list[bytes]
    # Where the last value of field 3 of each line ends; new features are inserted there.
    ends: list[int]
    # b"\n" after the last line, or b"" where the file ends without one.
    newline: bytes
    # The feature values and the total of each line, as the groups of a match; None for a line whose
    # features or their order differ from the file's first line.
    matches: list[re.Match[bytes] | None]
    # The number of values of each feature of the file's first line.
    sizes: Mapping[str, int]

    def distinct(self) -> dict[bytes, tuple[str, ...]]:
        """Return the words of each distinct hypothesis by its field, in order of appearance."""
        return {field: self._words(field) for field in dict.fromkeys(self.hypotheses)}

    def aligned_keys(self) -> list[bytes]:
        """Return each line's hypothesis joined with the fields after its total (alignments)."""
        parts = (raw.split(b"|||", 4)[4:] for raw in self.raws)
        pairs = zip(self.hypotheses, parts, strict=True)
        return [b"|||".join([hypothesis, *rest]) for hypothesis, rest in pairs]

    def _words(self, field: bytes) -> tuple[str, ...]:
        try:
            text = field.decode()
        except UnicodeDecodeError:
            index = self.hypotheses.index(field)
            decode(self.path, self.first_line + index, self.raws[index])
            raise
        return split_words(text)

    def features(self, index: int) -> dict[str, tuple[float, ...]]:
        """Return the features of a hypothesis (0-based index)."""
        return parse_features(self.raws[index], self.path, self.first_line + index)

    def total(self, index: int) -> float:
        """Return the decoder's total of a hypothesis (0-based index)."""
        return parse_total(self.raws[index], self.path, self.first_line + index)

    @property
    def omits_zeros(self) -> bool:
        """Whether a missing feature means 0 whatever its name, as in lists of ``Name0=v``."""
        return self.style == b"="

    @property
    def style(self) -> bytes:
        """The text between a name and its value: ``= ``, ``=`` or ``: ``."""
        return next(filter(None, map(_style, self.raws)), b"= ")

    def with_features(self, added: Iterable[bytes]) -> bytes:
        """Return the lines with new features, formatted by `nbest_lines.format_features`."""
        return b"\n".join(
            [
                raw[:end] + text + raw[end:]
                for raw, text, end in zip(self.raws, added, self.ends, strict=True)
            ]
            + [b""] * len(self.newline)
        )

    def without_features(self, names: Collection[str]) -> "NbestList":
        """Return the list with some features removed from every line."""
        raws = [remove_features(raw, names) for raw in self.raws]
        ends = [_feature_span(raw)[1] for raw in raws]
        return self._replace(raws=raws, ends=ends, matches=[None] * len(raws))


# Reading


def read_nbest(path: str, new_names: Collection[str] = ()) -> Iterator[NbestList]:
    """Yield the lists of a file in order, lazily: one list is in memory at a time.

    The number of fields, the id, the feature names and all numbers of each line are checked. Lines
    whose features differ from the first line's are allowed, but are read more slowly.

    :param path: text or gzip; ``-`` is stdin.
    :param new_names: names of features to be added; a line that already has one is an error.
    :raises DataError: at the first ``next`` if the file cannot be opened or is empty; later, on
        reaching an invalid line.
    """
    check = _FieldCheck(path, new_names)
    number = 0
    first_lines: dict[int, int] = {}
    nbest: NbestList | None = None
    known_key = None
    for block in read_blocks(path):
        for raw in split_block(block):
            number += 1
            try:
                key, hypothesis, features, _ = raw.split(b"|||", 3)
            except ValueError:
                raise _too_few_fields(path, number, raw) from None
            if key != known_key:
                known_key, sent_id = key, _parse_id(path, number, key)
                if nbest is None or sent_id != nbest.id:
                    if nbest is not None:
                        yield nbest
                    _check_order(path, number, sent_id, first_lines)
                    first_lines[sent_id] = number
                    nbest = NbestList(path, sent_id, number, [], [], [], b"\n", [], check.sizes)
                    raws, hypotheses, ends = nbest.raws, nbest.hypotheses, nbest.ends
                    matches = nbest.matches
            start = len(key) + len(hypothesis) + 6
            match = check.match(raw, start)
            matches.append(check.line(number, raw, start) if match is None else match)
            raws.append(raw)
            hypotheses.append(hypothesis)
            ends.append(start + len(features.rstrip(b" ")))
        last = block
    if nbest is None:
        raise DataError(path, None, "expected an n-best list, found no lines")
    yield nbest if last.endswith(b"\n") else nbest._replace(newline=b"")


class _FieldCheck:
    """Check the features and totals of lines, fast where they are like the first line's."""

    def __init__(self, path: str, new_names: Collection[str]) -> None:
        self._path = path
        self._new_names = set(new_names)
        self._is_first = True
        # The number of values of each feature of the first line.
        self.sizes: dict[str, int] = {}
        # Matches a line from field 3 on if its features and their order are the first line's and
        # its numbers have the usual form; the groups are the values and the total.
        self.match = re.compile(rb"(?!)").match

    def line(self, number: int, raw: bytes, start: int) -> re.Match[bytes] | None:
        """Check features and total of a line that did not match; ``start`` is that of field 3."""
        features = parse_features(raw, self._path, number)
        parse_total(raw, self._path, number)
        for name in features:
            if name in self._new_names:
                raise DataError(
                    self._path,
                    number,
                    f"has the feature {name} already; give the new one another name by --name, "
                    "or replace the old values with --replace",
                )
        if not self._is_first:
            return None
        self._is_first = False
        self.sizes |= {name: len(values) for name, values in features.items()}
        if sum(self.sizes.values()) > _MOST_GROUPS:
            return None
        self.match = _line_pattern(self.sizes, _style(raw) or b"= ").match
        return self.match(raw, start)


def _line_pattern(sizes: Mapping[str, int], style: bytes) -> re.Pattern[bytes]:
    """Return a pattern of fields 3 and 4 with these features; its groups are the numbers."""
    value = rb"(%b)" % _PLAIN_VALUE
    assign = style.replace(b" ", rb" ++")
    field = rb" ++".join(
        re.escape(name.encode()) + assign + rb" ++".join([value] * size)
        for name, size in sizes.items()
    )
    return re.compile(rb" *+%b *+\|\|\| *+%b[ \r]*+(?:\|\|\||\Z)" % (field, value))


def _too_few_fields(path: str, number: int, raw: bytes) -> DataError:
    fields = raw.count(b"|||") + 1
    found = f"found {fields}: {shorten(raw)}" if raw.strip() else "found an empty line"
    problem = f"expected at least 4 fields separated by '|||', {found}"
    if fields == 3 and _VALUE.fullmatch(raw.split(b"|||")[2].strip(b" \r")):
        cure = "Nematus writes no features: make the score one, as '||| Score= -1 ||| -1'"
        problem = f"{problem}; {cure}"
    elif fields == 3:
        problem = f"{problem}; the total is missing: add ' ||| 0' where no total is needed"
    return DataError(path, number, problem)


def _parse_id(path: str, number: int, field: bytes) -> int:
    text = field.strip(b" ")
    if not text.isdigit() or len(text) > 18:
        raise DataError(path, number, f"expected a sentence number, found {shorten(text)}")
    return int(text)


def _check_order(path: str, number: int, sent_id: int, first_lines: dict[int, int]) -> None:
    if sent_id in first_lines:
        raise DataError(
            path,
            number,
            f"id {sent_id} again, which began in line {first_lines[sent_id]}: the hypotheses of "
            "a sentence have to stand together",
        )
    previous = next(reversed(first_lines), -1)
    if sent_id < previous:
        raise DataError(path, number, f"expected an id above {previous}, found {sent_id}")


# The numbers of a line


def parse_features(
    raw: bytes, path: str = "n-best list", line: int | None = None
) -> dict[str, tuple[float, ...]]:
    """Return the features of a line: names without ``=``, and their values.

    >>> parse_features(b"0 ||| la  ||| LM0= -2 TM0= -0.5 -1 ||| -3.5 ||| 0-0")
    {'LM0': (-2.0,), 'TM0': (-0.5, -1.0)}
    >>> parse_features(b"0 ||| la ||| lm_0=-2 tm_0=-0.5 ||| -3.5")
    {'lm_0': (-2.0,), 'tm_0': (-0.5,)}
    """
    start, end = _feature_span(raw)
    features: dict[str, list[float]] = {}
    values: list[float] | None = None
    for token in raw[start:end].split(b" "):
        text, style, number = split_feature(token)
        if style:
            name = decode(path, line or 1, text)
            if name in features and style != b": ":
                raise DataError(path, line, f"the feature {name} comes twice")
            values = features.setdefault(name, [])
        if number:
            if values is None:
                raise DataError(path, line, _unnamed(raw, token))
            values.append(parse_number(number, path, line))
            if style:  # the only value of this name
                values = None
    for name, numbers in features.items():
        if not name or not numbers:
            raise DataError(path, line, f"expected a value after {name + '='!r}, found none")
    return {name: tuple(numbers) for name, numbers in features.items()}


def split_feature(token: bytes) -> tuple[bytes, bytes, bytes]:
    """Split a token of field 3 into name, style of the list, and value.

    Name and style are empty if the token is a value; the value is empty if it follows.

    >>> split_feature(b"LM0="), split_feature(b"lm_0=-2"), split_feature(b"lm:")
    ((b'LM0', b'= ', b''), (b'lm_0', b'=', b'-2'), (b'lm', b': ', b''))
    """
    if token.endswith((b"=", b":")):
        return token[:-1], token[-1:] + b" ", b""
    return token.rpartition(b"=")


def _style(raw: bytes) -> bytes:
    """Return the text between the first name of a line and its value; nothing without one."""
    start, end = _feature_span(raw)
    return split_feature(raw[start:end].lstrip(b" ").partition(b" ")[0])[1]


def _unnamed(raw: bytes, token: bytes) -> str:
    """Return the message for a line that has a value where a name should be."""
    problem = f"expected the name of a feature, as 'LM0=', found {shorten(token)}"
    if _VALUE.fullmatch(token) is None:
        return problem
    if b"=" in raw.split(b"|||", 4)[3]:
        return (
            "expected features and then the total, found the total first, as Travatar has it: "
            "exchange fields 3 and 4 of each line"
        )
    cure = "write a name before each number (Moses does without -labeled-n-best-list false)"
    return f"{problem}: the features of this list have no names; {cure}"


def parse_total(raw: bytes, path: str = "n-best list", line: int | None = None) -> float:
    """Return field 4, the decoder's total.

    >>> parse_total(b"0 ||| la  ||| LM0= -2 ||| -3.5 ||| 0-0")
    -3.5
    """
    return parse_number(raw.split(b"|||", 4)[3].strip(b" \r"), path, line)


def parse_number(token: bytes, path: str, line: int | None) -> float:
    """Return a number, if Moses reads the same finite number."""
    # float() would also accept nan, inf, 1_0 and tabs.
    value = float(token) if _VALUE.fullmatch(token) else math.nan
    if not abs(value) <= LARGEST_VALUE:
        raise DataError(path, line, f"expected a number, found {shorten(token)}")
    return value


# Removing features


def remove_features(raw: bytes, names: Collection[str]) -> bytes:
    """Return a line without some features, byte for byte as before they were added.

    >>> remove_features(b"0 ||| la  ||| LM0= -2 LSTM0= -1.25 ||| -3.5", ["LSTM0"])
    b'0 ||| la  ||| LM0= -2 ||| -3.5'
    """
    wanted = {name.encode() for name in names}
    start, end = _feature_span(raw)
    kept = []
    dropping = False
    for token in raw[start:end].split(b" "):
        name, style, _ = split_feature(token)
        if style:
            dropping = name in wanted
        if not dropping:
            kept.append(token)
    return raw[:start] + b" ".join(kept) + raw[end:]


def _feature_span(raw: bytes) -> tuple[int, int]:
    """Return where field 3 begins and where its last value ends."""
    fields = raw.split(b"|||", 3)
    if len(fields) < 4:
        raise ValueError(f"expected a line of an n-best list, found {shorten(raw)}")
    start = len(fields[0]) + len(fields[1]) + 6
    return start, start + len(fields[2].rstrip(b" "))

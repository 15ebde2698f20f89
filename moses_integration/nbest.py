"""Read n-best lists of Moses and others, and add features to their lines.

A line is ``id ||| hypothesis ||| Name0= v v ... Name1= v ||| total [||| more fields]``; the lines
of a sentence stand together, and ids rise. A line is well formed if Moses' own tuning reads
it (mert/Data.cpp, loadNBest and AddFeatures) and does not suffer from it:

* The separator is ``|||`` wherever it stands; the spaces around it are those of the fields. Moses
  writes two spaces after a hypothesis, and for an empty line of input an empty hypothesis.
* A token of field 3 that ends in ``=`` names a feature, and the numbers after it are its values. A
  name with an underscore is a sparse feature to Moses, and has one value.
* Two other styles are read as well, and new features are written in the style of the list:
  ``Name0=v`` of Joshua and cdec, in one token, and ``name: v v`` of Moses before 2013, where the
  values of a name that comes again follow its first ones.
* Fields after the total (phrase segmentation, word alignment) are for
  :mod:`moses_integration.affiliation` alone.
* Moses reads ``nan``, ``inf`` and ``0,5`` with atof, without a word. They are refused here, and so
  are numbers that are infinite to Moses, whose values are float32.

Values are natural logarithms as they are: nothing is exp'd, as it is in a phrase table.
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
# Numbers as nearly all are written; each of them is a _VALUE, and not too large.
_PLAIN_VALUE = rb"-?+[0-9]{1,38}+(?:\.[0-9]*+)?+(?:e-[0-9]++)?+"
# Marian's feature with a value per word (--word-scores): no weight can multiply it.
WORD_SCORES = "WordScores"
# Values of a line that is read by one pattern: to make one takes seconds for some thousands.
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
    # Where in each line the last value of field 3 ends: new features go there.
    ends: list[int]
    # b"\n" after the last line, or b"" where the file ends without one.
    newline: bytes
    # The feature values of each line and then its total, as the groups of a match; None for a line
    # whose features are not those of the file's first line, in their order.
    matches: list[re.Match[bytes] | None]
    # The number of values of each feature of the file's first line.
    sizes: Mapping[str, int]

    def distinct(self) -> dict[bytes, tuple[str, ...]]:
        """Return the words of each distinct hypothesis, by its field, in order of appearance.

        :raises DataError: at a hypothesis that is not UTF-8.
        """
        return {field: self._words(field) for field in dict.fromkeys(self.hypotheses)}

    def aligned_keys(self) -> list[bytes]:
        """Return each line's hypothesis with the fields after its total, where alignments are."""
        parts = (raw.split(b"|||", 4)[4:] for raw in self.raws)
        pairs = zip(self.hypotheses, parts, strict=True)
        return [b"|||".join([hypothesis, *rest]) for hypothesis, rest in pairs]

    def _words(self, field: bytes) -> tuple[str, ...]:
        try:
            text = field.decode()
        except UnicodeDecodeError:
            place = self.hypotheses.index(field)
            decode(self.path, self.first_line + place, self.raws[place])
            raise
        return split_words(text)

    def features(self, place: int) -> dict[str, tuple[float, ...]]:
        """Return the features of a hypothesis (0-based), as :func:`parse_features`."""
        return parse_features(self.raws[place], self.path, self.first_line + place)

    def total(self, place: int) -> float:
        """Return the decoder's total of a hypothesis (0-based), as :func:`parse_total`."""
        return parse_total(self.raws[place], self.path, self.first_line + place)

    @property
    def omits_zeros(self) -> bool:
        """Whether a feature that a line lacks is 0, whatever its name: in lists of ``Name0=v``."""
        return self.style == b"="

    @property
    def style(self) -> bytes:
        """What stands between a name and its value: ``= ``, or ``=``, or ``: ``."""
        return _style(self.raws[0])

    def with_features(self, added: Iterable[bytes]) -> bytes:
        """Return the lines, newlines included, with the text of features inserted.

        :param added: the text for each line, as `nbest_lines.format_features` makes it.
        """
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
    """Yield the lists of a file in their order, lazily: one list is in memory at a time.

    Each line's number of fields, its id, the names of its features and all its numbers are
    checked. Lines may have other features than those before them; such lines are read slower.

    :param path: text or gzip; ``-`` is stdin.
    :param new_names: features that are going to be added: one that is there is an error.
    :raises DataError: at the first ``next`` if the file cannot be opened or is empty; later, on
        reaching a line with fewer than 4 fields, with an id that is no number or comes after
        a larger one, that :func:`parse_features` or :func:`parse_total` refuses, or that has one
        of the new features.
    """
    check = _FieldCheck(path, new_names)
    number = 0
    first_lines: dict[int, int] = {}
    found: NbestList | None = None
    known_key = None
    for block in read_blocks(path):
        for raw in split_block(block):
            number += 1
            try:
                key, hypothesis, features, _ = raw.split(b"|||", 3)
            except ValueError:
                raise _too_few_fields(path, number, raw) from None
            if key != known_key:
                known_key, identity = key, _parse_id(path, number, key)
                if found is None or identity != found.id:
                    if found is not None:
                        yield found
                    _check_order(path, number, identity, first_lines)
                    first_lines[identity] = number
                    found = NbestList(path, identity, number, [], [], [], b"\n", [], check.sizes)
                    raws, hypotheses, ends = found.raws, found.hypotheses, found.ends
                    matches = found.matches
            start = len(key) + len(hypothesis) + 6
            match = check.match(raw, start)
            matches.append(check.line(number, raw, start) if match is None else match)
            raws.append(raw)
            hypotheses.append(hypothesis)
            ends.append(start + len(features.rstrip(b" ")))
        last = block
    if found is None:
        raise DataError(path, None, "expected an n-best list, found no lines")
    yield found if last.endswith(b"\n") else found._replace(newline=b"")


class _FieldCheck:
    """Checks the features and totals of lines, quickly where they are like those of the first.

    :param new_names: features that must not be there.
    """

    def __init__(self, path: str, new_names: Collection[str]) -> None:
        self._path = path
        self._new_names = set(new_names)
        self._is_first = True
        # The number of values of each feature of the first line.
        self.sizes: dict[str, int] = {}
        # Matches a line from its field 3 on, if its features and their order are those of the
        # first line and its numbers are plain; the groups are the values and the total.
        self.match = re.compile(rb"(?!)").match

    def line(self, number: int, raw: bytes, start: int) -> re.Match[bytes] | None:
        """Check the features and the total of a line that is not known yet; return its match.

        :param start: of field 3.
        :raises DataError: saying what is wrong with it.
        """
        found = parse_features(raw, self._path, number)
        parse_total(raw, self._path, number)
        for name in found:
            if name in self._new_names:
                problem = (
                    f"has the feature {name} already; give the new one another name by --name, "
                    "or write it anew with --replace"
                )
                raise DataError(self._path, number, problem)
        if not self._is_first:
            return None
        self._is_first = False
        self.sizes |= {name: len(values) for name, values in found.items()}
        if sum(self.sizes.values()) > _MOST_GROUPS:
            return None
        self.match = _line_pattern(self.sizes, _style(raw)).match
        return self.match(raw, start)


def _line_pattern(sizes: Mapping[str, int], style: bytes) -> re.Pattern[bytes]:
    """Return a pattern of fields 3 and 4 with these features, whose groups are the numbers."""
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


def _check_order(path: str, number: int, identity: int, first_lines: dict[int, int]) -> None:
    if identity in first_lines:
        problem = (
            f"id {identity} again, which began in line {first_lines[identity]}: the hypotheses of "
            "a sentence have to stand together"
        )
        raise DataError(path, number, problem)
    before = next(reversed(first_lines), -1)
    if identity < before:
        raise DataError(path, number, f"expected an id above {before}, found {identity}")


# The numbers of a line


def parse_features(
    raw: bytes, path: str = "n-best list", line: int | None = None
) -> dict[str, tuple[float, ...]]:
    """Return the features of a line: names without their ``=``, and their values.

    :param path: for messages, as ``line`` is.
    :raises DataError: if there is no name before a value, a name comes twice or has no value, a
        value is not a finite number, or a name is not UTF-8.

    >>> parse_features(b"0 ||| la  ||| LM0= -2 TM0= -0.5 -1 ||| -3.5 ||| 0-0")
    {'LM0': (-2.0,), 'TM0': (-0.5, -1.0)}
    >>> parse_features(b"0 ||| la ||| lm_0=-2 tm_0=-0.5 ||| -3.5")
    {'lm_0': (-2.0,), 'tm_0': (-0.5,)}
    """
    start, end = _feature_span(raw)
    found: dict[str, list[float]] = {}
    values: list[float] | None = None
    for token in raw[start:end].split(b" "):
        text, style, number = split_feature(token)
        if style:
            name = decode(path, line or 1, text)
            if name in found and style != b": ":
                raise DataError(path, line, f"the feature {name} comes twice")
            values = found.setdefault(name, [])
        if number:
            if values is None:
                raise DataError(path, line, _unnamed(raw, token))
            values.append(parse_number(number, path, line))
            if style:  # its only value
                values = None
    for name, numbers in found.items():
        if not name or not numbers:
            raise DataError(path, line, f"expected a value after {name + '='!r}, found none")
    return {name: tuple(numbers) for name, numbers in found.items()}


def split_feature(token: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the name in a token of field 3, the style of the list, and the value.

    The name and the style are empty where the token is a value, and the value where it follows.

    >>> split_feature(b"LM0="), split_feature(b"lm_0=-2"), split_feature(b"lm:")
    ((b'LM0', b'= ', b''), (b'lm_0', b'=', b'-2'), (b'lm', b': ', b''))
    """
    if token.endswith((b"=", b":")):
        return token[:-1], token[-1:] + b" ", b""
    return token.rpartition(b"=")


def _style(raw: bytes) -> bytes:
    """Return what stands between the first name of a line and its value."""
    start, end = _feature_span(raw)
    return split_feature(raw[start:end].lstrip(b" ").partition(b" ")[0])[1] or b"= "


def _unnamed(raw: bytes, token: bytes) -> str:
    """Return the problem with a line whose field 3 has a token that should be a name."""
    if _VALUE.fullmatch(token) is None:
        return f"expected the name of a feature, as 'LM0=', found {shorten(token)}"
    if b"=" in raw.split(b"|||", 4)[3]:
        problem = "expected features and then the total, found the total first, as Travatar has it"
        return f"{problem}: exchange fields 3 and 4 of each line"
    cure = "write a name before each number (Moses does without -labeled-n-best-list false)"
    problem = f"expected the name of a feature, as 'LM0=', found {shorten(token)}"
    return f"{problem}: the features of this list have no names; {cure}"


def parse_total(raw: bytes, path: str = "n-best list", line: int | None = None) -> float:
    """Return field 4: the decoder's total.

    :raises DataError: if it is not a finite number.

    >>> parse_total(b"0 ||| la  ||| LM0= -2 ||| -3.5 ||| 0-0")
    -3.5
    """
    return parse_number(raw.split(b"|||", 4)[3].strip(b" \r"), path, line)


def parse_number(token: bytes, path: str, line: int | None) -> float:
    """Return a number of a text that Moses reads.

    :raises DataError: if it is not a finite number, to Moses either, or is one to Python alone.
    """
    # float() alone would take nan, inf, 1_0 and tabs.
    value = float(token) if _VALUE.fullmatch(token) else math.nan
    if not abs(value) <= LARGEST_VALUE:
        raise DataError(path, line, f"expected a number, found {shorten(token)}")
    return value


# Removing features


def remove_features(raw: bytes, names: Collection[str]) -> bytes:
    """Return a line without some features: as it was before they were added, byte for byte.

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
    """Return where field 3 begins, and where its last value ends."""
    fields = raw.split(b"|||", 3)
    if len(fields) < 4:
        raise ValueError(f"expected a line of an n-best list, found {shorten(raw)}")
    start = len(fields[0]) + len(fields[1]) + 6
    return start, start + len(fields[2].rstrip(b" "))

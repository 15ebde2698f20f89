"""Parse and format single lines of n-best lists; see :mod:`moses_integration.nbest`."""

import functools
import math
import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import ArgumentError, DataError, ModelError
from phrasescore.io.text import LARGEST_VALUE, decode, parse_number, shorten

_COLON = ord(":")

# A name that Moses treats as a dense feature; mert and kbmira treat names with "_" as sparse.
FEATURE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")


def check_feature_names(names: Sequence[str]) -> None:
    """Check the names of new features; Moses must treat them as dense features."""
    for name in names:
        if FEATURE_NAME.fullmatch(name) is None:
            problem = "expected a letter, then letters and digits"
            cause = "Moses treats a name with '_' as a sparse feature"
            raise ArgumentError(f"feature name {name}: {problem} ({cause})")
        if names.count(name) > 1:
            raise ArgumentError(f"feature name {name}: two new features have this name")


def format_value(value: float) -> bytes:
    """Format a natural logarithm or a count for an n-best list, with 7 digits.

    >>> format_value(-12.3456789), format_value(-0.0)
    (b'-12.34568', b'0')
    """
    if not math.isfinite(value):
        raise ModelError(f"expected a finite value for an n-best list, found {value!r}")
    return b"%.7g" % (value + 0.0)  # -0.0 + 0.0 is 0.0


def format_rows(names: Sequence[str], rows: NDArray[np.float64], style: bytes) -> list[bytes]:
    """Format new features for n-best lines, one text per row, to be inserted after field 3.

    :param rows: feature values: (rows, names).
    :param style: the style of the list; see `NbestList.style`.

    >>> format_rows(["LSTM0", "UnknownWords0"], np.array([[-2.5, 1]]), b"= ")
    [b' LSTM0= -2.5 UnknownWords0= 1']
    """
    for value in rows[~np.isfinite(rows)][:1].tolist():
        format_value(value)
    template = b"".join(b" %s%s%%.7g" % (name.encode(), style) for name in names) + b"\n"
    values = (rows + 0.0).ravel().tolist()  # -0.0 + 0.0 is 0.0
    return (template * len(rows) % tuple(values)).split(b"\n")[:-1]


def format_hypothesis(
    sent_id: int,
    words: Sequence[str],
    features: Iterable[tuple[str, Sequence[float]]],
    total: float,
    alignment: str | None = None,
    segmentation: str | None = None,
) -> bytes:
    """Format a line of an n-best list, including the newline.

    :param features: names without ``=``, with unweighted values (natural logarithms or counts).
    :param alignment: a word alignment such as ``0-0 1-2``; None omits the field.
    :param segmentation: from `alignments.format_segmentation`; None omits the field.

    >>> format_hypothesis(0, ["la", "maison"], [("LM0", [-2.5]), ("TM0", [-1, 0])], -1.25)
    b'0 ||| la maison  ||| LM0= -2.5 TM0= -1 0 ||| -1.25\\n'
    """
    listed = list(features)
    numbers = [value + 0.0 for _, values in listed for value in values]  # -0.0 + 0.0 is 0.0
    if not math.isfinite(sum(numbers)):
        for value in numbers:
            format_value(value)
    shown = _template(tuple((name, len(values)) for name, values in listed)) % tuple(numbers)
    fields = [b"%d" % sent_id, f"{' '.join(words)} ".encode(), shown, format_value(total)]
    fields += [field.encode() for field in (segmentation, alignment) if field is not None]
    return b" ||| ".join(fields) + b"\n"


@functools.cache
def _template(features: tuple[tuple[str, int], ...]) -> bytes:
    return b" ".join(b"%s=%s" % (name.encode(), b" %.7g" * count) for name, count in features)


# Parsing


def too_few_fields(path: str, number: int, raw: bytes) -> DataError:
    """Return the error for a line with fewer than four fields, with a fix if one is known."""
    fields = raw.count(b"|||") + 1
    found = f"found {fields}: {shorten(raw)}" if raw.strip() else "found an empty line"
    problem = f"expected at least 4 fields separated by '|||', {found}"
    if fields == 3:
        problem += "; features 'Name= -1' or the total are missing: add ' ||| 0' as the total"
    return DataError(path, number, problem)


def parse_id(path: str, number: int, field: bytes) -> int:
    """Parse field 1, the 0-based number of the sentence."""
    text = field.strip(b" ")
    if not text.isdigit() or len(text) > 18:
        raise DataError(path, number, f"expected a sentence number, found {shorten(text)}")
    return int(text)


def parse_features(
    raw: bytes, path: str = "n-best list", line: int | None = None
) -> dict[str, tuple[float, ...]]:
    """Parse the features of a line into names, without ``=``, and values.

    >>> parse_features(b"0 ||| la  ||| LM0= -2 TM0= -0.5 -1 ||| -3.5 ||| 0-0")
    {'LM0': (-2.0,), 'TM0': (-0.5, -1.0)}
    >>> parse_features(b"0 ||| la ||| lm_0=-2 tm_0=-0.5 ||| -3.5")
    {'lm_0': (-2.0,), 'tm_0': (-0.5,)}
    """
    start, end = feature_span(raw)
    features: dict[str, list[float]] = {}
    values: list[float] | None = None
    for token in raw[start:end].split(b" "):
        text, style, number = split_feature(token)
        if style:
            name = decode(path, line or 1, text)
            if name in features and style != b": ":
                raise DataError(path, line, f"the feature {name} appears twice")
            values = features.setdefault(name, [])
        if number:
            if values is None:
                problem = f"expected the name of a feature, as 'LM0=', found {shorten(token)}"
                cure = "write a name before each number (Moses does by -labeled-n-best-list true)"
                raise DataError(path, line, f"{problem}: {cure}")
            values.append(parse_number(number, path, line))
            if style:  # the only value of this name
                values = None
    for name, numbers in features.items():
        if not name or not numbers:
            raise DataError(path, line, f"expected a value after {name + '='!r}, found none")
    return {name: tuple(numbers) for name, numbers in features.items()}


def split_feature(token: bytes) -> tuple[bytes, bytes, bytes]:
    """Split a token in field 3 into the name, the style of the list, and the value.

    Name and style are empty if the token is only a value. The value is empty if it is in the next
    token.

    >>> split_feature(b"LM0="), split_feature(b"lm_0=-2"), split_feature(b"lm:")
    ((b'LM0', b'= ', b''), (b'lm_0', b'=', b'-2'), (b'lm', b': ', b''))
    """
    if token.endswith((b"=", b":")):
        return token[:-1], token[-1:] + b" ", b""
    return token.rpartition(b"=")


def feature_style(raw: bytes) -> bytes:
    """Return the style of a line, or ``b""`` if it has no features; see `NbestList.style`."""
    start, end = feature_span(raw)
    return split_feature(raw[start:end].lstrip(b" ").partition(b" ")[0])[1]


def parse_total(raw: bytes, path: str = "n-best list", line: int | None = None) -> float:
    """Parse field 4, the decoder's total.

    >>> parse_total(b"0 ||| la  ||| LM0= -2 ||| -3.5 ||| 0-0")
    -3.5
    """
    return parse_number(raw.split(b"|||", 4)[3].strip(b" \r"), path, line)


def read_inexact(
    data: bytes, begins: NDArray[np.int64], spans: NDArray[np.int64], numbers: NDArray[np.float64]
) -> None:
    """Fill in numbers that compiled code left as NaN, unless they are out of float32's range."""
    lines = np.flatnonzero((spans[:, 3] >= 0) & np.isnan(numbers).any(axis=1))
    rows = []
    for begin, end in zip(spans[lines, 2].tolist(), begins[lines + 1].tolist(), strict=True):
        _, features, total = data[begin:end].split(b"|||", 3)[:3]
        texts = [token.rpartition(b"=")[2] for token in features.split(b" ")]
        rows.append([*(float(text) for text in texts if text and text[-1] != _COLON), float(total)])
    if rows:
        numbers[lines] = rows
        spans[lines[(abs(numbers[lines]) > LARGEST_VALUE).any(axis=1)], 3] = -1


def feature_span(raw: bytes) -> tuple[int, int]:
    """Return where field 3 begins and where its last value ends."""
    fields = raw.split(b"|||", 3)
    if len(fields) < 4:
        raise ValueError(f"expected a line of an n-best list, found {shorten(raw)}")
    start = len(fields[0]) + len(fields[1]) + 6
    return start, start + len(fields[2].rstrip(b" "))

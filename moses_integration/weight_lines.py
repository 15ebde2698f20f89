"""Parse and format lines of weights: ``Name= value ...``, and ``name value`` of sparse features.

Moses reads files of sparse weights with FVector::load (moses/FeatureVector.cpp): a line that begins
with ``#`` is a comment, and ASCII blanks separate the name from the value. So a name may contain
``#``, ``=``, ``[`` and Unicode blanks. A name that begins with ``#`` is written after a blank,
which Moses skips.
"""

import math
import re
from decimal import Decimal
from typing import NamedTuple

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.text import NUMBER, decode, read_lines, shorten
from phrasescore.records import Weights

# The blanks of Moses' streams, which no feature name can contain.
BAD_NAME = re.compile(r"[ \t\n\v\f\r]|^$")

_NUMBER = re.compile(NUMBER)
_WORD = re.compile(r"[^ \t\n\v\f\r]+")
# A line of weights, even if it begins like a section head ("[") or a comment (" #").
_WEIGHTS = re.compile(rf"[ \t]*[^ \t\r]+(?:[ \t]+{NUMBER})+[ \t\r]*(?:#.*)?")


class WeightLine(NamedTuple):
    """The words of a line of weights: the name, with its ``=`` if it has one, and the values."""

    name: str
    values: list[str]


def is_sparse(name: str) -> bool:
    """Return whether Moses treats a feature as sparse: 0 if a hypothesis lacks it."""
    return "_" in name


def is_head(line: str) -> bool:
    """Return whether a line is a section head such as ``[weight]``."""
    return line.lstrip(" \t").startswith("[") and _WEIGHTS.fullmatch(line) is None


def split_weight_line(line: str) -> WeightLine | None:
    """Return the words of a line; None if it is blank or a comment.

    >>> split_weight_line("TM0= 0.5 -1 # tuned")
    WeightLine(name='TM0=', values=['0.5', '-1'])
    """
    words = _WORD.findall(line)
    if not words or line.startswith("#"):
        return None
    name = words[0]
    if name.startswith("#") and not (is_sparse(name) and _WEIGHTS.fullmatch(line)):
        return None
    values = []
    for word in words[1:]:
        value, comment, _ = word.partition("#")
        values += [value] if value else []
        if comment:
            break
    return WeightLine(name, values)


def parse_weight(path: str, line_number: int, name: str, value: str) -> float:
    """Return a weight; a value that is not a finite number is a DataError."""
    weight = float(value) if _NUMBER.fullmatch(value) else math.nan
    if not math.isfinite(weight):
        problem = f"expected a number as weight of {name}, found {shorten(value)}"
        raise DataError(path, line_number, problem)
    return weight


def format_weight(value: float) -> str:
    """Return a weight with 9 digits, enough for Moses' float32.

    There is no exponent, because mert-moses.pl does not understand one.

    >>> format_weight(0.2), format_weight(-1e-7)
    ('0.2', '-0.0000001')
    """
    text = f"{value:.9g}"
    return f"{Decimal(text):f}" if "e" in text else text


def format_weight_line(path: str, name: str, word: str, value: str) -> str:
    """Return a line with a weight; ``word`` is the name as written, with or without ``=``."""
    if BAD_NAME.search(name):
        problem = f"expected a name that a weights file can hold, found {shorten(name)}"
        raise PhrasescoreError(f"{path}: {problem}")
    blank = " " if word.startswith("#") else ""
    return f"{blank}{word} {value}"


def read_sparse_weights(path: str) -> Weights:
    """Return the weights of a file as Moses reads it for ``[weight-file]``.

    The name of a dense feature is an error, because Moses would not apply its weight.
    """
    weights: Weights = {}
    for number, raw in enumerate(read_lines(path), start=1):
        text = decode(path, number, raw)
        line = split_weight_line(text)
        if line is None:
            continue
        name = line.name
        if len(line.values) != 1:
            problem = f"expected 'name value' of a sparse feature, found {shorten(text)}"
            raise DataError(path, number, problem)
        if not is_sparse(name):
            problem = f"expected a sparse feature, with '_' in its name, found {shorten(name)}"
            raise DataError(path, number, f"{problem}; dense weights belong in [weight]")
        if name in weights:
            raise DataError(path, number, f"expected one weight of {name}, found another")
        weights[name] = (parse_weight(path, number, name, line.values[0]),)
    return weights

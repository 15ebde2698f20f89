"""Lines of weights: ``Name= value ...``, and ``name value``, as Moses has sparse features.

Moses reads a file of sparse weights with FVector::load (moses/FeatureVector.cpp): a line that
begins with ``#`` is a comment, and blanks, tabs among them, separate the name from the value. So a
name may hold ``#``, ``=``, ``[`` and the blanks of Unicode. A name that begins with ``#`` follows
a blank, which Moses skips.
"""

import math
import re
from decimal import Decimal
from typing import NamedTuple

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.text import NUMBER, decode, read_lines, shorten
from phrasescore.records import Weights

# What Moses' streams take for a blank: no name of a feature can hold it.
BAD_NAME = re.compile(r"[ \t\n\v\f\r]|^$")

_NUMBER = re.compile(NUMBER)
_WORD = re.compile(r"[^ \t\n\v\f\r]+")
# A line that begins with "[" or " #" and has weights, unlike the head of a section and a comment.
_WEIGHTS = re.compile(rf"[ \t]*[^ \t\r]+(?:[ \t]+{NUMBER})+[ \t\r]*(?:#.*)?")


class WeightLine(NamedTuple):
    """The words of a line of weights."""

    # As it stands, with its "=" if it has one.
    name: str
    values: list[str]


def is_sparse(name: str) -> bool:
    """Return whether a feature is sparse to Moses: 0 where a hypothesis lacks it."""
    return "_" in name


def is_head(line: str) -> bool:
    """Return whether a line is the head of a section, such as ``[weight]``."""
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
    """Return a weight.

    :raises DataError: if it is not a finite number.
    """
    weight = float(value) if _NUMBER.fullmatch(value) else math.nan
    if not math.isfinite(weight):
        problem = f"expected a number as weight of {name}, found {shorten(value)}"
        raise DataError(path, line_number, problem)
    return weight


def format_weight(value: float) -> str:
    """Return a weight with 9 digits, those of Moses' float32, without an exponent.

    mert-moses.pl does not understand one.

    >>> format_weight(0.2), format_weight(-1e-7)
    ('0.2', '-0.0000001')
    """
    text = f"{value:.9g}"
    return f"{Decimal(text):f}" if "e" in text else text


def format_weight_line(path: str, name: str, word: str, value: str) -> str:
    """Return a line with a weight.

    :param word: the name as it is written, with or without ``=``.
    :raises PhrasescoreError: if the line could not be read again.
    """
    if BAD_NAME.search(name):
        problem = f"expected a name that a weights file can hold, found {shorten(name)}"
        raise PhrasescoreError(f"{path}: {problem}")
    blank = " " if word.startswith("#") else ""
    return f"{blank}{word} {value}"


def read_sparse_weights(path: str) -> Weights:
    """Return the weights of a file as Moses reads it for ``[weight-file]``.

    :raises DataError: with file and line, if a line is not a name and a number, or a name comes
        twice or is not one of a sparse feature: Moses gives those of others to no feature.
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
            raise DataError(path, number, f"{problem}; the weights of others stand in [weight]")
        if name in weights:
            raise DataError(path, number, f"expected one weight of {name}, found another")
        weights[name] = (parse_weight(path, number, name, line.values[0]),)
    return weights

"""Weights of the log-linear model as Moses writes them: in moses.ini, or one line per feature.

In a moses.ini they are the ``[weight]`` section. Any other file is a text of ``Name= value ...``
lines: the dense weights of mert-moses.pl and kbmira (``run1.dense``), where a feature of several
values has a line for each, and this project's own, with ``#`` comments. Names are those of
moses.ini and n-best lists, without ``=``.

Where n-best lists have features that the decoder lacks, there are two sets of weights, in two parts
of a file: below ``[search]`` those to decode with, below ``[lists]`` those of all features, which
choose from the lists.
"""

import math
import os
import re
from collections.abc import Mapping

from moses_integration.moses_ini import MosesIni
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.output import open_output
from phrasescore.io.text import NUMBER, decode, open_input, shorten, split_block
from phrasescore.records import WeightPair, Weights

# Weights as the public functions take them: a file of them, one set, or two sets.
WeightsSource = str | os.PathLike[str] | Mapping[str, tuple[float, ...]] | WeightPair

# The heads of the two parts, in the order of a pair.
_PARTS = (b"[search]", b"[lists]")

_NUMBER = re.compile(NUMBER)
# weights.txt of Moses' mert has the place of a feature for its name.
_NUMBERED = re.compile(r"F[0-9]+ [^=]*")


def load_weights(source: WeightsSource) -> WeightPair:
    """Return the weights of the search and those of lists; the same where there is one set.

    The kind of a file is seen from its content, and its order is kept. Of a moses.ini: the weights
    of scores that n-best lists show, see `MosesIni.tuneable_weights`.

    :param source: a file, ``-`` for stdin; or weights, which are returned as they are.
    :raises DataError: naming file and line, if a text is not one of weights, or is empty.
    :raises ConfigError: likewise for a moses.ini.
    """
    if isinstance(source, WeightPair):
        return source
    if isinstance(source, Mapping):
        return WeightPair(dict(source), dict(source))
    path = os.fspath(source)
    with open_input(path) as stream:
        content = stream.read()
    lines = split_block(content)
    heads = [line.strip() for line in lines if line.strip().startswith(b"[")]
    if sorted(heads) == sorted(_PARTS):
        found = WeightPair(*(_parse(path, _lines_of(path, lines, head)) for head in _PARTS))
    else:
        weights = MosesIni(path, content).tuneable_weights() if heads else _parse(path, lines)
        found = WeightPair(weights, weights)
    if not all(found):
        raise DataError(path, None, "expected weights, as in 'LM0= 0.5', found none")
    return found


def weights_path(source: WeightsSource | None) -> str | None:
    """Return the file that weights come from; None where there is no file."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else None


def _lines_of(path: str, lines: list[bytes], wanted: bytes) -> list[bytes]:
    """Return the lines of a part, with empty ones in the place of all others."""
    head = b""
    found = []
    for number, line in enumerate(lines, start=1):
        if not head and line.partition(b"#")[0].strip() and line.strip() not in _PARTS:
            problem = f"expected [search] or [lists] above the first weight, found {line[:60]!r}"
            raise DataError(path, number, problem)
        is_head = line.strip() in _PARTS
        head = line.strip() if is_head else head
        found.append(b"" if is_head or head != wanted else line)
    return found


def is_sparse(name: str) -> bool:
    """Return whether a feature is sparse to Moses: 0 where a hypothesis lacks it."""
    return "_" in name


def _parse(path: str, lines: list[bytes]) -> Weights:
    """Return the weights of ``Name= value ...`` lines; more lines of a name give more values."""
    weights: Weights = {}
    latest = ""
    for number, raw in enumerate(lines, start=1):
        line = decode(path, number, raw).partition("#")[0].strip()
        if not line:
            continue
        name, separator, values = line.partition("= ")
        if not separator or not name or re.search(r"[\s=]", name):
            problem = f"expected 'Name= value', found {shorten(line)}{_cure(line)}"
            raise DataError(path, number, problem)
        if name in weights and name != latest:
            problem = f"expected the weights of {name} in one place, found more of them here"
            raise DataError(path, number, problem)
        latest = name
        found = tuple(_parse_value(path, number, name, value) for value in values.split())
        weights[name] = weights.get(name, ()) + found
    return weights


def _cure(line: str) -> str:
    if _NUMBERED.fullmatch(line) is None:
        return ""
    return "; this looks like mert's weights.txt, which has no names: take the run*.dense beside it"


def _parse_value(path: str, number: int, name: str, value: str) -> float:
    if _NUMBER.fullmatch(value) is None or not math.isfinite(float(value)):
        problem = f"expected a number as weight of {name}, found {shorten(value)}"
        raise DataError(path, number, problem)
    return float(value)


def write_weights(path: str, weights: Weights | WeightPair) -> None:
    """Write weights so that `load_weights` gives the same numbers back, bit for bit.

    One line per value: so Moses' kbmira reads a file of one set, too (``--dense-init``). Two sets
    that are the same are written as one. Whole or not at all; ``-`` is stdout.

    :raises PhrasescoreError: if a name or a value could not be read again.
    """
    both = weights if isinstance(weights, WeightPair) else WeightPair(weights, weights)
    if both.search == both.lists:
        lines = _format(path, both.lists)
    else:
        lines = []
        for head, part in zip(_PARTS, both, strict=True):
            lines += [head.decode(), *_format(path, part)]
    with open_output(path) as output:
        output.write("".join(f"{line}\n" for line in lines).encode())


def _format(path: str, weights: Weights) -> list[str]:
    lines = []
    for name, values in weights.items():
        if not name or re.search(r"[\s=#]", name) or name.startswith("["):
            problem = f"expected a name that a weights file can hold, found {shorten(name)}"
            raise PhrasescoreError(f"{path}: {problem}")
        for value in values:
            if not math.isfinite(value):
                problem = f"expected a finite weight of {name}, found {value}"
                raise PhrasescoreError(f"{path}: {problem}")
            lines.append(f"{name}= {float(value)!r}")
    return lines

"""Read and write weights of the log-linear model: moses.ini, or one line per feature.

A moses.ini has them in its ``[weight]`` section and in the file that ``[weight-file]`` names. Any
other file is a text of ``Name= value ...`` lines with ``#`` comments. The dense weights of
mert-moses.pl and kbmira (``run1.dense``) have one line per value. Sparse features may have lines
``name value``, as in ``run1.sparse-weights`` of Moses' tuners. Names are those of moses.ini and
n-best lists, without ``=``.

If n-best lists have features that the decoder lacks, a file holds two sets of weights: below
``[search]`` the weights to decode with, below ``[lists]`` the weights of all features, which choose
from the lists.
"""

import math
import os
import re
from collections.abc import Mapping

from moses_integration.moses_ini import MosesIni
from moses_integration.nbest_lines import WORD_SCORES
from moses_integration.weight_lines import (
    format_weight_line,
    is_head,
    is_sparse,
    parse_weight,
    split_weight_line,
)
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.output import open_output
from phrasescore.io.text import decode, open_input, shorten, split_block
from phrasescore.records import WeightPair, Weights

# Weights as public functions accept them: a file, one set, or two sets.
WeightsSource = str | os.PathLike[str] | Mapping[str, tuple[float, ...]] | WeightPair

# The heads of the two parts, in the order of a WeightPair.
_PARTS = (b"[search]", b"[lists]")

# Limits of the largest absolute weight. Moses computes with float32, in which sums beyond them are
# 0 or infinite, and so equal.
LARGEST_WEIGHT = 1e30
_LEAST = 1e-30

# A line of weights.txt of Moses' mert, which has the feature's index for a name.
_NUMBERED = re.compile(r"F[0-9]+ [^=]*")


def load_weights(source: WeightsSource) -> WeightPair:
    """Return the weights of the search and of the lists; identical for a file of one set.

    The content decides what kind of file it is. Features keep the order of the file. A moses.ini
    yields `MosesIni.tuneable_weights`.

    :param source: a file, ``-`` for stdin; or weights, which are returned.
    """
    if isinstance(source, WeightPair):
        return source
    if isinstance(source, Mapping):
        return WeightPair(dict(source), dict(source))
    path = os.fspath(source)
    with open_input(path) as stream:
        content = stream.read()
    lines = split_block(content)
    starts = [line.decode(errors="replace") for line in lines if line.lstrip().startswith(b"[")]
    heads = [line.strip().encode() for line in starts if is_head(line)]
    if sorted(heads) == sorted(_PARTS):
        pair = WeightPair(*(_parse(path, _lines_of(path, lines, head)) for head in _PARTS))
    else:
        weights = MosesIni(path, content).tuneable_weights() if heads else _parse(path, lines)
        pair = WeightPair(weights, weights)
    if not all(pair):
        raise DataError(path, None, "expected weights, as in 'LM0= 0.5', found none")
    return pair


def weights_path(source: WeightsSource | None) -> str | None:
    """Return the file that weights come from; None if they do not come from a file."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else None


def _lines_of(path: str, lines: list[bytes], wanted: bytes) -> list[bytes]:
    """Return the lines of a part; all others are replaced by empty lines."""
    head = b""
    part = []
    for number, line in enumerate(lines, start=1):
        if not head and line.partition(b"#")[0].strip() and line.strip() not in _PARTS:
            problem = f"expected [search] or [lists] above the first weight, found {line[:60]!r}"
            raise DataError(path, number, problem)
        is_head = line.strip() in _PARTS
        head = line.strip() if is_head else head
        part.append(b"" if is_head or head != wanted else line)
    return part


def check_weights(weights: Weights, where: str) -> None:
    """Refuse weights that cannot order hypotheses: all zero, too small or too large."""
    if WORD_SCORES in weights:
        problem = f"expected no weight of {WORD_SCORES}, which has a value per word; remove it"
        raise DataError(where, None, problem)
    sizes = [abs(value) for values in weights.values() for value in values]
    largest = max(sizes, default=0.0)
    if largest == 0:
        raise DataError(where, None, "expected weights that are not all zero")
    if not _LEAST <= largest <= LARGEST_WEIGHT:
        problem = f"expected a largest weight of {_LEAST:g} to {LARGEST_WEIGHT:g}"
        cure = "a factor common to all weights changes no order"
        raise DataError(where, None, f"{problem}, found {largest:g}; {cure}")


def _parse(path: str, lines: list[bytes]) -> Weights:
    """Return the weights of lines; further lines of a name add values."""
    weights: Weights = {}
    latest = ""
    # The first sparse feature with "=" after its name, and the first one without.
    first: dict[bool, str] = {}
    for number, raw in enumerate(lines, start=1):
        text = decode(path, number, raw)
        line = split_weight_line(text)
        if line is None:
            continue
        name = line.name.removesuffix("=")
        has_sign = name != line.name
        is_weight = len(line.values) == 1 and is_sparse(name)
        if not name or not line.values or not (has_sign or is_weight):
            text = text.partition("#")[0].strip()
            problem = f"expected 'Name= value', found {shorten(text)}{_cure(text)}"
            raise DataError(path, number, problem)
        if is_sparse(name):
            first.setdefault(has_sign, line.name)
        if len(first) == 2:
            # "a_b= 1" is the feature a_b here, but a_b= in a file of Moses.
            problem = f"expected all sparse features as 'name value', as {first[False]}"
            cure = f"or all as 'name= value', as {first[True]}; found both"
            more = "(a moses.ini with [weight-file] takes the first for any name)"
            raise DataError(path, number, f"{problem}, {cure} {more}")
        if name in weights and (name != latest or not has_sign):
            problem = f"expected the weights of {name} in one place, found more of them here"
            raise DataError(path, number, problem)
        latest = name
        values = (parse_weight(path, number, name, value) for value in line.values)
        weights[name] = (*weights.get(name, ()), *values)
    return weights


def _cure(line: str) -> str:
    if _NUMBERED.fullmatch(line) is None:
        return ""
    return "; this looks like mert's weights.txt, which has no names: take the run*.dense beside it"


def write_weights(path: str, weights: Weights | WeightPair) -> None:
    """Write weights so that `load_weights` returns the same numbers, bit for bit.

    There is one line per value, which Moses' kbmira can read, too (``--dense-init``). Two equal
    sets are written as one. The file appears whole or not at all; ``-`` is stdout.
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
        for value in values:
            if not math.isfinite(value):
                problem = f"expected a finite weight of {name}, found {value}"
                raise PhrasescoreError(f"{path}: {problem}")
            lines.append(format_weight_line(path, name, f"{name}=", repr(float(value))))
    return lines

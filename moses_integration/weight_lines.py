"""Read, check and write weights of the log-linear model as text, one line per feature or value.

A text has lines ``Name= value ...``, with ``#`` comments. In dense weight files from mert-moses.pl
and kbmira (``run1.dense``), each value has a separate line. Sparse features may have lines
``name value``, as in the ``run1.sparse-weights`` that Moses' tuners write.

If n-best lists have features that the decoder lacks, a file has two sets of weights: those for
decoding follow ``[search]``, and those for reranking, of all features, ``[lists]``.

Moses reads sparse weight files with FVector::load (moses/FeatureVector.cpp): ASCII blanks separate
names from values. A name may contain ``#``, ``=``, ``[`` and Unicode blanks, but here it does not
begin with ``#`` or ``[``.
"""

import math
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.output import open_output
from phrasescore.io.text import NUMBER, decode, read_lines, shorten
from phrasescore.records import WeightPair, Weights

# A name that is no feature's: it has characters that Moses' streams treat as blanks, or begins like
# a comment or a section header.
BAD_NAME = re.compile(r"[ \t\n\v\f\r]|^$|^[#\[]")

_NUMBER = re.compile(NUMBER)
_WORD = re.compile(r"[^ \t\n\v\f\r]+")

_PARTS = (b"[search]", b"[lists]")  # the headers of the parts, in the order of a WeightPair

# Limits for the largest absolute weight. Moses computes with float32; beyond these limits, sums
# become 0 or infinite and no longer order hypotheses.
LARGEST_WEIGHT, _LEAST = 1e30, 1e-30


def is_sparse(name: str) -> bool:
    """Return whether Moses treats a feature as sparse, with value 0 if a hypothesis lacks it."""
    return "_" in name


def split_weight_line(line: str) -> tuple[str, list[str]] | None:
    """Return the name, with ``=`` if the line has it, and the values; None for a comment or blank.

    >>> split_weight_line("TM0= 0.5 -1 # tuned")
    ('TM0=', ['0.5', '-1'])
    """
    words = _WORD.findall(line)
    if not words or words[0].startswith("#"):
        return None
    values = []
    for word in words[1:]:
        value, comment, _ = word.partition("#")
        values += [value] if value else []
        if comment:
            break
    return words[0], values


def parse_weight(value: str) -> float:
    """Return the number that a word is; NaN if it is none."""
    return float(value) if _NUMBER.fullmatch(value) else math.nan


def _parse_weight(path: str, line_number: int, name: str, value: str) -> float:
    weight = parse_weight(value)
    if not math.isfinite(weight):
        problem = f"expected a number as weight for {name}, found {shorten(value)}"
        raise DataError(path, line_number, problem)
    return weight


def format_weight(value: float) -> str:
    """Format a weight with 9 digits, which suffice for Moses' float32.

    Exponents are avoided, because mert-moses.pl does not understand them.

    >>> format_weight(0.2), format_weight(-1e-7)
    ('0.2', '-0.0000001')
    """
    text = f"{value:.9g}"
    return f"{Decimal(text):f}" if "e" in text else text


def read_sparse_weights(path: str) -> Weights:
    """Read the weights in a ``[weight-file]`` as Moses does; a dense feature is an error."""
    weights: Weights = {}
    for number, text, name, values in _split_lines(path, read_lines(path)):
        problem = ""
        if len(values) != 1:
            problem = f"expected 'name value' for a sparse feature, found {shorten(text)}"
        elif not is_sparse(name):
            problem = f"expected a sparse feature, with '_' in its name, found {shorten(name)}"
            problem += "; dense weights belong in [weight]"
        elif name in weights:
            problem = f"expected one weight for {name}, found a second"
        if problem:
            raise DataError(path, number, problem)
        weights[name] = (_parse_weight(path, number, name, values[0]),)
    return weights


def _split_lines(path: str, lines: Iterable[bytes]) -> Iterator[tuple[int, str, str, list[str]]]:
    for number, raw in enumerate(lines, start=1):
        text = decode(path, number, raw)
        if (line := split_weight_line(text)) is not None:
            yield number, text, *line


def parse_weight_pair(path: str, lines: list[bytes]) -> WeightPair | None:
    """Return the weights for the search and for the lists, or None if the text is a moses.ini."""
    heads = [line.strip() for line in lines if line.lstrip().startswith(b"[")]
    if sorted(heads) == sorted(_PARTS):
        return WeightPair(*(_parse(path, _lines_of(path, lines, head)) for head in _PARTS))
    if heads:
        return None
    weights = _parse(path, lines)
    return WeightPair(weights, weights)


def _lines_of(path: str, lines: list[bytes], wanted: bytes) -> list[bytes]:
    head = b""
    part = []
    for number, line in enumerate(lines, start=1):
        is_head = line.strip() in _PARTS
        if not head and not is_head and line.partition(b"#")[0].strip():
            problem = f"expected [search] or [lists] above the first weight, found {line[:60]!r}"
            raise DataError(path, number, problem)
        head = line.strip() if is_head else head
        part.append(b"" if is_head or head != wanted else line)
    return part


def check_weights(weights: Weights, where: str) -> None:
    """Reject weights that cannot order hypotheses: all zero, too small or too large."""
    largest = max((abs(value) for values in weights.values() for value in values), default=0.0)
    if largest == 0:
        raise DataError(where, None, "expected weights that are not all zero")
    if not _LEAST <= largest <= LARGEST_WEIGHT:
        problem = f"expected a largest weight between {_LEAST:g} and {LARGEST_WEIGHT:g}"
        cure = "rescale all weights by the same factor, which does not change the ranking"
        raise DataError(where, None, f"{problem}, found {largest:g}; {cure}")


def _parse(path: str, lines: list[bytes]) -> Weights:
    """Parse lines into weights; consecutive lines for the same name add values."""
    weights: Weights = {}
    latest = ""
    first: dict[bool, str] = {}  # the first sparse feature with "=" after its name, and without
    for number, text, word, values in _split_lines(path, lines):
        name = word.removesuffix("=")
        has_sign = name != word
        is_weight = len(values) == 1 and is_sparse(name)
        if not name or not values or not (has_sign or is_weight):
            text = text.partition("#")[0].strip()
            raise DataError(path, number, f"expected 'Name= value', found {shorten(text)}")
        if is_sparse(name):
            first.setdefault(has_sign, word)
        if len(first) == 2:
            # "a_b= 1" is the feature a_b here, but a_b= in Moses' files.
            problem = f"expected all sparse features as 'name value', like {first[False]}"
            cure = f"or all as 'name= value', like {first[True]}; found both"
            more = "(with [weight-file] in a moses.ini, 'name value' works for any name)"
            raise DataError(path, number, f"{problem}, {cure} {more}")
        if name in weights and (name != latest or not has_sign):
            problem = f"expected the weights for {name} in consecutive lines, found more here"
            raise DataError(path, number, problem)
        latest = name
        parsed = (_parse_weight(path, number, name, value) for value in values)
        weights[name] = (*weights.get(name, ()), *parsed)
    return weights


def write_weights(path: str, weights: Weights | WeightPair) -> None:
    """Write weights so that `load_weights` returns the same numbers, bit for bit.

    There is one line per value, which Moses' kbmira can also read (``--dense-init``). Two equal
    sets are written as one. The file is written atomically; ``-`` is stdout.
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
        if BAD_NAME.search(name):
            problem = f"expected a name that a weight file can hold, found {shorten(name)}"
            raise PhrasescoreError(f"{path}: {problem}")
        for value in values:
            if not math.isfinite(value):
                problem = f"expected a finite weight for {name}, found {value}"
                raise PhrasescoreError(f"{path}: {problem}")
            lines.append(f"{name}= {float(value)!r}")
    return lines

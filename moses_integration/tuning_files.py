"""Read and write files for Moses' tuners: feature values, statistics and start weights.

The extractor writes a sequence of blocks, one per sentence::

    FEATURES_TXT_BEGIN_0 0 2 3 LM0_0 TranslationModel0_0 TranslationModel0_1
    -50.6981 -3.21417 -5.746
    -50.6981 -3.33274 -5.746
    FEATURES_TXT_END_0

The header consists of the sentence number, the number of hypotheses, the number of values per line,
and a name with an index for each value. In score files (``SCORES_TXT_BEGIN_0``), the name of the
metric takes the place of these names. In each line, sparse features follow the dense values as
``Name=value``. mert/FeatureArray.cpp, FeatureStats.cpp and ScoreArray.cpp define the format. They
read ``nan``, ``inf`` and lines with too few numbers without a warning; here these are rejected.
Moses stores the values as float32.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_integration.nbest_lines import LARGEST_VALUE, parse_number
from moses_integration.weight_lines import BAD_NAME
from phrasescore.errors import DataError
from phrasescore.io.output import open_output
from phrasescore.io.text import decode, read_lines, shorten
from phrasescore.records import FeatureLabel

_COUNT = re.compile("[0-9]{1,18}")
_WORD = re.compile(r"[^ \t\r]+")  # names may contain U+00A0 and U+3000

Values = NDArray[np.float64]
Integers = NDArray[np.int64]

# mert/BleuScorer.cpp writes matches and n-grams alternately for each order, then the reference
# length. `tuning.metrics.Bleu` has all matches, all n-grams, then the reference length.
_BLEU_ORDER = (0, 2, 4, 6, 1, 3, 5, 7, 8)
_NUMBERS = b"0123456789.+-eE "
_ROWS = 4096  # rows to format at a time, because Python numbers take more memory than numpy's


class ExtractedLists(NamedTuple):
    """The numbers in an extractor file, for all hypotheses."""

    path: str
    # (hypotheses, columns): feature values, with 0 for missing sparse features; or BLEU statistics
    # in the order of `tuning.metrics.Bleu`.
    values: Values
    lines: dict[int, int]  # sentence number -> 1-based line number of the header, in file order
    starts: Integers  # (sentences + 1,): the first row of each sentence
    labels: tuple[FeatureLabel, ...] = ()  # per value; sparse features last


class _Block(NamedTuple):
    line: int  # 1-based line number of the header
    id: int
    size: int
    width: int
    rest: str  # the end of the header: the names of the values, or the name of the metric
    body: list[bytes]  # the lines


def read_features(path: str) -> ExtractedLists:
    """Read the feature values in a file written by Moses' extractor."""
    lists, first, sparse = _read(path, "FEATURES")
    labels = _parse_labels(path, first)
    return lists._replace(labels=(*labels, *(FeatureLabel(name, 0) for name in sparse)))


def read_scores(path: str) -> ExtractedLists:
    """Read the BLEU statistics in a file written by Moses' extractor."""
    lists, first, _ = _read(path, "SCORES")
    if (first.rest, first.width) != ("BLEU", len(_BLEU_ORDER)):
        problem = "expected 9 statistics for BLEU (extractor --sctype BLEU)"
        raise DataError(path, first.line, f"{problem}, found {first.width} of {first.rest}")
    return lists._replace(values=lists.values[:, _BLEU_ORDER])


def check_pair(features: ExtractedLists, scores: ExtractedLists) -> None:
    """Check that two files hold the same numbers of hypotheses for the same sentences."""
    sizes, other_sizes = (np.diff(lists.starts).tolist() for lists in (features, scores))
    both = zip(features.lines.items(), sizes, scores.lines.items(), other_sizes, strict=False)
    for (one, line), size, (other, other_line), other_size in both:
        if (one, size) != (other, other_size):
            problem = f"expected sentence {one} with {size} hypotheses, as {features.path}:{line}"
            found = f"found sentence {other} with {other_size}"
            raise DataError(scores.path, other_line, f"{problem} has, {found}")
    if len(sizes) != len(other_sizes):
        problem = f"expected {len(sizes):,} sentences, as {features.path} has"
        raise DataError(scores.path, None, f"{problem}, found {len(other_sizes):,}")


def _read(path: str, kind: str) -> tuple[ExtractedLists, _Block, list[str]]:
    """Return the numbers in a file, its first block, and the names of the sparse features."""
    first: _Block | None = None
    lines: dict[int, int] = {}
    starts = [0]
    parts: list[Values] = []
    sparse: dict[str, int] = {}
    entries: list[tuple[int, int, float]] = []  # row, sparse feature, value
    for block in _blocks(path, kind):
        first = first or block
        problem = ""
        if (block.width, block.rest) != (first.width, first.rest):
            problem = f"expected {first.width} values, {shorten(first.rest)}, as before"
            problem += f", found {block.width}, {shorten(block.rest)}"
        elif block.id in lines:
            problem = f"sentence {block.id} again; its first block is in line {lines[block.id]}"
        if problem:
            raise DataError(path, block.line, problem)
        lines[block.id] = block.line
        values = _plain_values(block)
        if values is None:
            values, named = _any_values(path, block)
            for row, name, value in named:
                if kind == "SCORES":
                    problem = f"expected numbers, found {shorten(name)}"
                    raise DataError(path, block.line + 1 + row, problem)
                entries.append((starts[-1] + row, sparse.setdefault(name, len(sparse)), value))
        parts.append(values)
        starts.append(starts[-1] + block.size)
    if first is None:
        problem = f"expected blocks that begin with {kind}_TXT_BEGIN_0, found none"
        raise DataError(path, None, problem)
    table = np.concatenate(parts)
    if sparse:
        table = np.concatenate([table, np.zeros((len(table), len(sparse)))], axis=1)
        for row, column, value in entries:
            table[row, first.width + column] = value
    return ExtractedLists(path, table, lines, np.array(starts, np.int64)), first, list(sparse)


def _blocks(path: str, kind: str) -> Iterator[_Block]:
    end = f"{kind}_TXT_END_0".encode()
    lines = read_lines(path)
    number = 1  # of the header
    for header in lines:
        body: list[bytes] = []
        for line in lines:
            if line.startswith(end):
                break
            body.append(line)
        else:
            if header.strip() or b"".join(body).strip():
                _parse_header(path, kind, number, header)
                problem = f"the block that begins here has no {end.decode()}: the file is truncated"
                raise DataError(path, number, problem)
            return
        block = _parse_header(path, kind, number, header)._replace(body=body)
        if len(body) != block.size:
            problem = f"expected {block.size} lines after this header, found {len(body)}"
            raise DataError(path, number, problem)
        yield block
        number += len(body) + 2


def _parse_header(path: str, kind: str, number: int, raw: bytes) -> _Block:
    line = decode(path, number, raw)
    words = _WORD.findall(line)
    name = f"{kind}_TXT_BEGIN_0"
    if words[:1] == [f"{kind}_BIN_BEGIN_0"]:
        problem = "expected a text file, found a binary file; run the extractor without --binary"
        raise DataError(path, number, problem)
    if words[:1] != [name] or len(words) < 4 or not all(map(_COUNT.fullmatch, words[1:4])):
        problem = f"expected '{name} sentence hypotheses values ...', found {shorten(line)}"
        raise DataError(path, number, problem)
    sent_id, size, width = map(int, words[1:4])
    if size < 1:
        raise DataError(path, number, f"sentence {sent_id} has no hypotheses")
    return _Block(number, sent_id, size, width, " ".join(words[4:]), [])


def _parse_labels(path: str, block: _Block) -> tuple[FeatureLabel, ...]:
    names = _WORD.findall(block.rest)
    if len(names) != block.width:
        problem = f"expected names for {block.width} values in the header, found {len(names)}"
        raise DataError(path, block.line, problem)
    labels: list[FeatureLabel] = []
    sizes: Counter[str] = Counter()
    for text in names:
        name, separator, index = text.rpartition("_")
        expected = sizes[name]
        sizes[name] += 1
        if not separator or not name or BAD_NAME.search(name) or index != str(expected):
            problem = f"expected a name and an index, such as 'LM0_0', found {text!r}"
            raise DataError(path, block.line, problem)
        labels.append(FeatureLabel(name, expected))
    return tuple(labels)


def _plain_values(block: _Block) -> Values | None:
    """Return the numbers in a block, (hypotheses, values), or None if it has other tokens."""
    if b"".join(block.body).translate(None, _NUMBERS):
        return None
    rows = [line.split() for line in block.body]
    if any(len(row) != block.width for row in rows):
        return None
    try:
        values = np.fromiter(map(float, chain.from_iterable(rows)), np.float64)
    except ValueError:
        return None
    is_valid = np.abs(values).max(initial=0.0) <= LARGEST_VALUE
    return values.reshape(block.size, block.width) if is_valid else None


def _any_values(path: str, block: _Block) -> tuple[Values, list[tuple[int, str, float]]]:
    """Return the numbers in a block, and its sparse features as (row, name, value)."""
    rows: list[list[float]] = []
    sparse = []
    for row, line in enumerate(block.body):
        number = block.line + 1 + row
        dense = []
        names = set()
        for token in line.removesuffix(b"\r").split(b" "):
            name, separator, value = token.rpartition(b"=")
            if separator:
                text = decode(path, number, name)
                if BAD_NAME.search(text) or text in names:
                    problem = f"expected a new name before '=', found {shorten(token)}"
                    raise DataError(path, number, problem)
                names.add(text)
                sparse.append((row, text, parse_number(value, path, number)))
            elif token:
                dense.append(parse_number(token, path, number))
        if len(dense) != block.width:
            problem = f"expected {block.width} numbers as in the header, found {len(dense)}"
            raise DataError(path, number, problem)
        rows.append(dense)
    return np.array(rows, np.float64), sparse


def write_features(
    path: str, labels: Sequence[FeatureLabel], values: Values, starts: Sequence[int] | Integers
) -> None:
    """Write feature values for Moses' tuners (``--ffile``) atomically.

    Moses treats features with an underscore in the name as sparse. Nonzero sparse values are
    written with their names. Nine digits suffice for Moses' float32 values.
    """
    dense = [at for at, (name, _) in enumerate(labels) if "_" not in name]
    sparse = [(at, name.encode()) for at, (name, _) in enumerate(labels) if "_" in name]
    rest = "".join(f"{labels[at]} " for at in dense)
    lines = _format_rows(values[:, dense])
    if sparse:
        lines = (
            line + b"".join(b"%s=%.9g " % (name, row[at]) for at, name in sparse if row[at])
            for line, row in zip(lines, values.tolist(), strict=True)
        )
    _write(path, "FEATURES", lines, f"{len(dense)} {rest}", starts)


def write_scores(path: str, statistics: Values, starts: Sequence[int] | Integers) -> None:
    """Write BLEU statistics for Moses' tuners, given in the order of `tuning.metrics.Bleu`."""
    lines = _format_rows(statistics[:, np.argsort(_BLEU_ORDER)])
    _write(path, "SCORES", lines, f"{len(_BLEU_ORDER)} BLEU", starts)


def _format_rows(values: Values) -> Iterator[bytes]:
    template = b"%.9g " * values.shape[1]
    for start in range(0, len(values), _ROWS):
        yield from (template % tuple(row) for row in values[start : start + _ROWS].tolist())


def _write(
    path: str, kind: str, lines: Iterator[bytes], header: str, starts: Sequence[int] | Integers
) -> None:
    with open_output(path) as output:
        for sent_id, size in enumerate(np.diff(starts).tolist()):
            output.write(f"{kind}_TXT_BEGIN_0 {sent_id} {size} {header}\n".encode())
            output.writelines(line + b"\n" for line in islice(lines, size))
            output.write(f"{kind}_TXT_END_0\n".encode())


def read_start_weights(path: str, num_values: int) -> Values:
    """Read the start weights from an ``init.opt`` of mert-moses.pl, one per feature value.

    They are in the first line, in the same order as in a features file. The other two lines, the
    range for mert's random starts, are optional and only checked.
    """
    rows: list[Values] = []
    for number, line in enumerate(read_lines(path), start=1):
        row = [parse_number(token, path, number) for token in line.split()]
        if not row:
            continue
        if len(row) != num_values:
            problem = f"expected {num_values} numbers, one per feature value, found {len(row)}"
            raise DataError(path, number, problem)
        if len(rows) == 3:
            raise DataError(path, number, "expected 3 lines: start, lowest and highest weights")
        rows.append(np.array(row))
    if not rows:
        raise DataError(path, None, "expected a line with the start weights, found none")
    return rows[0]


def write_start_weights(path: str, weights: Values) -> None:
    """Write an ``init.opt``: the start weights, and the range 0 to 1 for random starts."""
    rows = (weights, np.zeros(len(weights)), np.ones(len(weights)))
    with open_output(path) as output:
        output.writelines(b"%s\n" % b" ".join(b"%.9g" % value for value in row) for row in rows)

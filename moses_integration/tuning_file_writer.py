"""Write feature values and statistics as Moses' extractor does, for its own tuners.

`moses_integration.tuning_files` describes the layout, and reads it.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from moses_integration.tuning_files import BLEU_ORDER, Integers, Values
from phrasescore.errors import PhrasescoreError
from phrasescore.io.output import open_output
from phrasescore.records import FeatureLabel

# Rows that are formatted at a time: Python's numbers take much more room than numpy's.
_ROWS = 4096


def write_features(
    path: str,
    labels: Sequence[FeatureLabel],
    values: Values,
    starts: Sequence[int] | Integers,
    ids: Sequence[int] | None = None,
) -> None:
    """Write feature values as Moses' tuners read them (``--ffile``); whole or not at all.

    :param labels: of the columns; Moses takes a name with an underscore for a sparse feature, and
        these are written by name wherever they are not 0.
    :param values: (hypotheses, labels), written with 9 digits: those of Moses' float32.
    :param ids: the numbers of the sentences; 0, 1, ... by default.
    :raises PhrasescoreError: if a value is not finite, or a name cannot be read again.
    """
    check_finite(path, values)
    for name, place in labels:
        if not name or any(sign in name for sign in " \t\r\n=") or ("_" in name and place):
            problem = f"expected the name of a feature without blanks and '=', found {name!r}"
            raise PhrasescoreError(f"{path}: {problem}")
    dense = [at for at, (name, _) in enumerate(labels) if "_" not in name]
    sparse = [(at, name.encode()) for at, (name, _) in enumerate(labels) if "_" in name]
    rest = "".join(f"{labels[at]} " for at in dense)
    lines = _format_rows(values[:, dense])
    if sparse:
        lines = (
            line + b"".join(b"%s=%.9g " % (name, row[at]) for at, name in sparse if row[at])
            for line, row in zip(lines, values.tolist(), strict=True)
        )
    _write(path, "FEATURES", lines, f"{len(dense)} {rest}", starts, ids)


def write_scores(
    path: str,
    statistics: Values,
    starts: Sequence[int] | Integers,
    ids: Sequence[int] | None = None,
) -> None:
    """Write BLEU statistics as Moses' tuners read them (``--scfile``); whole or not at all.

    :param statistics: (hypotheses, 9), in the order of `tuning.bleu`.
    :raises PhrasescoreError: if one is not finite.
    """
    check_finite(path, statistics)
    theirs = statistics[:, np.argsort(BLEU_ORDER)]
    width = len(BLEU_ORDER)
    _write(path, "SCORES", _format_rows(theirs), f"{width} BLEU", starts, ids)


def _format_rows(values: Values) -> Iterator[bytes]:
    form = b"%.9g " * values.shape[1]
    for start in range(0, len(values), _ROWS):
        yield from (form % tuple(row) for row in values[start : start + _ROWS].tolist())


def check_finite(path: str, values: Values) -> None:
    """Check numbers before they are written.

    :raises PhrasescoreError: if one is not finite.
    """
    if not math.isfinite(float(np.abs(values).max(initial=0.0))):
        raise PhrasescoreError(f"{path}: expected finite numbers to write, found others")


def _write(
    path: str,
    kind: str,
    lines: Iterable[bytes],
    header: str,
    starts: Sequence[int] | Integers,
    ids: Sequence[int] | None,
) -> None:
    sizes = np.diff(np.asarray(starts, np.int64)).tolist()
    remaining = iter(lines)
    with open_output(path) as output:
        for identity, size in zip(ids or range(len(sizes)), sizes, strict=True):
            output.write(f"{kind}_TXT_BEGIN_0 {identity} {size} {header}\n".encode())
            output.writelines(next(remaining) + b"\n" for _ in range(size))
            output.write(f"{kind}_TXT_END_0\n".encode())

"""Start points of Moses' mert: the ``init.opt`` that mert-moses.pl writes for it."""

from typing import NamedTuple

import numpy as np

from moses_integration.nbest import parse_number
from moses_integration.tuning_file_writer import check_finite
from moses_integration.tuning_files import Values
from phrasescore.errors import DataError
from phrasescore.io.output import open_output
from phrasescore.io.text import read_lines


class StartPoint(NamedTuple):
    """Weights to start from: one number a feature value, in the order of a features file."""

    weights: Values
    # Between which mert draws its random starts.
    lowest: Values
    highest: Values


def read_start_point(path: str, num_values: int) -> StartPoint:
    """Return the start point of an ``init.opt``: weights, and the ends of the random ones' range.

    Only the first line has to be there; the range is 0 to 1 without the others, as
    mert-moses.pl has it.

    :raises DataError: if a line has another number of values, or something that is no number.
    """
    rows: list[Values] = []
    for number, line in enumerate(read_lines(path), start=1):
        row = [parse_number(token, path, number) for token in line.split()]
        if not row:
            continue
        if len(row) != num_values:
            problem = f"expected {num_values} numbers, one a feature value, found {len(row)}"
            raise DataError(path, number, problem)
        if len(rows) == 3:
            raise DataError(path, number, "expected 3 lines: start, lowest and highest weights")
        rows.append(np.array(row))
    if not rows:
        raise DataError(path, None, "expected a line of weights to start from, found none")
    usual = [rows[0], np.zeros(num_values), np.ones(num_values)]
    return StartPoint(*rows, *usual[len(rows) :])


def write_start_point(path: str, weights: Values) -> None:
    """Write an ``init.opt``: weights to start from, and random ones between 0 and 1."""
    check_finite(path, weights)
    rows = (weights, np.zeros(len(weights)), np.ones(len(weights)))
    with open_output(path) as output:
        output.writelines(b"%s\n" % b" ".join(b"%.9g" % value for value in row) for row in rows)

"""Edit distances of many sentences."""

from typing import Any

import numpy as np

from phrasescore.io.kernel_cache import kept_njit

_KERNEL = kept_njit()


@_KERNEL
def _distance(first: Any, second: Any) -> int:
    """Return the Levenshtein distance of two arrays."""
    row = np.arange(len(second) + 1)
    for i in range(len(first)):
        diagonal, row[0] = row[0], i + 1
        for j in range(len(second)):
            changed = diagonal + (first[i] != second[j])
            diagonal = row[j + 1]
            row[j + 1] = min(changed, diagonal + 1, row[j] + 1)
    return int(row[-1])


@_KERNEL
def fill_errors(
    units: Any, starts: Any, known: Any, known_starts: Any, owners: Any, choices: int, result: Any
) -> None:
    """Fill ``result`` with the errors and the length of the best reference of each text.

    :param units: the units of all texts; text i begins at ``starts[i]``.
    :param known: the units of all references, which begin at ``known_starts``. The first reference
        of every segment comes first, then the second reference of every segment.
    :param owners: the segment of each text.
    """
    segments = (len(known_starts) - 1) // choices
    for row in range(len(owners)):
        text = units[starts[row] : starts[row + 1]]
        for choice in range(choices):
            number = choice * segments + owners[row]
            reference = known[known_starts[number] : known_starts[number + 1]]
            errors, length = _distance(text, reference), len(reference)
            # errors / max(length, 1) is compared without division.
            if choice == 0 or errors * max(result[row, 1], 1) < result[row, 0] * max(length, 1):
                result[row, 0], result[row, 1] = errors, length

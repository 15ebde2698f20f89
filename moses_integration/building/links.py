"""Read word alignments such as ``0-0 1-2`` in blocks of sentences."""

from collections.abc import Iterable
from itertools import chain

import numpy as np
import numpy.typing as npt

from moses_integration.alignments import check_links

Numbers = npt.NDArray[np.int32]
Starts = npt.NDArray[np.int64]


def parse_block(lines: Iterable[bytes], path: str, before: int) -> tuple[Numbers, Starts]:
    """Return the links in consecutive lines of a file, and where each line's links begin.

    :param before: number of lines in the file before these lines.
    :return: ``(links, 2)``: a source and a target word, 0-based; ``(lines + 1,)``.
    :raises DataError: if a line is malformed. Word numbers are not checked.
    """
    fields = []
    for number, line in enumerate(lines, start=before + 1):
        field = line.removesuffix(b"\r").strip(b" ")
        check_links(field, path, number)
        fields.append(field.replace(b"-", b" ").split())
    links = np.array(list(chain.from_iterable(fields)), "S9").astype(np.int32).reshape(-1, 2)
    starts = np.zeros(len(fields) + 1, np.int64)
    np.cumsum([len(field) // 2 for field in fields], out=starts[1:])
    return links, starts

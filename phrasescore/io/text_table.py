"""Format tables for terminals and text files."""

import textwrap
from collections.abc import Sequence

from tabulate import tabulate

WIDTH = 80  # of a terminal


def text_table(
    rows: Sequence[Sequence[str]], sides: str = "lr", indent: str = "", *, wrap: bool = False
) -> list[str]:
    """Return the lines of a table, with two blanks between columns and no trailing blanks.

    :param rows: cells, which are printed unchanged; all rows have the same number of cells.
    :param sides: the alignment of each column: ``l`` (left) or ``r`` (right); the last letter also
        applies to all further columns.
    :param wrap: break the last cells between words, so that lines have at most `WIDTH` characters.

    >>> text_table([["", "BLEU"], ["first", "9.5"]])
    ['        BLEU', 'first   9.5']
    """
    letters = sides.ljust(len(rows[0]), sides[-1]) if rows else ""
    align = ["right" if letter == "r" else "left" for letter in letters]
    if wrap and rows:
        *others, last = zip(*rows, strict=True)
        used = len(indent) + sum(max(map(len, cells)) + 2 for cells in others)
        wrapper = textwrap.TextWrapper(
            max(20, WIDTH - used), break_long_words=False, break_on_hyphens=False
        )
        lines = [wrapper.wrap(cell) or [""] for cell in last]
        rows = [
            [*(row[:-1] if number == 0 else [""] * len(others)), line]
            for row, parts in zip(rows, lines, strict=True)
            for number, line in enumerate(parts)
        ]
    text = tabulate(rows, tablefmt="plain", disable_numparse=True, colalign=align)
    return [f"{indent}{line}".rstrip() for line in text.split("\n")]

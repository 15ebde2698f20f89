"""Format tables for terminals and text files."""

from collections.abc import Sequence

from tabulate import tabulate


def text_table(rows: Sequence[Sequence[str]], sides: str = "lr", indent: str = "") -> list[str]:
    """Return the lines of a table, with two blanks between columns and no trailing blanks.

    :param rows: cells, which are printed unchanged; all rows have the same number of cells.
    :param sides: the alignment of each column: ``l`` (left) or ``r`` (right); the last letter also
        applies to all further columns.

    >>> text_table([["", "BLEU"], ["first", "9.5"]])
    ['        BLEU', 'first   9.5']
    """
    letters = sides.ljust(len(rows[0]), sides[-1]) if rows else ""
    align = ["right" if letter == "r" else "left" for letter in letters]
    text = tabulate(rows, tablefmt="plain", disable_numparse=True, colalign=align)
    return [f"{indent}{line}".rstrip() for line in text.split("\n")]

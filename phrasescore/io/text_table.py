"""Format tables for terminals and text files."""

import textwrap
from collections.abc import Sequence
from itertools import chain

from tabulate import tabulate

WIDTH = 80  # of a terminal


def wrapped(text: str, width: int = WIDTH, indent: str = "  ") -> list[str]:
    """Return a text as lines that are not longer than the width, unless a word is."""
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def text_blocks(columns: Sequence[Sequence[str]], last: Sequence[str]) -> list[str]:
    """Return the lines of a table that is divided into blocks of at most `WIDTH` characters.

    :param columns: the cells of each column; the first column begins each block.
    :param last: the cells of the column that ends each block.

    >>> text_blocks([["", "one"], ["first", "1" * 60], ["second", "2" * 60]], ["", "best"])[2:]
    ['', '     second', 'one  222222222222222222222222222222222222222222222222222222222222  best']
    """
    first, *others = columns
    blocks = [[first]]
    for column in others:
        rows = list(zip(*blocks[-1], column, last, strict=True))
        if len(blocks[-1]) > 1 and max(map(len, text_table(rows, "l"))) > WIDTH:
            blocks.append([first])
        blocks[-1].append(column)
    lines = [["", *text_table(list(zip(*each, last, strict=True)), "l")] for each in blocks]
    return list(chain.from_iterable(lines))[1:]


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
        lines = [wrapped(cell, max(20, WIDTH - used), "") or [""] for cell in last]
        rows = [
            [*(row[:-1] if number == 0 else [""] * len(others)), line]
            for row, parts in zip(rows, lines, strict=True)
            for number, line in enumerate(parts)
        ]
    text = tabulate(rows, tablefmt="plain", disable_numparse=True, colalign=align)
    return [f"{indent}{line}".rstrip() for line in text.split("\n")]

"""Draw progress bars at the bottom of a terminal, whose lines are never longer than it is wide."""

import os
from collections.abc import Sequence
from typing import Any, TextIO

from tqdm import tqdm
from tqdm.utils import disp_len, disp_trim

from phrasescore.errors import show_controls

_LEAST_BAR = 8  # columns
_UNUSED = 3  # columns for "^C", which the terminal writes after the line, and for the cursor


class Screen:
    """The last lines of a terminal, which are drawn again in their place."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._height = stream, 0

    def draw(self, lines: Sequence[str]) -> None:
        """Draw lines in place of the older ones; without lines, only erase those."""
        if not lines and not self._height:
            return
        text = "\n".join(f"{line}\x1b[K" for line in lines)
        self._stream.write("\r" + "\x1b[A" * (self._height - 1) + f"{text}\x1b[J")
        self._stream.flush()
        self._height = len(lines)

    def size(self) -> os.terminal_size:
        """Return the columns and lines that may be used."""
        try:
            columns, lines = os.get_terminal_size(self._stream.fileno())
        except OSError:
            columns, lines = 0, 0
        return os.terminal_size((max((columns or 80) - _UNUSED, 1), lines or 24))

    def line(self, title: str, share: float | None, details: Sequence[str]) -> str:
        """Return a line with a title, a bar if there is a share, and details.

        Where there is too little room, the last details are omitted first, then the bar, and then
        the percentage; the title is always shown.
        """
        width, start = self.size().columns, show_controls(title)
        details = list(map(show_controls, details))
        if share is not None:
            percentage = f"{start}, {int(100 * share):3d}%"
            start = percentage if disp_len(percentage) <= width else start
        has_bar = share is not None and disp_len(start) + len(" ||") + _LEAST_BAR <= width
        room = width - disp_len(start) - (len(" || ") + _LEAST_BAR if has_bar else len(", "))
        while details and disp_len(", ".join(details)) > room:
            details.pop()
        if share is None or not has_bar:
            return str(disp_trim(", ".join([start, *details]), width))
        end = " " + ", ".join(details) if details else ""
        form: Any = {"bar_format": "{start} |{bar}|{end}", "start": start, "end": end}
        is_plain = "utf" not in (self._stream.encoding or "").lower()
        return str(tqdm.format_meter(share, 1, 0, ncols=width, ascii=is_plain, **form))

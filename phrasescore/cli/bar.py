"""Draw progress bars whose lines are never longer than the terminal is wide."""

from collections.abc import Callable
from typing import Any, TextIO

from tqdm import tqdm
from tqdm.utils import disp_len, disp_trim

from phrasescore.errors import show_controls

_LEAST_BAR = 8  # columns
_CTRL_C = 2  # columns for "^C", which the terminal writes after the line


class Bar(tqdm):  # type: ignore[type-arg]
    """A bar with text on both of its sides.

    Where there is too little room, the last details are omitted first, then the bar, and then the
    percentage; the title is always shown.
    """

    monitor_interval = 0  # no thread that redraws: Ctrl-C could leave it waiting for tqdm's lock

    def __init__(self, title: str, stream: TextIO) -> None:
        self._details: list[str] = []
        title = show_controls(title)
        super().__init__(desc=title, file=stream, leave=False, dynamic_ncols=True)

    def show(self, title: str, share: float | None, details: list[str]) -> None:
        """Draw the line; without a share, only the text."""
        self.desc, self._details = show_controls(title), list(map(show_controls, details))
        self.n, self.total = (0, None) if share is None else (share, 1)
        self.refresh()

    def __str__(self) -> str:
        fields = self.format_dict  # measures the terminal
        width = max((fields["ncols"] or 79) - _CTRL_C, 1)
        start, details = self.desc, list(self._details)
        if self.total:
            percentage = f"{start}, {int(100 * self.n):3d}%"
            start = percentage if disp_len(percentage) <= width else start
        has_bar = self.total and disp_len(start) + len(" ||") + _LEAST_BAR <= width
        room = width - disp_len(start) - (len(" || ") + _LEAST_BAR if has_bar else len(", "))
        while details and disp_len(", ".join(details)) > room:
            details.pop()
        if not has_bar:
            return disp_trim(", ".join([start, *details]), width)
        end = " " + ", ".join(details) if details else ""
        form = {"ncols": width, "bar_format": "{start} |{bar}|{end}", "start": start, "end": end}
        return self.format_meter(**{**fields, **form})

    @staticmethod
    def status_printer(file: Any) -> Callable[[str], None]:
        """Return a function that draws a line, and erases the rest of the older one."""

        def draw(line: str) -> None:
            file.write(f"\r{line}\x1b[K")
            file.flush()

        return draw

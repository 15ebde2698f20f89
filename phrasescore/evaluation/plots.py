"""Figures of breakdowns: one panel per breakdown, one line per system."""

import io
from collections.abc import Sequence
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure


class Panel(NamedTuple):
    """A pair of axes: the title of the horizontal one, its labels, and BLEU by system and label."""

    title: str
    labels: list[str]
    lines: list[list[float]]


# By the ending of a file name: metadata without the time, so that equal figures give equal bytes.
FORMATS: dict[str, dict[str, None]] = {
    "pdf": {"CreationDate": None},
    "png": {},
    "svg": {"Date": None},
}


def draw(panels: Sequence[Panel], systems: Sequence[str], file_format: str) -> bytes:
    """Return a figure as the bytes of a file; no display is needed.

    :param systems: names for the legend, one per line of a panel.
    """
    # In SVG, text stays text, and ids are not random.
    with mpl.rc_context({"svg.hashsalt": "phrasescore", "svg.fonttype": "none"}):
        figure = Figure(figsize=(6.0, 3.2 * len(panels)), layout="constrained")
        for axes, panel in zip(
            figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True
        ):
            positions = list(range(len(panel.labels)))
            for name, line in zip(systems, panel.lines, strict=True):
                axes.plot(positions, line, marker="o", label=_shown(name))
            axes.set_xticks(positions, panel.labels)
            axes.set_xlabel(panel.title)
            axes.set_ylabel("BLEU")
            axes.grid(alpha=0.3)
            axes.legend()
        buffer = io.BytesIO()
        figure.savefig(buffer, format=file_format, metadata=FORMATS[file_format])
    return buffer.getvalue()


def _shown(name: str) -> str:
    """Return a label that matplotlib shows unchanged: it parses $ as a formula and hides _NAME."""
    return (" " if name.startswith("_") else "") + name.replace("$", r"\$")

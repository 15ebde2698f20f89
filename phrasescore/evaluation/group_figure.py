"""The figure of `evaluate --plot`: BLEU of groups of sentences, with 95% intervals."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from phrasescore.evaluation.comparison import BreakdownScores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# File formats for plots, with metadata that omits the time, so that equal plots give equal bytes.
PLOT_FORMATS: dict[str, dict[str, None]] = {
    "pdf": {"CreationDate": None},
    "png": {},
    "svg": {"Date": None},
}
# Okabe and Ito's colours, which colour-blind readers can distinguish.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666")
_MARKERS = "osD^Pv*X"
_WIDTH = 0.6  # of a group, over which its systems are spread
_LEGEND = 72  # characters that a line of the legend has room for


def draw(
    breakdowns: Sequence[BreakdownScores],
    spreads: Sequence[Sequence[Sequence[float]]],
    systems: Sequence[str],
    file_format: str,
) -> bytes:
    """Plot breakdowns below one another; return the bytes of the file.

    :param spreads: half the width of each interval, by breakdown, group and system.
    """
    import matplotlib as mpl

    # In SVG files, keep text as text and make ids reproducible.
    with mpl.rc_context({"svg.hashsalt": "phrasescore", "svg.fonttype": "none"}):
        buffer = io.BytesIO()
        plot_groups(breakdowns, spreads, systems).savefig(
            buffer, format=file_format, metadata=PLOT_FORMATS[file_format]
        )
    return buffer.getvalue()


def plot_groups(
    breakdowns: Sequence[BreakdownScores],
    spreads: Sequence[Sequence[Sequence[float]]],
    systems: Sequence[str],
) -> "Figure":
    """Plot a point with an interval for each group and system."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.4 * len(breakdowns)), layout="constrained")
    plots = figure.subplots(len(breakdowns), squeeze=False)[:, 0]
    for axes, breakdown, widths in zip(plots, breakdowns, spreads, strict=True):
        for index, name in enumerate(systems):
            # Systems stand side by side, so that no interval hides another.
            shift = ((index + 0.5) / len(systems) - 0.5) * _WIDTH
            scores = [group.bleu[index] for group in breakdown.groups]
            above = [spread[index] for spread in widths]
            # matplotlib treats $ as the start of a formula and hides labels that start with _.
            label = (" " if name.startswith("_") else "") + name.replace("$", r"\$")
            axes.errorbar(
                [place + shift for place in range(len(scores))],
                scores,
                yerr=[list(map(min, scores, above)), above],  # no score is below 0
                label=label,
                color=_COLOURS[index % len(_COLOURS)],
                marker=_MARKERS[index % len(_MARKERS)],
                linestyle="none",
                capsize=2.5,
            )
        labels = [f"{group.label}\n({group.sentences:,})" for group in breakdown.groups]
        axes.set_xticks(range(len(labels)), labels)
        axes.set_xlabel(f"{breakdown.title} (number of sentences)")
        axes.set_ylabel("BLEU, 95% interval")
        axes.grid(axis="y", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    columns = max(1, _LEGEND // (max(map(len, systems)) + 6))
    handles = plots[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper left", ncols=columns, frameon=False)
    return figure

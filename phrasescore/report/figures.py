"""The figures of a report, drawn by matplotlib as SVG in which words stay words.

The colours are variables of the page's style, so that a figure is light or dark as the page is. The
text of a mark, such as the word of a point on a map, is shown on hover.
"""

import io
import re
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from markupsafe import Markup

from phrasescore.report import blocks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_MARKERS = "osD^Pvp"
_DASHES = ("-", "--", ":", "-.")
# Colours, and the variables of page.css that stand for them. The series have Okabe & Ito's colours,
# which the colour-blind can tell apart.
_SERIES = ("#0072b2", "#d55e00", "#009e73", "#b1558f", "#c98a00", "#3d9fdb", "#666666")
_TEXT, _MUTED, _RULE, _GROUND = "#1a1c1f", "#5c636b", "#d9dce0", "#ffffff"
_VARIABLES = {colour: f"var(--series-{number})" for number, colour in enumerate(_SERIES)} | {
    _TEXT: "var(--text)",
    _MUTED: "var(--muted)",
    _RULE: "var(--rule)",
    _GROUND: "var(--ground)",
}
_SETTINGS: dict[Any, object] = {
    "svg.fonttype": "none",  # text, not outlines
    "text.parse_math": False,
    "text.color": _TEXT,
    "axes.axisbelow": True,
    "axes.edgecolor": _MUTED,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": _TEXT,
    "figure.facecolor": "none",
    "font.family": "DejaVu Sans",  # comes with matplotlib; page.css replaces it
    "grid.color": _RULE,
    "legend.frameon": False,
    "savefig.facecolor": "none",
    "xtick.color": _MUTED,
    "xtick.labelcolor": _TEXT,
    "ytick.color": _MUTED,
    "ytick.labelcolor": _TEXT,
}
_WIDTH = 6.6  # of the axes, in inches
_LONGEST = 28  # characters of a word or name in a figure; on hover it is whole
_CHARACTER, _LINE = 6.4, 13.0  # the size of a character of a label, in points, with some room
_MOST_LABELS = 70  # on a map, so that its points can be seen, too
_FAINT = 0.02  # a smaller share of a soft parse is not drawn

# The texts of a drawing's marks, by the name of their group.
_Texts = dict[str, list[str]]


def draw_figure(block: blocks.Figure) -> Markup:
    """Draw a figure as an SVG element for a page; equal figures give identical elements."""
    import matplotlib
    from matplotlib.figure import Figure

    stream = io.StringIO()
    with matplotlib.rc_context(), warnings.catch_warnings():
        # The browser has the glyphs that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        matplotlib.rcdefaults()
        for name, value in {**_SETTINGS, "svg.hashsalt": block.name}.items():
            matplotlib.rcParams[name] = value
        figure = Figure(figsize=(_WIDTH, _WIDTH))
        axes = figure.add_axes((0, 0, 1, 1))
        match block:
            case blocks.Points():
                texts = _draw_points(block, axes)
            case blocks.Matrix():
                texts = _draw_matrix(block, axes)
            case blocks.Lines():
                texts = _draw_lines(block, axes)
            case blocks.Intervals():
                texts = _draw_intervals(block, axes)
            case blocks.Pyramid():
                texts = _draw_pyramid(block, axes)
        figure.savefig(stream, format="svg", bbox_inches="tight")
    return _inline(stream.getvalue(), texts)


def _inline(svg: str, texts: _Texts) -> Markup:
    """Convert matplotlib's file to an element of the page, with texts on hover and no date."""
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{_SVG}style", f"{_SVG}metadata"):
                parent.remove(child)
    for group in root.iter(f"{_SVG}g"):
        marks = (each for each in group.iter() if each.tag in (f"{_SVG}use", f"{_SVG}path"))
        shown = texts.get(group.attrib.pop("id", ""))
        if shown is None:
            continue
        defined = {each for part in group.iter(f"{_SVG}defs") for each in part.iter()}
        drawn = [mark for mark in marks if mark not in defined]
        for mark, text in zip(drawn, shown, strict=True):
            ElementTree.SubElement(mark, f"{_SVG}title").text = _plain(text)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        if _LINK in element.attrib:
            element.set("href", element.attrib.pop(_LINK))
        if "style" in element.attrib:
            style = element.attrib["style"]
            style = re.sub("#[0-9a-f]{6}", lambda found: _VARIABLES.get(found[0], found[0]), style)
            element.set("style", style)
    return Markup(ElementTree.tostring(root, "unicode"))


def _plain(text: str) -> str:
    """Return a text on one line, in which characters that XML forbids are escaped."""
    words = " ".join(text.split())
    forbidden = r"[^ -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
    return re.sub(forbidden, lambda found: f"\\u{ord(found[0]):04x}", words)


def _label(text: str) -> str:
    text = _plain(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _resize(axes: "Axes", width: float, height: float) -> None:
    axes.get_figure(root=True).set_size_inches(width, height)  # type: ignore[union-attr]


def _add_legend(axes: "Axes", names: Sequence[str]) -> None:
    if len(names) > 1:
        longest = max(map(len, map(_label, names)))
        columns = max(1, min(len(names), 80 // (longest + 6)))
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, ncols=columns)


def _draw_points(block: blocks.Points, axes: "Axes") -> _Texts:
    size = min(7.0, max(2.5, 150 / (len(block.x) + 1) ** 0.5))
    by_group = _points_by_group(block)
    texts = {}
    for number, (group, points) in enumerate(by_group.items()):
        axes.plot(
            [block.x[point] for point in points],
            [block.y[point] for point in points],
            _MARKERS[number % len(_MARKERS)],
            color=_SERIES[number % len(_SERIES)],
            alpha=0.7,
            markersize=size,
            markeredgewidth=0,
            label=_label(group),
            gid=f"points-{number}",
        )
        ending = f" ({group})" if group else ""
        texts[f"points-{number}"] = [block.labels[point] + ending for point in points]
    axes.set_xlabel(_plain(block.x_label))
    axes.set_ylabel(_plain(block.y_label))
    axes.margins(0.04)
    if block.is_map:
        axes.set(xticks=[], yticks=[], aspect="equal", adjustable="datalim")
        _label_points(block, axes)
    else:
        low, high = (end(*axes.get_xlim(), *axes.get_ylim()) for end in (min, max))
        axes.set(xlim=(low, high), ylim=(low, high))
        axes.axline((low, low), slope=1, color=_MUTED, linestyle=":", linewidth=1, zorder=1)
    _add_legend(axes, list(by_group))
    return texts


def _points_by_group(block: blocks.Points) -> dict[str, list[int]]:
    """Return the points of each group; groups that begin with a number are in its order."""
    found: dict[str, list[int]] = {}
    for point, group in enumerate(block.groups or [""] * len(block.x)):
        found.setdefault(group, []).append(point)
    numbers = {group: re.match(r"\d+", group) for group in found}
    if not all(numbers.values()):
        return found
    return dict(sorted(found.items(), key=lambda item: int(numbers[item[0]][0])))  # type: ignore[index]


def _label_points(block: blocks.Points, axes: "Axes") -> None:
    """Write labels to the right of the first points of a map, with no label on another one."""
    axes.apply_aspect()
    area = axes.get_window_extent()
    scale = 72 / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    taken: list[tuple[float, float, float]] = []  # the ends of labels, and their middle heights
    for point, place in enumerate(zip(block.x, block.y, strict=True)):
        x, y = axes.transData.transform(place)
        label = _label(block.labels[point])
        left, middle = scale * x + 5, scale * y
        right = left + _CHARACTER * len(label)
        is_free = right <= scale * area.x1 and not any(
            left < other_right and other_left < right and abs(middle - other) < _LINE
            for other_left, other_right, other in taken
        )
        if is_free and len(taken) < _MOST_LABELS:
            taken.append((left, right, middle))
            axes.annotate(label, place, (5, 0), textcoords="offset points", va="center")


def _draw_matrix(block: blocks.Matrix, axes: "Axes") -> _Texts:
    from matplotlib.colors import LinearSegmentedColormap

    rows, columns = len(block.row_labels), len(block.column_labels)
    _resize(axes, 0.25 * columns, 0.25 * rows)
    shades = LinearSegmentedColormap.from_list("shades", [f"{_TEXT}00", _TEXT])
    axes.pcolormesh(block.values, cmap=shades, vmin=0, vmax=1, gid="weights")
    axes.grid(False)
    axes.set_xticks([at + 0.5 for at in range(columns)], [_label(w) for w in block.column_labels])
    axes.set_yticks([at + 0.5 for at in range(rows)], [_label(w) for w in block.row_labels])
    axes.tick_params("both", length=0)
    axes.tick_params("x", rotation=90)
    axes.invert_yaxis()
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set(xlabel="reads", ylabel="predicts")
    return {
        "weights": [
            f"{row} ← {column}: {weight:.3f}"
            for row, weights in zip(block.row_labels, block.values, strict=True)
            for column, weight in zip(block.column_labels, weights, strict=True)
        ]
    }


def _draw_lines(block: blocks.Lines, axes: "Axes") -> _Texts:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    _resize(axes, _WIDTH, 0.6 * _WIDTH)
    texts = {}
    for number, series in enumerate(block.series):
        style = _MARKERS[number % len(_MARKERS)] + _DASHES[number % len(_DASHES)]
        axes.semilogy(
            series.x,
            series.y,
            style,
            color=_SERIES[number % len(_SERIES)],
            markersize=5 if len(series.x) <= 60 else 2,
            label=_label(series.name),
            gid=f"line-{number}",
        )
        points = (
            f"{series.name}, {x:,g}: {y:.4g}" for x, y in zip(series.x, series.y, strict=True)
        )
        # The line is a mark of its own, before its points.
        texts[f"line-{number}"] = [series.name, *points]
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(
        MaxNLocator(6) if high < 10 * low else LogLocator(subs=(1.0, 2.0, 5.0))
    )
    axes.yaxis.set_minor_formatter(NullFormatter())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.set(xlabel=block.x_label, ylabel=block.y_label)
    _add_legend(axes, [series.name for series in block.series])
    return texts


def _draw_intervals(block: blocks.Intervals, axes: "Axes") -> _Texts:
    _resize(axes, _WIDTH, (0.25 + 0.15 * len(block.series)) * len(block.rows))
    sign = "+" if block.signed else ""
    step = 0.7 / len(block.series)
    texts = {}
    for number, series in enumerate(block.series):
        shift = (number - (len(block.series) - 1) / 2) * step
        colour = _SERIES[number % len(_SERIES)]
        marks: list[tuple[float, float, str]] = []
        ends = zip(block.rows, series.values, series.low, series.high, strict=True)
        for place, (row, value, low, high) in enumerate(ends):
            if value is None:
                continue
            text = f"{row}, {series.name}: {value:{sign}.2f}"
            if low is not None and high is not None:
                axes.plot((low, high), (place + shift,) * 2, "|-", color=colour)
                text += f" [{low:{sign}.2f}, {high:{sign}.2f}]"
            marks.append((value, place + shift, text))
        values, places, texts[f"values-{number}"] = map(list, zip(*marks, strict=True))
        marker = _MARKERS[number % len(_MARKERS)]
        axes.plot(
            values, places, marker, color=colour, label=_label(series.name), gid=f"values-{number}"
        )
    if block.signed:
        axes.axvline(0, color=_MUTED, linewidth=1.2, zorder=1)
    axes.set_yticks(range(len(block.rows)), [_label(row) for row in block.rows])
    axes.set_ylim(len(block.rows) - 0.5, -0.5)
    axes.grid(False, axis="y")
    axes.set_xlabel(_plain(block.x_label))
    _add_legend(axes, [series.name for series in block.series])
    return texts


def _draw_pyramid(block: blocks.Pyramid, axes: "Axes") -> _Texts:
    count = len(block.words)
    _resize(axes, 0.4 * count, 0.3 * count)
    units, shades, texts = [], [], []
    for level, shares_of_units in enumerate(block.levels, start=1):
        for place, (new, left, right) in enumerate(shares_of_units):
            units.append((place + level / 2, level))
            shades.append((_TEXT, new))
            words = " ".join(block.words[place : place + level + 1])
            texts.append(f"{words}: new {new:.3f}, left {left:.3f}, right {right:.3f}")
            for share, child in ((left, place), (right, place + 1)):
                if share >= _FAINT:
                    ends = ((units[-1][0], child + (level - 1) / 2), (level, level - 1))
                    axes.plot(*ends, color=_TEXT, alpha=share, linewidth=0.6 + 1.8 * share)
    axes.plot(range(count), [0] * count, "o", color=_MUTED, markersize=3)
    if units:
        # A ground below each unit hides the ends of the lines.
        for colours, gid in (([_GROUND] * len(units), None), (shades, "units")):
            x, y = zip(*units, strict=True)
            axes.scatter(x, y, 60, colours, edgecolors=_MUTED, linewidths=0.7, zorder=3, gid=gid)
    axes.set_frame_on(False)
    axes.grid(False)
    axes.set(xlim=(-0.5, count - 0.5), ylim=(-0.3, count - 0.5), yticks=[])
    axes.set_xticks(range(count), [_label(word) for word in block.words], rotation=45, ha="right")
    axes.tick_params("x", length=0)
    return {"units": texts} if units else {}

"""Figures as SVG: their marks stand where the values are, and words stay words."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from phrasescore.report.blocks import (
    Estimates,
    Figure,
    Intervals,
    Lines,
    Matrix,
    Points,
    Pyramid,
    Series,
)
from phrasescore.report.figures import draw_figure
from tests.phrasescore.report.odd_report import ODD, odd_blocks

FIGURES = [block for block in odd_blocks() if isinstance(block, Figure)]


def parse(figure: Figure) -> ElementTree.Element:
    return ElementTree.fromstring(draw_figure(figure))


def texts(figure: Figure) -> list[str]:
    return [each.text or "" for each in parse(figure).iter("text")]


def marks(figure: Figure) -> dict[str, ElementTree.Element]:
    """Return the marks that show a text on hover, by this text."""
    shown = ((each.find("title"), each) for each in parse(figure).iter())
    return {title.text or "": each for title, each in shown if title is not None}


def place(mark: ElementTree.Element) -> tuple[float, float]:
    return float(mark.get("x", "")), float(mark.get("y", ""))


def opacity(mark: ElementTree.Element) -> float:
    style = mark.get("style", "")
    if "fill: none" in style:
        return 0.0
    assert "fill: var(--text)" in style
    found = re.search(r"fill-opacity: ([\d.]+)", style)
    return float(found[1]) if found else 1.0


def test_points_stand_at_their_values_and_have_their_labels() -> None:
    x_values, y_values = (-3.0, -1.0, -2.0, -2.5), (-9.0, -2.0, 5.0, -4.0)
    labels, groups = ("a → x", "b", "c", "d"), ("10 and more", "1", "2 to 9", "1")
    points = Points("p", "", "table", "network", x_values, y_values, labels, groups)
    found = marks(points)
    assert list(found) == ["b (1)", "d (1)", "c (2 to 9)", "a → x (10 and more)"]
    places = {text[0]: place(mark) for text, mark in found.items()}
    # Both axes have the same scale: a unit is as long to the right as it is upwards.
    unit = (places["b"][0] - places["a"][0]) / 2
    for label, x, y in zip("abcd", x_values, y_values, strict=True):
        assert places[label][0] - places["a"][0] == pytest.approx((x + 3) * unit, abs=1e-3)
        assert places[label][1] - places["a"][1] == pytest.approx((-9 - y) * unit, abs=1e-3)
    shown = texts(points)
    assert shown[-3:] == ["1", "2 to 9", "10 and more"]  # the legend
    assert {"table", "network"} <= {*shown}


def test_a_map_has_the_labels_of_its_first_points_where_none_is_on_another() -> None:
    labels = tuple(f"word {number}" for number in range(200))
    x = tuple(float(number % 10) for number in range(200))
    y = tuple(float(number // 10) for number in range(200))
    cloud = Points("m", "", "one", "two", x, y, labels, is_map=True)
    found = [each for each in texts(cloud) if each.startswith("word")]
    assert found[0] == "word 0"
    assert 10 < len(found) <= 70
    assert len(marks(cloud)) == 200
    together = Points("m", "", "", "", (1.0,) * 5, (1.0,) * 5, labels[:5], is_map=True)
    assert [each for each in texts(together) if each] == ["word 0"]


def test_the_weight_of_a_cell_is_its_shade() -> None:
    values = ((0.0, 0.25, 0.75), (1.0, 0.5, 0.0))
    found = marks(Matrix("x", "", ("the", "</s>"), ("la", "la", "</s>"), values))
    assert [opacity(mark) for mark in found.values()] == pytest.approx(
        [0.0, 0.25, 0.75, 1.0, 0.5, 0.0], abs=1 / 256
    )
    assert list(found)[1:4] == ["the ← la: 0.250", "the ← </s>: 0.750", "</s> ← la: 1.000"]


def test_cells_are_in_rows_below_one_another() -> None:
    block = Matrix("x", "", ("a", "b"), ("c", "d"), ((0.1, 0.2), (0.3, 0.4)))
    corners = [
        tuple(map(float, re.findall(r"[\d.]+", mark.get("d", ""))[:2]))
        for mark in marks(block).values()
    ]
    assert corners[0][1] == corners[1][1] < corners[2][1]
    assert corners[0][0] == corners[2][0] < corners[1][0]
    labels = {each.text: each.get("y") for each in parse(block).iter("text") if each.get("y")}
    assert float(labels["a"] or 0) < float(labels["b"] or 0)


def test_lines_have_a_mark_for_each_point_on_a_logarithmic_axis() -> None:
    series = (Series("m", (0.0, 10.0, 20.0), (100.0, 10.0, 1.0)), Series("n", (0.0,), (50.0,)))
    lines = Lines("l", "", "updates", "perplexity", series)
    found = marks(lines)
    assert list(found) == ["m", "m, 0: 100", "m, 10: 10", "m, 20: 1", "n", "n, 0: 50"]
    heights = [place(found[text])[1] for text in list(found)[1:4]]
    first, second = (after - before for before, after in pairwise(heights))
    assert first == pytest.approx(second)
    assert first > 0
    assert {"updates", "perplexity", "1", "10", "100", "m", "n"} <= {*texts(lines)}


def test_estimates_have_whiskers_and_a_missing_one_is_left_out() -> None:
    news = Estimates("news", (0.84, -0.31, None), (0.31, -0.9, None), (1.37, 0.2, None))
    talks = Estimates("talks", (1.0, None, 2.0), (0.5, None, None), (1.5, None, None))
    block = Intervals("i", "", "BLEU", ("+RNN", "+CSLM", "x"), (news, talks), signed=True)
    found = marks(block)
    assert list(found) == [
        *("+RNN, news: +0.84 [+0.31, +1.37]", "+CSLM, news: -0.31 [-0.90, +0.20]"),
        *("+RNN, talks: +1.00 [+0.50, +1.50]", "x, talks: +2.00"),
    ]
    places = [place(mark) for mark in found.values()]
    unit = (places[3][0] - places[2][0]) / 1.0
    assert places[0][0] - places[1][0] == pytest.approx(1.15 * unit, abs=1e-3)
    # A row's series stand below one another, and the rows, too.
    assert places[0][1] < places[2][1] < places[1][1] < places[3][1]
    lines = re.findall(r'd="M ([\d.]+) [\d.]+ +L ([\d.]+) [\d.]+ +"', draw_figure(block))
    lengths = [float(end) - float(start) for start, end in lines]
    for low, high in ((0.31, 1.37), (-0.9, 0.2), (0.5, 1.5)):
        assert any(length == pytest.approx((high - low) * unit, abs=1e-3) for length in lengths)


def test_units_of_a_pyramid_are_as_full_as_they_are_new() -> None:
    levels = (((0.25, 0.25, 0.5), (0.5, 0.5, 0.0)), ((1.0, 0.0, 0.0),))
    block = Pyramid("y", "", ("la", "maison", "est"), levels)
    found = marks(block)
    assert list(found) == [
        "la maison: new 0.250, left 0.250, right 0.500",
        "maison est: new 0.500, left 0.500, right 0.000",
        "la maison est: new 1.000, left 0.000, right 0.000",
    ]
    assert [opacity(mark) for mark in found.values()] == [0.25, 0.5, 1.0]
    low, other, top = map(place, found.values())
    assert low[1] == other[1] > top[1]
    assert top[0] == pytest.approx((low[0] + other[0]) / 2, abs=1e-3)
    # What has no share is not drawn: three edges of six.
    strengths = re.findall(r"stroke-opacity: ([\d.]+)", draw_figure(block))
    assert sorted(map(float, strengths)) == [0.25, 0.5, 0.5]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_words_are_shown_as_they_are_and_in_the_colours_of_the_page(figure: Figure) -> None:
    drawn = draw_figure(figure)
    assert draw_figure(figure) == drawn
    tags = {each.tag for each in ElementTree.fromstring(drawn).iter()}
    assert tags <= {"svg", "g", "defs", "path", "use", "text", "title", "clipPath", "rect"}
    assert "#" not in re.sub(r'"(url\()?#\w+\)?"', "", "".join(re.findall(r"<[^>]+>", drawn)))
    cut = {
        word if len(word) <= 28 else f"{word[:27]}…" for word in map(" ".join, map(str.split, ODD))
    }
    assert cut <= {" ".join(text.split()) for text in texts(figure)}


def test_characters_that_xml_forbids_are_escaped() -> None:
    label = "a\x01\ud800\uffff\nb"
    found = marks(Points("p", "", "", "", (1.0,), (2.0,), (label,)))
    assert list(found) == [r"a\u0001\ud800\uffff b"]

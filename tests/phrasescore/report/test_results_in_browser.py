"""Intervals and marked words as a browser shows them; skipped where there is none."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page

from phrasescore.evaluation.comparison import ComparedSystem, Comparison
from phrasescore.evaluation.sentences import Sentences
from phrasescore.report.blocks import Block, Estimates, Intervals, Report, Section
from phrasescore.report.differences import difference_section
from phrasescore.report.page import render_page
from tests.browser import SCREENS, NewPage, needs_chromium, width_of_content

pytestmark = needs_chromium

VALUES = (0.84, -0.31, None, 12.0)
ENDS = ((0.31, -0.9, None, 11.5), (1.37, 0.2, None, 12.75))
NAMES = (
    "+RNN",
    "+CSLM",
    "to come",
    "<b>a name that is far too long for the room that there is</b>",
)


def write(folder: Path, *blocks: Block) -> str:
    """Write a page, and return its address."""
    path = folder / "index.html"
    report = Report("R", (), (Section("s", "S", "", blocks),))
    path.write_text(render_page(report), encoding="utf-8")
    return path.as_uri()


def intervals(*series: Estimates, signed: bool = False, bars: bool = False) -> Intervals:
    return Intervals("dots", "Dots", "difference of BLEU", NAMES, series, signed, bars)


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def scale(page: Page) -> tuple[float, float]:
    """Return the pixels of a unit, and of 0, from the outermost ticks as they are labelled."""
    ticks = page.locator(".tick").evaluate_all(
        "all => all.map((tick) => [tick.textContent, Number(tick.getAttribute('x'))])"
    )
    (first, start), *_, (last, end) = ticks
    unit = (end - start) / (number(last) - number(first))
    return unit, start - number(first) * unit


def attributes(page: Page, selector: str, name: str) -> list[list[float]]:
    """Return the numbers in an attribute of all elements."""
    found = page.locator(selector).evaluate_all(
        f"all => all.map((each) => each.getAttribute('{name}'))"
    )
    return [[float(part) for part in re.findall(r"-?\d+(?:\.\d+)?", text)] for text in found]


def test_dots_and_whiskers_are_where_the_axis_says(new_page: NewPage, tmp_path: Path) -> None:
    page = new_page()
    page.goto(write(tmp_path, intervals(Estimates("test", VALUES, *ENDS), signed=True)))
    page.locator("svg.intervals").wait_for()
    unit, zero = scale(page)
    dots = [(x - zero) / unit for x, _ in attributes(page, ".dot", "transform")]
    assert dots == pytest.approx([0.84, -0.31, 12.0], abs=1e-6)
    whiskers = [(path[0], path[2]) for path in attributes(page, ".whisker", "d")]
    found = [(end - zero) / unit for ends in whiskers for end in ends]
    assert found == pytest.approx([0.31, 1.37, -0.9, 0.2, 11.5, 12.75], abs=1e-6)
    ((line, *_),) = attributes(page, ".zero", "x1")
    assert line == pytest.approx(zero)
    rows = page.locator("[data-row]").all_text_contents()
    assert rows[:3] == ["+RNN+0.8 [+0.3, +1.4]", "+CSLM−0.3 [−0.9, +0.2]", "to come–"]
    page.locator("[data-row]").nth(0).hover()
    tip = page.locator("#_tip:not([hidden])")
    tip.wait_for()
    assert tip.text_content() == "+RNN+0.8 [+0.3, +1.4]"


def test_bars_begin_at_zero_and_end_at_their_values(new_page: NewPage, tmp_path: Path) -> None:
    page = new_page()
    page.goto(write(tmp_path, intervals(Estimates("share", (40.0, 5.0, None, 30.0)), bars=True)))
    page.locator("svg.intervals").wait_for()
    unit, zero = scale(page)
    starts, widths = (attributes(page, ".bar", name) for name in ("x", "width"))
    assert [start for (start,) in starts] == pytest.approx([zero] * 3)
    assert [width / unit for (width,) in widths] == pytest.approx([40, 5, 30])


def test_series_of_a_row_stand_below_one_another_and_can_be_hidden(
    new_page: NewPage, tmp_path: Path
) -> None:
    page = new_page("phone")
    block = intervals(Estimates("dev", VALUES, *ENDS), Estimates("test", VALUES))
    page.goto(write(tmp_path, block))
    page.locator("svg.intervals").wait_for()
    places = attributes(page, "[data-row='0'] .dot", "transform")
    assert places[0][0] == places[1][0]
    assert places[0][1] < places[1][1]
    page.locator(".legend button", has_text="dev").click()
    assert page.locator(".dot").count() == 3
    assert page.locator(".whisker").count() == 0
    assert width_of_content(page) == 390


def sentences(*texts: str) -> Sentences:
    return Sentences("text", list(texts), [tuple(text.split()) for text in texts])


def differences(references: Sentences, base: Sentences, other: Sentences) -> Block:
    systems = [ComparedSystem("base", [base]), ComparedSystem("other", [other])]
    return difference_section(Comparison(systems, [references])).blocks[0]


REFERENCES = sentences("a b c d e", *["f g"] * 4, "رجل يرتدي قبعة برتقالية")
BASE = sentences("a b x y", *["x"] * 4, "رجل في قبعة")
OTHER = sentences("a b c d z", *["f g"] * 4, "رجل يرتدي قبعة برتقالية")


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour as WCAG 2 defines it."""
    channels = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("screen", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_marks_are_told_apart_without_their_colours_and_can_be_read(
    new_page: NewPage, tmp_path: Path, scheme: str, screen: str
) -> None:
    page = new_page(screen, color_scheme=scheme)
    page.goto(write(tmp_path, differences(REFERENCES, BASE, OTHER)))
    assert width_of_content(page) == SCREENS[screen]["viewport"]["width"]
    style = "(all, name) => all.map((each) => getComputedStyle(each)[name])"
    lines = {
        kind: page.locator(f"tbody u.{kind}").first.evaluate(
            "each => [getComputedStyle(each).textDecorationStyle, "
            "parseFloat(getComputedStyle(each).textDecorationThickness)]"
        )
        for kind in ("short", "long")
    }
    assert lines["short"][0] == lines["long"][0] == "solid"
    assert lines["short"][1] < lines["long"][1]
    weights = page.locator("tbody mark").evaluate_all(style, "fontWeight")
    assert {int(weight) for weight in weights} == {600}
    colours = {
        (
            page.locator(f"{kind}mark").first.evaluate("each => getComputedStyle(each).color"),
            page.locator(f"{kind}mark").first.evaluate(
                "each => getComputedStyle(each).backgroundColor"
            ),
        )
        for kind in ("tbody u ", "tbody td > ")
    }
    assert len({ground for _, ground in colours}) == 2
    for pair in colours:
        low, high = sorted(map(luminance, pair))
        assert (high + 0.05) / (low + 0.05) >= 4.5


def test_text_runs_from_the_right_where_its_letters_do(new_page: NewPage, tmp_path: Path) -> None:
    page = new_page()
    page.goto(write(tmp_path, differences(REFERENCES, BASE, OTHER)))
    page.locator("summary", has_text="more").click()
    cell = page.locator("td", has_text="رجل").last
    assert cell.evaluate("each => getComputedStyle(each).direction") == "rtl"
    assert cell.text_content() == OTHER.texts[-1]


def test_folded_sentences_are_printed(new_page: NewPage, tmp_path: Path) -> None:
    page = new_page()
    page.goto(write(tmp_path, differences(REFERENCES, BASE, OTHER)))
    visible = page.locator("table.sentence:visible")
    assert visible.count() == 3
    page.emulate_media(media="print")
    assert visible.count() == 6

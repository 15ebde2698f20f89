"""Promises of phrasescore.report.page that only a browser can keep; skipped where there is none.

Chromium is Debian's; nothing here needs a graphics card or the network.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from phrasescore.report.blocks import Fact, Lines, Points, Report, Section, Series, Table
from phrasescore.report.page import render_page
from tests.phrasescore.report.browser import CHROMIUM, Page, open_browser
from tests.phrasescore.report.odd_report import ODD, odd_blocks

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

RANDOM = random.Random(1)
ROWS = tuple((f"word {n}", None if n == 7 else (n * 37) % 100 / 7) for n in range(100))


def cloud(count: int) -> tuple[float, ...]:
    return tuple(RANDOM.gauss(0, 1) for _ in range(count))


REPORT = Report(
    "A report",
    (Fact("model", "<b>m</b>"),),
    (
        Section("odd", "Odd words", "", odd_blocks()),
        Section("rows", "Rows", "", (Table("rows", "Rows", ("word", "value"), ROWS),)),
        Section(
            "many",
            "Many points",
            "",
            (
                Points(
                    "many", "Scores", "x", "y", cloud(5000), cloud(5000), ("a b",) * 5000,
                    equal=True,
                ),
                Points(
                    "map", "Map", "", "", cloud(2000), cloud(2000),
                    tuple(f"{ODD[n % 7]} {n}" for n in range(2000)), is_map=True,
                ),
            ),
        ),
    ),
)  # fmt: skip
SCREENS = {
    "desktop": {"width": 1280, "height": 900, "is_phone": False},
    "phone": {"width": 390, "height": 844, "is_phone": True},
}


@pytest.fixture(scope="module")
def report_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "index.html"
    path.write_text(render_page(REPORT), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(browser: Page) -> Page:
    """Return the one tab as if it were new."""
    browser.set_screen(1280, 900)
    browser.set_media()
    browser.mouse("mouseMoved", 5, 5)
    browser.problems.clear()
    return browser


def bring(page: Page, name: str) -> None:
    """Scroll to a figure, and wait until it is drawn and the page is still."""
    drawing = f"document.querySelector('#_b_{name} .drawing')"
    page.evaluate(f"{drawing}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    page.wait_for(f"{drawing}.querySelector('svg') !== null")
    page.evaluate("new Promise((resolve) => setTimeout(resolve, 500))")
    page.evaluate(f"{drawing}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    page.evaluate("new Promise((resolve) => setTimeout(resolve, 500))")


def spot_of(page: Page, name: str, x: float, y: float) -> tuple[float, float]:
    left, top = page.evaluate(f"""(() => {{
        const drawing = document.querySelector('#_b_{name} .drawing');
        const {{ xaxis, yaxis }} = drawing._fullLayout;
        const {{ left, top }} = drawing.getBoundingClientRect();
        return [left + xaxis._offset + xaxis.l2p({x}), top + yaxis._offset + yaxis.l2p({y})];
    }})()""")
    return left, top


def tip(page: Page) -> str:
    page.wait_for("!document.getElementById('_tip').hidden")
    return str(page.evaluate("document.getElementById('_tip').textContent"))


def texts(page: Page, selector: str) -> list[str]:
    found = f"[...document.querySelectorAll({json.dumps(selector)})]"
    shown: list[str] = page.evaluate(f"{found}.map((each) => each.textContent)")
    return shown


def boxes(page: Page, selector: str) -> list[dict[str, float]]:
    found = f"[...document.querySelectorAll({json.dumps(selector)})]"
    rectangles: list[dict[str, float]] = page.evaluate(
        f"{found}.map((each) => each.getBoundingClientRect().toJSON())"
    )
    return rectangles


def overlapping(found: list[dict[str, float]], slack: float = 0.0) -> list[tuple[int, int]]:
    return [
        (first, second)
        for second, box in enumerate(found)
        for first, other in enumerate(found[:second])
        if box["left"] + slack < other["right"]
        and other["left"] + slack < box["right"]
        and box["top"] + slack < other["bottom"]
        and other["top"] + slack < box["bottom"]
    ]


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_is_drawn_without_a_complaint_a_request_or_an_overlap(
    page: Page, report_file: Path, screen: str, scheme: str
) -> None:
    options: dict[str, Any] = SCREENS[screen]
    page.set_screen(**options)
    page.set_media(prefers_color_scheme=scheme)
    page.open(report_file)
    for name in ("points", "matrix", "lines", "intervals", "pyramid", "many", "map"):
        bring(page, name)
    assert page.problems == []
    assert page.evaluate("document.documentElement.scrollWidth") == options["width"]
    for selector in (
        "header, nav, section",
        "section > h2, section > p, .block",
        ".block h3, .block .legend, .block .drawing, .block figcaption, .block .values",
    ):
        assert overlapping(boxes(page, selector), slack=0.5) == []
    # Of the rows of a heat map; its columns are slanted, so that their boxes may meet.
    assert overlapping(boxes(page, "#_b_matrix .ytick text"), slack=3) == []


@pytest.mark.parametrize("screen", SCREENS)
def test_labels_of_a_map_stand_apart_and_more_come_by_zooming(
    page: Page, report_file: Path, screen: str
) -> None:
    options: dict[str, Any] = SCREENS[screen]
    page.set_screen(**options)
    page.open(report_file)
    bring(page, "map")
    seen: set[str] = set()
    for half in (4.0, 1.0, 0.2):
        axes = {"xaxis.range": [-half, half], "yaxis.range": [-half, half]}
        page.evaluate(
            "Plotly.relayout(document.querySelector('#_b_map .drawing'), "
            f"{json.dumps(axes)}).then(() => new Promise(requestAnimationFrame))"
        )
        page.evaluate("new Promise((resolve) => setTimeout(resolve, 300))")
        labels = texts(page, "#_b_map .labels text")
        assert len(labels) >= 8
        assert overlapping(boxes(page, "#_b_map .labels text"), slack=1) == []
        seen.update(labels)
    assert len(seen) > len(labels)


def test_hovering_shows_a_label_as_it_is(page: Page, report_file: Path) -> None:
    page.open(report_file)
    bring(page, "points")
    for place in (0, 3, 4):
        page.mouse("mouseMoved", 5, 5)
        page.evaluate("new Promise((resolve) => setTimeout(resolve, 200))")
        page.mouse("mouseMoved", *spot_of(page, "points", place, place))
        assert tip(page).startswith(ODD[place] + ODD[place])  # the label, then its group
    bring(page, "matrix")
    page.mouse("mouseMoved", *spot_of(page, "matrix", 4, 0))
    page.wait_for("document.getElementById('_tip').textContent.includes('←')")
    assert tip(page) == f"{ODD[0]} ← {ODD[4]}0.5"
    bring(page, "lines")
    page.mouse("mouseMoved", *spot_of(page, "lines", 4, 4))
    page.wait_for("!document.getElementById('_tip').textContent.includes('←')")
    assert ODD[4] in tip(page)
    bring(page, "pyramid")
    box = boxes(page, "#_b_pyramid .unit")[0]
    page.mouse("mouseMoved", box["left"] + box["width"] / 2, box["top"] + box["height"] / 2)
    page.wait_for("document.getElementById('_tip').textContent.includes('right')")
    assert tip(page) == f"{ODD[0]} {ODD[1]}new 0.250left 0.250right 0.500"


def test_hovering_over_many_points_names_those_that_hide_one_another(
    page: Page, report_file: Path
) -> None:
    page.open(report_file)
    bring(page, "many")
    assert page.evaluate("document.querySelector('#_b_many .drawing').data[0].type") == "scattergl"
    page.mouse("mouseMoved", *spot_of(page, "many", 0, 0))
    assert tip(page).count("a b") > 1
    assert page.problems == []


def test_what_plotly_would_read_as_tags_is_shown_as_it_is(page: Page, report_file: Path) -> None:
    page.open(report_file)
    for name in ("points", "matrix", "lines"):
        bring(page, name)
    cut = [word if len(word) <= 22 else f"{word[:21]}…" for word in ODD]
    for axis in (".xtick text", ".ytick text"):
        assert [text.split() for text in texts(page, f"#_b_matrix {axis}")] == [
            word.split() for word in cut
        ]
    for title in texts(page, ".xtitle, .ytitle"):
        assert "<b>bold</b> <a href='http://example.org'>link</a>" in title
    assert boxes(page, ".drawing a[href]") == []
    assert boxes(page, ".drawing tspan[style*='bold']") == []
    assert texts(page, "#_b_points .legend button") == [
        f"{mark}{word}" for mark, word in zip("●■◆▲✚✖▼", ODD, strict=True)
    ]


def test_a_heading_sorts_up_down_and_back(page: Page, report_file: Path) -> None:
    page.open(report_file)
    shown = "#_b_rows tbody tr:not([hidden]) td:first-child"
    sort = "document.querySelectorAll('#_b_rows th button')[1].click()"
    by_value = sorted((value, word) for word, value in ROWS if value is not None)
    assert texts(page, shown) == [word for word, _ in ROWS[:25]]
    page.evaluate(sort)
    assert texts(page, shown) == [word for _, word in by_value[:25]]
    assert page.evaluate("document.querySelectorAll('#_b_rows th')[1].ariaSort") == "ascending"
    page.evaluate(sort)
    assert texts(page, shown) == [word for _, word in by_value[:-26:-1]]
    # Nothing stands last, up and down.
    assert texts(page, "#_b_rows tbody tr:last-child td") == ["word 7", "–"]
    page.evaluate(sort)
    assert texts(page, shown) == [word for word, _ in ROWS[:25]]
    page.evaluate("document.querySelectorAll('#_b_rows th button')[0].click()")
    assert texts(page, shown)[:12][-3:] == ["word 9", "word 10", "word 11"]


def test_a_long_table_is_searched_and_shown_whole_on_request(page: Page, report_file: Path) -> None:
    page.open(report_file)
    shown = "#_b_rows tbody tr:not([hidden]) td:first-child"
    assert texts(page, "#_b_rows .count") == ["25 of 100 rows"]
    page.evaluate("""(() => {
        const input = document.querySelector('#_b_rows input');
        input.value = 'WORD 99';
        input.dispatchEvent(new Event('input'));
    })()""")
    assert texts(page, shown) == ["word 99"]
    assert texts(page, "#_b_rows .count") == ["1 of 100 rows"]
    page.evaluate("""(() => {
        const input = document.querySelector('#_b_rows input');
        input.value = '';
        input.dispatchEvent(new Event('input'));
        document.querySelector('#_b_rows .more').click();
    })()""")
    assert len(texts(page, shown)) == 100
    assert boxes(page, "#_b_rows .more")[0]["width"] == 0


def test_the_values_of_a_figure_are_a_table_on_request(page: Page, report_file: Path) -> None:
    page.open(report_file)
    page.evaluate("document.querySelector('#_b_matrix details').open = true")
    page.wait_for("document.querySelector('#_b_matrix table') !== null")
    assert texts(page, "#_b_matrix th") == ["", *ODD]
    assert texts(page, "#_b_matrix tbody tr:first-child td") == [ODD[0], *("0.5",) * len(ODD)]


def test_a_group_goes_and_comes_by_its_name_in_the_legend(page: Page, report_file: Path) -> None:
    page.open(report_file)
    bring(page, "points")
    button = "document.querySelectorAll('#_b_points .legend button')[2]"
    visible = "document.querySelector('#_b_points .drawing').data.map((each) => each.visible)"
    for pressed in (False, True):
        page.evaluate(f"{button}.click()")
        assert page.evaluate(visible) == [True, True, pressed, True, True, True, True]
        assert page.evaluate(f"{button}.ariaPressed") == str(pressed).lower()


@pytest.mark.parametrize("granted", [0, 1], ids=["none", "none-after-the-first"])
def test_points_are_drawn_without_webgl_too(page: Page, report_file: Path, granted: int) -> None:
    script = page.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source=f"""{{
            const {{ getContext }} = HTMLCanvasElement.prototype;
            let left = {granted};
            HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {{
                if (kind.includes("webgl") && (left -= 1) < 0) return null;
                return getContext.call(this, kind, ...rest);
            }};
        }}""",
    )
    try:
        page.open(report_file)
        bring(page, "many")
        assert len(boxes(page, "#_b_many .scatterlayer .point")) == 5000
    finally:
        page.call("Page.removeScriptToEvaluateOnNewDocument", **script)


def test_what_is_seen_stays_drawn_however_many_figures_there_are(
    page: Page, tmp_path: Path
) -> None:
    # More of WebGL than a browser keeps; jumps, after which what was near is not.
    maps = tuple(
        Points(f"map{n}", f"Map {n}", "", "", cloud(1600), cloud(1600), ("a",) * 1600, is_map=True)
        for n in range(12)
    )
    path = tmp_path / "index.html"
    path.write_text(render_page(Report("Maps", (), (Section("s", "S", "", maps),))), "utf-8")
    page.open(path)
    drawn = "document.querySelector('#_b_map{} .main-svg') !== null"
    for number in (0, 5, 11, 9, 10, 2, 3):
        page.evaluate(f"document.getElementById('_b_map{number}').scrollIntoView()")
        page.wait_for(drawn.format(number))
        page.evaluate("new Promise((resolve) => setTimeout(resolve, 700))")
        seen = page.evaluate(
            "[...document.querySelectorAll('.drawing')].map((each) => each.getBoundingClientRect())"
            ".map(({ top, bottom }) => top < innerHeight && bottom > 0)"
        )
        assert seen[number]
        assert all(page.evaluate(drawn.format(place)) for place in range(12) if seen[place])
    assert page.evaluate("document.querySelectorAll('canvas').length") < 30
    assert page.problems == []


def test_all_bars_have_their_names_and_lengths_their_order(page: Page, tmp_path: Path) -> None:
    names = tuple(f"LexicalReordering0_{n}" for n in range(15))
    groups = ("7 words", "10 words and more", "4 words")
    blocks = (
        Lines("bars", "Bars", "feature", "share", (Series("s", names, cloud(15)),)),
        Points("map", "Map", "", "", cloud(3), cloud(3), ("a", "b", "c"), groups, is_map=True),
    )
    path = tmp_path / "index.html"
    path.write_text(render_page(Report("R", (), (Section("s", "S", "", blocks),))), "utf-8")
    page.open(path)
    bring(page, "bars")
    texts = "[...document.querySelectorAll('{}')].map((each) => each.textContent.trim())"
    shown = '#_b_bars .xtick text:not([style*="display: none"]):not([style*="opacity: 0"])'
    assert page.evaluate(texts.format(shown)) == list(names)
    bring(page, "map")
    legend = page.evaluate(texts.format("#_b_map .legend button"))
    assert [text.lstrip("●■◆") for text in legend] == ["4 words", "7 words", "10 words and more"]


def test_all_is_on_paper(page: Page, report_file: Path) -> None:
    page.set_media(prefers_color_scheme="dark")
    page.open(report_file)
    page.wait_for("window.Plotly !== undefined")
    drawn = "[...document.querySelectorAll('.drawing')].filter((each) => each.querySelector('svg'))"
    assert page.evaluate(f"{drawn}.length") < 7
    page.call("Page.printToPDF")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(f"{drawn}.length") == 7
    assert page.problems == []


def test_all_rows_are_there_without_scripts(page: Page, report_file: Path) -> None:
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(report_file)
        heights = [box["height"] for box in boxes(page, "#_b_rows tbody tr")]
        assert len(heights) == 100
        assert min(heights) > 0
        assert texts(page, "#_b_rows th button") == []
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)

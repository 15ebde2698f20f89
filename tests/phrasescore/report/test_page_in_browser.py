"""Promises of phrasescore.report.page that only a browser can keep; skipped where there is none."""

import random
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from phrasescore.report.blocks import Block, Fact, Lines, Points, Report, Section, Series, Table
from phrasescore.report.page import render_page
from tests.browser import SCREENS, NewPage, needs_chromium, width_of_content
from tests.phrasescore.report.odd_report import ODD, odd_blocks

pytestmark = needs_chromium

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


@pytest.fixture(scope="module")
def report_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "index.html"
    path.write_text(render_page(REPORT), encoding="utf-8")
    return path


@pytest.fixture
def page(new_page: NewPage, report_file: Path) -> Page:
    """Return the report in a window of 1280 pixels."""
    page = new_page()
    page.goto(report_file.as_uri())
    return page


def bring(page: Page, name: str) -> None:
    """Scroll to a figure, and wait until it is drawn and the page is still."""
    drawing = page.locator(f"#_b_{name} .drawing")
    drawing.scroll_into_view_if_needed()
    drawing.locator("svg").first.wait_for(state="attached")
    for _ in range(2):
        page.wait_for_timeout(500)
        drawing.evaluate("each => each.scrollIntoView({ block: 'center', behavior: 'instant' })")


def hover(page: Page, name: str, x: float, y: float) -> None:
    """Move the mouse to a point of a figure, in the units of its axes."""
    left, top = page.locator(f"#_b_{name} .drawing").evaluate(
        """(drawing, [x, y]) => {
            const { xaxis, yaxis } = drawing._fullLayout;
            const { left, top } = drawing.getBoundingClientRect();
            return [left + xaxis._offset + xaxis.l2p(x), top + yaxis._offset + yaxis.l2p(y)];
        }""",
        [x, y],
    )
    page.mouse.move(left, top)


def tip(page: Page, *, has: str = "") -> str:
    """Return the text that is shown beside the mouse, as soon as it has some words."""
    shown = page.locator("#_tip:not([hidden])", has_text=has)
    shown.wait_for()
    return shown.text_content() or ""


def texts(page: Page, selector: str) -> list[str]:
    return page.locator(selector).all_text_contents()


def boxes(page: Page, selector: str) -> list[dict[str, float]]:
    rectangles: list[dict[str, float]] = page.locator(selector).evaluate_all(
        "all => all.map((each) => each.getBoundingClientRect().toJSON())"
    )
    return rectangles


def write(folder: Path, *blocks: Block) -> str:
    """Write a report, and return its address."""
    path = folder / "index.html"
    report = Report("R", (), (Section("s", "S", "", blocks),))
    path.write_text(render_page(report), encoding="utf-8")
    return path.as_uri()


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


def test_a_page_is_drawn_and_sorted(new_page: NewPage, tmp_path: Path) -> None:
    page = new_page("phone")
    page.goto(write(tmp_path, *odd_blocks(), Table("rows", "Rows", ("word", "value"), ROWS)))
    page.locator("#_b_lines").scroll_into_view_if_needed()
    page.locator("#_b_lines .drawing svg").first.wait_for()
    page.locator("#_b_rows th button").nth(1).click()
    assert texts(page, "#_b_rows tbody tr:first-child td") == ["word 0", "0.00"]
    assert width_of_content(page) == 390


@pytest.mark.slow
@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_is_drawn_without_an_overlap(
    new_page: NewPage, report_file: Path, screen: str, scheme: str
) -> None:
    page = new_page(screen, color_scheme=scheme)
    page.goto(report_file.as_uri())
    for name in ("points", "matrix", "lines", "intervals", "pyramid", "many", "map"):
        bring(page, name)
    assert width_of_content(page) == SCREENS[screen]["viewport"]["width"]
    for selector in (
        "header, nav, section",
        "section > h2, section > p, .block",
        ".block h3, .block .legend, .block .drawing, .block figcaption, .block .values",
    ):
        assert overlapping(boxes(page, selector), slack=0.5) == []
    # Of the rows of a heat map; its columns are slanted, so that their boxes may meet.
    assert overlapping(boxes(page, "#_b_matrix .ytick text"), slack=3) == []


@pytest.mark.slow
@pytest.mark.parametrize("screen", SCREENS)
def test_labels_of_a_map_stand_apart_and_more_come_by_zooming(
    new_page: NewPage, report_file: Path, screen: str
) -> None:
    page = new_page(screen)
    page.goto(report_file.as_uri())
    bring(page, "map")
    seen: set[str] = set()
    for half in (4.0, 1.0, 0.2):
        page.locator("#_b_map .drawing").evaluate(
            "(drawing, range) => "
            "Plotly.relayout(drawing, { 'xaxis.range': range, 'yaxis.range': range })",
            [-half, half],
        )
        page.wait_for_timeout(300)
        labels = texts(page, "#_b_map .labels text")
        assert len(labels) >= 8
        assert overlapping(boxes(page, "#_b_map .labels text"), slack=1) == []
        seen.update(labels)
    assert len(seen) > len(labels)


@pytest.mark.slow
def test_hovering_shows_a_label_as_it_is(page: Page) -> None:
    bring(page, "points")
    for place in (0, 3, 4):
        page.mouse.move(5, 5)
        page.wait_for_timeout(200)
        hover(page, "points", place, place)
        assert tip(page).startswith(ODD[place] + ODD[place])  # the label, then its group
    bring(page, "matrix")
    hover(page, "matrix", 4, 0)
    assert tip(page, has="←") == f"{ODD[0]} ← {ODD[4]}0.5"
    page.mouse.move(5, 5)
    bring(page, "lines")
    hover(page, "lines", 4, 4)
    tip(page, has=ODD[4])
    bring(page, "pyramid")
    page.locator("#_b_pyramid .unit").first.hover()
    assert tip(page, has="right") == f"{ODD[0]} {ODD[1]}new 0.250left 0.250right 0.500"


@pytest.mark.slow
def test_hovering_over_many_points_names_those_that_hide_one_another(page: Page) -> None:
    bring(page, "many")
    kind = page.locator("#_b_many .drawing").evaluate("drawing => drawing.data[0].type")
    assert kind == "scattergl"
    hover(page, "many", 0, 0)
    assert tip(page).count("a b") > 1


@pytest.mark.slow
def test_what_plotly_would_read_as_tags_is_shown_as_it_is(page: Page) -> None:
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


@pytest.mark.slow
def test_a_heading_sorts_up_down_and_back(page: Page) -> None:
    shown = "#_b_rows tbody tr:not([hidden]) td:first-child"
    words, values = page.locator("#_b_rows th button").all()
    by_value = sorted((value, word) for word, value in ROWS if value is not None)
    assert texts(page, shown) == [word for word, _ in ROWS[:25]]
    values.click()
    assert texts(page, shown) == [word for _, word in by_value[:25]]
    expect(page.locator("#_b_rows th").nth(1)).to_have_attribute("aria-sort", "ascending")
    values.click()
    assert texts(page, shown) == [word for _, word in by_value[:-26:-1]]
    # Nothing stands last, up and down.
    assert texts(page, "#_b_rows tbody tr:last-child td") == ["word 7", "–"]
    values.click()
    assert texts(page, shown) == [word for word, _ in ROWS[:25]]
    words.click()
    assert texts(page, shown)[:12][-3:] == ["word 9", "word 10", "word 11"]


@pytest.mark.slow
def test_a_long_table_is_searched_and_shown_whole_on_request(page: Page) -> None:
    shown = "#_b_rows tbody tr:not([hidden]) td:first-child"
    assert texts(page, "#_b_rows .count") == ["25 of 100 rows"]
    page.locator("#_b_rows input").fill("WORD 99")
    assert texts(page, shown) == ["word 99"]
    assert texts(page, "#_b_rows .count") == ["1 of 100 rows"]
    page.locator("#_b_rows input").fill("")
    page.locator("#_b_rows .more").click()
    assert len(texts(page, shown)) == 100
    expect(page.locator("#_b_rows .more")).to_be_hidden()


@pytest.mark.slow
def test_the_values_of_a_figure_are_a_table_on_request(page: Page) -> None:
    page.locator("#_b_matrix details").evaluate("details => { details.open = true; }")
    page.locator("#_b_matrix table").wait_for()
    assert texts(page, "#_b_matrix th") == ["", *ODD]
    assert texts(page, "#_b_matrix tbody tr:first-child td") == [ODD[0], *("0.5",) * len(ODD)]


@pytest.mark.slow
def test_a_group_goes_and_comes_by_its_name_in_the_legend(page: Page) -> None:
    bring(page, "points")
    button = page.locator("#_b_points .legend button").nth(2)
    for pressed in (False, True):
        button.click()
        visible = page.locator("#_b_points .drawing").evaluate(
            "drawing => drawing.data.map((each) => each.visible)"
        )
        assert visible == [True, True, pressed, True, True, True, True]
        expect(button).to_have_attribute("aria-pressed", str(pressed).lower())


@pytest.mark.slow
@pytest.mark.parametrize("granted", [0, 1], ids=["none", "none-after-the-first"])
def test_points_are_drawn_without_webgl_too(page: Page, granted: int) -> None:
    page.add_init_script(f"""{{
        const {{ getContext }} = HTMLCanvasElement.prototype;
        let left = {granted};
        HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {{
            if (kind.includes("webgl") && (left -= 1) < 0) return null;
            return getContext.call(this, kind, ...rest);
        }};
    }}""")
    page.reload()
    bring(page, "many")
    assert page.locator("#_b_many .scatterlayer .point").count() == 5000


@pytest.mark.slow
def test_what_is_seen_stays_drawn_however_many_figures_there_are(
    new_page: NewPage, tmp_path: Path
) -> None:
    # More of WebGL than a browser keeps; jumps, after which what was near is not.
    maps = tuple(
        Points(f"map{n}", f"Map {n}", "", "", cloud(1600), cloud(1600), ("a",) * 1600, is_map=True)
        for n in range(12)
    )
    page = new_page()
    page.goto(write(tmp_path, *maps))
    for number in (0, 5, 11, 9, 10, 2, 3):
        page.locator(f"#_b_map{number}").evaluate("each => each.scrollIntoView()")
        page.locator(f"#_b_map{number} .main-svg").first.wait_for(state="attached")
        page.wait_for_timeout(700)
        seen = [
            place
            for place, box in enumerate(boxes(page, ".drawing"))
            if box["top"] < 900 and box["bottom"] > 0
        ]
        assert number in seen
        assert all(page.locator(f"#_b_map{place} .main-svg").count() for place in seen)
    assert page.locator("canvas").count() < 30


@pytest.mark.slow
def test_all_names_have_their_ticks_and_lengths_their_order(
    new_page: NewPage, tmp_path: Path
) -> None:
    names = tuple(f"LexicalReordering0_{n}" for n in range(15))
    groups = ("7 words", "10 words and more", "4 words")
    names_below = Lines("bars", "Bars", "feature", "share", (Series("s", names, cloud(15)),))
    words = Points("map", "Map", "", "", cloud(3), cloud(3), ("a", "b", "c"), groups, is_map=True)
    page = new_page()
    page.goto(write(tmp_path, names_below, words))
    bring(page, "bars")
    shown = '#_b_bars .xtick text:not([style*="display: none"]):not([style*="opacity: 0"])'
    assert [text.strip() for text in texts(page, shown)] == list(names)
    bring(page, "map")
    legend = texts(page, "#_b_map .legend button")
    assert [text.lstrip("●■◆") for text in legend] == ["4 words", "7 words", "10 words and more"]


@pytest.mark.slow
def test_all_is_on_paper(new_page: NewPage, report_file: Path) -> None:
    page = new_page(color_scheme="dark")
    page.goto(report_file.as_uri())
    page.wait_for_function("window.Plotly !== undefined")
    drawn = page.locator(".drawing:has(svg)")
    assert drawn.count() < 7
    page.pdf()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert drawn.count() == 7


@pytest.mark.slow
def test_all_rows_are_there_without_scripts(new_page: NewPage, report_file: Path) -> None:
    page = new_page(java_script_enabled=False)
    page.goto(report_file.as_uri())
    rows = page.locator("#_b_rows tbody tr").all()
    assert len(rows) == 100
    assert all(row.is_visible() for row in rows)
    assert page.locator("#_b_rows th button").count() == 0

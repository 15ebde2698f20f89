"""Pages as a browser shows them: figures, and marked words; skipped where there is none."""

import re
from pathlib import Path

import pytest

from phrasescore.evaluation.comparison import ComparedSystem
from phrasescore.evaluation.sentences import Sentences
from phrasescore.report.blocks import Block, Report, Section
from phrasescore.report.differences import differences
from phrasescore.report.page import render_page
from tests.browser import SCREENS, NewPage, needs_chromium, width_of_content
from tests.phrasescore.report.odd_report import odd_report
from tests.phrasescore.report.report_blocks import section_of

pytestmark = needs_chromium


def write(folder: Path, *blocks: Block) -> str:
    """Write a page, and return its address."""
    path = folder / "index.html"
    report = Report("R", (), (Section("s", "S", "", blocks),))
    path.write_text(render_page(report), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize(("screen", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_figures_are_seen_without_scripts_as_wide_as_the_screen_and_in_its_colours(
    new_page: NewPage, tmp_path: Path, screen: str, scheme: str
) -> None:
    page = new_page(screen, color_scheme=scheme, java_script_enabled=False)
    (tmp_path / "index.html").write_text(render_page(odd_report()), encoding="utf-8")
    page.goto((tmp_path / "index.html").as_uri())
    assert width_of_content(page) == SCREENS[screen]["viewport"]["width"]
    figures = page.locator("figure svg").all()
    assert len(figures) == 5
    assert all(figure.is_visible() for figure in figures)
    colours = page.locator("figure text, p.lead").evaluate_all(
        "all => all.map((each) => getComputedStyle(each))"
        ".map((style) => style.fill === 'rgb(0, 0, 0)' ? style.color : style.fill)"
    )
    assert set(colours) == {"rgb(26, 28, 31)" if scheme == "light" else "rgb(228, 230, 233)"}


def sentences(*texts: str) -> Sentences:
    return Sentences("text", list(texts), [tuple(text.split()) for text in texts])


def marked(references: Sentences, base: Sentences, other: Sentences) -> Block:
    systems = [ComparedSystem("base", [base]), ComparedSystem("other", [other])]
    return section_of(differences, systems=systems, references=[references]).blocks[0]


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
    page.goto(write(tmp_path, marked(REFERENCES, BASE, OTHER)))
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
    page.goto(write(tmp_path, marked(REFERENCES, BASE, OTHER)))
    page.locator("summary", has_text="more").click()
    cell = page.locator("td", has_text="رجل").last
    assert cell.evaluate("each => getComputedStyle(each).direction") == "rtl"
    assert cell.text_content() == OTHER.texts[-1]


def test_folded_sentences_are_printed(new_page: NewPage, tmp_path: Path) -> None:
    page = new_page()
    page.goto(write(tmp_path, marked(REFERENCES, BASE, OTHER)))
    visible = page.locator("table.sentence:visible")
    assert visible.count() == 3
    page.emulate_media(media="print")
    assert visible.count() == 6

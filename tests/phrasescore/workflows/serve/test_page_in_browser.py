"""The page of ``phrasescore serve`` in a browser; skipped where there is none."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser import SCREENS, NewPage, needs_chromium, width_of_content
from tests.phrasescore.workflows.serve.server import Server, serving, write_system

pytestmark = [needs_chromium, pytest.mark.timeout(600)]  # the server compiles the search


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("system")
    write_system(folder)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with serving(folder, "system.toml", "--workers", "1") as running:
        yield running


def translate(page: Page, text: str) -> None:
    page.locator("#text").fill(text)
    page.locator("#result").evaluate("result => { result.hidden = true; }")
    page.locator("#send").click()
    page.locator("#result, #problem").filter(visible=True).wait_for()


def texts(page: Page, selector: str) -> list[str]:
    return page.locator(selector).all_text_contents()


@pytest.mark.parametrize(
    ("screen", "scheme"),
    [
        ("phone", "light"),
        pytest.param("phone", "dark", marks=pytest.mark.slow),
        pytest.param("desktop", "light", marks=pytest.mark.slow),
        pytest.param("desktop", "dark", marks=pytest.mark.slow),
    ],
)
def test_a_sentence_is_translated_and_explained(
    new_page: NewPage, server: Server, screen: str, scheme: str
) -> None:
    page = new_page(screen, color_scheme=scheme)
    page.goto(server.url)
    translate(page, "maison xyz la bleue maison")
    (found,) = server.translate(text="maison xyz la bleue maison", nbest=10, explain=True)
    assert texts(page, "#translation") == [found["text"]]
    alternatives = found["alternatives"]
    assert texts(page, "#alternatives button") == [each["words"] for each in alternatives]
    assert texts(page, "#alternatives tbody tr:first-child .number") == [
        f"{value:.3f}"
        for value in (
            alternatives[0]["score"],
            *(part["contribution"] for part in alternatives[0]["features"]),
        )
    ]
    assert width_of_content(page) == SCREENS[screen]["viewport"]["width"]
    check_shown(page, found["source"], alternatives[0])
    page.locator("#alternatives tbody tr").nth(1).click()
    check_shown(page, found["source"], alternatives[1])
    page.locator(".phrase").first.focus()
    assert page.locator(".phrase.chosen").count() == 2


def check_shown(page: Page, source: list[str], hypothesis: dict[str, Any]) -> None:
    words = hypothesis["words"].split()
    phrases = texts(page, "#phrases dd:last-child .phrase")
    assert " ".join(phrases).split() == words
    assert " ".join(texts(page, "#phrases dd:nth-of-type(1) .phrase")).split() == source
    assert texts(page, "#attention tbody th") == [*words, "</s>"]
    weights = page.locator("#attention tbody tr").evaluate_all(
        "rows => rows.map((row) =>"
        " [...row.cells].slice(1).map((cell) => +cell.style.getPropertyValue('--weight')))"
    )
    assert weights == hypothesis["attention"]


@pytest.mark.slow
def test_markup_is_text(new_page: NewPage, server: Server, page_problems: list[str]) -> None:
    page = new_page()
    page.goto(server.url)
    text = "la x<img/src=x/onerror=alert(1)> &amp; maison"
    translate(page, text)
    if texts(page, "#problem") == [""]:
        assert text.split()[1] in texts(page, "#translation")[0]
    translate(page, "la <b>maison</b>")
    assert "expected words, found markup: '<b>'" in texts(page, "#problem")[0]
    assert page.locator("main img, main b").count() == 0
    # A refused sentence is a 400, which the browser reports.
    page_problems[:] = [problem for problem in page_problems if "status of 400" not in problem]

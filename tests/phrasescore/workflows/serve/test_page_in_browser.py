"""The page of ``phrasescore serve`` in a browser; skipped where there is none."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.phrasescore.report.browser import CHROMIUM, Page, open_browser
from tests.phrasescore.workflows.serve.server import Server, serving, write_system

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("system")
    write_system(folder)
    with serving(folder, "system.toml", "--workers", "1") as running:
        yield running


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


def translate(page: Page, text: str) -> None:
    page.evaluate(f"document.getElementById('text').value = {text!r}")
    page.evaluate("document.getElementById('result').hidden = true")
    page.evaluate("document.getElementById('send').click()")
    page.wait_for("!document.getElementById('result').hidden"
                  " || !document.getElementById('problem').hidden")  # fmt: skip


def texts(page: Page, selector: str) -> list[str]:
    found: list[str] = page.evaluate(
        f"[...document.querySelectorAll({selector!r})].map((each) => each.textContent)"
    )
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "is_phone"), [(1280, False), (390, True)])
def test_a_sentence_is_translated_and_explained(
    browser: Page, server: Server, width: int, scheme: str, *, is_phone: bool
) -> None:
    browser.set_screen(width, 900, is_phone=is_phone)
    browser.set_media(prefers_color_scheme=scheme)
    browser.open(server.url)
    browser.problems.clear()
    translate(browser, "maison xyz la bleue maison")
    (found,) = server.translate(text="maison xyz la bleue maison", nbest=10, explain=True)
    assert texts(browser, "#translation") == [found["text"]]
    alternatives = found["alternatives"]
    assert texts(browser, "#alternatives button") == [each["words"] for each in alternatives]
    assert texts(browser, "#alternatives tbody tr:first-child .number") == [
        f"{value:.3f}"
        for value in (
            alternatives[0]["score"],
            *(part["contribution"] for part in alternatives[0]["features"]),
        )
    ]
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    # Nothing but the request, and no complaint about the page's policy.
    assert browser.problems == [f"request: {server.url}translate"]
    check_shown(browser, found["source"], alternatives[0])
    browser.evaluate("document.querySelectorAll('#alternatives tbody tr')[1].click()")
    check_shown(browser, found["source"], alternatives[1])
    browser.evaluate("document.querySelector('.phrase').focus()")
    assert len(texts(browser, ".phrase.chosen")) == 2


def check_shown(page: Page, source: list[str], hypothesis: dict[str, Any]) -> None:
    words = hypothesis["words"].split()
    phrases = texts(page, "#phrases dd:last-child .phrase")
    assert " ".join(phrases).split() == words
    assert " ".join(texts(page, "#phrases dd:nth-of-type(1) .phrase")).split() == source
    assert texts(page, "#attention tbody th") == [*words, "</s>"]
    weights = page.evaluate(
        "[...document.querySelectorAll('#attention tbody tr')].map((row) =>"
        " [...row.cells].slice(1).map((cell) => +cell.style.getPropertyValue('--weight')))"
    )
    assert weights == hypothesis["attention"]


def test_markup_is_text(browser: Page, server: Server) -> None:
    browser.open(server.url)
    browser.problems.clear()
    text = "la x<img/src=x/onerror=alert(1)> &amp; maison"
    translate(browser, text)
    if texts(browser, "#problem") == [""]:
        assert text.split()[1] in texts(browser, "#translation")[0]
    translate(browser, "la <b>maison</b>")
    assert "expected words, found markup: '<b>'" in texts(browser, "#problem")[0]
    assert browser.evaluate("document.querySelectorAll('main img, main b').length") == 0
    # A refused sentence is a 400, which the browser reports.
    assert not [each for each in browser.problems if "Refused" in each or "Policy" in each]

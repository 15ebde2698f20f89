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
    page.locator("#send").click()
    page.locator("#about, #problem:not(:empty)").filter(visible=True).wait_for()


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
    assert page.locator("#example").count() == 0  # the system has no text
    translate(page, "maison xyz la bleue maison")
    (found,) = server.translate(text="maison xyz la bleue maison", nbest=10, explain=True)
    assert texts(page, "#translation") == [found["text"]]
    alternatives = found["alternatives"]
    assert texts(page, "#alternatives button") == [each["words"] for each in alternatives]
    first, second = (each["groups"] for each in alternatives[:2])
    changes = texts(page, "#alternatives li:nth-child(2) .number")
    for name, change in zip(("tables", "language models", "networks"), changes, strict=False):
        value = float(change.replace("\N{MINUS SIGN}", "-"))
        assert value == pytest.approx(second[name] - first[name], abs=1e-3)
    assert width_of_content(page) == SCREENS[screen]["viewport"]["width"]
    check_shown(page, found["source"], alternatives[0])
    for place, each in enumerate(alternatives):
        page.locator("#alternatives button").nth(place).press("Enter")
        check_shown(page, found["source"], each)


def check_shown(page: Page, source: list[str], hypothesis: dict[str, Any]) -> None:
    words = hypothesis["words"].split()
    assert " ".join(texts(page, "#translation [role=button]")).split() == words
    assert texts(page, "#source span") == source
    assert texts(page, "#translation .unknown") == hypothesis["unknown"]
    for place, phrase in enumerate(hypothesis["phrases"]):
        page.locator("#translation [role=button]").nth(place).focus()
        start, end = phrase["source_start"], phrase["source_end"]
        assert texts(page, "#source .chosen") == source[start:end]
        rows = hypothesis["attention"][phrase["target_start"] : phrase["target_end"]]
        means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        script = "words => words.map((word) => +word.style.getPropertyValue('--weight'))"
        weights = page.locator("#source span").evaluate_all(script)
        assert weights == pytest.approx(means[: len(source)])
        assert f"translates “{' '.join(source[start:end])}”" in texts(page, "#explanation")[0]


def test_a_file_is_translated_line_by_line(
    new_page: NewPage, server: Server, tmp_path: Path, page_problems: list[str]
) -> None:
    lines = ["la maison xyz", "", *["la"] * 120, "a|b", "maison"]
    (tmp_path / "news.fr").write_text("\r\n".join(lines) + "\r\n")
    page = new_page()
    page.goto(server.url)
    sizes: list[int] = []
    requests: Any = page  # whose types do not allow this function
    requests.on("request", lambda request: sizes.append(len(request.post_data_json["text"])))
    page.locator("#file").set_input_files(tmp_path / "news.fr")
    with page.expect_download() as download:
        page.locator("#download").click()
    assert download.value.suggested_filename == "news.translated.txt"
    expected = [each["text"] for each in server.translate(text=["la maison xyz", "la", "maison"])]
    whole = [expected[0], "", *[expected[1]] * 120, "", expected[2]]
    assert download.value.path().read_text() == "\n".join(whole) + "\n"
    assert "Line 123 has no translation: expected words" in texts(page, "#problem")[0]
    assert max(sizes) <= 100 < sum(sizes)
    assert page.locator("#lines li").count() == 100
    assert "Unknown and copied: xyz" in texts(page, "#lines li")[0]
    (tmp_path / "news.fr").write_bytes(b"\xff\n")
    page.locator("#file").set_input_files(tmp_path / "news.fr")
    page.locator("#problem").filter(has_text="news.fr: expected a text file in UTF-8").wait_for()
    page_problems[:] = [problem for problem in page_problems if "status of 400" not in problem]


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

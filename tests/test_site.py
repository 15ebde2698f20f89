"""The site of the documentation in a browser; skipped where Zensical or Chromium is missing."""

import functools
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser import SCREENS, NewPage, needs_chromium, width_of_content

REPOSITORY = Path(__file__).resolve().parent.parent
pytestmark = [needs_chromium, pytest.mark.timeout(600)]  # the first test builds the site

_ENSEMBLES = {"generate.html", "rescore.html", "score.html"}
# Searches, and the pages of the verbs that have the option.
SEARCHES = {
    "--ensemble": _ENSEMBLES,
    "ensemble": _ENSEMBLES,
    "resume": {
        *("annotate.html", "build.html", "generate.html", "rescore.html", "train.html"),
        "tune.html",
    },
}
# Searches, and the section that they find first.
FIRST = {
    "make a column": "annotate.html#make-a-column",
    "low resource": "results.html#low-resource-languages",
    "which network": "results.html#which-network-to-begin-with",
    "which verb": "verbs.html",
    "GPU": "how-to/many-workers.html",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built from a copy of its pages."""
    pytest.importorskip("zensical")
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(REPOSITORY / "docs", folder / "docs")
    for name in ("mkdocs.yml", "CHANGELOG.md"):
        shutil.copy(REPOSITORY / name, folder)
    for package in ("phrasescore", "moses_integration", "tuning"):
        (folder / package).symlink_to(REPOSITORY / package)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture(params=["file", "http"])
def address(request: pytest.FixtureRequest, site: Path) -> Iterator[str]:
    """The address of the site's folder, with a slash at the end."""
    if request.param == "file":
        yield f"{site.as_uri()}/"
        return
    handler = functools.partial(_Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def search(page: Page, address: str, words: str) -> list[str]:
    """Return the addresses of the first results."""
    page.goto(address + "index.html")
    page.locator(".md-search__button").click()
    page.get_by_role("combobox", name="Search").fill(words)
    results = page.get_by_role("option")
    results.first.wait_for()
    return [result.get_attribute("href") or "" for result in results.all()[:3]]


def test_search_finds_the_right_page(new_page: NewPage, address: str) -> None:
    page = new_page()
    for words, expected in SEARCHES.items():
        results = search(page, address, words)
        assert {result.removeprefix(address).partition("?")[0] for result in results} <= expected
        assert [result for result in results if not result.endswith(f"#--{words.strip('-')}")] == []
    for words, section in FIRST.items():
        first = search(page, address, words)[0]
        assert re.sub(r"\?h=[^#]*", "", first.removeprefix(address)) == section
    page.set_viewport_size(SCREENS["phone"]["viewport"])
    assert width_of_content(page) <= 390


# The words of a command, which are texts between the spans of blanks and of what it prints.
_WORDS_BESIDE_ICON = """code => [...code.childNodes].every(each => {
    const range = document.createRange()
    range.selectNode(each)
    const icon = code.parentNode.querySelector("nav").getBoundingClientRect()
    const isWord = each.nodeType == Node.TEXT_NODE && each.data.trim()
    return !isWord || range.getBoundingClientRect().right <= icon.left
})"""


@pytest.mark.parametrize("screen", SCREENS)
def test_commands_are_whole_beside_the_icon(new_page: NewPage, site: Path, screen: str) -> None:
    page = new_page(screen)
    page.goto((site / "annotate.html").as_uri())
    commands = page.locator("pre > code:has(.gp)").all()
    assert len(commands) > 2
    assert all(each.evaluate(_WORDS_BESIDE_ICON) for each in commands)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
def test_no_page_is_wider_than_the_screen(
    new_page: NewPage, site: Path, screen: str, scheme: str
) -> None:
    page = new_page(screen, color_scheme=scheme)
    # A server shows 404.html at any address, so its links start at the root of the site.
    for path in sorted({*site.rglob("*.html")} - {site / "404.html"}):
        page.goto(path.as_uri())
        assert width_of_content(page) <= SCREENS[screen]["viewport"]["width"], path

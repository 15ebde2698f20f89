"""What goes wrong in a page is noticed by the tests of pages."""

from pathlib import Path

from tests.browser import NewPage, needs_chromium

SCRIPT = """
    console.info("fine");
    console.warn("a warning");
    console.error("an error");
    setTimeout(() => { throw new Error("thrown"); });
    Promise.reject(new Error("rejected"));
    fetch("http://127.0.0.1:1/").catch(() => {});
"""


@needs_chromium
def test_what_goes_wrong_is_noticed(
    new_page: NewPage, page_problems: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "index.html"
    path.write_text(f"<img src=missing.png><script>{SCRIPT}</script>", encoding="utf-8")
    page = new_page()
    page.goto(path.as_uri())
    expected = {
        "console error: Failed to load resource: net::ERR_FILE_NOT_FOUND",
        "console error: Failed to load resource: net::ERR_UNSAFE_PORT",
        "console error: an error",
        "console warning: a warning",
        "page error: thrown",
        "page error: rejected",
        f"failed: {tmp_path.as_uri()}/missing.png",
        "failed: http://127.0.0.1:1/",
        "request to another host: http://127.0.0.1:1/",
    }
    while len(page_problems) < len(expected):
        page.wait_for_timeout(20)
    assert set(page_problems) == expected
    page_problems.clear()

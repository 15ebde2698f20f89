"""Pages in the system's Chromium, driven by Playwright, with a list of what goes wrong in them."""

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any, Protocol
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Request, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")

SCREENS: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1280, "height": 900}},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "device_scale_factor": 2,
        "is_mobile": True,
        "has_touch": True,
    },
}


class NewPage(Protocol):
    """What the fixture ``new_page`` is."""

    def __call__(self, screen: str = "desktop", **options: Any) -> Page:
        """Return a page that is watched; it takes the options of Playwright's ``new_context``."""


@contextlib.contextmanager
def open_browser() -> Iterator[Browser]:
    """Start Chromium, and end it; meanwhile this thread has a running event loop."""
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]) as browser,
    ):
        yield browser


def watch(page: Page, problems: list[str]) -> None:
    """Collect errors, warnings, failed requests, and requests to hosts other than the page's."""

    def note_request(request: Request) -> None:
        is_page = request.is_navigation_request() and request.frame == page.main_frame
        host = urlsplit(request.url).netloc
        if host and not is_page and host != urlsplit(page.url).netloc:
            problems.append(f"request to another host: {request.url}")

    def note_failure(request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # by the next page
            problems.append(f"failed: {request.url}")

    def note_message(kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            problems.append(f"console {kind}: {text}")

    page.on("console", lambda message: note_message(message.type, message.text))
    page.on("pageerror", lambda error: problems.append(f"page error: {error}"))
    page.on("request", note_request)
    page.on("requestfailed", note_failure)


def width_of_content(page: Page) -> int:
    """Return the width in pixels that the page needs; more than the screen's means scrolling."""
    width: int = page.evaluate("document.documentElement.scrollWidth")
    return width

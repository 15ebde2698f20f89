"""A headless Chromium for tests of pages, driven over its pipe: no port, no library.

The protocol is that of https://chromedevtools.github.io/devtools-protocol: JSON messages, each
followed by a zero byte, on the file descriptors 3 (to the browser) and 4 (from it).
"""

import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.children import leashed

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--enable-unsafe-swiftshader",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-pipe",
)


class Page:
    """A tab. What goes wrong in it is collected in `problems`."""

    def __init__(self, to_browser: int, from_browser: int, limit: float) -> None:
        """:param limit: seconds that an answer may take."""
        self._to_browser = to_browser
        self._from_browser = from_browser
        self._limit = limit
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        # Errors, warnings and refusals that the console got, and requests for anything but a file.
        self.problems: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + self._limit
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from_browser], [], [], deadline - time.monotonic())
            chunk = os.read(self._from_browser, 1 << 20) if ready else b""
            if not chunk:
                raise RuntimeError("the browser does not answer")
            self._buffer += chunk
        message, self._buffer = self._buffer.split(b"\0", 1)
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _note(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        self._events.append(event)
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"])[:2000])
        elif "GL Driver Message" in json.dumps(parameters):
            pass  # how fast WebGL is without a graphics card
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.problems.append(json.dumps(parameters["args"])[:2000])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if not url.startswith(("file:", "data:", "blob:")):
                self.problems.append(f"request: {url}")

    def set_screen(self, width: int, height: int, *, is_phone: bool = False) -> None:
        """Set the size of the window in CSS pixels, and whether it is touched or has a pointer."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if is_phone else 1,
            mobile=is_phone,
        )
        self.call("Emulation.setTouchEmulationEnabled", enabled=is_phone)

    def set_media(self, media: str = "", **features: str) -> None:
        """Set the medium (``print``), and features such as prefers_color_scheme."""
        named = [
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()
        ]
        self.call("Emulation.setEmulatedMedia", media=media, features=named)

    def open(self, path: Path | str) -> None:
        """Open a file or an address, and wait until it has loaded."""
        self._events.clear()
        url = path if isinstance(path, str) else path.resolve().as_uri()
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._note(self._read())

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; of a promise, what it comes to."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]["exception"])[:2000])
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> None:
        deadline = time.monotonic() + self._limit
        while not self.evaluate(expression):
            if time.monotonic() > deadline:
                raise RuntimeError(f"never became true: {expression}")
            self.evaluate("new Promise((resolve) => setTimeout(resolve, 20))")

    def mouse(self, kind: str, x: float, y: float, **parameters: object) -> None:
        """Do something with the mouse, such as ``mouseMoved``, in pixels of the window."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **parameters)


@contextlib.contextmanager
def open_browser(profile: Path, *, limit: float = 60) -> Iterator[Page]:
    """Start a browser with a tab, and end it afterwards.

    :param profile: an empty folder for what it keeps.
    :param limit: seconds that anything may take.
    """
    assert CHROMIUM is not None
    browser_in, to_browser = os.pipe()
    from_browser, browser_out = os.pipe()
    command = [CHROMIUM, *_OPTIONS, f"--user-data-dir={profile}"]
    # The shell gives the pipes the numbers that the browser expects, whatever they are here.
    redirect = f'exec "$@" 3<&{browser_in} 4>&{browser_out}'
    process = subprocess.Popen(
        leashed(["/bin/bash", "-c", redirect, "bash", *command]),
        pass_fds=(browser_in, browser_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(browser_in)
    os.close(browser_out)
    try:
        page = Page(to_browser, from_browser, limit)
        yield page
        page._session = None
        page.call("Browser.close")
    finally:
        os.close(to_browser)
        os.close(from_browser)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

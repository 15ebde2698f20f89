"""A server of a tiny system, as a process, and clients for it."""

import asyncio
import contextlib
import json
import re
import signal
import time
import urllib.error
import urllib.request
import xmlrpc.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from phrasescore.models.checkpoint import save_checkpoint
from phrasescore.workflows.serve.application import TranslationServer
from tests.forked import Forked, run_command
from tests.random_networks import RandomNetwork
from tests.small_system import INI, LM, TABLE, TEXT

PLAIN = 'moses_ini = "moses.ini"\n'
# The weights of INI, so that a score without the network's is the search's.
WEIGHTS = "WordPenalty0= -0.5\nTM0= 1 0\nDistortion0= 1\nLM0= 0.5\nRNNsearch0= 2\n"
SYSTEM = f"""{PLAIN}weights = "weights"
nbest_size = 9
confidence = {{ scale = 0.5, slope = 2.0, offset = 1.0 }}
lists = [{{ model = "rnnsearch" }}]
"""


def write_system(folder: Path) -> None:
    """Write ``plain.toml``, a moses.ini alone, and ``system.toml``, which has a network."""
    texts = {"table": TABLE, "lm.arpa": LM, "moses.ini": INI, "weights": WEIGHTS, "source": TEXT}
    for name, text in (texts | {"plain.toml": PLAIN, "system.toml": SYSTEM}).items():
        (folder / name).write_text(text)
    network = RandomNetwork("rnnsearch", ["la", "maison"], ["the", "house", "home"])
    save_checkpoint(folder / "rnnsearch", network.checkpoint)


async def ask_application(
    server: TranslationServer, path: str, *parts: bytes | None, method: str = "POST", **headers: str
) -> tuple[int | None, dict[bytes, bytes], bytes]:
    """Return the answer to a request whose body arrives in parts; after None the client is gone.

    :param headers: with ``_`` for ``-``.
    """
    waiting, sent = list(parts), []

    async def receive() -> dict[str, Any]:
        if not waiting:
            await asyncio.sleep(1000)
        part = waiting.pop(0)
        if part is None:
            return {"type": "http.disconnect"}
        more = bool(waiting) and None not in waiting
        return {"type": "http.request", "body": part, "more_body": more}

    async def send(message: Any) -> None:
        sent.append(message)

    fields = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": fields, "query_string": b""}
    await server.application(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], dict(sent[0]["headers"]), body


class Server:
    """A running server; its log is a file."""

    def __init__(self, process: Forked, log: Path, port: int) -> None:
        self.process, self._log, self.port = process, log, port
        self.url = f"http://127.0.0.1:{port}/"

    @property
    def log(self) -> str:
        return self._log.read_text()

    def get(self, path: str, data: bytes | None = None) -> tuple[int, Any, bytes]:
        """Return the status, the headers and the body of an answer."""
        try:
            with urllib.request.urlopen(self.url + path, data, timeout=100) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def post(self, value: object) -> tuple[int, Any]:
        """Return the status and the values of an answer in JSON."""
        status, _, body = self.get("translate", json.dumps(value).encode())
        return status, json.loads(body)

    def translate(self, **values: object) -> list[dict[str, Any]]:
        status, answer = self.post(values)
        assert status == 200, answer
        found: list[dict[str, Any]] = answer["translations"]
        return found

    def call(self, **values: object) -> dict[str, Any]:
        """Return the answer of XML-RPC."""
        with xmlrpc.client.ServerProxy(f"{self.url}RPC2") as proxy:
            answer: Any = proxy.translate(values)
        return dict(answer)

    def workers(self) -> set[int]:
        """Return the process ids of the workers."""
        files = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return {int(pid) for file in files for pid in file.read_text().split()}

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(100)
        assert code is not None, self.log
        return code


@contextlib.contextmanager
def serving(folder: Path, system: str, *options: str, port: int = 0) -> Iterator[Server]:
    """Start a server in a folder, and end it."""
    log = folder / f"log.{time.monotonic_ns()}"
    arguments = ("serve", system, "--port", str(port), *options)
    process = Forked(run_command, *arguments, cwd=folder, log=log)
    try:
        while (
            found := re.search(r"listening on http://127\.0\.0\.1:(\d+)/", log.read_text())
        ) is None:
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        yield Server(process, log, int(found[1]))
    finally:
        process.kill()
        process.communicate()

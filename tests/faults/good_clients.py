"""Clients of ``serve`` that behave, and check what they get."""

import http.client
import json
import random
import threading
import time
import xmlrpc.client
from collections.abc import Sequence
from typing import Any, ClassVar

from tests.phrasescore.workflows.serve.server import Server

_SHORTEST = 0.2  # seconds to which a pause is proportional
_XML: list[dict[str, Any]] = [{}, {"align": True}, {"nbest": 5, "add-score-breakdown": True}]
_JSON: list[dict[str, Any]] = [{}, {"nbest": 5}, {"nbest": 3, "explain": True}]


class GoodClient(threading.Thread):
    """Asks, reads the whole answer, and compares it with earlier answers.

    :param pause: time between two requests, in multiples of the time that the first one took.
    """

    answers: ClassVar[dict[bytes, bytes]] = {}  # of all clients, by request
    texts: ClassVar[dict[str, str]] = {}  # the translations of sentences

    def __init__(self, server: Server, sentences: Sequence[str], pause: float, seed: int) -> None:
        super().__init__(daemon=True)
        self._sentences, self._pause = sentences, pause
        self._numbers = random.Random(seed)
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=100)
        self.stopped = threading.Event()
        self.latencies: list[float] = []
        self._taken = 0
        self.problems: list[str] = []

    def run(self) -> None:
        took = _SHORTEST
        while not self.stopped.wait(self._pause * self._numbers.uniform(0.5, 1.5) * took):
            begin = time.monotonic()
            try:
                self._ask_something()
                self.latencies.append(time.monotonic() - begin)
            except Exception as error:
                took = time.monotonic() - begin
                self.problems.append(f"a good client after {took:.1f} s: {error!r}"[:500])
                self._connection.close()
            took = max(_SHORTEST, time.monotonic() - begin)

    def take(self) -> list[float]:
        """Return the latencies since the last call."""
        size = len(self.latencies)
        found = self.latencies[self._taken : size]
        self._taken = size
        return found

    def _ask_something(self) -> None:
        numbers = self._numbers
        texts = numbers.choices(self._sentences, k=numbers.choice([1, 1, 1, 1, 3]))
        is_new = numbers.random() < 0.1
        if is_new:  # so that the server meets ever more words
            texts[0] += f" x{numbers.randrange(10**9)}"
        if len(texts) == 1 and numbers.random() < 0.5:
            more = numbers.choice(_XML)
            body = xmlrpc.client.dumps(({"text": texts[0], **more},), "translate").encode()
            answer = self._ask("/RPC2", body)
            values: Any = xmlrpc.client.loads(answer)[0]
            translations = [values[0]["text"]]
        else:
            more = numbers.choice(_JSON)
            body = json.dumps({"text": texts[0] if len(texts) == 1 else texts, **more}).encode()
            answer = self._ask("/translate", body)
            translations = [each["text"] for each in json.loads(answer)["translations"]]
        assert len(translations) == len(texts), answer[:200]
        if not is_new:
            assert self.answers.setdefault(body, answer) == answer, answer[:200]
        for text, translation in zip(texts, translations, strict=True):
            new = [word for word in text.split() if word[1:].isdigit()]
            assert all(word in translation.split() for word in new), (text, translation)
            if not new:
                assert self.texts.setdefault(text, translation) == translation, translation

    def _ask(self, path: str, body: bytes) -> bytes:
        connection = self._connection
        if self._numbers.random() < 0.3:
            connection.close()
        was_open = connection.sock is not None
        try:
            connection.request("POST", path, body)
            answer = connection.getresponse()
        except (ConnectionResetError, BrokenPipeError):
            # A server may close a connection that waits for a request: clients try again.
            if not was_open:
                raise
            connection.close()
            connection.request("POST", path, body)
            answer = connection.getresponse()
        data = answer.read()
        assert answer.status == 200, (answer.status, data[:200])
        return data

"""Clients of ``serve`` that stop, send garbage, do not read, and leave."""

import contextlib
import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tests.phrasescore.workflows.serve.server import Server
from tests.phrasescore.workflows.serve.test_serve import head_of, mutated

_BURST, _FLOOD = 60, 700  # connections at once; more than a server takes
_PAUSE = 3  # mean seconds between two actions of a thread
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with RST
_NEST = 40_000
_POST = b"POST /translate HTTP/1.1\r\nHost: a\r\n"
_GARBAGE = (
    b"\0" * 5000,
    b"\xff\xfe\x80garbage\r\n\r\n" * 20,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" * 20,  # TLS
    b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: %d\r\n" % (n, n) for n in range(3000)) + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    _POST + b"Content-Length: 99999999999999999999\r\n\r\n{",
    _POST + b"Content-Length: -5\r\n\r\n{}",
    _POST + b"Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}",
    _POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    b"POST /none HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n" + b"z" * 99,
    b"POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + b"z" * 200_000,
    _POST + b"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n",
    b"BREW /translate HTTP/1.1\r\nHost: a\r\n\r\nDELETE /RPC2 HTTP/1.0\r\n\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n" * 30 + b"\0garbage\r\n\r\n",
    (_POST + b"Content-Length: 2\r\n\r\n{}") * 10 + b"\r\n\r\n\r\n{",
    head_of("/translate", _NEST) + b"[" * _NEST,
    head_of("/translate", 6 * _NEST) + b'{"a":{' * _NEST,
    head_of("/RPC2", 7 * _NEST) + b"<value>" * _NEST,
    head_of("/translate", 900_000) + b'{"text":"' + b"a " * 450_000,
    head_of("/translate", 3_000_000) + b"\xff" * 3_000_000,
)


class _Held(NamedTuple):
    """A connection that a client keeps."""

    kind: str
    client: socket.socket
    until: float
    drip: bytes  # what it sends now and then


class RudeClients:
    """Some threads of clients that do everything wrong.

    :param limit: seconds after which the server should have ended a connection.
    """

    def __init__(self, server: Server, sentences: Sequence[str], limit: float, seed: int) -> None:
        self._server, self._sentences, self._limit = server, sentences, limit
        self._numbers = random.Random(seed)
        self._held: list[_Held] = []
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(3)]
        self._threads.append(threading.Thread(target=self._hold, daemon=True))
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop, except that the connections stay which are held."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def close(self) -> None:
        for held in self._held:
            held.client.close()
        self._held.clear()

    def _run(self) -> None:
        kinds = (self._damage, self._garble, self._halt, self._halt, self._ignore, self._leave)
        while not self._stopped.wait(self._numbers.expovariate(1 / _PAUSE)):
            kind = self._numbers.choice((*kinds, self._burst))
            kind = self._flood if self._numbers.random() < 0.01 else kind
            self.counts[kind.__name__.strip("_")] += 1
            try:
                kind()
            except OSError as error:  # the server has ended the connection
                self.counts[type(error).__name__] += 1

    def _connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._server.port), timeout=2 * self._limit)

    def _request(self, sentences: int, nbest: int) -> bytes:
        texts = self._numbers.choices(self._sentences, k=sentences)
        body = json.dumps({"text": texts, "nbest": nbest, "explain": nbest > 0}).encode()
        return head_of("/translate", len(body)).replace(b"Connection: close\r\n", b"") + body

    def _damage(self) -> None:
        """Send a damaged request, and read the answer."""
        request, is_complete = mutated(self._numbers)
        self._send(request, half_close=not is_complete)

    def _garble(self) -> None:
        garbage = self._numbers.choice((*_GARBAGE, self._numbers.randbytes(3000)))
        self._send(garbage, half_close=self._numbers.random() < 0.8)

    def _send(self, request: bytes, *, half_close: bool) -> None:
        with self._connect() as client:
            client.settimeout(3)
            answer = b""
            with contextlib.suppress(OSError):  # the answer may come before it is all sent
                client.sendall(request)
                if half_close:
                    client.shutdown(socket.SHUT_WR)
            with contextlib.suppress(OSError):
                while part := client.recv(65536):
                    answer += part
        starts = (b"HTTP/1.1 200", b"HTTP/1.1 4", b"HTTP/1.1 100", b"HTTP/1.1 503")
        if answer and (not answer.startswith(starts) or b"internal error" in answer):
            self.problems.append(f"{request[:300]!r} is answered with {answer[:300]!r}")

    def _halt(self) -> None:
        """Send a part of a request, or nothing, and keep the connection."""
        request = self._request(1, 0)
        kind, drip = self._numbers.choice([("silent", b""), ("slow", b"a")])
        self._keep(kind, request[: self._numbers.randrange(len(request))], drip)

    def _ignore(self) -> None:
        """Send whole requests, and never read an answer."""
        self._keep("deaf", self._request(2, 5) * self._numbers.choice([1, 3]), b"")

    def _keep(self, kind: str, data: bytes, drip: bytes, seconds: float | None = None) -> None:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(2)
        client.connect(("127.0.0.1", self._server.port))
        with contextlib.suppress(TimeoutError):
            client.sendall(data)
        seconds = 3 * self._limit if seconds is None else seconds
        self._held.append(_Held(kind, client, time.monotonic() + seconds, drip))

    def _leave(self) -> None:
        """Leave in the middle of a request or of an answer, with FIN or RST."""
        request = self._request(*self._numbers.choice([(1, 0), (2, 5)]))
        size = self._numbers.choice([len(request), self._numbers.randrange(len(request))])
        with self._connect() as client:
            client.sendall(request[:size])
            if size == len(request) and self._numbers.random() < 0.5:
                client.recv(20)
            if self._numbers.random() < 0.5:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    def _burst(self) -> None:
        clients = [self._connect() for _ in range(_BURST)]
        for number, client in enumerate(clients):
            with contextlib.suppress(OSError):
                client.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"[: number - _BURST // 2])
        for client in clients:
            client.close()

    def _flood(self) -> None:
        """Open more connections than a server takes, and keep them for some seconds."""
        for _ in range(_FLOOD):
            self._keep("flood", b"", b"", 10.0)

    def _hold(self) -> None:
        """Let slow clients send another byte; after some time connections must have ended."""
        while not self._stopped.wait(1):
            for held in list(self._held):
                if time.monotonic() > held.until:
                    self._held.remove(held)
                    self._check(held)
                elif held.drip:
                    with contextlib.suppress(OSError):
                        held.client.send(held.drip)

    def _check(self, held: _Held) -> None:
        with held.client as client:
            if held.kind == "flood":
                return
            client.settimeout(1)
            try:
                while client.recv(1 << 20):
                    pass
            except TimeoutError:
                self.problems.append(f"a {held.kind} client has its connection after the limit")
            except OSError:
                pass
        self.counts[f"{held.kind} ended"] += 1

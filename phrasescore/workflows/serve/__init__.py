"""Serve a system over HTTP."""

import asyncio
import logging
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from phrasescore.arguments import StrPath
from phrasescore.errors import ConfigError, PhrasescoreError
from phrasescore.settings.compute import Compute, Serving
from phrasescore.signals import catching_signals
from phrasescore.systems.ranking import TranslationTask
from phrasescore.systems.system import read_system
from phrasescore.systems.text import SystemSentence
from phrasescore.systems.translator import Translator
from phrasescore.workflows.serve.application import TranslationServer
from phrasescore.workflows.serve.collector import SentenceCollector
from phrasescore.workflows.serve.page import ServedSystem

_logger = logging.getLogger(__name__)

MOST_CONNECTIONS = 500
_STOP_SECONDS = 2.0  # for clients that the server waits for when it stops


def serve(system: StrPath, *, settings: Serving = Serving(), compute: Compute = Compute()) -> None:
    """Answer requests for translations until SIGINT or SIGTERM; running requests are finished."""
    read = read_system(system)
    if read.decoder is not None:
        problem = "serve requires the search of this package: other decoders read whole texts"
        raise ConfigError(read.path, "decoder", problem)
    with ExitStack() as stack:
        listener = stack.enter_context(_bind(settings.host, settings.port))
        translator = Translator(read, compute, path="text")
        plain = Translator(read, compute, path="text", tokenized=True)
        stack.enter_context(translator.open(apart=True, closed=_Sockets()))
        # Each worker translates something, so that it loads the search's networks.
        task = TranslationTask(0, SystemSentence(("a",), ("a",)))
        list(translator.pool.map(task for _ in range(translator.pool.workers)))
        collector = stack.enter_context(SentenceCollector(translator, plain, settings.max_words))
        served = ServedSystem.of(read)
        application = TranslationServer(collector, settings, served).application
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL + 1)
        config = uvicorn.Config(
            application,
            loop="asyncio",
            http=limited_connections(settings.max_wait),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=MOST_CONNECTIONS // 2,
            timeout_graceful_shutdown=int(settings.max_wait) + 1,
        )
        with _port_problems(settings.host, settings.port):
            listener.listen(MOST_CONNECTIONS // 2)
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        _logger.info(f"serve: {read.path}: listening on http://{shown}:{port}/")
        # uvicorn stops at a signal, and afterwards raises it again.
        with catching_signals():
            uvicorn.Server(config).run(sockets=[listener])
        _logger.info("serve: stopped")


def _bind(host: str, port: int) -> socket.socket:
    """Return a socket that does not listen yet; another server's port is refused here."""
    with _port_problems(host, port):
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
        return listener


@contextmanager
def _port_problems(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except (OSError, UnicodeError) as error:
        problem = getattr(error, "strerror", None) or error
        raise PhrasescoreError(f"cannot listen on {host}, port {port}: {problem}") from error


def limited_connections(max_wait: float) -> type[H11Protocol]:
    """Return uvicorn's class of connections with limits, which uvicorn itself lacks.

    A client has `max_wait` seconds to send the head of a request, from the beginning of the
    connection or from the last answer, however many bytes it sends. With one connection too many,
    the one that has sent no request for the longest time is ended.
    """

    class LimitedConnection(H11Protocol):
        _deadline: asyncio.TimerHandle

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._deadline = self.loop.call_later(max_wait, transport.abort)
            connections: set[Any] = self.connections
            if len(connections) > MOST_CONNECTIONS:
                waiting = (each for each in connections if each.is_waiting())
                oldest = min(waiting, key=lambda each: each._deadline.when())
                connections.discard(oldest)
                oldest.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            self._deadline.cancel()
            super().connection_lost(exc)

        def handle_events(self) -> None:
            before = self.cycle
            super().handle_events()
            if self.cycle is not before:
                # The application itself takes at most max_wait; the rest is for reading answers.
                self._end_after(2 * max_wait)

        def on_response_complete(self) -> None:
            self._end_after(max_wait)
            super().on_response_complete()

        def shutdown(self) -> None:
            super().shutdown()
            if self.is_waiting() or self.cycle.more_body or self.flow.write_paused:
                self._end_after(_STOP_SECONDS)

        def is_waiting(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _end_after(self, seconds: float) -> None:
            self._deadline.cancel()
            self._deadline = self.loop.call_later(seconds, self.transport.abort)

    return LimitedConnection


class _Sockets:
    """The sockets of this process; workers close those that they have when they are forked.

    Otherwise a client would not see the end of its connection, and the port would stay in use.
    """

    def __iter__(self) -> Iterator[int]:
        for name in os.listdir("/proc/self/fd"):
            try:
                if stat.S_ISSOCK(os.stat(int(name)).st_mode):
                    yield int(name)
            except OSError:  # the folder itself, which is closed by now
                continue

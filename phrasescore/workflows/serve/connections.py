"""Connections that end if their clients keep the server waiting."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 500
_STOP_SECONDS = 2.0  # for clients that the server waits for when it stops


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
            """Return whether there is no request to be answered."""
            return self.cycle is None or self.cycle.response_complete

        def _end_after(self, seconds: float) -> None:
            self._deadline.cancel()
            self._deadline = self.loop.call_later(seconds, self.transport.abort)

    return LimitedConnection

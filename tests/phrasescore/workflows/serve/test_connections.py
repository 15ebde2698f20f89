"""Clients that keep a server waiting, in the event loop of the test."""

import asyncio
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from phrasescore.workflows import serve as module
from phrasescore.workflows.serve import limited_connections

pytestmark = pytest.mark.timeout(60)  # what is not ended would be waited for

HEAD = b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
LARGE = GET.replace(b"/", b"/large", 1)
SHORT, LONG = 0.2, 1000.0
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Answer, when the body of a request to /translate has arrived."""
    if scope["path"] == "/translate":
        while (await receive()).get("more_body"):
            pass
    size = 20_000_000 if scope["path"] == "/large" else 5
    head = [(b"content-length", b"%d" % size)]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": b"a" * size})


@asynccontextmanager
async def serving(seconds: float) -> AsyncIterator[tuple[int, uvicorn.Server]]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        answer, http=limited_connections(seconds), lifespan="off", ws="none", log_config=None
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server._serve([listener]))
    while not server.started:
        await asyncio.sleep(0)
    yield listener.getsockname()[1], server
    server.should_exit = True
    await running


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


async def connect(port: int, request: bytes = b"") -> Streams:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
    writer.write(request)
    return reader, writer


async def read_to_end(streams: Streams) -> bytes:
    """Return what the server has sent, when it has ended the connection."""
    data = b""
    try:
        while part := await streams[0].read(1 << 16):
            data += part
    except ConnectionResetError:
        pass
    streams[1].close()
    return data


@pytest.mark.parametrize(
    "request_", [b"", HEAD[:20], GET + HEAD[:20], GET.replace(b"/", b"/none", 1)]
)
def test_a_client_that_sends_nothing_more_is_left(request_: bytes) -> None:
    async def test() -> None:
        async with serving(SHORT) as (port, _):
            data = await read_to_end(await connect(port, request_))
            assert data.endswith(b"aaaaa") == request_.startswith(b"GET")

    run(test())


@pytest.mark.parametrize(
    "request_", [b"GET / HTTP/1.1\r\nX: ", HEAD.replace(b"/translate", b"/none")]
)
def test_a_client_that_sends_slowly_is_left(request_: bytes) -> None:
    async def test() -> None:
        async with serving(SHORT) as (port, _):
            streams = await connect(port, request_)

            async def drip() -> None:
                while True:
                    streams[1].write(b"a")
                    await asyncio.sleep(SHORT / 10)

            dripping = asyncio.create_task(drip())
            await read_to_end(streams)
            dripping.cancel()

    run(test())


def test_a_client_that_does_not_read_is_left() -> None:
    async def test() -> None:
        async with serving(SHORT) as (port, server):
            _, writer = await connect(port, LARGE * 3)
            while not server.server_state.connections:
                await asyncio.sleep(0)
            while server.server_state.connections:
                await asyncio.sleep(0.01)
            writer.close()

    run(test())


def test_the_connection_that_waits_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 3)

    async def test() -> None:
        async with serving(LONG) as (port, _):
            active = await connect(port, HEAD)
            waiting = [await connect(port) for _ in range(2)]
            other = await connect(port, GET)
            assert (await other[0].readuntil(b"aaaaa")).endswith(b"aaaaa")
            assert await read_to_end(waiting[0]) == b""
            active[1].write(b"a" * 1000)
            assert (await active[0].readuntil(b"aaaaa")).endswith(b"aaaaa")
            waiting[1][1].write(GET)
            assert (await waiting[1][0].readuntil(b"aaaaa")).endswith(b"aaaaa")
            for _, writer in (active, waiting[1], other):
                writer.close()

    run(test())


def test_a_server_that_stops_does_not_wait_for_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STOP_SECONDS", 0.1)

    async def test() -> None:
        async with serving(LONG) as (port, server):
            clients = [await connect(port, sent) for sent in (b"", HEAD[:20], HEAD + b"a")]
            clients.append(await connect(port, LARGE * 3))
            while len(server.server_state.connections) < len(clients):
                await asyncio.sleep(0.01)
        for each in clients:
            each[1].close()

    run(test())


def test_a_request_gets_time_for_its_answer() -> None:
    async def test() -> None:
        async with serving(LONG) as (port, server):
            reader, writer = await connect(port, GET)
            await reader.readuntil(b"aaaaa")
            (connection,) = server.server_state.connections
            deadline: asyncio.TimerHandle = connection._deadline  # type: ignore[union-attr]
            waiting = deadline.when()
            writer.write(HEAD)
            while connection._deadline is deadline:  # type: ignore[union-attr]
                await asyncio.sleep(0)
            assert connection._deadline.when() >= waiting + LONG  # type: ignore[union-attr]
            writer.write(b"a" * 1000)
            await reader.readuntil(b"aaaaa")
            assert connection._deadline.when() < waiting + LONG  # type: ignore[union-attr]
            assert deadline.cancelled()
            writer.close()

    run(test())

"""``serve`` in this process: requests without a network, and a server that stops by itself."""

import asyncio
import atexit
import json
import re
import sys
import xmlrpc.client
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from phrasescore.cli import main
from phrasescore.settings.compute import Compute, Serving
from phrasescore.systems.system import read_system
from phrasescore.systems.translator import Translator
from phrasescore.workflows.serve.application import TranslationServer
from phrasescore.workflows.serve.collector import SentenceCollector
from phrasescore.workflows.serve.page import ServedSystem
from phrasescore.workflows.serve.xml_rpc import INTERNAL
from tests.phrasescore.workflows.serve.server import ask_application

_PART = 100  # lines of a request, at most as many as the server takes


class _RefusalError(Exception):
    """A request was refused, as it should be."""


def ask(arguments: list[str]) -> None:
    """Send the body in a file to a path; exit with 1 if the request is refused.

    :raises AssertionError: if the server fails, or if it does not answer the next request.
    """
    system, path, *files = arguments
    server, expected = _server(system)
    refusals = []
    for file in files:
        try:
            _answer(server, path, Path(file).read_bytes())
        except _RefusalError as refusal:
            refusals.append(f"Error: {file}: {json.dumps(str(refusal))}\n")
    assert _good_answer(server) == expected, "the next request has another answer"
    if refusals:
        sys.stderr.write(refusals[0])
        sys.exit(1)


def upload(arguments: list[str]) -> None:
    """Send a text file as the page of the server does, and exit with 1 if a line is refused.

    :raises AssertionError: if a line has no answer.
    """
    system, file = arguments
    server, expected = _server(system)
    try:
        lines = re.split(r"\r?\n", re.sub(r"\r?\n$", "", Path(file).read_bytes().decode()))
    except UnicodeDecodeError:
        lines = []  # the page says so
    refusals: list[_RefusalError] = []
    for first in range(0, len(lines), _PART):
        part = lines[first : first + _PART]
        try:
            answer = _answer(server, "/translate", json.dumps({"text": part}).encode())
            assert len(answer["translations"]) == len(part)
        except _RefusalError:
            refusals += _refused(server, part)
    assert _good_answer(server) == expected, "the next request has another answer"
    if refusals:
        sys.stderr.write(f"Error: {file}: {json.dumps(str(refusals[0]))}\n")
        sys.exit(1)


def _refused(server: Any, lines: list[str]) -> Iterator[_RefusalError]:
    """Yield the refusals of lines that are sent one by one."""
    for line in lines:
        try:
            _answer(server, "/translate", json.dumps({"text": line}).encode())
        except _RefusalError as refusal:
            yield refusal


def serve(arguments: list[str]) -> None:
    """Run the command ``serve`` until it has answered a request."""

    def run(uvicorn_server: Any, sockets: object) -> None:
        del sockets
        server = mock.Mock(application=uvicorn_server.config.app)
        try:
            _good_answer(server)
        except AssertionError as error:
            # A sentence can show what is wrong with a file of the system.
            if "internal error" in str(error):
                raise

    with mock.patch("uvicorn.Server.run", run):
        main(["serve", *arguments], prog_name="phrasescore")


OWN_COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "ask": ask,
    "serve": serve,
    "upload": upload,
}


@cache
def _server(system: str) -> tuple[TranslationServer, Any]:
    """Return a server, and its answer to a good request."""
    stack = ExitStack()
    atexit.register(stack.close)
    read, compute = read_system(Path(system).absolute()), Compute(workers=1)
    translator = Translator(read, compute, path="text")
    plain = Translator(read, compute, path="text", tokenized=True)
    stack.enter_context(translator.open(apart=True))
    collector = stack.enter_context(SentenceCollector(translator, plain, 250))
    server = TranslationServer(collector, Serving(), ServedSystem.of(read))
    return server, _good_answer(server)


def _good_answer(server: Any) -> Any:
    return _answer(server, "/translate", b'{"text": "the of", "tokenized": true}')


def _answer(server: Any, path: str, body: bytes) -> Any:
    values: Any
    status, _, answer = asyncio.run(ask_application(server, path, body))
    if path == "/RPC2":
        assert status == 200, answer
        try:
            (values,), _ = xmlrpc.client.loads(answer, use_builtin_types=True)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode == INTERNAL:
                raise AssertionError(fault.faultString) from fault
            raise _in_one_line(fault.faultString) from fault
        assert isinstance(values["text"], str)
        return values
    values = json.loads(answer)
    if status != 200:
        assert status in range(400, 500), values
        raise _in_one_line(values["error"])
    for translation in values["translations"]:
        assert isinstance(translation["text"], str)
    return values


def _in_one_line(problem: str) -> _RefusalError:
    assert "\n" not in problem
    assert 0 < len(problem) < 1000, problem
    return _RefusalError(problem)

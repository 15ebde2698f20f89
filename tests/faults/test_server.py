"""The load of ``serve`` notices what is wrong."""

from itertools import count
from pathlib import Path

import pytest

from tests.faults.good_clients import GoodClient
from tests.faults.server import load
from tests.phrasescore.workflows.serve.server import Server, write_system

SENTENCES = ["la maison", "maison xyz la bleue maison", "la la maison bleue"]


def test_a_good_client_notices_another_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GoodClient, "answers", {})
    monkeypatch.setattr(GoodClient, "texts", {})
    numbers = count()

    def answer(client: GoodClient, path: str, body: bytes) -> bytes:
        del client, body
        if path == "/RPC2":
            raise OSError("not tried")
        return b'{"translations": [{"text": "the house %d"}]}' % next(numbers)

    monkeypatch.setattr(GoodClient, "_ask", answer)
    client = GoodClient(Server(None, Path(), 0), SENTENCES[:1], 0.001, 1)  # type: ignore[arg-type]
    client.start()
    while not any("AssertionError" in problem for problem in client.problems):
        assert client.is_alive()
    client.stopped.set()
    client.join()


@pytest.mark.slow
@pytest.mark.timeout(600)  # the server compiles the search
def test_a_server_under_load(tmp_path: Path) -> None:
    write_system(tmp_path)
    assert load(tmp_path, SENTENCES, 30.0, clients=2, pause=1, seed=1) == []

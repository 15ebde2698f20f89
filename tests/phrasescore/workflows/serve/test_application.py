"""The limits of a server, where a double decides when sentences are translated."""

import asyncio
import json
import xmlrpc.client
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest

from phrasescore.errors import ArgumentError, DataError, ModelError
from phrasescore.settings.compute import Serving
from phrasescore.systems.ranking import Translation, TranslationTask
from phrasescore.systems.text import MAX_WORDS
from phrasescore.workflows.serve import application as module
from phrasescore.workflows.serve.application import TranslationServer
from phrasescore.workflows.serve.page import ServedSystem
from phrasescore.workflows.serve.xml_rpc import TranslateCall, parse_calls
from tests.phrasescore.workflows.serve.server import ask_application


@dataclass
class Collector:
    """Answers each sentence by ``answer``, if it does not stay silent."""

    answer: Callable[[str, "Future[Translation]"], None]
    submitted: list["Future[Translation]"] = field(default_factory=list)

    def submit(self, text: str, _: TranslationTask, *, tokenized: bool) -> "Future[Translation]":
        del tokenized
        self.submitted.append(Future())
        self.answer(text, self.submitted[-1])
        return self.submitted[-1]


def silent(_: str, answer: "Future[Translation]") -> None:
    del answer


def failing(error: Exception) -> Collector:
    return Collector(lambda _, answer: answer.set_exception(error))


def upper(text: str, answer: "Future[Translation]") -> None:
    answer.set_result(Translation((text,), text.upper(), (text,), 0.5, b"", ()))


def make(collector: Collector, **settings: Any) -> TranslationServer:
    return TranslationServer(collector, Serving(**settings), ServedSystem("a system"))  # type: ignore[arg-type]


def answer_of(
    server: TranslationServer, *parts: bytes | None, **headers: str
) -> tuple[int | None, Any]:
    status, _, body = asyncio.run(ask_application(server, "/translate", *parts, **headers))
    return status, json.loads(body)


def call(server: TranslationServer, method: str, *params: Any) -> Any:
    """Return the answer of XML-RPC, or raise its fault."""
    body = xmlrpc.client.dumps(params, method, allow_none=True).encode()
    _, _, answer = asyncio.run(ask_application(server, "/RPC2", body))
    return xmlrpc.client.loads(answer)[0][0]


ONE = b'{"text": "la"}'


def test_a_request_may_arrive_in_parts() -> None:
    expected = {"translations": [{"text": "LA", "confidence": 0.5, "unknown": []}]}
    assert answer_of(make(Collector(upper)), ONE[:5], ONE[5:]) == (200, expected)


PREFLIGHT = {"access_control_request_method": "POST", "access_control_request_headers": "X-A"}


@pytest.mark.parametrize("path", ["/translate", "/RPC2"])
@pytest.mark.parametrize("allowed", ["http://a.org:3000", "*"])
def test_a_page_of_an_allowed_origin_may_ask(path: str, allowed: str) -> None:
    server = make(Collector(upper), allow_origin=["https://b.org", allowed])
    origin = {"origin": "http://a.org:3000"}
    preflight = ask_application(server, path, method="OPTIONS", **origin, **PREFLIGHT)
    status, headers, _ = asyncio.run(preflight)
    expected = allowed if allowed == "*" else origin["origin"]
    assert (status, headers[b"access-control-allow-origin"].decode()) == (200, expected)
    assert b"POST" in headers[b"access-control-allow-methods"]
    assert headers[b"access-control-allow-headers"] == b"X-A"
    # The answers, also those that are refusals.
    for body in (ONE, b"nothing"):
        _, headers, _ = asyncio.run(ask_application(server, path, body, **origin))
        assert headers[b"access-control-allow-origin"].decode() == expected


@pytest.mark.parametrize("allowed", [[], ["http://b.org"]])
def test_a_page_of_another_origin_may_not_ask(allowed: list[str]) -> None:
    server = make(Collector(upper), allow_origin=allowed)
    origin = {"origin": "http://a.org:3000"}
    preflight = ask_application(server, "/translate", method="OPTIONS", **origin, **PREFLIGHT)
    status, headers, _ = asyncio.run(preflight)
    assert (status, b"access-control-allow-origin" in headers) == (400 if allowed else 405, False)
    _, headers, _ = asyncio.run(ask_application(server, "/translate", ONE, **origin))
    assert b"access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "origin", ["localhost:3000", "http://a.org/", "http://a.org/page", "http://A.org", "", "**"]
)
def test_what_is_no_origin_is_refused(origin: str) -> None:
    problem = "--allow-origin: expected an origin, such as http://localhost:3000, or "
    with pytest.raises(ArgumentError, match=problem):
        Serving(allow_origin=[origin])


@pytest.mark.parametrize("name", ["align", "add-score-breakdown"])
@pytest.mark.parametrize(
    ("value", "is_on"),
    [
        *((value, True) for value in (True, 1, "1", "true", "True", "TRUE")),
        *((value, False) for value in (False, 0, "0", "false", "False")),
    ],
)
def test_a_switch_of_moses_is_a_boolean_a_number_or_a_word(
    name: str, value: object, is_on: bool
) -> None:
    body = xmlrpc.client.dumps(({"text": "la", name: value},), "translate").encode()
    ((found,), _) = parse_calls(body)
    assert isinstance(found, TranslateCall)
    assert is_on in (found.align, found.breakdown)
    assert (found.align, found.breakdown).count(True) == int(is_on)


@pytest.mark.parametrize("name", ["align", "add-score-breakdown"])
@pytest.mark.parametrize("value", [2, -1, 0.5, "", "on", "2", [], [True], {}, None, b"1"])
def test_another_value_of_a_switch_is_a_fault_that_names_it(name: str, value: object) -> None:
    with pytest.raises(xmlrpc.client.Fault, match=f"Expected `bool`.*{name}") as caught:
        call(make(Collector(upper)), "translate", {"text": "la", name: value})
    assert caught.value.faultCode == -501


@pytest.mark.parametrize(
    ("method", "code", "problem"),
    [
        ("system.multicall", -501, "expected one parameter, of the type array"),
        ("system.shutdown", -506, "expected translate or .*, found 'system.shutdown'"),
    ],
)
def test_wrong_calls_of_the_system_are_faults(method: str, code: int, problem: str) -> None:
    with pytest.raises(xmlrpc.client.Fault, match=problem) as caught:
        call(make(Collector(upper)), method, {})
    assert caught.value.faultCode == code


def test_each_call_in_a_multicall_has_its_own_answer() -> None:
    def answer(text: str, answer: "Future[Translation]") -> None:
        if text == "wrong":
            answer.set_exception(DataError("text", 1, "wrong"))
        else:
            upper(text, answer)

    calls: list[Any] = [
        {"methodName": "translate", "params": [{"text": "la"}]},
        {"methodName": "translate", "params": [{"text": "wrong"}]},
        {"methodName": "translate", "params": [{"text": "la", "align": 2}]},
        {"methodName": "translate", "params": [{"text": "maison"}]},
        {"methodName": "updater", "params": [{}]},
        {"methodName": ["translate"], "params": []},
        {"methodName": "translate"},
        {"params": []},
        "translate",
        {"methodName": "system.multicall", "params": [[]]},
    ]
    found = call(make(Collector(answer)), "system.multicall", calls)
    assert [each for each in found if isinstance(each, list)] == [
        [{"text": "LA"}],
        [{"text": "MAISON"}],
    ]
    places = {at: each["faultCode"] for at, each in enumerate(found) if isinstance(each, dict)}
    codes = {1: -501, 2: -501, 4: -506, 5: -506, 6: -501, 7: -506, 8: -501, 9: -506}
    assert places == codes
    assert found[1] == {"faultCode": -501, "faultString": "text:1: wrong"}
    assert "translate: Expected `bool`" in found[2]["faultString"]
    assert call(make(Collector(answer)), "system.multicall", []) == []


def test_a_multicall_has_the_limits_of_a_request() -> None:
    calls = [{"methodName": "translate", "params": [{"text": "la"}]}] * 101
    with pytest.raises(xmlrpc.client.Fault, match="at most 100 sentences, found 101") as caught:
        call(make(Collector(upper)), "system.multicall", calls)
    assert caught.value.faultCode == -509
    collector = Collector(silent)
    with pytest.raises(xmlrpc.client.Fault, match="there is no translation within") as caught:
        call(make(collector, max_wait=0.05), "system.multicall", calls[:100])
    assert caught.value.faultCode == -505
    assert [each.cancelled() for each in collector.submitted] == [True] * 100


def test_what_takes_too_long_is_told_and_dropped() -> None:
    collector = Collector(silent)
    server = make(collector, max_wait=0.05)
    problem = "there is no translation within 0.05 seconds"
    assert answer_of(server, ONE) == (504, {"error": problem})
    assert [each.cancelled() for each in collector.submitted] == [True]
    with pytest.raises(xmlrpc.client.Fault, match=problem) as caught:
        call(server, "translate", {"text": "la"})
    assert caught.value.faultCode == -505


def test_a_request_that_does_not_arrive_is_told() -> None:
    problem = "the request did not arrive within 0.05 seconds"
    assert answer_of(make(Collector(upper), max_wait=0.05)) == (408, {"error": problem})


def test_sentences_of_a_client_that_is_gone_are_dropped() -> None:
    collector = Collector(silent)
    status, _, body = asyncio.run(ask_application(make(collector), "/translate", ONE, None))
    assert (status, body) == (400, b"")
    assert [each.cancelled() for each in collector.submitted] == [True]


def test_a_busy_server_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_SENTENCES", 999)
    server = make(Collector(silent), max_wait=0.5)
    many = json.dumps({"text": ["a"] * 999}).encode()

    async def several() -> list[tuple[int | None, dict[bytes, bytes], bytes]]:
        return await asyncio.gather(
            *(ask_application(server, "/translate", body) for body in (many, ONE, ONE))
        )

    *first, last = asyncio.run(several())
    assert [status for status, _, _ in first] == [504, 504]
    assert last[0] == 503
    assert last[1][b"retry-after"] == b"1"
    assert json.loads(last[2]) == {"error": "the server is busy: 1,000 sentences are waiting"}
    # Afterwards there is room again.
    assert answer_of(server, ONE)[0] == 504


@pytest.mark.parametrize(
    ("error", "status", "problem"),
    [
        (DataError("text", 1, "wrong"), 400, "text:1: wrong"),
        (DataError("table", 7, "wrong"), 500, "table:7: wrong"),
        (ModelError("a score is not finite"), 500, "a score is not finite"),
        (ValueError("a bug"), 500, "internal error; see the log of the server"),
    ],
)
def test_what_fails_is_told_and_a_bug_is_logged(
    error: Exception, status: int, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert answer_of(make(failing(error)), ONE) == (status, {"error": problem})
    assert bool(caplog.records) == isinstance(error, ValueError)
    with pytest.raises(xmlrpc.client.Fault, match=problem) as caught:
        call(make(failing(error)), "translate", {"text": "la"})
    assert caught.value.faultCode == {400: -501, 500: -500}[status]


def test_control_characters_make_no_wrong_xml() -> None:
    server = make(Collector(lambda _, answer: upper("a\x01<b>&\ufffe", answer)))
    assert call(server, "translate", {"text": "la"}) == {"text": "A\ufffd<B>&\ufffd"}


def test_sentences_may_be_as_long_as_the_search_can_translate() -> None:
    assert Serving(max_words=MAX_WORDS).max_words == MAX_WORDS
    with pytest.raises(ArgumentError, match=r"--max-words: expected .* to 4000, got 4001"):
        Serving(max_words=MAX_WORDS + 1)

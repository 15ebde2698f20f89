"""``phrasescore serve`` as a process, with real clients."""

import json
import os
import random
import signal
import socket
import time
import xmlrpc.client
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import check_refusal, run, succeeded
from tests.phrasescore.workflows.serve.server import Server, serving, write_system
from tests.small_system import TEXT, VALUES

pytestmark = pytest.mark.timeout(600)  # the first one compiles the search

SENTENCES = TEXT.splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("system")
    write_system(made)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with serving(folder, "system.toml", "--workers", "2", "--max-words", "20") as running:
        yield running
        assert "Traceback" not in running.log
        assert "never retrieved" not in running.log
        assert running.stop() == 0


@pytest.fixture(scope="module")
def translated(folder: Path) -> list[tuple[str, float]]:
    """The translation of each sentence by ``translate``, and its confidence."""
    names = [str(folder / name) for name in ("system.toml", "source")]
    result = succeeded(run("translate", *names, "--workers", "1", "--confidence"))
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    return [(text, float(confidence)) for text, confidence in lines]


def test_translations_are_those_of_translate(
    server: Server, translated: list[tuple[str, float]]
) -> None:
    found = server.translate(text=SENTENCES)
    assert [(each["text"], round(each["confidence"], 4)) for each in found] == translated
    assert set(found[0]) == {"text", "confidence", "unknown"}
    assert server.translate(text=SENTENCES[0]) == found[:1]
    assert server.translate(text=[]) == []


def test_rules_prepare_raw_text_and_not_words(folder: Path) -> None:
    rules = 'moses_ini = "moses.ini"\ntext = { lowercase = true }\n'
    (folder / "rules.toml").write_text(rules)
    with serving(folder, "rules.toml", "--workers", "1") as running:
        (raw,) = running.translate(text="LA maison")
        (words,) = running.translate(text="LA maison", tokenized=True)
        moses = running.call(text="LA maison")
        assert running.stop() == 0
    assert (raw["text"], raw["unknown"]) == ("the house", [])
    assert (words["text"], words["unknown"]) == ("LA home", ["LA"])
    assert moses["text"] == words["text"]


def test_alternatives_are_explained(server: Server) -> None:
    (found,) = server.translate(text=SENTENCES[2], nbest=3, explain=True)
    assert found["source"] == SENTENCES[2].split()
    best, *others = found["alternatives"]
    assert len(others) == 2
    assert best["words"] == found["text"]
    for each in found["alternatives"]:
        assert sum(part["contribution"] for part in each["features"]) == pytest.approx(
            each["score"]
        )
        assert set(each["groups"]) == {"tables", "language models", "networks", "others"}
        assert sum(each["groups"].values()) == pytest.approx(each["score"])
        (network,) = (part for part in each["features"] if part["name"] == "RNNsearch0")
        assert each["groups"]["networks"] == pytest.approx(network["contribution"])
        # "bleue" is a phrase only with "maison", and copied without it.
        copied = [word for word in ("xyz", "bleue") if word in each["words"].split()]
        assert (each["text"], each["unknown"]) == (each["words"], copied)
        assert each["score"] <= best["score"]
        covered = sorted(
            word
            for phrase in each["phrases"]
            for word in range(phrase["source_start"], phrase["source_end"])
        )
        assert covered == list(range(5))
        # A row for each word of the translation and </s>, which sums to one.
        assert len(each["attention"]) == len(each["words"].split()) + 1
        for row in each["attention"]:
            assert len(row) == 6
            assert sum(row) == pytest.approx(1, abs=1e-4)
    (short,) = server.translate(text=SENTENCES[2], nbest=3)
    assert short["alternatives"] == [
        {"words": each["words"], "score": each["score"]} for each in found["alternatives"]
    ]
    (only,) = server.translate(text=SENTENCES[2], explain=True)
    assert only["alternatives"] == found["alternatives"][:1]


def test_moses_clients_get_moses_answers(
    server: Server, translated: list[tuple[str, float]]
) -> None:
    # What contrib/server/client.py and client-stdin.perl send, whose line keeps its end.
    given = {"align": "true", "report-all-factors": "true"}
    answer = server.call(text="la maison\n", **given)
    assert set(answer) == {"text", "align"}
    assert answer["text"] == translated[0][0]
    for text, (expected, _) in zip(SENTENCES, translated, strict=True):
        answer = server.call(text=text, **given)
        assert answer["text"] == expected
        covered = [
            place
            for each in answer["align"]
            for place in range(each["src-start"], each["src-end"] + 1)
        ]
        assert sorted(covered) == list(range(len(text.split())))
        ends = [each["tgt-end"] + 1 for each in answer["align"]]
        assert [each["tgt-start"] for each in answer["align"]] == [0, *ends][:-1]
    assert set(server.call(text="la", sg="true", topt="true")) == {"text"}


def test_moses_lists_have_scores(server: Server) -> None:
    given = {"nbest": 9, "nbest-distinct": True, "add-score-breakdown": "1"}
    found = server.call(text="la maison", **given)["nbest"]
    assert len({each["hyp"] for each in found}) == len(found) > 1
    assert [each["totalScore"] for each in found] == sorted(
        (each["totalScore"] for each in found), reverse=True
    )
    # By hand: see VALUES.
    (house,) = (each for each in found if each["hyp"] == "the house")
    for name, values in VALUES.items():
        assert house["scores"][name][0] == pytest.approx(list(values), rel=1e-5)
        assert house["scores"][name][1] == {}
    assert "WordPenalty0= -2 TM0= -1.38629 0" in house["fvals"]
    assert "scores" not in server.call(text="la maison", nbest="2")["nbest"][0]


@pytest.fixture(scope="module")
def plain(folder: Path) -> Iterator[Server]:
    """A system without features of lists, and pages of another origin that may use it."""
    options = ("--workers", "1", "--allow-origin", "http://a.org", "--allow-origin", "http://b.org")
    with serving(folder, "plain.toml", *options) as running:
        yield running
        assert "Traceback" not in running.log


def test_unknown_words_are_part_of_an_explained_score(plain: Server) -> None:
    (found,) = plain.translate(text="la xyz", nbest=2, explain=True)
    for each in found["alternatives"]:
        parts = {part["name"]: part for part in each["features"]}
        assert parts["UnknownWordPenalty0"]["values"] == [-100.0]
        total = sum(part["contribution"] for part in parts.values())
        assert total == pytest.approx(each["score"])
        assert total < -100
    # Moses' answers have the features of its lists (PackScores.cpp).
    (best, *_) = plain.call(text="la xyz", nbest=2, **{"add-score-breakdown": 1})["nbest"]
    assert set(best["scores"]) == set(VALUES)
    assert "UnknownWordPenalty" not in best["fvals"]


def test_python_clients_of_moses_may_send_many_sentences(
    server: Server, translated: list[tuple[str, float]]
) -> None:
    with xmlrpc.client.ServerProxy(f"{server.url}RPC2") as proxy:
        batch = xmlrpc.client.MultiCall(proxy)
        for text in SENTENCES:
            batch.translate({"text": text, "align": 1})
        answers: Any = batch()
        found = list(answers)
    assert [each["text"] for each in found] == [text for text, _ in translated]
    assert all("align" in each for each in found)


def test_the_origins_of_pages_that_may_ask_are_an_option(plain: Server, server: Server) -> None:
    head = head_of("/translate", 0).replace(b"POST", b"OPTIONS").removesuffix(b"\r\n")
    for origin in (b"http://a.org", b"http://b.org"):
        fields = b"Origin: %b\r\nAccess-Control-Request-Method: POST\r\n\r\n" % origin
        answer = ask(plain, head + fields)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b"access-control-allow-origin: %b\r\n" % origin in answer
        assert ask(server, head + fields).startswith(b"HTTP/1.1 405 ")


def test_concurrent_clients_get_their_own_answers(
    server: Server, translated: list[tuple[str, float]]
) -> None:
    numbers = random.Random(1)
    wanted = [numbers.randrange(len(SENTENCES)) for _ in range(80)]

    def ask(number: int) -> str:
        text = SENTENCES[wanted[number]]
        if number % 2:
            return str(server.call(text=text)["text"])
        return str(server.translate(text=[text, "la"])[0]["text"])

    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(ask, range(80)))
    assert answers == [translated[number][0] for number in wanted]


REFUSED: list[tuple[Any, int, str]] = [
    (b"", 400, "expected a JSON object: "),
    (b"{", 400, "expected a JSON object: "),
    ({"te\nxt": "la"}, 400, "unknown field `te xt`"),
    (b'{"text": "\xff"}', 400, "expected a JSON object: "),
    (b'{"text": "\\ud800"}', 400, "expected "),
    (b"[" * 100_000, 400, "expected a JSON object: "),
    ([], 400, "Expected `object`, got `array`"),
    ({}, 400, "missing required field `text`"),
    ({"text": 1}, 400, "Expected `str | array`, got `int` - at `$.text`"),
    ({"text": "la", "n": 1}, 400, "unknown field `n`"),
    ({"text": "la", "n" * 5000: 1}, 400, "unknown field `nnn"),
    ({"text": "la", "nbest": -1}, 400, "Expected `int` >= 0 - at `$.nbest`"),
    ({"text": "la", "nbest": 1001}, 400, "Expected `int` <= 1000 - at `$.nbest`"),
    ({"text": ["la", "la <b>maison</b>"]}, 400, "text:2: expected words, found markup: '<b>'"),
    ({"text": "la|N"}, 400, "text:1: expected words without factors, found 'la|N'"),
    ({"text": "la\nmaison"}, 400, "text:1: expected one sentence, found a line break"),
    ({"text": "la " * 21}, 400, "text:1: expected a sentence with at most 20 words, found 21"),
    ({"text": "a" * 2001}, 400, "text:1: expected a sentence with at most 2,000 bytes"),
    ({"text": ["la"] * 101}, 413, "expected at most 100 sentences, found 101"),
    ({"text": "a" * 5_000_000}, 413, "expected a request of at most 1,048,576 bytes"),
]


@pytest.mark.parametrize(("value", "status", "problem"), REFUSED)
def test_wrong_requests_are_refused(
    server: Server, value: object, status: int, problem: str
) -> None:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    found, headers, answer = server.get("translate", body)
    assert (found, headers["Content-Type"]) == (status, "application/json")
    error = json.loads(answer)["error"]
    assert problem in error
    assert len(error) < 300


def test_other_addresses_and_methods_are_refused(server: Server) -> None:
    assert server.get("nothing")[::2] == (404, b'{"error":"Not Found"}')
    assert server.get("translate")[::2] == (405, b'{"error":"Method Not Allowed"}')
    assert server.get("RPC2")[0] == 405
    status, _, body = server.get("health")
    assert (status, json.loads(body)["status"]) == (200, "ok")


BOMB = """<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>
<methodCall><methodName>translate</methodName><params><param><value>&b;</value></param></params>
</methodCall>"""
CALL = xmlrpc.client.dumps(({"text": "la maison", "nbest": 2, "align": True},), "translate")
FAULTS: list[tuple[Any, int, str]] = [
    ("", -503, "expected a call in XML-RPC: "),
    ("<a>", -503, "expected a call in XML-RPC: "),
    (BOMB, -503, "found a document type"),
    (BOMB.encode("utf-16"), -503, "found a document type"),
    (CALL.replace("<int>2", "<int>two"), -503, "expected a call in XML-RPC: "),
    (CALL.replace("<int>2</int>", "<int>" + "2" * 5000 + "</int>"), -503, "expected a call"),
    (CALL.replace("translate", "updater"), -506, "translate or system.multicall, found 'updater'"),
    (CALL.replace(">nbest<", ">weights<"), -501, "translate: weights is not supported"),
    (CALL.replace(">text<", ">test<"), -501, "translate: Object missing required field"),
    (CALL.replace("<int>2", "<int>-2"), -501, "Expected `int` >= 0 - at `..nbest`"),
    (CALL.replace("<int>2", "<int>2000"), -501, "Expected `int` <= 1000 - at `..nbest`"),
    (CALL.replace("la maison", "&lt;b>la&lt;/b>"), -501, "text:1: expected words, found markup"),
    (CALL.replace("la maison", "la " * 21), -501, "text:1: expected a sentence with at most 20"),
    (CALL.replace("la maison", "a" * 2_000_000), -509, "expected a request of at most 1,048,576"),
    (
        CALL.replace("<int>2</int>", "<boolean>1</boolean>"),
        -501,
        "Expected `int`, got `bool` - at `..nbest`",
    ),
    (xmlrpc.client.dumps(("la",), "translate"), -501, "expected one parameter, of the type struct"),
    (
        xmlrpc.client.dumps(({"text": 1},), "translate"),
        -501,
        "Expected `str`, got `int` - at `..text`",
    ),
    (xmlrpc.client.dumps(xmlrpc.client.Fault(1, "x")), -503, "expected a call in XML-RPC"),
]


@pytest.mark.parametrize(("call", "code", "problem"), FAULTS)
def test_wrong_calls_get_faults(server: Server, call: str | bytes, code: int, problem: str) -> None:
    body = call if isinstance(call, bytes) else call.encode()
    status, headers, answer = server.get("RPC2", body)
    assert (status, headers["Content-Type"]) == (200, "text/xml; charset=utf-8")
    with pytest.raises(xmlrpc.client.Fault, match=problem.replace("'", ".")) as caught:
        xmlrpc.client.loads(answer)
    assert caught.value.faultCode == code


def head_of(path: str, length: int) -> bytes:
    lines = (f"POST {path} HTTP/1.1", "Host: a", "Connection: close", f"Content-Length: {length}")
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


def ask(server: Server, request: bytes) -> bytes:
    """Send a request, and return the answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=100) as client:
        client.sendall(request)
        answer = b""
        while part := client.recv(65536):
            answer += part
        return answer


def test_slow_clients_and_those_that_go_away_cost_others_nothing(
    server: Server, translated: list[tuple[str, float]]
) -> None:
    head = b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    for number, client in enumerate(slow):
        client.sendall(head[: 20 * number] if number % 2 else head + b'{"text":')
    body = json.dumps({"text": [SENTENCES[2]] * 100, "nbest": 9}).encode()
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", server.port)) as gone:
            gone.sendall(head.replace(b"1000", b"%d" % len(body)) + body)
    assert server.translate(text=SENTENCES[0])[0]["text"] == translated[0][0]
    for client in slow:
        client.close()
    while json.loads(server.get("health")[2])["waiting"]:
        time.sleep(0.05)


def test_the_page_forbids_everything_that_it_does_not_need(server: Server) -> None:
    status, headers, body = server.get("")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert b"http" not in body.partition(b"<body>")[2]
    assert b"{{" not in body
    assert b"innerHTML" not in body


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_requests_finish(folder: Path, number: int) -> None:
    options = ("--workers", "1", "--max-wait", "1000")
    with (
        serving(folder, "plain.toml", *options) as running,
        socket.create_connection(("127.0.0.1", running.port)) as unfinished,
    ):
        unfinished.sendall(head_of("/translate", 1000) + b'{"text":')  # is not waited for
        workers = running.workers()
        assert workers
        # A request that has arrived, as its sentences are waiting.
        text = ["maison la " * 100] * 3
        with ThreadPoolExecutor(1) as client:
            answer = client.submit(running.translate, text=text)
            while not json.loads(running.get("health")[2])["waiting"] and not answer.done():
                pass
            code = running.stop(number)
            assert len(answer.result()) == 3
        assert code == 0
        assert "Traceback" not in running.log
        assert running.log.splitlines()[-1] == "phrasescore: serve: stopped"
        assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]


def test_a_killed_worker_is_replaced_and_a_killed_server_leaves_nothing(folder: Path) -> None:
    with serving(folder, "plain.toml", "--workers", "2") as running:
        expected = running.translate(text="la maison")
        before = running.workers()
        with ThreadPoolExecutor(4) as clients:
            answers = [clients.submit(running.translate, text=["la maison"] * 50) for _ in range(4)]
            kill_one(before)
            assert [each.result() for each in answers] == [expected * 50] * 4
        kill_one(running.workers())
        assert running.translate(text="la maison") == expected
        after = running.workers()
        assert len(after) == 2
        assert not after & before
        assert "Traceback" not in running.log
        running.process.kill()
        running.process.wait()
    # No worker holds the port.
    with serving(folder, "plain.toml", "--workers", "1", port=running.port) as again:
        assert again.translate(text="la maison") == expected
    until_gone(after)


def kill_one(workers: set[int]) -> None:
    os.kill(min(workers), signal.SIGKILL)


def until_gone(workers: set[int]) -> None:
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        time.sleep(0.05)


def test_a_port_in_use_is_refused(server: Server, folder: Path) -> None:
    options = ("--port", str(server.port), "--workers", "1")
    problem = f"cannot listen on 127.0.0.1, port {server.port}: Address already in use"
    check_refusal(run("serve", str(folder / "system.toml"), *options), problem)
    unknown = run("serve", str(folder / "system.toml"), "--host", "no.such.host.invalid")
    check_refusal(unknown, "cannot listen on no.such.host.invalid, port 8080: ")


def test_moses_searches_are_refused(folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "moses").touch()
    path = folder / "moses.toml"
    path.write_text('moses_ini = "moses.ini"\ndecoder = { moses = "bin" }\n')
    problem = "moses.toml: decoder: serve requires the search of this package: other decoders read"
    check_refusal(run("serve", str(path)), problem)

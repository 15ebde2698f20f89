"""What a server answers: JSON, Moses' XML-RPC and a page, with limits."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any
from xmlrpc.client import Fault

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.settings.compute import Serving
from phrasescore.systems.ranking import Translation, TranslationTask
from phrasescore.systems.text import SystemSentence
from phrasescore.version import __version__
from phrasescore.workflows.serve import xml_rpc
from phrasescore.workflows.serve.collector import SentenceCollector
from phrasescore.workflows.serve.page import ServedSystem
from phrasescore.workflows.serve.xml_rpc import MOST_HYPOTHESES, TranslateCall

_logger = logging.getLogger(__name__)

_MOST_BYTES = 1 << 20  # of a request's body
_MOST_SENTENCES = 100  # of a request
_MOST_CHARACTERS = 200  # of the reason for a refusal
_MOST_WAITING = 1000  # sentences of all requests that are not translated yet

_Answer = Callable[[Request, bytes], Awaitable[Response]]
_NOTHING = SystemSentence((), ())
# The codes of faults for statuses; for others, LIMIT_EXCEEDED.
_FAULTS = {400: xml_rpc.WRONG_TYPE, 500: xml_rpc.INTERNAL}
_FAULTS |= dict.fromkeys((408, 504), xml_rpc.TIMEOUT)


class TranslateRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request for JSON."""

    text: str | list[str]
    nbest: Annotated[int, msgspec.Meta(ge=0, le=MOST_HYPOTHESES)] = 0
    explain: bool = False
    tokenized: bool = False


class TranslationServer:
    """Answers requests; `application` is what uvicorn runs."""

    def __init__(
        self, collector: SentenceCollector, settings: Serving, served: ServedSystem
    ) -> None:
        self._collector, self._settings, self._served = collector, settings, served
        self._page, self._headers = served.render()
        self._num_waiting = 0
        rules: dict[str, Any] = {"allow_methods": ["GET", "POST"], "allow_headers": ["*"]}
        cors = Middleware(CORSMiddleware, allow_origins=settings.allow_origin, **rules)
        self.application = Starlette(
            routes=[
                Route("/", self._show_page),
                Route("/health", self._show_health),
                Route("/translate", self._answer_json, methods=["POST"]),
                Route("/RPC2", self._answer_xml, methods=["POST"]),
            ],
            middleware=[cors] if settings.allow_origin else [],
            exception_handlers={HTTPException: _to_json},
        )

    async def _show_page(self, _: Request) -> Response:
        return Response(self._page, media_type="text/html", headers=self._headers)

    async def _show_health(self, _: Request) -> Response:
        state = {"status": "ok", "system": self._served.name, "version": __version__}
        return _json(state | {"waiting": self._num_waiting})

    async def _answer_json(self, request: Request) -> Response:
        return await self._within_limits(request, self._translate_json)

    async def _answer_xml(self, request: Request) -> Response:
        try:
            return await self._within_limits(request, self._translate_xml)
        except (HTTPException, Fault) as error:
            return _xml([error if isinstance(error, Fault) else _to_fault(error)])

    async def _within_limits(self, request: Request, answer: _Answer) -> Response:
        """Return the answer to a request."""
        seconds = self._settings.max_wait
        status, problem = 408, f"the request did not arrive within {seconds:g} seconds"
        try:
            async with asyncio.timeout(seconds):
                body = await _read_body(request)
                status, problem = 504, f"there is no translation within {seconds:g} seconds"
                return await answer(request, body)
        except TimeoutError:
            raise HTTPException(status, problem) from None
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except (HTTPException, Fault):
            raise
        except Exception as error:
            raise _refusal(error) from error

    async def _translate_json(self, request: Request, body: bytes) -> Response:
        try:
            given = msgspec.json.decode(body, type=TranslateRequest)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            # It may quote the request.
            problem = " ".join(str(error)[:_MOST_CHARACTERS].split("\n"))
            raise HTTPException(400, f"expected a JSON object: {problem}") from error
        texts = [given.text] if isinstance(given.text, str) else given.text
        size = max(given.nbest, int(given.explain))
        task = TranslationTask(0, _NOTHING, size, True, size > 0, attention=given.explain)
        tasks = [(text, task._replace(number=number)) for number, text in enumerate(texts)]
        found = await self._translate(request, tasks, tokenized=given.tokenized)
        answers = [_fields(each, self._served, explain=given.explain) for each in found]
        return _json({"translations": answers})

    async def _translate_xml(self, request: Request, body: bytes) -> Response:
        calls, is_multicall = xml_rpc.parse_calls(body)
        tasks = [
            (
                call.text,
                TranslationTask(0, _NOTHING, call.nbest, explain=call.align or call.nbest > 0),
            )
            for call in calls
            if not isinstance(call, Fault)
        ]
        # A sentence that is refused fails its own call only.
        found = iter(await self._translate(request, tasks, tokenized=True, return_exceptions=True))
        answers = [
            call if isinstance(call, Fault) else _answer(call, next(found)) for call in calls
        ]
        return _xml(answers, is_multicall=is_multicall)

    async def _translate(
        self,
        request: Request,
        tasks: Sequence[tuple[str, TranslationTask]],
        *,
        tokenized: bool,
        return_exceptions: bool = False,
    ) -> list[Any]:
        """Return the translations of texts in order, unless the client goes away.

        :param return_exceptions: whether to return the exceptions of sentences in their places.
        """
        if len(tasks) > _MOST_SENTENCES:
            problem = f"expected at most {_MOST_SENTENCES} sentences, found {len(tasks):,}"
            raise HTTPException(413, problem)
        if self._num_waiting + len(tasks) > _MOST_WAITING:
            problem = f"the server is busy: {self._num_waiting:,} sentences are waiting"
            raise HTTPException(503, problem, {"Retry-After": "1"})
        self._num_waiting += len(tasks)
        gone = asyncio.ensure_future(_wait_until_gone(request))
        answers = asyncio.gather(
            *(
                asyncio.wrap_future(self._collector.submit(text, task, tokenized=tokenized))
                for text, task in tasks
            ),
            return_exceptions=return_exceptions,
        )
        # asyncio would otherwise report exceptions that nobody waits for.
        answers.add_done_callback(lambda done: done.cancelled() or done.exception())
        both: list[asyncio.Future[Any]] = [gone, answers]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not answers.done():
                raise ClientDisconnect
            return list(answers.result())
        finally:
            for each in both:
                each.cancel()
            self._num_waiting -= len(tasks)


async def _read_body(request: Request) -> bytes:
    """Return the body; what exceeds the limit is discarded, so that the client gets the answer."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size <= _MOST_BYTES:
            parts.append(part)
        elif size > 64 * _MOST_BYTES:
            break
    if size > _MOST_BYTES:
        raise HTTPException(413, f"expected a request of at most {_MOST_BYTES:,} bytes")
    return b"".join(parts)


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _fields(found: Translation, served: ServedSystem, *, explain: bool) -> dict[str, Any]:
    def copied(words: Sequence[str]) -> list[str]:
        return [word for word in found.unknown if word in words]

    answer: dict[str, Any] = {"text": found.text, "confidence": found.confidence}
    answer["unknown"] = copied(found.words)
    if explain:
        answer["source"] = found.source
    if found.hypotheses:
        answer["alternatives"] = hypotheses = []
        for place, each in enumerate(found.hypotheses):
            own: dict[str, Any] = {"words": each.words, "score": each.score}
            if explain:
                own |= {"text": found.texts[place], "unknown": copied(each.words.split(" "))}
                own["groups"] = served.sums(each.features)
                own["features"] = [part._asdict() for part in each.features]
                own["phrases"] = [phrase._asdict() for phrase in each.phrases]
                own["attention"] = found.attention[place] if found.attention else None
            hypotheses.append(own)
    return answer


def _json(value: Any, status: int = 200, headers: Any = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def _answer(call: TranslateCall, found: Translation | Exception) -> Any:
    """Return the answer to a call of XML-RPC, or the fault if its sentence failed."""
    if isinstance(found, Exception):
        return _to_fault(_refusal(found))
    return xml_rpc.answer_of(call, found)


def _refusal(error: Exception) -> HTTPException:
    """Return what a client is told about an exception."""
    if isinstance(error, PhrasescoreError):
        # Sentences are lines of "text"; another file is one of the system's.
        is_sentence = isinstance(error, DataError) and error.path == "text"
        return HTTPException(400 if is_sentence else 500, str(error))
    _logger.error("a request failed", exc_info=error)
    return HTTPException(500, "internal error; see the log of the server")


def _to_fault(error: HTTPException) -> Fault:
    return Fault(_FAULTS.get(error.status_code, xml_rpc.LIMIT_EXCEEDED), error.detail)


def _xml(answers: Sequence[Any], *, is_multicall: bool = False) -> Response:
    body = xml_rpc.format_answers(answers, is_multicall=is_multicall)
    return Response(body, media_type="text/xml")


def _to_json(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"error": error.detail}, error.status_code, error.headers)

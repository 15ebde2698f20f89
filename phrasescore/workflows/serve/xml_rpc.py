"""Moses' XML-RPC: the calls that mosesserver takes, and its answers.

See moses/server/TranslationRequest.cpp, and src/system_method.c in xmlrpc-c for
``system.multicall``. Parameters that select other weights or models are refused, and reports that
phrasescore lacks (``sg``, ``topt``, ``word-align``) are missing in the answers.
"""

import re
import xmlrpc.client
from collections.abc import Sequence
from typing import Annotated, Any
from xml.parsers import expat
from xmlrpc.client import Fault

import msgspec

from moses_integration.nbest_values import Hypothesis
from phrasescore.systems.ranking import ExplainedHypothesis, Translation

# The codes of faults in xmlrpc-c, on which mosesserver is built.
INTERNAL, WRONG_TYPE, NOT_XML_RPC, TIMEOUT = -500, -501, -503, -505
NO_SUCH_METHOD, LIMIT_EXCEEDED = -506, -509

MOST_HYPOTHESES = 1000  # of a sentence

_OF_WEIGHTS = ("context-weights", "lambda", "session-id", "weights")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class TranslateCall(msgspec.Struct):
    """The parameters of a call of ``translate``; others, such as ``sg``, are ignored."""

    text: str
    nbest: Annotated[int, msgspec.Meta(ge=0, le=MOST_HYPOTHESES)] = 0
    align: bool = False  # whether phrases are requested
    breakdown: bool = msgspec.field(default=False, name="add-score-breakdown")


# A call of ``translate``, or the fault of a call in a multicall.
Call = TranslateCall | Fault


def parse_calls(body: bytes) -> tuple[list[Call], bool]:
    """Return the calls of a request, and whether it is a ``system.multicall``.

    :raises Fault: if the request is malformed.
    """
    method, params = _parse(body)
    if method != "system.multicall":
        return [_read_call(method, params)], False
    return [_inner_call(each) for each in _parameter(method, params, list, "array")], True


def _parse(body: bytes) -> tuple[Any, Sequence[Any]]:
    try:
        # Entities can only be declared in a document type, and can make a short text very long.
        parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = _refuse_doctype
        parser.Parse(body, True)
        params, method = xmlrpc.client.loads(body, use_builtin_types=True)
    except Exception as error:  # xmlrpc.client raises many kinds for malformed values
        problem = f"expected a call in XML-RPC: {error or type(error).__name__}"
        raise Fault(NOT_XML_RPC, problem) from error
    return method, params


def _refuse_doctype(*_: object) -> None:
    raise ValueError("found a document type")


def _inner_call(given: Any) -> Call:
    """Return a call in a multicall; what is wrong with it affects no other call."""
    try:
        if not isinstance(given, dict) or not isinstance(given.get("params"), list):
            problem = "system.multicall: expected structs with methodName, and params, an array"
            raise Fault(WRONG_TYPE, problem)
        return _read_call(given.get("methodName"), given["params"])
    except Fault as fault:
        return fault


def _parameter(method: str, params: Sequence[Any], kind: type, name: str) -> Any:
    """Return the only parameter of a call, whose type XML-RPC calls ``name``."""
    if [type(each) for each in params] != [kind]:
        raise Fault(WRONG_TYPE, f"{method}: expected one parameter, of the type {name}")
    return params[0]


def _read_call(method: Any, params: Sequence[Any]) -> TranslateCall:
    if method != "translate":
        problem = f"expected translate or system.multicall, found {str(method)[:60]!r}"
        raise Fault(NO_SUCH_METHOD, problem)
    given = _parameter(method, params, dict, "struct")
    for name in _OF_WEIGHTS:
        if name in given:
            raise Fault(WRONG_TYPE, f"translate: {name} is not supported")
    try:
        # mosesserver takes words for numbers and booleans; clients send numbers, too.
        return msgspec.convert(given, TranslateCall, strict=False)
    except msgspec.ValidationError as error:
        raise Fault(WRONG_TYPE, f"translate: {error}") from error


def answer_of(call: TranslateCall, found: Translation) -> dict[str, Any]:
    """Return the answer to a call; ``found`` has the hypotheses and the list if they are needed."""
    answer: dict[str, Any] = {"text": found.text}
    if call.align:
        answer["align"] = _align(found.hypotheses[0]) if found.hypotheses else []
    if call.nbest:
        listed = zip(found.to_list(), found.hypotheses, strict=True)
        answer["nbest"] = [_hypothesis(call, *each) for each in listed]
    return answer


def _align(found: ExplainedHypothesis) -> list[dict[str, int]]:
    """Return the phrases; the ends of spans are inclusive, as in Moses."""
    return [
        {
            "src-start": phrase.source_start,
            "src-end": phrase.source_end - 1,
            "tgt-start": phrase.target_start,
            "tgt-end": phrase.target_end - 1,
        }
        for phrase in found.phrases
    ]


def _hypothesis(
    call: TranslateCall, listed: Hypothesis, found: ExplainedHypothesis
) -> dict[str, Any]:
    """Return a hypothesis with the features of Moses' lists, which lack unknown words."""
    answer: dict[str, Any] = {"hyp": found.words, "totalScore": found.score}
    if call.align:
        answer["align"] = _align(found)
    if call.breakdown:
        answer["fvals"] = " ".join(
            f"{name}= {' '.join(f'{value:g}' for value in own)}"
            for name, own in listed.features.items()
        )
        # Dense values, and Moses' sparse ones.
        answer["scores"] = {name: [list(own), {}] for name, own in listed.features.items()}
    return answer


def format_answers(answers: Sequence[Any], *, is_multicall: bool) -> bytes:
    """Return the response with the answer to a call, or with those to the calls of a multicall.

    :param answers: values, or faults.
    """
    value: Any = [vars(each) if isinstance(each, Fault) else [each] for each in answers]
    if not is_multicall:
        value = answers[0]
    params = value if isinstance(value, Fault) else (value,)
    text = xmlrpc.client.dumps(params, methodresponse=True, encoding="utf-8")
    return _NOT_IN_XML.sub("\ufffd", text).encode()

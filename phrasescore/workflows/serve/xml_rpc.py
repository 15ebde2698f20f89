"""Moses' XML-RPC: the calls that mosesserver takes, and its answers.

See moses/server/TranslationRequest.cpp, and src/system_method.c in xmlrpc-c for
``system.multicall``. Parameters that select other weights or models are refused, and reports that
phrasescore lacks (``sg``, ``topt``, ``word-align``) are missing in the answers.
"""

import re
import xmlrpc.client
from collections.abc import Sequence
from typing import Any, NamedTuple
from xml.parsers import expat
from xmlrpc.client import Fault

from moses_integration.nbest_values import Hypothesis
from phrasescore.systems.ranking import ExplainedHypothesis, Translation

# The codes of faults in xmlrpc-c, on which mosesserver is built.
INTERNAL, WRONG_TYPE, NOT_XML_RPC, TIMEOUT = -500, -501, -503, -505
NO_SUCH_METHOD, REFUSED, LIMIT_EXCEEDED = -506, -507, -509

MOST_HYPOTHESES = 1000  # of a sentence

_OF_WEIGHTS = ("context-weights", "lambda", "session-id", "weights")
# The switches of mosesserver, also those without an effect here: a wrong value is refused.
_SWITCHES = (
    "add-score-breakdown", "align", "nbest-distinct", "report-all-factors", "sg", "topt",
    "word-align",
)  # fmt: skip
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class TranslateCall(NamedTuple):
    """The parameters of a call of ``translate``."""

    text: str
    nbest: int
    align: bool  # whether phrases are requested
    breakdown: bool  # whether features are requested


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
        method = given.get("methodName")
        if method == "system.multicall":
            raise Fault(REFUSED, "system.multicall: expected calls of other methods")
        return _read_call(method, given["params"])
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
    if "text" not in given:
        raise Fault(NOT_XML_RPC, "translate: expected a member text in the struct")
    for name in _OF_WEIGHTS:
        if name in given:
            raise Fault(WRONG_TYPE, f"translate: {name} is not supported")
    text, nbest = given["text"], given.get("nbest", 0)
    if not isinstance(text, str):
        raise Fault(WRONG_TYPE, "translate: text: expected a string")
    if isinstance(nbest, str) and re.fullmatch("[0-9]{1,9}", nbest):
        nbest = int(nbest)
    if type(nbest) is not int or nbest < 0:
        raise Fault(WRONG_TYPE, "translate: nbest: expected a whole number of at least 0")
    if nbest > MOST_HYPOTHESES:
        problem = f"translate: nbest: expected at most {MOST_HYPOTHESES}, found {nbest}"
        raise Fault(LIMIT_EXCEEDED, problem)
    is_on = {name: _is_on(name, given.get(name, False)) for name in _SWITCHES}
    return TranslateCall(text, nbest, is_on["align"], is_on["add-score-breakdown"])


def _is_on(name: str, value: Any) -> bool:
    """Return the value of a switch: a boolean, a number, or a word that mosesserver knows."""
    # See ``Scan<bool>`` in moses/Util.cpp. mosesserver itself takes no numbers; clients send them.
    word = value.lower() if isinstance(value, str) else value
    if word in (True, "true", "yes", "y", "1"):
        return True
    if word in (False, "false", "no", "n", "0"):
        return False
    problem = f"translate: {name}: expected true or false, or 1 or 0, found {str(value)[:60]!r}"
    raise Fault(WRONG_TYPE, problem)


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

"""Moses' XML-RPC: the calls that mosesserver takes, and its answers.

See moses/server/TranslationRequest.cpp. Parameters that select other weights or models are refused,
and reports that phrasescore lacks (``sg``, ``topt``, ``word-align``) are missing in the answers.
"""

import re
import xmlrpc.client
from typing import Any, NamedTuple
from xml.parsers import expat

from phrasescore.workflows.translation.pipeline import ExplainedHypothesis
from phrasescore.workflows.translation.translate import SystemTranslation

# The codes of faults in xmlrpc-c, on which mosesserver is built.
INTERNAL, WRONG_TYPE, NOT_XML_RPC, TIMEOUT, NO_SUCH_METHOD, LIMIT_EXCEEDED = (
    *(-500, -501, -503, -505, -506),
    -509,
)

_OF_WEIGHTS = ("context-weights", "lambda", "session-id", "weights")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class CallError(Exception):
    """A call that is answered with a fault."""

    def __init__(self, code: int, problem: str) -> None:
        super().__init__(problem)
        self.code = code


class TranslateCall(NamedTuple):
    """The parameters of a call of ``translate``."""

    text: str
    nbest: int
    align: bool  # whether phrases are requested
    breakdown: bool  # whether features are requested


def parse_call(body: bytes) -> TranslateCall:
    """Return the parameters of a call.

    :raises CallError: if the call is malformed, or of another method.
    """
    try:
        # Entities can only be declared in a document type, and can make a short text very long.
        parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = _refuse_doctype
        parser.Parse(body, True)
        params, method = xmlrpc.client.loads(body, use_builtin_types=True)
    except CallError:
        raise
    except Exception as error:  # xmlrpc.client raises many kinds for malformed values
        problem = f"expected a call in XML-RPC: {error or type(error).__name__}"
        raise CallError(NOT_XML_RPC, problem) from error
    if method != "translate":
        problem = f"expected the method translate, found {str(method)[:60]!r}"
        raise CallError(NO_SUCH_METHOD, problem)
    if len(params) != 1 or not isinstance(params[0], dict):
        raise CallError(WRONG_TYPE, "translate: expected one parameter, a struct")
    return _translate_call(params[0])


def _refuse_doctype(*_: object) -> None:
    raise CallError(NOT_XML_RPC, "expected a call in XML-RPC, found a document type")


def _translate_call(given: dict[str, Any]) -> TranslateCall:
    if "text" not in given:
        raise CallError(NOT_XML_RPC, "translate: expected a member text in the struct")
    for name in _OF_WEIGHTS:
        if name in given:
            raise CallError(WRONG_TYPE, f"translate: {name} is not supported")
    text, nbest = given["text"], given.get("nbest", 0)
    if not isinstance(text, str):
        raise CallError(WRONG_TYPE, "translate: text: expected a string")
    if isinstance(nbest, str) and re.fullmatch("[0-9]{1,9}", nbest):
        nbest = int(nbest)
    if not isinstance(nbest, int) or nbest < 0:
        raise CallError(WRONG_TYPE, "translate: nbest: expected a whole number of at least 0")
    return TranslateCall(
        text, nbest, _is_set(given, "align"), _is_set(given, "add-score-breakdown")
    )


def _is_set(given: dict[str, Any], name: str) -> bool:
    value = given.get(name, False)
    return value is True or value in ("true", "True", "TRUE", "1")


def format_answer(call: TranslateCall, found: SystemTranslation) -> bytes:
    """Return the answer to a call; ``found`` has the hypotheses if they are needed."""
    answer: dict[str, Any] = {"text": found.text}
    if call.align:
        answer["align"] = _align(found.hypotheses[0]) if found.hypotheses else []
    if call.nbest:
        answer["nbest"] = [_hypothesis(call, each) for each in found.hypotheses[: call.nbest]]
    return _format((answer,))


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


def _hypothesis(call: TranslateCall, found: ExplainedHypothesis) -> dict[str, Any]:
    answer: dict[str, Any] = {"hyp": found.words, "totalScore": found.score}
    if call.align:
        answer["align"] = _align(found)
    if call.breakdown:
        values = {part.name: part.values for part in found.features}
        answer["fvals"] = " ".join(
            f"{name}= {' '.join(f'{value:g}' for value in own)}" for name, own in values.items()
        )
        # Dense values, and Moses' sparse ones.
        answer["scores"] = {name: [list(own), {}] for name, own in values.items()}
    return answer


def format_fault(error: CallError) -> bytes:
    """Return the answer to a call that failed."""
    return _format(xmlrpc.client.Fault(error.code, str(error)))


def _format(value: Any) -> bytes:
    text = xmlrpc.client.dumps(value, methodresponse=True, encoding="utf-8")
    return _NOT_IN_XML.sub("\ufffd", text).encode()

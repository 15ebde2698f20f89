"""Moses' XML-RPC: the call ``translate`` of mosesserver, and its answer.

See moses/server/TranslationRequest.cpp. Parameters that select other weights or models are refused,
and reports that phrasescore lacks (``sg``, ``topt``, ``word-align``) are missing in the answers.
"""

import re
import xmlrpc.client
from typing import Any, NamedTuple
from xml.parsers import expat
from xmlrpc.client import Fault

from moses_integration.nbest_values import Hypothesis
from phrasescore.workflows.translation.pipeline import ExplainedHypothesis
from phrasescore.workflows.translation.translate import SystemTranslation

# The codes of faults in xmlrpc-c, on which mosesserver is built.
INTERNAL, WRONG_TYPE, NOT_XML_RPC, TIMEOUT = -500, -501, -503, -505
NO_SUCH_METHOD, LIMIT_EXCEEDED = -506, -509

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


def parse_call(body: bytes) -> TranslateCall:
    """Return the call of a request.

    :raises Fault: if the request is malformed.
    """
    try:
        # Entities can only be declared in a document type, and can make a short text very long.
        parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = _refuse_doctype
        parser.Parse(body, True)
        params, method = xmlrpc.client.loads(body, use_builtin_types=True)
    except Exception as error:  # xmlrpc.client raises many kinds for malformed values
        problem = f"expected a call in XML-RPC: {error or type(error).__name__}"
        raise Fault(NOT_XML_RPC, problem) from error
    if method != "translate":
        problem = f"expected the method translate; found {str(method)[:60]!r}"
        raise Fault(NO_SUCH_METHOD, problem)
    if len(params) != 1 or not isinstance(params[0], dict):
        raise Fault(WRONG_TYPE, "translate: expected one parameter, of the type struct")
    return _translate_call(params[0])


def _refuse_doctype(*_: object) -> None:
    raise ValueError("found a document type")


def _translate_call(given: dict[str, Any]) -> TranslateCall:
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
    """Return the value of a switch: a boolean, a number, or a word that mosesserver knows.

    See ``Scan<bool>`` in moses/Util.cpp. mosesserver itself takes no numbers; clients send them.
    """
    word = value.lower() if isinstance(value, str) else value
    if word in (True, "true", "yes", "y", "1"):
        return True
    if word in (False, "false", "no", "n", "0"):
        return False
    problem = f"translate: {name}: expected true or false, or 1 or 0, found {str(value)[:60]!r}"
    raise Fault(WRONG_TYPE, problem)


def answer_of(call: TranslateCall, found: SystemTranslation) -> dict[str, Any]:
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


def format_answer(answer: Any) -> bytes:
    """Return the response with the answer to a call, a value or a fault."""
    params = answer if isinstance(answer, Fault) else (answer,)
    text = xmlrpc.client.dumps(params, methodresponse=True, encoding="utf-8")
    return _NOT_IN_XML.sub("\ufffd", text).encode()

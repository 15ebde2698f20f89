"""The limits of a search, with Moses' names, values and defaults, as sections of moses.ini."""

import contextlib
import logging
import math
from dataclasses import dataclass
from typing import Any

from moses_integration.ini_text import TRUE_VALUES, IniLine, IniText
from moses_integration.moses_ini import is_phrase_table
from phrasescore.errors import shown_path
from phrasescore.io.text import shorten

_logger = logging.getLogger(__name__)

# The values of [search-algorithm], 0 and 1.
ALGORITHMS = ("normal", "cube")
# Sections of moses.ini, and their fields in `SearchLimits`.
LIMITS = {
    "stack": "stack_size",
    "beam-threshold": "beam_threshold",
    "distortion-limit": "distortion_limit",
    "max-phrase-length": "max_phrase_length",
    "search-algorithm": "algorithm",
    "cube-pruning-pop-limit": "pop_limit",
    "cube-pruning-diversity": "diversity",
    "n-best-factor": "nbest_factor",
    "stack-diversity": "stack_diversity",
    "max-trans-opt-per-coverage": "max_options",
    "translation-option-threshold": "option_threshold",
    "drop-unknown": "drop_unknown",
}
# The least value of an integer limit, where it is not 0.
_LEAST = {"distortion_limit": -1, "max_phrase_length": 1, "pop_limit": 1}

_FALSE = ("no", "n", "false", "0")

# Unsupported sections that change what Moses translates (names as in moses/Parameter.cpp). A value
# that switches one off is accepted.
_UNSUPPORTED = {
    "alternate-weight-setting", "always-create-direct-transopt", "consensus-decoding",
    "continue-partial-translation", "decoding-graph-backoff", "early-discarding-threshold",
    "early-distortion-cost", "feature-add", "feature-overwrite", "feature-name-overwrite",
    "inputtype", "lminimum-bayes-risk", "mark-unknown", "minimum-bayes-risk",
    "monotone-at-punctuation", "phrase-drop-allowed", "placeholder-factor",
    "segment-time-out", "time-out", "weight-add", "weight-file", "weight-overwrite",
}  # fmt: skip
_OFF = (*_FALSE, "-1", "0.0")
_FACTORS = ("input-factors", "output-factors")
# Sections that other modules read.
_ELSEWHERE = ("factor-delimiter", "feature", "mapping", "weight")
_KNOWN = {*LIMITS, *_FACTORS, *_ELSEWHERE, *_UNSUPPORTED}


@dataclass(frozen=True)
class SearchLimits:
    """The limits of a search; defaults as in moses/TypeDef.h and moses/parameters."""

    # [stack]: hypotheses per stack; 0 for no limit.
    stack_size: int = 200
    # [beam-threshold]: drop a hypothesis less probable than this times the best one.
    beam_threshold: float = 1e-5
    # [distortion-limit]: words; -1 for no limit, 0 for monotone translations only.
    distortion_limit: int = -1
    # table-limit= of the phrase table: translations per source phrase; 0 for no limit.
    table_limit: int = 20
    # [max-phrase-length]: source words.
    max_phrase_length: int = 20
    # [max-trans-opt-per-coverage]: translation options per span, over all tables; 0 for no limit.
    max_options: int = 5000
    # [translation-option-threshold]: probability relative to the best option of a span.
    option_threshold: float = 0.0
    # [drop-unknown]: drop unknown words, except those with digits.
    drop_unknown: bool = False
    # [search-algorithm]: "normal" or "cube".
    algorithm: str = "normal"
    # [stack-diversity]: the least number of hypotheses that a stack keeps of each coverage.
    stack_diversity: int = 0
    # [cube-pruning-pop-limit], [cube-pruning-diversity].
    pop_limit: int = 1000
    diversity: int = 0
    # [n-best-factor]: paths examined per distinct translation requested; 0 for 1,000 in all.
    nbest_factor: int = 20

    @property
    def beam_width(self) -> float:
        """The natural logarithm of ``beam_threshold``; minus infinity for no beam."""
        return math.log(self.beam_threshold) if self.beam_threshold > 0 else -math.inf


def limit_values(field: str, value: object) -> str | None:
    """Return the valid values of a limit; None if this value is valid."""
    default, least = getattr(SearchLimits, field), _LEAST.get(field, 0)
    if isinstance(default, bool):
        return None if isinstance(value, bool) else "true or false"
    if isinstance(default, str):
        return None if value in ALGORITHMS else " or ".join(ALGORITHMS)
    if isinstance(default, float):
        is_valid = isinstance(value, int | float) and 0 <= value <= 1
        return None if is_valid else "a number from 0 to 1"
    is_valid = isinstance(value, int) and least <= value < 2**31
    return None if is_valid else f"a whole number from {least}"


def read_limits(ini: IniText, table_limit: int) -> SearchLimits:
    """Read the sections that set limits of the search; refuse unsupported ones."""
    lines: dict[str, IniLine] = {}
    for line in ini.content_lines():
        lines.setdefault(line.section, line)  # Moses takes the first of several values
    _check_supported(ini, lines)
    limits: dict[str, Any] = {"table_limit": table_limit}
    for section, field in LIMITS.items():
        if section in lines:
            limits[field] = _parse(ini, lines[section], field)
    return SearchLimits(**limits)


def _parse(ini: IniText, line: IniLine, field: str) -> object:
    text = line.words[0].group()
    value: object = None
    wanted = limit_values(field, value)
    if field == "algorithm":
        wanted = "0 (stacks) or 1 (cube pruning), which this search has"
        value = dict(zip("01", ALGORITHMS, strict=True)).get(text)
    elif field == "drop_unknown":
        value = text.lower() in TRUE_VALUES if text.lower() in TRUE_VALUES + _FALSE else None
    else:
        with contextlib.suppress(ValueError):
            value = type(getattr(SearchLimits, field))(text)
    if limit_values(field, value) is not None:
        raise ini.error(line, "", f"expected {wanted}, found {shorten(text)}")
    return value


def _check_supported(ini: IniText, lines: dict[str, IniLine]) -> None:
    for section, line in lines.items():
        value = line.words[0].group()
        if section in _UNSUPPORTED and value.lower() not in _OFF:
            problem = f"this search has no such setting, found {shorten(value)}"
            raise ini.error(line, "", f"{problem}; remove the line, or decode with Moses")
        if section in _FACTORS and value != "0":
            raise ini.error(line, "", f"expected factor 0, found {shorten(value)}")
        if section == "factor-delimiter" and value != "|":
            raise ini.error(line, "", f"expected the delimiter '|', found {shorten(value)}")
    if others := sorted(lines.keys() - _KNOWN):
        shown = ", ".join(f"[{section}]" for section in others)
        _logger.warning("%s: this search ignores %s", shown_path(ini.path), shown)
    _check_mapping(ini)


def _check_mapping(ini: IniText) -> None:
    """Refuse a mapping other than one translation step with the one phrase table.

    A step is "T 0", "0 T 0" or "0 TranslationModel0" (StaticData::LoadDecodeGraphs): the decoding
    graph, the kind of step, and the number or name of the table.
    """
    lines = [line for line in ini.content_lines() if line.section == "mapping"]
    if not lines:
        return
    first, *others = lines
    words = [word.group() for word in first.words]
    text = " ".join(words)
    if others:
        steps = "; ".join(" ".join(word.group() for word in line.words) for line in lines)
        problem = f"expected one step, found {len(lines)}: {shorten(steps)}"
        cure = "this search has no generation steps and no second decoding graph: decode with Moses"
        raise ini.error(others[0], "", f"{problem}; {cure}")
    names = [feature.name for feature in ini.features if is_phrase_table(feature.kind)]
    if len(words) == 2 and words[0] == "T":
        words.insert(0, "0")
    if len(words) == 2 and words[0] == "0" and words[1] in names:
        return
    if len(words) == 3 and words[:2] == ["0", "T"] and words[2] in map(str, range(len(names))):
        return
    tables = ", ".join(f"'0 T {number}' or '0 {name}'" for number, name in enumerate(names))
    raise ini.error(first, "", f"expected the step {tables}, found {shorten(text)}")

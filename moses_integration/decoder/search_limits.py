"""The sections of a moses.ini that say how to search, with Moses' own names and defaults."""

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from moses_integration.decoder.ini_sections import OTHER_SECTIONS
from moses_integration.ini_text import IniLine, IniText
from phrasescore.errors import ConfigError, shown_path
from phrasescore.io.text import shorten

_T = TypeVar("_T")

_TRUE, _FALSE = ("yes", "y", "true", "1"), ("no", "n", "false", "0")
_ALGORITHMS = {"0": "normal", "1": "cube"}

# Sections that change what Moses translates, and that this search does not have (names as in
# moses/Parameter.cpp). A value that switches them off is accepted.
_MISSING = (
    *("alternate-weight-setting", "always-create-direct-transopt", "consensus-decoding"),
    *("continue-partial-translation", "decoding-graph-backoff", "distortion-file"),
    *("early-discarding-threshold", "early-distortion-cost", "feature-add", "feature-overwrite"),
    *("feature-name-overwrite", "generation-file", "inputtype", "lminimum-bayes-risk"),
    *("lmodel-file", "mark-unknown", "minimum-bayes-risk", "monotone-at-punctuation"),
    *("phrase-drop-allowed", "placeholder-factor", "segment-time-out", "time-out", "ttable-file"),
    *("weight-add", "weight-file", "weight-overwrite"),
)
_OFF = (*_FALSE, "-1", "0.0")
_FACTORS = ("input-factors", "output-factors")
# Those that are read here or elsewhere.
_READ = (
    *("beam-threshold", "cube-pruning-diversity", "cube-pruning-pop-limit", "distortion-limit"),
    *("drop-unknown", "factor-delimiter", "feature", "mapping", "max-phrase-length"),
    *("max-trans-opt-per-coverage", "n-best-factor", "search-algorithm", "stack"),
    *("stack-diversity", "translation-option-threshold", "weight"),
)


@dataclass(frozen=True)
class SearchLimits:
    """How far the search goes; the defaults are those of moses/TypeDef.h and moses/parameters."""

    # [stack]: hypotheses a stack; 0 for no limit.
    stack_size: int = 200
    # [beam-threshold]: a hypothesis goes if it is less probable than this times the best one.
    beam_threshold: float = 1e-5
    # [distortion-limit]: words; -1 for no limit, 0 for none but monotone translations.
    distortion_limit: int = -1
    # table-limit= of the phrase table: translations a source phrase; 0 for no limit.
    table_limit: int = 20
    # [max-phrase-length]: source words.
    max_phrase_length: int = 20
    # [max-trans-opt-per-coverage]: translation options a span, over all tables; 0 for no limit.
    max_options: int = 5000
    # [translation-option-threshold]: relative to the best option of a span, as a probability.
    option_threshold: float = 0.0
    # [drop-unknown]: unknown words are dropped, except those with digits.
    drop_unknown: bool = False
    # [search-algorithm]: "normal" or "cube".
    algorithm: str = "normal"
    # [stack-diversity]: hypotheses of each coverage that a stack keeps at least.
    stack_diversity: int = 0
    # [cube-pruning-pop-limit], [cube-pruning-diversity].
    pop_limit: int = 1000
    diversity: int = 0
    # [n-best-factor]: paths looked at for each distinct translation that is wanted; 0 for 1,000.
    nbest_factor: int = 20

    @property
    def beam_width(self) -> float:
        """The natural logarithm of ``beam_threshold``; minus infinity for no beam."""
        return math.log(self.beam_threshold) if self.beam_threshold > 0 else -math.inf

    def check_supported(self, path: str) -> None:
        """Refuse what Moses' search has and this one has not.

        :param path: of the moses.ini, for messages.
        :raises ConfigError: if there is such a setting.
        """
        if self.stack_diversity:
            problem = "this search has no stack-diversity; set it to 0, or decode with Moses"
            raise ConfigError(shown_path(path), "[stack-diversity]", problem)

    @classmethod
    def from_ini(cls, ini: IniText, table_limit: int) -> "SearchLimits":
        """Read the sections of a moses.ini.

        :raises ConfigError: with file and line, for a value that Moses would not read, or a
            section that changes translations and that this search does not have.
        """
        found: dict[str, IniLine] = {}
        for line in ini.content_lines():
            found.setdefault(line.section, line)  # of several values Moses takes the first
        _check_missing(ini, found)
        read = _Reader(ini, found)
        return cls(
            stack_size=read.count("stack", cls.stack_size),
            beam_threshold=read.probability("beam-threshold", cls.beam_threshold),
            distortion_limit=read.count("distortion-limit", cls.distortion_limit, least=-1),
            table_limit=table_limit,
            max_phrase_length=read.count("max-phrase-length", cls.max_phrase_length, least=1),
            max_options=read.count("max-trans-opt-per-coverage", cls.max_options),
            option_threshold=read.probability("translation-option-threshold", cls.option_threshold),
            drop_unknown=read.switch("drop-unknown"),
            algorithm=read.algorithm(),
            stack_diversity=read.count("stack-diversity", cls.stack_diversity),
            pop_limit=read.count("cube-pruning-pop-limit", cls.pop_limit, least=1),
            diversity=read.count("cube-pruning-diversity", cls.diversity),
            nbest_factor=read.count("n-best-factor", cls.nbest_factor),
        )


class _Reader:
    """Values of sections, or else the defaults."""

    def __init__(self, ini: IniText, lines: dict[str, IniLine]) -> None:
        self._ini = ini
        self._lines = lines

    def _value(
        self, section: str, default: _T, wanted: str, parse: Callable[[str], _T | None]
    ) -> _T:
        line = self._lines.get(section)
        if line is None:
            return default
        text = line.words[0].group()
        try:
            value = parse(text)
        except ValueError:
            value = None
        if value is None:
            raise self._ini.error(line, "", f"expected {wanted}, found {shorten(text)}")
        return value

    def count(self, section: str, default: int, least: int = 0) -> int:
        def parse(text: str) -> int | None:
            return int(text) if least <= int(text) < 2**31 else None

        return self._value(section, default, f"a whole number from {least}", parse)

    def probability(self, section: str, default: float) -> float:
        def parse(text: str) -> float | None:
            return float(text) if 0 <= float(text) <= 1 else None

        return self._value(section, default, "a number from 0 to 1", parse)

    def switch(self, section: str) -> bool:
        def parse(text: str) -> bool | None:
            known = text.lower() in _TRUE + _FALSE
            return text.lower() in _TRUE if known else None

        return self._value(section, False, "true or false", parse)

    def algorithm(self) -> str:
        wanted = "0 (stacks) or 1 (cube pruning), which this search has"
        return self._value("search-algorithm", "normal", wanted, _ALGORITHMS.get)


def _check_missing(ini: IniText, lines: dict[str, IniLine]) -> None:
    for section, line in lines.items():
        value = line.words[0].group()
        if section in _MISSING and value.lower() not in _OFF:
            problem = f"this search has no such setting, found {shorten(value)}"
            raise ini.error(line, "", f"{problem}; take the line out, or decode with Moses")
        if section in _FACTORS and value != "0":
            raise ini.error(line, "", f"expected factor 0, found {shorten(value)}")
        if section == "factor-delimiter" and value != "|":
            raise ini.error(line, "", f"expected the delimiter '|', found {shorten(value)}")
        if section not in {*_MISSING, *_FACTORS, *_READ, *OTHER_SECTIONS}:
            close = difflib.get_close_matches(section, (*_READ, *OTHER_SECTIONS), n=1)
            hint = f"; is it [{close[0]}]?" if close else ""
            raise ini.error(line, "", f"neither Moses nor this search has such a setting{hint}")
    mappings = [line for line in ini.content_lines() if line.section == "mapping"]
    for number, line in enumerate(mappings):
        if number > 0 or [word.group() for word in line.words] != ["0", "T", "0"]:
            found = " ".join(word.group() for word in line.words)
            problem = f"expected one step, '0 T 0', found {shorten(found)}"
            raise ini.error(line, "", f"{problem}; several steps need Moses")

"""The limits of a search, with Moses' names, values and defaults."""

import math
from dataclasses import dataclass

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
    """Return the valid values of a limit as text, or None if this value is valid."""
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

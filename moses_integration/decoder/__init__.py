"""The embedded search, which follows Moses. Its limits have Moses' names and defaults."""

import math
from dataclasses import dataclass

ALGORITHMS = ("normal", "cube")  # [search-algorithm] 0 and 1
# Sections of moses.ini, and their fields in `SearchLimits`.
LIMITS = {
    "stack": "stack_size",
    "beam-threshold": "beam_threshold",
    "distortion-limit": "distortion_limit",
    "max-phrase-length": "max_phrase_length",
    "search-algorithm": "algorithm",
    "cube-pruning-pop-limit": "pop_limit",
    "n-best-factor": "nbest_factor",
    "max-trans-opt-per-coverage": "max_options",
    "translation-option-threshold": "option_threshold",
    "drop-unknown": "drop_unknown",
}
# The smallest valid values of integer limits; 0 for the others.
_LEAST = {"distortion_limit": -1, "max_phrase_length": 1, "pop_limit": 1}


@dataclass(frozen=True)
class SearchLimits:
    """The limits of a search, with the defaults from moses/TypeDef.h and moses/parameters."""

    stack_size: int = 200  # hypotheses per stack; 0 for no limit
    beam_threshold: float = 1e-5  # drop a hypothesis less probable than this times the best one
    distortion_limit: int = -1  # words; -1 for no limit, 0 for monotone translations only
    table_limit: int = 20  # options per source phrase from the phrase table; 0 for no limit
    max_phrase_length: int = 20  # source words
    max_options: int = 5000  # translation options per span, over all tables; 0 for no limit
    option_threshold: float = 0.0  # probability relative to the best option of a span
    drop_unknown: bool = False  # drop unknown words, except those with digits
    algorithm: str = "normal"  # "normal" or "cube"
    pop_limit: int = 1000
    nbest_factor: int = 20  # paths per distinct translation requested; 0 for 1,000 in all

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
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(default, float):
        is_valid = is_number and 0 <= value <= 1  # type: ignore[operator]
        return None if is_valid else "a number from 0 to 1"
    is_valid = isinstance(value, int) and is_number and least <= value < 2**31
    return None if is_valid else f"a whole number from {least}"

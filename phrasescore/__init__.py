"""Neural features for phrase-based statistical machine translation."""

from phrasescore.openmp import choose_waiting

__version__ = "0.1.0"

choose_waiting()

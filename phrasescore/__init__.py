"""Neural features for phrase-based statistical machine translation."""

__version__ = "0.1.0"

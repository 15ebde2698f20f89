"""Features: phrase pairs in, numbers out.

A feature has ``values(pairs: Iterable[PhrasePair]) -> Iterator[float]``: as many values as pairs,
in their order, lazily; the same values at every run, whatever the batches. Values are natural
logarithms, or counts where the feature says so; a phrase table holds exp() of either.

Adding one: a file here, a line in :data:`FEATURES`, a row in ``tests/test_contract.py``.
"""

import importlib
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from phrasescore.records import PhrasePair


class Feature(Protocol):
    """What every feature does."""

    def values(self, pairs: Iterable[PhrasePair]) -> Iterator[float]:
        """Yield one value a pair, in order."""
        ...

    def summary(self) -> str:
        """Return in a few words what was done so far, for the end of a run."""
        ...


# Where each feature is; imported when asked for, because networks bring torch with them.
FEATURES = {
    "language_model": "phrasescore.features.language_model:LanguageModelScore",
    "length_ratio": "phrasescore.features.lengths:LengthRatio",
    "lexicon": "phrasescore.features.lexicon:LexicalScore",
    "neural": "phrasescore.features.neural:NeuralScore",
    "number_mismatch": "phrasescore.features.mismatch:NumberMismatch",
    "punctuation_mismatch": "phrasescore.features.mismatch:PunctuationMismatch",
    "source_unknown_words": "phrasescore.features.unknown_words:SourceUnknownWords",
    "target_length": "phrasescore.features.lengths:TargetLength",
    "target_unknown_words": "phrasescore.features.unknown_words:UnknownWords",
    "unknown_words": "phrasescore.features.unknown_words:UnknownWords",
}

# Those that an option of their own makes, from a file; every other one is a --feature.
FROM_FILES = {"language_model", "lexicon", "neural"}
FEATURE_NAMES = sorted(FEATURES.keys() - FROM_FILES)

# Those made by ``from_checkpoints(checkpoints)``; every other --feature needs nothing.
OF_SHORTLISTS = {"source_unknown_words", "target_unknown_words", "unknown_words"}

# Those that say nothing as a column of a phrase table, and why.
NOT_OF_PHRASES = {
    "length_ratio": "the ratios of its phrases do not add up to that of a sentence",
    "target_length": "Moses has it: WordPenalty is minus the number of words",
}


def load_feature(name: str) -> Any:
    """Return the class of a feature in :data:`FEATURES`."""
    module, _, attribute = FEATURES[name].partition(":")
    return getattr(importlib.import_module(module), attribute)

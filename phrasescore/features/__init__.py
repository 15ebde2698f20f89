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


# Where each feature is; imported when asked for, because networks bring torch with them. Each class
# but "neural", which every --model is, has ``from_checkpoints(checkpoints)`` and is a --feature.
FEATURES = {
    "neural": "phrasescore.features.neural:NeuralScore",
    "unknown_words": "phrasescore.features.unknown_words:UnknownWords",
}


def load_feature(name: str) -> Any:
    """Return the class of a feature in :data:`FEATURES`."""
    module, _, attribute = FEATURES[name].partition(":")
    return getattr(importlib.import_module(module), attribute)

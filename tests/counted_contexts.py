"""Count the contexts that a feed-forward network computes."""

from typing import Any

import pytest

from phrasescore.language_models.context_scorer import ContextScorer


def count_contexts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each call of the layers adds its number of contexts."""
    counts: list[int] = []
    layers = ContextScorer._layers

    def counted(self: ContextScorer, contexts: Any) -> Any:
        counts.append(len(contexts))
        return layers(self, contexts)

    monkeypatch.setattr(ContextScorer, "_layers", counted)
    return counts

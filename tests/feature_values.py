"""The values of a feature from Python, for tests."""

from collections.abc import Sequence

from phrasescore.features.feature import Feature
from phrasescore.records import PhraseBlock, PhrasePair


def scored(feature: Feature, pairs: Sequence[PhrasePair]) -> tuple[list[float], str]:
    """Return the values of the first column, and the tally as a text."""
    scores = feature.score(PhraseBlock.of(pairs))
    return scores.values[0].tolist(), str(scores.tally)


def values_of(feature: Feature, pairs: Sequence[PhrasePair]) -> list[float]:
    return scored(feature, pairs)[0]

"""The features of foreign models among those that hypotheses get."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import tee

from phrasescore.features import Feature, Tally
from phrasescore.features.foreign import ForeignScore
from phrasescore.records import PhrasePair
from phrasescore.workflows.columns import AddedFeature
from phrasescore.workflows.sourced_lists import SourcedList


class FeatureStream:
    """A feature that reads ahead: it has got the pairs before its values are asked for.

    :param values: of all pairs for which values will be asked, in their order.
    """

    def __init__(self, feature: Feature, values: Iterator[float]) -> None:
        self._feature, self._values = feature, values

    @property
    def tally(self) -> Tally:
        """That of the values so far."""
        return self._feature.tally

    def values(self, pairs: Iterable[PhrasePair]) -> Iterator[float]:
        """Yield the next values, one per pair."""
        return (next(self._values) for _ in pairs)


def foreign_scores(features: Sequence[AddedFeature]) -> list[ForeignScore]:
    """Return the scores of foreign models among some features."""
    found = (added.feature for added in features)
    return [feature for feature in found if isinstance(feature, ForeignScore)]


def read_ahead(
    lists: Iterator[SourcedList], features: Sequence[AddedFeature]
) -> tuple[Iterator[SourcedList], list[AddedFeature]]:
    """Return lists, and the features with foreign ones that get the pairs of many lists at once."""
    features = list(features)
    for place, added in enumerate(features):
        if isinstance(added.feature, ForeignScore):
            lists, copy = tee(lists)
            stream = FeatureStream(added.feature, added.feature.values(_pairs_of(copy)))
            features[place] = added._replace(feature=stream)
    return lists, features


def _pairs_of(lists: Iterable[SourcedList]) -> Iterator[PhrasePair]:
    for each in lists:
        yield from (PhrasePair._make((each.source, words)) for words in each.distinct.hypotheses)

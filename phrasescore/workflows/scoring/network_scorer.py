"""One network that scores phrase pairs and lists of translations from Python."""

from collections.abc import Iterable, Iterator

from phrasescore.arguments import PrecisionName
from phrasescore.features import ColumnSpec
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.records import HypothesisList, PhraseBlock, PhrasePair
from phrasescore.settings.compute import Compute
from phrasescore.workflows.scoring.columns import FeatureLoader
from phrasescore.workflows.scoring.scorer import PairLines, Scorer, group_pairs


class NetworkScorer:
    """Scores with one network in threads of this process; several iterators may overlap.

    A score is a natural logarithm, as of `phrasescore.load_model`.

    :param device: the device's name, such as ``cpu``.
    :param of_phrases: whether pairs are phrase pairs, which only some networks score.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: str,
        *,
        precision: PrecisionName = "float32",
        threads: int = 1,
        of_phrases: bool = False,
    ) -> None:
        columns = (ColumnSpec("model", checkpoint.folder),)
        self._loader = FeatureLoader(
            columns, (checkpoint,), device, precision, threads, of_phrases=of_phrases
        )
        self._features, self._engine = self._loader.load(), Compute(workers=threads)

    def score_pairs(self, pairs: Iterable[PhrasePair]) -> Iterator[float]:
        """Yield the score of each pair, in order; some blocks are read ahead."""
        for values in self._values(group_pairs(pairs)):
            yield from values

    def score_lists(self, lists: Iterable[HypothesisList]) -> Iterator[list[float]]:
        """Yield the scores of each list's hypotheses, in order; some lists are read ahead."""
        blocks = (PhraseBlock.of_source(*each) for each in lists)
        return self._values(PairLines(place, block) for place, block in enumerate(blocks))

    def _values(self, lines: Iterable[PairLines]) -> Iterator[list[float]]:
        scorer = Scorer(self._loader, self._engine, features=self._features, unit="pair")
        with scorer:
            for _, scores in scorer.score(lines):
                yield scores.values[0].tolist()

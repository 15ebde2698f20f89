"""Scores of lists from Python, for tests of networks: what ``rescore`` computes."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.features import ColumnSpec
from phrasescore.features.networks import SentenceScore
from phrasescore.features.score_cache import ScoreCache
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.records import HypothesisList, PhraseBlock
from phrasescore.settings.compute import Compute
from phrasescore.workflows.scoring.columns import FeatureLoader
from phrasescore.workflows.scoring.scorer import PairLines, Scorer

Floats = NDArray[np.float64]


class ListScores(NamedTuple):
    """The values of a list by column, and log p of each word by column and hypothesis."""

    columns: list[Floats]
    words: list[list[Floats]] | None


class SentenceScores:
    """Scores lists with some networks; the arguments are `SentenceScore`'s."""

    def __init__(
        self,
        checkpoints: Sequence[Checkpoint],
        device: torch.device,
        *,
        engine: Compute | None = None,
        cache: ScoreCache | None = None,
        **settings: Any,
    ) -> None:
        columns = tuple(ColumnSpec("model", each.folder) for each in checkpoints)
        loader = FeatureLoader(columns, tuple(checkpoints), str(device))
        feature = SentenceScore(checkpoints, device, **settings)
        if cache is None:
            feature.prepare()
        self._parts = loader, engine or Compute(workers=1), feature, cache
        self._scorer = self._open()

    def _open(self) -> Scorer:
        loader, engine, feature, cache = self._parts
        return Scorer(loader, engine, features=[feature], cache=cache)

    def close(self) -> None:
        self._scorer.__exit__()

    @property
    def work(self) -> Any:
        return self._scorer.tallies[0]

    def values(self, lists: Iterable[HypothesisList]) -> Iterator[ListScores]:
        blocks = (PhraseBlock.of_source(*each) for each in lists)
        self._scorer = self._open()
        with self._scorer as scorer:
            found = scorer.score(PairLines(n, block) for n, block in enumerate(blocks))
            for _, scores in found:
                yield ListScores(list(scores.values), scores.words)

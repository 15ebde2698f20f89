"""Scores of lists from Python, for tests of networks: what ``rescore`` computes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.features.model import Network
from phrasescore.features.request import ScoringRequest
from phrasescore.features.score_cache import ScoreCache
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.records import HypothesisList, PairLines, PhraseBlock
from phrasescore.scoring.tree_scorer import TreeLogProbs
from phrasescore.settings.compute import Compute
from phrasescore.systems.scoring import Scoring

Floats = NDArray[np.float64]
USUAL = Network("")  # without options


class ListScores(NamedTuple):
    """The values of a list by column."""

    columns: list[Floats]


class SentenceScores:
    """Scores lists with some networks; the other settings are a `ScoringRequest`'s."""

    def __init__(
        self,
        checkpoints: Sequence[Checkpoint],
        device: torch.device,
        *,
        engine: Compute | None = None,
        cache: ScoreCache | None = None,
        column: Network = USUAL,
        **settings: Any,
    ) -> None:
        columns = tuple(replace(column, model=each.folder) for each in checkpoints)
        request = ScoringRequest(columns, tuple(checkpoints), str(device), **settings)
        self._scorer, self._cache = Scoring(request, engine or Compute(workers=1)), cache
        if cache is None:
            self._scorer.features[0].prepare()

    def close(self) -> None:
        self._scorer.__exit__(None, None, None)

    @property
    def work(self) -> Any:
        return self._scorer.tallies[0]

    def values(self, lists: Iterable[HypothesisList]) -> Iterator[ListScores]:
        blocks = (PhraseBlock.of_source(*each) for each in lists)
        with self._scorer as scorer:
            scorer._cache = self._cache  # which the test has opened
            found = scorer.score_lines(PairLines(n, block) for n, block in enumerate(blocks))
            for _, scores in found:
                yield ListScores(list(scores))


def words_of(log_probs: TreeLogProbs) -> list[Floats]:
    """Return log p of each word in each sequence of a tree, with ``</s>`` last."""
    nodes, ends = log_probs.split()
    found = np.split(ends, len(ends)) if len(ends) else []
    paths = np.zeros((log_probs.tree.num_roots, 0))
    for level, values in zip(log_probs.tree.levels, nodes, strict=True):
        paths = np.concatenate([paths[level.parents], values[:, None]], axis=1)
        for sequence, node in zip(level.ends, level.end_nodes, strict=True):
            found[sequence] = np.append(paths[node], found[sequence])
    return found

"""Cross-validation: how weights score on segments that they were not tuned on."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from phrasescore.errors import PhrasescoreError
from tuning.methods import Optimise, Report
from tuning.metric import Metric
from tuning.ngrams import Integers
from tuning.pool import Pool, Vector
from tuning.settings import TuneSettings


class HeldOut(NamedTuple):
    """The scores of a method, 0 to 1."""

    # The mean over folds of the score on the segments that were tuned on.
    tuned_score: float
    # The metric of all segments, each translated with weights that were tuned without it.
    score: float


def split_segments(num_segments: int, num_folds: int, *, seed: int) -> tuple[Integers, ...]:
    """Return random folds of segments, whose sizes differ by at most one.

    :raises PhrasescoreError: unless there are at least two folds and a segment for each.
    """
    if not 2 <= num_folds <= num_segments:
        raise PhrasescoreError(
            f"cross-validation: expected 2 to {num_segments} parts of {num_segments} segments,"
            f" got {num_folds}"
        )
    order = np.random.default_rng(seed).permutation(num_segments)
    return tuple(np.sort(order[fold::num_folds]) for fold in range(num_folds))


def cross_validate(
    methods: Mapping[str, Optimise],
    pool: Pool,
    metric: Metric,
    start: Vector,
    settings: TuneSettings,
    *,
    num_folds: int,
    seed: int,
    report: Report = lambda _line: None,
) -> dict[str, HeldOut]:
    """Tune with each method on all folds except one, and evaluate on that one; for each fold.

    :param seed: of the folds, and of every run.
    :return: the scores by method, in order.
    """
    scores: dict[str, list[float]] = {name: [] for name in methods}
    chosen = {name: np.empty((pool.num_segments, pool.stats.shape[1])) for name in methods}
    for held_out in split_segments(pool.num_segments, num_folds, seed=seed):
        rest = pool.subset(np.setdiff1d(np.arange(pool.num_segments), held_out))
        part = pool.subset(held_out)
        for name, optimise in methods.items():
            tuned = optimise(rest, metric, start, settings, seed=seed, report=report)
            scores[name].append(tuned.score)
            chosen[name][held_out] = part.stats[part.model_best(tuned.weights)]
    return {
        name: HeldOut(float(np.mean(scores[name])), float(metric.score(stats.sum(axis=0))))
        for name, stats in chosen.items()
    }

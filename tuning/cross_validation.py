"""Cross-validation: how weights do on segments that they were not tuned on."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from phrasescore.errors import PhrasescoreError
from tuning.methods import Optimise, Report, Tuned
from tuning.metric import Metric, Statistics
from tuning.ngrams import Integers
from tuning.pool import Pool, Vector
from tuning.settings import TuneSettings


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What a method's weights choose where they were not tuned. Scores are 0 to 1."""

    # The metric of all segments, each chosen by the weights that were tuned without it.
    score: float
    # The mean over folds of the score on the segments tuned on.
    tuned_score: float
    # (segments, num_stats), in the order of the pool: for paired tests.
    stats: Statistics
    # One a fold.
    tuned: tuple[Tuned, ...]


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Methods compared on the same folds."""

    # The segments of each fold, rising.
    folds: tuple[Integers, ...]
    # Of the start weights, which nothing was tuned on.
    start_score: float
    # By method, in the order given.
    methods: dict[str, HeldOut]


def split_segments(num_segments: int, num_folds: int, *, seed: int) -> tuple[Integers, ...]:
    """Return folds of segments, drawn at random; each segment is in one of them.

    Their sizes differ by one at most.

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
) -> CrossValidation:
    """Tune with each method on all folds but one, and choose in that one; for each fold.

    :param seed: of the folds, and of every run.
    :raises PhrasescoreError: as `split_segments`.
    """
    folds = split_segments(pool.num_segments, num_folds, seed=seed)
    runs: dict[str, list[Tuned]] = {name: [] for name in methods}
    stats = {name: np.empty((pool.num_segments, pool.stats.shape[1])) for name in methods}
    for held_out in folds:
        rest = pool.subset(np.setdiff1d(np.arange(pool.num_segments), held_out))
        part = pool.subset(held_out)
        for name, optimise in methods.items():
            tuned = optimise(rest, metric, start, settings, seed=seed, report=report)
            runs[name].append(tuned)
            stats[name][held_out] = part.stats[part.model_best(tuned.weights)]
    found = {
        name: HeldOut(
            score=float(metric.score(stats[name].sum(axis=0))),
            tuned_score=float(np.mean([tuned.score for tuned in runs[name]])),
            stats=stats[name],
            tuned=tuple(runs[name]),
        )
        for name in methods
    }
    return CrossValidation(folds, pool.score(metric, start), found)

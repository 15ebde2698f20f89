"""What each feature contributes to the choice of hypotheses."""

from dataclasses import dataclass, replace

import numpy as np

from phrasescore.records import FeatureLabel
from tuning.methods import Optimise
from tuning.metric import Metric
from tuning.pool import Pool, Vector
from tuning.settings import TuneSettings


@dataclass(frozen=True)
class Contribution:
    """A feature, by what it does on a pool. Scores are 0 to 1."""

    label: FeatureLabel
    weight: float
    # Weight times standard deviation inside segments: how much it moves model scores; signed.
    contribution: float
    # Its size in parts of the sum of all features'; 0 if nothing contributes.
    share: float
    # The metric with this weight at 0 and all others as they are.
    score_without: float
    # The metric after tuning the others again without it; None if that was not asked for, or the
    # other weights are all zero.
    score_retuned: float | None


@dataclass(frozen=True)
class Retuning:
    """How weights are tuned again when a feature is left out."""

    optimise: Optimise
    settings: TuneSettings
    seed: int


def measure_contributions(
    pool: Pool, metric: Metric, weights: Vector, *, retuning: Retuning | None = None
) -> tuple[Contribution, ...]:
    """Return each feature's contribution, in the order of the pool.

    A score without a feature that is higher than with it says that its weight does harm.

    :param retuning: takes as long as a tuning for each feature; None: not wanted.
    """
    amounts = weights * pool.deviations()
    total = float(np.abs(amounts).sum())
    found = []
    for place, label in enumerate(pool.labels):
        others = weights.copy()
        others[place] = 0.0
        found.append(
            Contribution(
                label=label,
                weight=float(weights[place]),
                contribution=float(amounts[place]),
                share=float(abs(amounts[place])) / total if total else 0.0,
                score_without=pool.score(metric, others),
                score_retuned=_retune(pool, metric, weights, place, retuning),
            )
        )
    return tuple(found)


def _retune(
    pool: Pool, metric: Metric, weights: Vector, place: int, retuning: Retuning | None
) -> float | None:
    if retuning is None:
        return None
    kept = np.arange(pool.num_features) != place
    small = pool.with_features(kept)
    start = weights[kept]
    if not start[~small.constant_features()].any():
        return None
    fixed = tuple(label for label in retuning.settings.fixed if label != pool.labels[place])
    settings = replace(retuning.settings, fixed=fixed)
    return retuning.optimise(small, metric, start, settings, seed=retuning.seed).score

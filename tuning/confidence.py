"""The confidence of a translation: the probability that no hypothesis of its list is better.

The share of a hypothesis is its probability in softmax(scale * score) over its list. The logit of
the share is the margin between its score and all others. The confidence is a logistic
function of this margin: Platt (1999), Probabilistic Outputs for Support Vector Machines.

Weights fit the sentences that they were tuned on better than others. Each fifth of the sentences is
therefore scored with weights that were tuned on the other sentences. Their lists were made with the
tuned weights, which have other margins there: the curve is moved so that the mean confidence with
the tuned weights is the one that was found.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from phrasescore.records import ConfidenceCurve
from tuning.methods import optimise
from tuning.metrics import (
    LENGTH,
    MATCHES,
    REFERENCE_LENGTH,
    TOTALS,
    CorpusBleu,
    Integers,
    Metric,
    Statistics,
)
from tuning.pool import Mask, Matrix, Pool, Vector
from tuning.settings import TuneSettings

FOLDS = 5
# The scales to choose from, in units of 1 / the mean difference of scores within a list.
_SCALES = 2.0 ** np.arange(-4, 8)
_SAME = 1e-12  # gains that differ by at most this are equal: they are rounded
_LEAST_SLOPE = 1e-6  # a larger margin never lowers the confidence


def calibrate_weights(
    pool: Pool, metric: Metric, weights: Vector, settings: TuneSettings, *, seed: int
) -> ConfidenceCurve:
    """Return the curve for the translations that weights tuned on the pool select."""
    gains = sentence_scores(metric, pool.stats)
    scores = held_out_scores(pool, metric, weights, settings, seed=seed)
    curve, confidences = calibrate(scores, gains, pool.starts, pool.highest(scores))
    scores = pool.model_scores(weights)
    margins = _margins(scores, pool.starts, pool.highest(scores), curve.scale)
    return _with_mean(curve, margins, float(confidences.mean()))


def sentence_scores(metric: Metric, stats: Statistics) -> Vector:
    """Return a smoothed score for each hypothesis: (hypotheses,).

    For BLEU, 1 is added to the matches and the number of n-grams of all orders, and to the length
    of the reference but not of the hypothesis, as in Moses' ``pro -b`` (Nakov et al., 2012,
    Optimizing for Sentence-Level BLEU+1 Yields Short Translations, section 4). For other metrics, 1
    is added to all statistics.
    """
    if not isinstance(metric, CorpusBleu):
        return np.asarray(metric.score(stats + 1.0))
    with np.errstate(divide="ignore"):
        brevity = np.minimum(0.0, 1.0 - (stats[..., REFERENCE_LENGTH] + 1) / stats[..., LENGTH])
    ratios = (stats[..., MATCHES] + 1) / (stats[..., TOTALS] + 1)
    return np.asarray(np.exp(np.log(ratios).mean(axis=-1) + brevity))


def held_out_scores(
    pool: Pool, metric: Metric, weights: Vector, settings: TuneSettings, *, seed: int
) -> Vector:
    """Return model scores of each fifth of the segments, tuned on the others: (hypotheses,).

    Whatever the method of ``weights``, they are tuned by xbleu, the fastest one. It starts from
    weights with only the signs of ``weights``, and an equal effect of each feature: the start
    weights of a row of an experiment were tuned on the same sentences.

    :param weights: the tuned weights, to whose scores the deviation of all scores is scaled.
    """
    unit = pool.score_deviation(weights)
    deviations = pool.deviations()
    kept = (deviations == 0) | [label in settings.fixed for label in pool.labels]
    even = np.sign(weights) * np.abs(weights * deviations).mean() / np.where(kept, 1.0, deviations)
    start = np.where(kept, weights, even)
    scores = np.empty(len(pool.stats))
    for fold in range(FOLDS):
        rest = pool.subset(np.flatnonzero(np.arange(pool.num_segments) % FOLDS != fold))
        found = weights
        if rest.num_segments and rest.score_deviation(start):
            found = optimise("xbleu", rest, metric, start, settings, seed=seed).weights
        found = found * (unit / (pool.score_deviation(found) or 1.0))
        rows = pool.segments % FOLDS == fold
        scores[rows] = pool.model_scores(found)[rows]
    return scores


def calibrate(
    scores: Vector, gains: Statistics, starts: Integers, chosen: Integers
) -> tuple[ConfidenceCurve, Vector]:
    """Return the curve for the confidence that no hypothesis has a higher gain than the chosen one.

    A tie with the highest gain counts as that. Each list's confidence is also returned, from a
    curve that was fitted without its fifth of the lists.

    :param scores: model scores, natural logarithms up to a constant: (hypotheses,).
    :param chosen: the row of the hypothesis that is the translation, for each list: (lists,).
    """
    right = gains[chosen] >= np.maximum.reduceat(gains, starts[:-1]) - _SAME
    gaps = np.abs(scores - np.repeat(scores[chosen], np.diff(starts)))
    scales = _SCALES / (gaps.mean() or 1.0)
    margins = [_margins(scores, starts, chosen, scale) for scale in scales]
    folds = np.arange(len(chosen)) % FOLDS
    confidences = np.empty(len(chosen))
    for fold in range(FOLDS):
        place, curve = _fit(margins, scales, right, folds != fold)
        confidences[folds == fold] = _probabilities(margins[place][folds == fold], curve)
    _, curve = _fit(margins, scales, right, folds >= 0)
    return curve, confidences


def confidence(scores: Vector, chosen: int, curve: ConfidenceCurve) -> float:
    """Return the confidence of a hypothesis, which is 1 if it is alone in its list."""
    starts = np.array([0, len(scores)])
    margins = _margins(scores, starts, np.array([chosen]), curve.scale)
    return float(_probabilities(margins, curve)[0])


def _margins(scores: Vector, starts: Integers, chosen: Integers, scale: float) -> Vector:
    """Return the logits of the chosen hypotheses' shares, infinite for lists of one: (lists,)."""
    others = scale * (scores - np.repeat(scores[chosen], np.diff(starts)))
    others[chosen] = -np.inf
    return -np.asarray(np.logaddexp.reduceat(others, starts[:-1]))


def _probabilities(margins: Vector, curve: ConfidenceCurve) -> NDArray[np.float64]:
    return np.exp(-np.logaddexp(0.0, -(curve.slope * margins + curve.offset)))


def _with_mean(curve: ConfidenceCurve, margins: Vector, mean: float) -> ConfidenceCurve:
    from scipy.optimize import brentq

    bound = 40 + curve.slope * np.abs(margins[np.isfinite(margins)]).max(initial=0.0)

    def difference(offset: float) -> float:
        return float(_probabilities(margins, replace(curve, offset=offset)).mean()) - mean

    if difference(-bound) >= 0 or difference(bound) <= 0:  # such as lists of one hypothesis
        return curve
    return replace(curve, offset=float(brentq(difference, -bound, bound)))


def _fit(
    margins: list[Vector], scales: Vector, right: Mask, used: Mask
) -> tuple[int, ConfidenceCurve]:
    # scipy.optimize, which translation does not need, is slow to import.
    from scipy.optimize import minimize

    best, found = np.inf, (0, ConfidenceCurve(float(scales[0])))
    for place, logits in enumerate(margins):
        rows = used & np.isfinite(logits)
        unit = float(logits[rows].std()) if rows.any() else 0.0
        unit = unit or 1.0
        columns = np.column_stack([logits[rows] / unit, np.ones(rows.sum())])
        signed = np.where(right[rows, None], columns, -columns)
        bounds = [(_LEAST_SLOPE, None), (None, None)]
        fitted = minimize(
            logistic_loss, np.ones(2), (signed,), jac=True, method="L-BFGS-B", bounds=bounds
        )
        if fitted.fun < best:
            slope, offset = fitted.x.tolist()
            best = fitted.fun
            found = place, ConfidenceCurve(float(scales[place]), slope / unit, offset)
    return found


def logistic_loss(weights: Vector, differences: Matrix) -> tuple[float, Vector]:
    """Return the loss and its gradient with respect to the weights.

    The loss is the sum of log(1 + exp(-difference @ weights)), plus half of the squared weights.
    """
    margins = differences @ weights
    value = np.logaddexp(0.0, -margins).sum() + 0.5 * float(np.square(weights).sum())
    wrong = np.exp(-np.logaddexp(0.0, margins))  # 1 / (1 + exp(margin)) without overflow
    return float(value), weights - wrong @ differences

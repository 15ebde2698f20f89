"""PRO: ranking as classification of hypothesis pairs.

See Hopkins and May (2011), Tuning as Ranking. Pairs are drawn in each segment, and the pairs whose
sentence scores differ most are kept. Logistic regression learns from their feature differences
which hypothesis is better. As in Nakov et al. (2012), Optimizing for Sentence-Level BLEU+1 Yields
Short Translations, the brevity penalty is smoothed in the same way as the precisions, because
translations would otherwise be too short.
"""

from itertools import pairwise

import numpy as np
from scipy.optimize import minimize

from tuning.methods import Problem, Solution, StopTuning
from tuning.metrics import LENGTH, MATCHES, REFERENCE_LENGTH, TOTALS, CorpusBleu, Metric, Statistics
from tuning.ngrams import Integers
from tuning.pool import Matrix, Vector

_MAX_ITERATIONS = 200
_PRIOR = 1.0  # the factor of the penalty for squared weights
_LEAST_FIXED = 0.1  # of the combined fixed features, in units of their standard deviation


def sentence_scores(metric: Metric, stats: Statistics) -> Vector:
    """Return a smoothed score for each hypothesis: (hypotheses,).

    For BLEU, 1 is added to the matches and the number of n-grams of all orders, and to the length
    of the reference but not of the hypothesis, as in Moses' ``pro -b`` (Nakov et al., 2012, section
    4). For other metrics, 1 is added to all statistics.
    """
    if not isinstance(metric, CorpusBleu):
        return np.asarray(metric.score(stats + 1.0))
    with np.errstate(divide="ignore"):
        brevity = np.minimum(0.0, 1.0 - (stats[..., REFERENCE_LENGTH] + 1) / stats[..., LENGTH])
    ratios = (stats[..., MATCHES] + 1) / (stats[..., TOTALS] + 1)
    return np.asarray(np.exp(np.log(ratios).mean(axis=-1) + brevity))


def logistic_loss(weights: Vector, differences: Matrix, prior: Vector) -> tuple[float, Vector]:
    """Return the loss and its gradient with respect to the weights.

    The loss is the sum of log(1 + exp(-difference @ weights)) + prior / 2 * weights squared.

    :param differences: (pairs, features): the features of the better hypothesis minus the features
        of the worse one.
    """
    margins = differences @ weights
    value = np.logaddexp(0.0, -margins).sum() + 0.5 * float(prior @ np.square(weights))
    wrong = np.exp(-np.logaddexp(0.0, margins))  # 1 / (1 + exp(margin)) without overflow
    return float(value), prior * weights - wrong @ differences


def search_pro(problem: Problem) -> Solution:
    """Return the classifier's weights.

    All fixed features are combined into one feature, their part of the model score. The classifier
    learns its weight, and the other weights are divided by it. This weight has a minimum above 0,
    in case the fixed features are misleading.
    """
    pool, random = problem.pool, np.random.default_rng(problem.seed)
    try:
        better, worse = draw_pairs(problem, random)
        problem.report(f"{len(better):,} pairs")
    except StopTuning:
        return Solution(problem.start, 0, ("stopped before training",))
    if not len(better):
        return Solution(problem.start, 0, ("no two hypotheses differ enough to learn from",))
    return _classify(problem, pool.features[better] - pool.features[worse])


def _classify(problem: Problem, differences: Matrix) -> Solution:
    """Return the classifier's weights, scaled like the start weights."""
    free, start = problem.free, problem.start
    units = problem.pool.deviations()[free]
    columns = differences[:, free] / units
    prior = np.full(columns.shape[1], _PRIOR)
    bounds: list[tuple[float | None, None]] = [(None, None)] * columns.shape[1]
    fixed = differences[:, ~free] @ start[~free]
    unit = float(np.sqrt(np.square(fixed).mean()))
    if unit > 0:  # an additional column without a penalty
        columns = np.column_stack([columns, fixed / unit])
        prior = np.append(prior, 0.0)
        bounds.append((_LEAST_FIXED, None))
    optimum = minimize(
        logistic_loss,
        np.array([low or 0.0 for low, _ in bounds]),
        args=(columns, prior),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": _MAX_ITERATIONS},
    )
    weights = start.copy()
    weights[free] = optimum.x[: len(units)] / units
    size = np.abs(weights[free]).sum()
    if unit > 0:
        weights[free] *= unit / optimum.x[-1]
    elif size > 0:
        weights[free] *= np.abs(start).sum() / size
    return Solution(weights, int(optimum.nit))


def draw_pairs(problem: Problem, random: np.random.Generator) -> tuple[Integers, Integers]:
    """Draw pairs to learn from; return the rows of the better and of the worse hypotheses.

    In each segment, settings.candidates pairs are drawn with replacement. Among those whose scores
    differ by at least settings.least_difference, the settings.pairs pairs with the largest
    differences are kept, the first drawn on ties.
    """
    pool, settings = problem.pool, problem.settings
    scores = sentence_scores(problem.metric, pool.stats)
    chosen = []
    for first, end in pairwise(pool.starts):
        pairs = random.integers(first, end, (2, settings.candidates))
        differences = scores[pairs[0]] - scores[pairs[1]]
        sizes = np.abs(differences)
        enough = np.flatnonzero((sizes >= settings.least_difference) & (sizes > 0))
        kept = enough[np.argsort(-sizes[enough], kind="stable")[: settings.pairs]]
        chosen.append(np.where(differences > 0, pairs, pairs[::-1])[:, kept])
    better, worse = np.concatenate(chosen, axis=1)
    return better, worse

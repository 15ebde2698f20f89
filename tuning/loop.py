"""The loop of tuning: decode, pool, optimise, until nothing better is found.

As mert-moses.pl has it, with three differences. The weights that are kept are the best of those
that were decoded with, by the metric of the decoder's own output, and not the last. Optimising
starts from the best weights so far, on the pool, of all rounds. And a run goes on where it was
stopped: the weights of earlier rounds are given, and lists are read again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from tuning.methods import Optimise
from tuning.metric import Metric
from tuning.ngrams import Integers
from tuning.pool import FeatureLabel, Pool, Vector, pool_lists
from tuning.settings import TuneSettings

# Gains of the metric on the pool, 0 to 1, that are not worth another round: 0.01 BLEU.
SMALLEST_GAIN = 1e-4

NamedWeights = dict[FeatureLabel, float]


class Decoded(NamedTuple):
    """What a decoder gave for some weights."""

    # All hypotheses of this round, in the order of the lists.
    pool: Pool
    # (segments,): the row of each segment's output.
    output: Integers


class Decode(Protocol):
    """A decoder, and whatever adds features to its lists."""

    def __call__(self, number: int, weights: NamedWeights) -> Decoded:
        """Return the lists of a round.

        :param number: of the round, from 1 on. A round that was decoded already is read again.
        """
        ...


class Round(NamedTuple):
    """A round that is done."""

    # From 1 on.
    number: int
    # Those it was decoded with.
    weights: NamedWeights
    # The metric of the decoder's output, 0 to 1.
    score: float
    # Hypotheses in the pool, and those of them that this round was the first to have.
    hypotheses: int
    new: int
    # The metric on the pool: of the weights decoded with, and of those that optimising found; the
    # latter is None where none was needed any more.
    pool_score: float
    found_score: float | None


@dataclass(frozen=True)
class LoopSettings:
    """When the loop ends."""

    # Rounds at most; at least 1.
    iterations: int = 25
    # Rounds without a better output after which it ends; at least 1.
    patience: int = 5


@dataclass(frozen=True)
class LoopResult:
    """What the loop found so far."""

    rounds: tuple[Round, ...] = ()
    # The weights to decode with next; None where the loop has ended.
    next_weights: NamedWeights | None = None
    # Why it has ended.
    reason: str = ""
    # The hypotheses of all rounds, each once.
    pool: Pool | None = None

    @property
    def best(self) -> Round | None:
        """The round with the best output, of equals the first; None before the first one."""
        return max(self.rounds, key=lambda done: done.score, default=None)


def run_loop(
    decode: Decode,
    metric: Metric,
    start: NamedWeights,
    optimise: Optimise,
    settings: TuneSettings,
    loop: LoopSettings,
    *,
    seed: int,
    decided: Sequence[NamedWeights] = (),
    on_round: Callable[[LoopResult], None] = lambda _result: None,
) -> LoopResult:
    """Return the rounds, the best of which holds the weights that are wanted.

    :param start: the weights of the first round; features that are not named have 0.
    :param decided: the weights of the second round and those after it, from a run that was
        stopped: these rounds are read again and not optimised. The result is that of a run that
        was not stopped, bit for bit.
    :param on_round: gets the result so far after each round.
    """
    result = LoopResult(next_weights=start)
    while result.next_weights is not None:
        number = len(result.rounds) + 1
        weights = result.next_weights
        decoded = decode(number, weights)
        before = 0 if result.pool is None else len(result.pool.stats)
        earlier = [] if result.pool is None else [result.pool]
        pool = union([*earlier, decoded.pool])
        done = Round(
            number,
            weights,
            float(metric.score(decoded.pool.stats[decoded.output].sum(axis=0))),
            len(pool.stats),
            len(pool.stats) - before,
            pool.score(metric, weights_vector(weights, pool)),
            None,
        )
        result = _with_round(replace(result, pool=pool), done, loop)
        if result.next_weights is not None:
            if number <= len(decided):
                result = replace(result, next_weights=decided[number - 1])
            else:
                result = _optimised(result, pool, metric, optimise, settings, seed)
        on_round(result)
    return result


def _with_round(result: LoopResult, done: Round, loop: LoopSettings) -> LoopResult:
    """Return the result with one more round, and no weights to come where that was the last."""
    result = replace(result, rounds=(*result.rounds, done))
    best = result.best
    assert best is not None
    reason = ""
    if done.new == 0:
        reason = "no new hypotheses"
    elif done.number >= loop.iterations:
        reason = f"{loop.iterations} rounds are done"
    elif done.number - best.number >= loop.patience:
        reason = f"no better output in {loop.patience} rounds"
    return replace(result, next_weights=None, reason=reason) if reason else result


def _optimised(
    result: LoopResult,
    pool: Pool,
    metric: Metric,
    optimise: Optimise,
    settings: TuneSettings,
    seed: int,
) -> LoopResult:
    """Return the result with the weights of the next round, or none where they are no better."""
    done = result.rounds[-1]
    known = [weights_vector(each.weights, pool) for each in result.rounds[::-1]]
    start = max(known, key=lambda weights: pool.score(metric, weights))  # of equals the latest
    tuned = optimise(pool, metric, start, settings, seed=seed + done.number)
    rounds = (*result.rounds[:-1], done._replace(found_score=tuned.score))
    if tuned.score < done.pool_score + SMALLEST_GAIN:
        reason = f"no weights that are better by {100 * SMALLEST_GAIN:g} points on all lists"
        return LoopResult(rounds, None, reason, pool)
    found = dict(zip(pool.labels, tuned.weights.tolist(), strict=True))
    return LoopResult(rounds, {**done.weights, **found}, "", pool)


def weights_vector(weights: NamedWeights, pool: Pool) -> Vector:
    """Return the weights of a pool's features; 0 for those that are not named."""
    return np.array([weights.get(label, 0.0) for label in pool.labels])


def union(pools: Sequence[Pool]) -> Pool:
    """Return the union of pools, each hypothesis once; one may have features that another lacks.

    Such a feature is a sparse one: its value is 0 where it is not.
    """
    labels = tuple(dict.fromkeys(label for pool in pools for label in pool.labels))
    return pool_lists([_with_labels(pool, labels) for pool in pools])


def _with_labels(pool: Pool, labels: tuple[FeatureLabel, ...]) -> Pool:
    if pool.labels == labels:
        return pool
    features = np.zeros((len(pool.features), len(labels)))
    places = {label: place for place, label in enumerate(labels)}
    features[:, [places[label] for label in pool.labels]] = pool.features
    return Pool(labels, features, pool.stats, pool.starts)

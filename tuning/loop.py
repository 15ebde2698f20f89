"""The loop of tuning: decode, pool, optimise, until nothing better is found.

As mert-moses.pl has it, with five differences. The weights that are kept are the best of those
that were decoded with, and not the last. Optimising starts from the best weights so far, on the
pool, of all rounds. A run goes on where it was stopped: what earlier rounds have decided is given,
and lists are read again. Steps are bounded: weights are tried on some of the sentences, and where
these get much worse, weights between them and those of the best round are taken; a round that is
much worse all the same is not pooled. And features that only the lists have, because the decoder
does not know them, have weights of their own:

- the *search's* weights are what the decoder decodes with. They are tuned on the pool as if the
  decoder's features were all there are: its own choice is to be good, and so its lists are.
- the *lists'* weights, of all features, choose from the lists. They are tuned on the same pool.

A round is judged by what a user does with it: decode with its search weights, and rerank with its
lists' weights. Without features that the decoder lacks, both are the same, and nothing is reranked.
(Decoding with the lists' weights, less those that the decoder lacks, is no substitute: what is left
pulls the wrong way.)
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from phrasescore.records import FeatureLabel, WeightPair, Weights
from tuning.methods import Optimise
from tuning.metric import Metric
from tuning.ngrams import Integers
from tuning.pool import Pool, Vector, pool_lists
from tuning.settings import TuneSettings
from tuning.weights import named_weights, weights_between, weights_vector

# Gains of the metric on the pool, 0 to 1, that are not worth another round: 0.01 BLEU.
SMALLEST_GAIN = 1e-4
# What a step may lose on the sentences of a trial, and on all: 2 and 3 BLEU.
TRIAL_LOSS, ROUND_LOSS = 0.02, 0.03
# Sentences of a trial, and parts of a step that are tried one after the other.
TRIAL_SIZE = 100
STEPS = (1.0, 0.5, 0.25, 0.125, 0.0625)
TOO_FAR = "every step towards the weights that are better on the lists loses too much"


class Decode(Protocol):
    """A decoder, and whatever adds features to its lists."""

    def __call__(
        self, number: int, weights: Weights, segments: Sequence[int] | None = None
    ) -> Pool:
        """Return the lists of a round; the first hypothesis of a list is the decoder's output.

        :param number: of the round, from 1 on. A round that was decoded already is read again.
        :param segments: of a trial: lists of these segments alone, in this order.
        """
        ...


class Round(NamedTuple):
    """A round that is done."""

    # From 1 on.
    number: int
    # Those it was decoded with, and those that its lists are reranked with.
    weights: WeightPair
    # The metric of its translations, 0 to 1: of the reranked lists, if there is anything to rerank.
    score: float
    # The metric of the decoder's own output, 0 to 1.
    decoded_score: float
    # Hypotheses in the pool, and those of them that this round was the first to have.
    hypotheses: int
    new: int
    # The metric of the decoder's choice from the pool: of the weights decoded with, and of those
    # that optimising found; the latter is None where none was needed any more.
    pool_score: float
    found_score: float | None


class Decided(NamedTuple):
    """What a run that was stopped has decided after a round."""

    # The lists' weights of the round.
    lists: Weights
    # The search weights of the next one.
    search: Weights
    # The metric on the pool of the weights that optimising found, 0 to 1.
    found_score: float | None = None


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
    # The search weights to decode with next; None where the loop has ended.
    next_weights: Weights | None = None
    # Why it has ended; and whether by the number of rounds alone.
    reason: str = ""
    is_cut: bool = False
    # The hypotheses of all rounds that count, each once.
    pool: Pool | None = None

    @property
    def best(self) -> Round | None:
        """The round with the best translations, of equals the first; None before the first one."""
        return max(self.rounds, key=lambda done: done.score, default=None)

    @property
    def promised(self) -> float | None:
        """The best score that optimising has found on the pool, 0 to 1; None if it never ran."""
        found = [done.found_score for done in self.rounds if done.found_score is not None]
        return max(found, default=None)


def run_loop(
    decode: Decode,
    metric: Metric,
    start: WeightPair,
    optimise: Optimise,
    settings: TuneSettings,
    loop: LoopSettings,
    *,
    seed: int,
    list_features: Collection[str] = (),
    decided: Sequence[Decided] = (),
    on_judged: Callable[[LoopResult], None] = lambda _result: None,
    on_round: Callable[[LoopResult], None] = lambda _result: None,
    report: Callable[[str], None] = lambda _line: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> LoopResult:
    """Return the rounds, the best of which holds the weights that are wanted.

    :param start: the weights of the first round; features that are not named have 0.
    :param list_features: names of the features that the decoder does not know.
    :param decided: after each of the first rounds, from a run that was stopped: these are read
        again and not optimised. The result is that of a run that was not stopped, bit for bit.
    :param on_judged: gets the result so far when a round is judged, and before the next weights are
        looked for.
    :param on_round: gets the result so far after each round.
    :param report: gets a line where a step is shortened.
    :param is_stopped: asked after optimising; if so, ``on_round`` gets the result and may raise.
    """
    names = frozenset(list_features)
    run = _Loop(decode, metric, start, optimise, settings, loop, seed, names, report)
    while run.result.next_weights is not None:
        number = len(run.result.rounds) + 1
        known = decided[number - 1] if number <= len(decided) else None
        run.add_round(None if known is None else known.lists)
        on_judged(run.result)
        if run.result.next_weights is not None and not is_stopped():
            if known is None:
                run.choose_next(is_stopped)
            else:
                run.follow(known)
        on_round(run.result)
    return run.result


class _Loop:
    """The loop between two rounds; `result` is what it has found."""

    def __init__(
        self,
        decode: Decode,
        metric: Metric,
        start: WeightPair,
        optimise: Optimise,
        settings: TuneSettings,
        loop: LoopSettings,
        seed: int,
        list_features: frozenset[str],
        report: Callable[[str], None],
    ) -> None:
        self.result = LoopResult(next_weights=start.search)
        self._decode, self._metric, self._start = decode, metric, start
        self._optimise, self._settings, self._seed = optimise, settings, seed
        self._limits, self._list_features, self._report = loop, list_features, report
        # The lists of the best round.
        self._best_lists: Pool | None = None
        # Whether the latest round counts: its lists are in the pool.
        self._counts = True
        # Of a step, after rounds that did not count: the pool does not know of them.
        self._longest_step = 1.0

    def add_round(self, lists: Weights | None) -> None:
        """Decode, and judge what comes of it.

        :param lists: the lists' weights, where they are known.
        """
        earlier, best, search = self.result.pool, self.result.best, self.result.next_weights
        assert search is not None
        number = len(self.result.rounds) + 1
        decoded = self._decode(number, search)
        pool = decoded.distinct() if earlier is None else union([earlier, decoded])
        before = 0 if earlier is None else len(earlier.stats)
        if not self._list_features:
            lists = search
        elif lists is None:
            lists = self._tune_lists(pool, number)
        own = self._own(pool)
        done = Round(
            number,
            WeightPair(search, lists),
            self._score(decoded, lists),
            self._total(decoded, decoded.starts[:-1]),
            len(pool.stats),
            len(pool.stats) - before,
            own.score(self._metric, weights_vector(search, own.labels)),
            None,
        )
        self._counts = best is None or done.score >= best.score - ROUND_LOSS
        if best is not None and not self._counts:
            self._longest_step /= 2
            self._report(
                f"round {number}: {self._metric.name} {100 * done.score:.2f} after "
                f"{100 * best.score:.2f}: its lists do not count, and steps are shorter from now on"
            )
        if best is None or done.score > best.score:
            self._best_lists = decoded
        kept = pool if self._counts else earlier
        self.result = _with_round(replace(self.result, pool=kept), done, self._limits)

    def _tune_lists(self, pool: Pool, number: int) -> Weights:
        """Return weights of all features, tuned on the pool from the best that are known."""
        known = [self._start.lists, *(each.weights.lists for each in self.result.rounds)]
        start = self._best_of(known, pool)
        tuned = self._optimise(pool, self._metric, start, self._settings, seed=self._seed + number)
        return {**known[-1], **named_weights(tuned.weights, pool.labels)}

    def choose_next(self, is_stopped: Callable[[], bool]) -> None:
        """Set the search weights of the next round, or none where they are no better."""
        done, pool = self.result.rounds[-1], self.result.pool
        assert pool is not None
        if not self._counts:
            self._bound_step(done.weights.search)
            return
        own = self._own(pool)
        known = [each.weights.search for each in self.result.rounds]
        start, seed = self._best_of(known, own), self._seed + done.number
        tuned = self._optimise(own, self._metric, start, self._settings, seed=seed)
        rounds = (*self.result.rounds[:-1], done._replace(found_score=tuned.score))
        self.result = replace(self.result, rounds=rounds)
        if is_stopped():
            return
        if tuned.score < done.pool_score + SMALLEST_GAIN:
            reason = f"no weights that are better by {100 * SMALLEST_GAIN:g} points on all lists"
            self.result = replace(self.result, next_weights=None, reason=reason)
            return
        self._bound_step({**done.weights.search, **named_weights(tuned.weights, own.labels)})

    def follow(self, known: Decided) -> None:
        """Set the search weights of the next round to those that were decided before."""
        done = self.result.rounds[-1]._replace(found_score=known.found_score)
        rounds = (*self.result.rounds[:-1], done)
        self.result = replace(self.result, rounds=rounds, next_weights=known.search)

    def _bound_step(self, target: Weights) -> None:
        """Set the next weights: from the best round's towards others, as far as a trial allows."""
        best = self.result.best
        assert best is not None
        for step in STEPS:
            if step > self._longest_step:
                continue
            weights = weights_between(best.weights.search, target, step)
            if self._passes_trial(weights, step):
                self.result = replace(self.result, next_weights=weights)
                return
        self.result = replace(self.result, next_weights=None, reason=TOO_FAR)

    def _passes_trial(self, weights: Weights, step: float) -> bool:
        """Return whether weights translate some of the sentences nearly as well as the best."""
        best, lists = self.result.best, self._best_lists
        assert best is not None
        assert lists is not None
        distance = lists.num_segments // TRIAL_SIZE
        if distance < 2:
            return True  # a round is as good as a trial
        segments = range(0, lists.num_segments, distance)
        chosen = self._chosen(lists, best.weights.lists)[segments]
        before = float(self._metric.score(lists.stats[chosen].sum(axis=0)))
        number = len(self.result.rounds) + 1
        after = self._score(self._decode(number, weights, segments), best.weights.lists)
        if after >= before - TRIAL_LOSS:
            return True
        self._report(
            f"round {number}: {step:g} of a step towards the weights found takes {len(segments)} "
            f"sentences from {self._metric.name} {100 * before:.2f} to {100 * after:.2f}: a "
            "smaller part is tried"
        )
        return False

    def _chosen(self, pool: Pool, lists: Weights) -> Integers:
        """Return the row of each segment's translation: what the user gets of these lists."""
        if not self._list_features:
            return pool.starts[:-1]  # the decoder's own best
        return pool.model_best(weights_vector(lists, pool.labels))

    def _score(self, pool: Pool, lists: Weights) -> float:
        return self._total(pool, self._chosen(pool, lists))

    def _total(self, pool: Pool, rows: Integers) -> float:
        return float(self._metric.score(pool.stats[rows].sum(axis=0)))

    def _own(self, pool: Pool) -> Pool:
        """Return a pool with the decoder's own features."""
        own = np.array([label.name not in self._list_features for label in pool.labels])
        return pool if own.all() else pool.with_features(own)

    def _best_of(self, known: Sequence[Weights], pool: Pool) -> Vector:
        """Return those weights that are best on a pool; of equals the latest."""
        vectors = [weights_vector(weights, pool.labels) for weights in known[::-1]]
        return max(vectors, key=lambda weights: pool.score(self._metric, weights))


def _with_round(result: LoopResult, done: Round, loop: LoopSettings) -> LoopResult:
    """Return the result with one more round, and no weights to come where that was the last."""
    result = replace(result, rounds=(*result.rounds, done))
    best = result.best
    assert best is not None
    if done.new == 0:
        return replace(result, next_weights=None, reason="no new hypotheses")
    if done.number >= loop.iterations:
        reason = f"{loop.iterations} rounds are done"
        return replace(result, next_weights=None, reason=reason, is_cut=True)
    if done.number - best.number >= loop.patience:
        reason = f"no better output in {loop.patience} rounds"
        return replace(result, next_weights=None, reason=reason)
    return result


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

"""The tuning loop: decode, pool and optimise until the weights no longer improve.

It follows mert-moses.pl, with these differences:

- The result is the best set of weights used for decoding, not the last one.
- Optimisation starts from the best weights so far, on the pool of all rounds.
- A stopped run can be resumed: it replays the decisions of earlier rounds and reads their lists.
- The decoder's new features do not start at 0. A few start weights are tried on a sample of the
  sentences, and the best one is taken.
- Steps are bounded. New weights are tried on the sample, too. If the score drops too much, a
  shorter step is tried. If a round is much worse in spite of this, its lists are not pooled.
- Features that are added to the lists, and that the decoder does not know, are tuned separately.
  The *search* weights are tuned on the pool with only the decoder's features, to produce good
  lists. The *list* weights, for all features, rerank the lists. They are tuned in each round, on
  the lists of this round only.

A round is scored as it would be used: decoded with its search weights and reranked with its list
weights. So the best round is never worse than tuning once on the first lists.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from phrasescore.records import WeightPair, Weights
from tuning.methods import Tuned
from tuning.metrics import Integers, Metric
from tuning.pool import Pool, Vector, named_weights, union, weights_between, weights_vector

SMALLEST_GAIN = 1e-4  # the minimum gain on the pool that justifies another round: 0.01 BLEU
# The maximum acceptable losses in a trial and in a round: 2 and 3 BLEU.
TRIAL_LOSS, ROUND_LOSS = 0.02, 0.03
# The largest number of sentences in a trial, and the fractions of a step to try in turn.
TRIAL_SIZE = 100
STEPS = (1.0, 0.5, 0.25, 0.125, 0.0625)
# The start weights of a new feature that are tried in addition to 0. They are shares of the weight
# that gives it the influence of the most influential feature: weight times standard deviation.
START_SHARES = (0.1, 0.3, 1.0)
TOO_FAR = "the weights that are better on the lists lose too much in decoding, at every step size"


# A decoder, together with any steps that add features to its lists. It gets the number of a round,
# counting from 1, and weights; for a trial, also the segments to decode. The first hypothesis in
# each list is the decoder's output. The lists of a round that was decoded before are reused.
Decode = Callable[..., Pool]


@dataclass(frozen=True)
class Round:
    """A completed round, numbered from 1. All scores are values of the metric, 0 to 1."""

    number: int
    weights: WeightPair  # the weights for decoding, and the weights for reranking the lists
    score: float  # the score of the translations, after reranking if there are added features
    decoded_score: float  # the score of the decoder's output
    # The number of hypotheses in the pool, and how many of them this round added.
    hypotheses: int
    new: int
    # The score on the pool with the search weights, and with the optimised ones, if there are any.
    pool_score: float
    found_score: float | None


@dataclass(frozen=True)
class LoopResult:
    """The rounds so far, and why the loop ended if it has."""

    rounds: tuple[Round, ...] = ()
    next_weights: Weights | None = None  # for the next round's search; None if the loop has ended
    # Why the loop ended, and whether it was only the limit on rounds.
    reason: str = ""
    is_cut: bool = False
    pool: Pool | None = None  # the distinct hypotheses from all rounds whose lists were pooled

    @property
    def best(self) -> Round | None:
        """The round with the highest score, the earliest on ties; None before the first round."""
        return max(self.rounds, key=lambda round_: round_.score, default=None)

    @property
    def promised(self) -> float | None:
        """The best score of optimised weights on the pool, 0 to 1; None before optimising."""
        scores = [round_.found_score for round_ in self.rounds if round_.found_score is not None]
        return max(scores, default=None)


@dataclass(eq=False)
class TuningLoop:
    """Alternates decoding and optimisation, beginning with the start weights; see `run`."""

    decode: Decode
    metric: Metric
    start: WeightPair  # the weights for the first round; missing weights are 0
    # A method, called with a pool, the metric, start weights (one per feature value), and a seed.
    optimise: Callable[[Pool, Metric, Vector, int], Tuned]
    seed: int
    # The maximum number of rounds, and of rounds without an improvement; at least 1.
    iterations: int = 25
    patience: int = 5
    list_features: frozenset[str] = frozenset()  # unknown to the decoder
    report: Callable[[str], None] = lambda _line: None  # says when a step is shortened
    # Called after optimisation: returns whether the user has stopped it.
    is_stopped: Callable[[], bool] = lambda: False
    # Updated when a round has been scored, and when the next weights are chosen.
    result: LoopResult = field(init=False)
    _best_lists: Pool | None = field(default=None, init=False)
    _is_pooled: bool = field(default=True, init=False)  # the latest round's lists
    # The search weights tuned on the latest pool, if they were needed to tune the list weights.
    _tuned_search: Tuned | None = field(default=None, init=False)
    _longest_step: float = field(default=1.0, init=False)  # halved by rounds that are not pooled

    def __post_init__(self) -> None:
        self.result = LoopResult(next_weights=self.start.search)

    def choose_start(self, new: Sequence[str], num_segments: int) -> None:
        """Choose start weights for new features, one after another, before the first round.

        The weight with which the decoder's output of a sample scores highest, on ties the smallest.

        :param new: names of features of the decoder whose weights are 0.
        """
        weights, segments = self.start.search, _sample(num_segments)
        lists = self.decode(1, weights, segments)
        best = self._total(lists, lists.starts[:-1])
        for name, full in _equal_influence(lists, weights).items():
            if name not in new or not any(full):
                continue
            scores = {(0.0,) * len(full): best}
            for share in START_SHARES:
                # Two digits, so that messages show the exact weight.
                values = tuple(float(f"{share * weight:.2g}") for weight in full)
                tried = self.decode(1, {**weights, name: values}, segments)
                scores[values] = self._total(tried, tried.starts[:-1])
            chosen = max(scores, key=scores.__getitem__)
            weights, best = {**weights, name: chosen}, scores[chosen]
            others = (
                f", with {_numbers(values)}: {100 * score:.2f}"
                for values, score in scores.items()
                if values != chosen
            )
            self.report(
                f"start weight of {name}: {_numbers(chosen)} ({self.metric.name} of "
                f"{len(segments)} sentences {100 * best:.2f}{''.join(others)})"
            )
        self.start = self.start._replace(search=weights)
        self._change(next_weights=weights)

    def run(
        self,
        earlier: LoopResult = LoopResult(),
        on_round: Callable[[LoopResult], None] = lambda _result: None,
    ) -> LoopResult:
        """Run rounds until the loop ends; the final weights are in the result's best round.

        :param earlier: the rounds of a stopped run, whose lists are read again, without optimising.
            An uninterrupted run has the same result to the bit.
        :param on_round: called with the result after each round; may raise an exception to stop.
        """
        following = [*(done.weights.search for done in earlier.rounds[1:]), earlier.next_weights]
        replayed = zip(earlier.rounds, following, strict=False)
        while self.result.next_weights is not None:
            known, after = next(replayed, (None, None))
            self._add_round(None if known is None else known.weights.lists)
            if self.result.next_weights is not None and not self.is_stopped():
                if known is None or after is None:  # earlier limits may have ended the run
                    self._choose_next()
                else:
                    self._set_found_score(known.found_score)
                    self._change(next_weights=after)
            on_round(self.result)
        return self.result

    def _add_round(self, lists: Weights | None) -> None:
        """Decode and score a round; tune the list weights if ``lists`` is None."""
        earlier, best, search = self.result.pool, self.result.best, self.result.next_weights
        assert search is not None
        number = len(self.result.rounds) + 1
        decoded = self.decode(number, search)
        pool = decoded.distinct() if earlier is None else union([earlier, decoded])
        before = 0 if earlier is None else len(earlier.stats)
        own, self._tuned_search = self._own(pool), None
        if not self.list_features:
            lists = search
        elif lists is None:
            self._tuned_search = self._tune_search(own, number)
            tuned = named_weights(self._tuned_search.weights, own.labels)
            lists = self._tune_lists(decoded.distinct(), number, [search, tuned])
        output = self._total(decoded, decoded.starts[:-1])
        pool_score = own.score(self.metric, weights_vector(search, own.labels))
        new_round = Round(
            number,
            WeightPair(search, lists),
            self._score(decoded, lists),
            output,
            len(pool.stats),
            len(pool.stats) - before,
            pool_score,
            None,
        )
        self._is_pooled = best is None or new_round.score >= best.score - ROUND_LOSS
        if best is not None and not self._is_pooled:
            self._longest_step /= 2
            self.report(
                f"round {number}: {self.metric.name} {100 * new_round.score:.2f} after "
                f"{100 * best.score:.2f}: ignoring this round's lists; taking smaller steps"
            )
        if best is None or new_round.score > best.score:
            self._best_lists = decoded
        kept = pool if self._is_pooled else earlier
        self._change(rounds=(*self.result.rounds, new_round), pool=kept)
        since_best = 0 if best is None or new_round.score > best.score else number - best.number
        if new_round.new == 0:
            self._end("no new hypotheses")
        elif number >= self.iterations:
            self._end(f"limit of {_rounds(self.iterations)} (--iterations)", is_cut=True)
        elif since_best >= self.patience:
            self._end(f"no better output in {_rounds(self.patience)} (--patience)")

    def _change(self, **fields: Any) -> None:
        self.result = replace(self.result, **fields)

    def _end(self, reason: str, *, is_cut: bool = False) -> None:
        self._change(next_weights=None, reason=reason, is_cut=is_cut)

    def _tune_search(self, own: Pool, number: int) -> Tuned:
        known = [round_.weights.search for round_ in self.result.rounds]
        assert self.result.next_weights is not None
        start = self._best_of([*known, self.result.next_weights], own)
        return self.optimise(own, self.metric, start, self.seed + number)

    def _tune_lists(self, pool: Pool, number: int, search: Sequence[Weights]) -> Weights:
        """Tune weights for all features; the first round equals tuning once."""
        known = [self.start.lists, *(round_.weights.lists for round_ in self.result.rounds)]
        seed = self.seed + number - 1
        tuned = self.optimise(pool, self.metric, self._best_of(known, pool), seed)
        start = self._best_of(search, pool)
        if pool.score(self.metric, start) > tuned.score:
            tuned = self.optimise(pool, self.metric, start, seed)
        return {**known[-1], **named_weights(tuned.weights, pool.labels)}

    def _choose_next(self) -> None:
        """Set the search weights for the next round, or end the loop if none are better."""
        latest, pool = self.result.rounds[-1], self.result.pool
        assert pool is not None
        if not self._is_pooled:
            self._bound_step(latest.weights.search)
            return
        own = self._own(pool)
        tuned = self._tuned_search or self._tune_search(own, latest.number)
        self._set_found_score(tuned.score)
        if self.is_stopped():
            return
        if tuned.score < latest.pool_score + SMALLEST_GAIN:
            self._end(f"no weights are better by {100 * SMALLEST_GAIN:g} points on all lists")
            return
        self._bound_step({**latest.weights.search, **named_weights(tuned.weights, own.labels)})

    def _set_found_score(self, score: float | None) -> None:
        *earlier, latest = self.result.rounds
        self._change(rounds=(*earlier, replace(latest, found_score=score)))

    def _bound_step(self, target: Weights) -> None:
        """Set the next weights: the largest step from the best ones that passes its trial."""
        best = self.result.best
        assert best is not None
        for step in (step for step in STEPS if step <= self._longest_step):
            weights = weights_between(best.weights.search, target, step)
            if self._passes_trial(weights, step):
                self._change(next_weights=weights)
                return
        self._end(TOO_FAR)

    def _passes_trial(self, weights: Weights, step: float) -> bool:
        best, lists = self.result.best, self._best_lists
        assert best is not None
        assert lists is not None
        if lists.num_segments < 2 * TRIAL_SIZE:
            return True  # a trial would take as long as a round
        segments = _sample(lists.num_segments)
        chosen = self._chosen(lists, best.weights.lists)[segments]
        before = self._total(lists, chosen)
        number = len(self.result.rounds) + 1
        after = self._score(self.decode(number, weights, segments), best.weights.lists)
        if after >= before - TRIAL_LOSS:
            return True
        self.report(
            f"round {number}: a step of {step:g} towards the new weights changes {len(segments)} "
            f"sentences from {self.metric.name} {100 * before:.2f} to {100 * after:.2f}: trying a "
            "smaller step"
        )
        return False

    def _chosen(self, pool: Pool, lists: Weights) -> Integers:
        if not self.list_features:
            return pool.starts[:-1]  # the decoder's output
        return pool.model_best(weights_vector(lists, pool.labels))

    def _score(self, pool: Pool, lists: Weights) -> float:
        return self._total(pool, self._chosen(pool, lists))

    def _total(self, pool: Pool, rows: Integers) -> float:
        return float(self.metric.score(pool.stats[rows].sum(axis=0)))

    def _own(self, pool: Pool) -> Pool:
        own = np.array([label.name not in self.list_features for label in pool.labels])
        return pool if own.all() else pool.with_features(own)

    def _best_of(self, known: Sequence[Weights], pool: Pool) -> Vector:
        vectors = [weights_vector(weights, pool.labels) for weights in known[::-1]]
        return max(vectors, key=lambda weights: pool.score(self.metric, weights))


def _sample(num_segments: int) -> list[int]:
    size = min(num_segments, TRIAL_SIZE)
    return [place * num_segments // size for place in range(size)]


def _equal_influence(lists: Pool, weights: Weights) -> Weights:
    """Return each feature's weights with the influence of the feature that has most."""
    # The influence is the absolute weight times the standard deviation; a constant feature gets 0.
    deviations = lists.deviations()
    most = np.abs(weights_vector(weights, lists.labels) * deviations).max(initial=0.0)
    equal = np.zeros_like(deviations)
    np.divide(most, deviations, out=equal, where=deviations > 0)
    return named_weights(equal, lists.labels)


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value:g}" for value in values)


def _rounds(number: int) -> str:
    return f"{number} round{'' if number == 1 else 's'}"

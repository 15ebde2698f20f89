"""The loop of tuning: decode, pool, optimise, until nothing better is found.

As mert-moses.pl has it, with five differences. The weights that are kept are the best of those
that were decoded with, and not the last. Optimising starts from the best weights so far, on the
pool, of all rounds. A run goes on where it was stopped: the decisions of earlier rounds are given,
and lists are read again. Steps are bounded: weights are tried on some of the sentences, and where
these get much worse, weights between them and those of the best round are taken; a round that is
much worse all the same is not pooled. And features that only the lists have, because the decoder
does not know them, have weights of their own:

- the *search's* weights are those to decode with. They are tuned on the pool as if the decoder's
  features were all there are: its own choice is to be good, and so its lists are.
- the *lists'* weights, of all features, choose from the lists. Each round has its own, tuned on the
  lists of this round only.

A round is judged as a user takes it: decoded with its search weights, and reranked with its lists'
weights. All rounds are compared on the same footing, each on the lists that its weights were tuned
on. (Weights tuned on the pool suit the lists of all rounds; the first round's suit its own, and it
would win too often.) The first round's weights are at least as good as those that tuning once on
its lists finds, and so the best round is never worse than tuning once. Without features that the
decoder lacks, both sets are the same, and nothing is reranked. (Decoding with the lists' weights,
less those that the decoder lacks, is no substitute: the rest of them pulls the wrong way.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np

from phrasescore.records import WeightPair, Weights
from tuning.methods import Tuned
from tuning.metric import Metric
from tuning.ngrams import Integers
from tuning.pool import Pool, Vector, union
from tuning.weights import named_weights, weights_between, weights_vector

# Gains of the metric on the pool, 0 to 1, that are not worth another round: 0.01 BLEU.
SMALLEST_GAIN = 1e-4
# The most that a step may lose on the sentences of a trial, and on all: 2 and 3 BLEU.
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
    # The weights it was decoded with, and those that its lists are reranked with.
    weights: WeightPair
    # The metric of its translations, 0 to 1: of the reranked lists, if there is anything to rerank.
    score: float
    # The metric of the decoder's own output, 0 to 1.
    decoded_score: float
    # Hypotheses in the pool, and those of them that this round was the first to have.
    hypotheses: int
    new: int
    # The metric of the decoder's choice from the pool: of the weights decoded with, and of those
    # that optimising found; the latter is None where the loop ended before it.
    pool_score: float
    found_score: float | None


class Decided(NamedTuple):
    """The decisions of a stopped run after a round."""

    # The lists' weights of the round; None to tune them.
    lists: Weights | None
    # The search weights of the next one.
    search: Weights
    # The metric on the pool of the weights that optimising found, 0 to 1.
    found_score: float | None = None


@dataclass(frozen=True)
class LoopResult:
    """The rounds so far."""

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


@dataclass(eq=False)
class TuningLoop:
    """Rounds of decoding and optimising, from the weights given to the best ones; see `run`."""

    decode: Decode
    metric: Metric
    # Weights of the first round; features that are not named have 0.
    start: WeightPair
    # A method: takes a pool, the metric, a weight per feature value to start from, and a seed.
    optimise: Callable[[Pool, Metric, Vector, int], Tuned]
    seed: int
    # Rounds at most, and rounds without a better output after which it ends; at least 1 each.
    iterations: int = 25
    patience: int = 5
    # Names of the features that the decoder does not know.
    list_features: frozenset[str] = frozenset()
    # Gets a line where a step is shortened.
    report: Callable[[str], None] = lambda _line: None
    # Asked after optimising, whether the user has stopped it.
    is_stopped: Callable[[], bool] = lambda: False
    # Kept up to date: when a round is judged, and when the next weights are chosen.
    result: LoopResult = field(init=False)
    # The lists of the best round.
    _best_lists: Pool | None = field(default=None, init=False)
    # Whether the latest round counts: its lists are in the pool.
    _counts: bool = field(default=True, init=False)
    # The search weights found on the latest pool, where tuning the lists' weights took them.
    _found: Tuned | None = field(default=None, init=False)
    # Of a step, after rounds that did not count: the pool does not know of them.
    _longest_step: float = field(default=1.0, init=False)

    def __post_init__(self) -> None:
        self.result = LoopResult(next_weights=self.start.search)

    def run(
        self,
        decided: Sequence[Decided] = (),
        on_round: Callable[[LoopResult], None] = lambda _result: None,
    ) -> LoopResult:
        """Return the rounds, the best of which holds the weights found.

        :param decided: after each of the first rounds, from a run that was stopped: these are read
            again and not optimised. The result is that of a run that was not stopped, bit for bit.
        :param on_round: gets the result so far after each round; may raise where the user has
            stopped it, as ``is_stopped`` says.
        """
        while self.result.next_weights is not None:
            number = len(self.result.rounds) + 1
            known = decided[number - 1] if number <= len(decided) else None
            self._add_round(None if known is None else known.lists)
            if self.result.next_weights is not None and not self.is_stopped():
                if known is None:
                    self._choose_next()
                else:
                    self._follow(known)
            on_round(self.result)
        return self.result

    def _add_round(self, lists: Weights | None) -> None:
        """Decode and judge a round.

        :param lists: the lists' weights; None where they are not known.
        """
        earlier, best, search = self.result.pool, self.result.best, self.result.next_weights
        assert search is not None
        number = len(self.result.rounds) + 1
        decoded = self.decode(number, search)
        pool = decoded.distinct() if earlier is None else union([earlier, decoded])
        before = 0 if earlier is None else len(earlier.stats)
        own, self._found = self._own(pool), None
        if not self.list_features:
            lists = search
        elif lists is None:
            self._found = self._tune_search(own, number)
            found = named_weights(self._found.weights, own.labels)
            lists = self._tune_lists(decoded.distinct(), number, [search, found])
        done = Round(
            number,
            WeightPair(search, lists),
            self._score(decoded, lists),
            self._total(decoded, decoded.starts[:-1]),
            len(pool.stats),
            len(pool.stats) - before,
            own.score(self.metric, weights_vector(search, own.labels)),
            None,
        )
        self._counts = best is None or done.score >= best.score - ROUND_LOSS
        if best is not None and not self._counts:
            self._longest_step /= 2
            self.report(
                f"round {number}: {self.metric.name} {100 * done.score:.2f} after "
                f"{100 * best.score:.2f}: its lists do not count, and steps are shorter from now on"
            )
        if best is None or done.score > best.score:
            self._best_lists = decoded
        kept = pool if self._counts else earlier
        self.result = replace(self.result, rounds=(*self.result.rounds, done), pool=kept)
        since_best = 0 if best is None or done.score > best.score else number - best.number
        if done.new == 0:
            self._end("no new hypotheses")
        elif number >= self.iterations:
            self._end(f"{self.iterations} rounds are done", is_cut=True)
        elif since_best >= self.patience:
            self._end(f"no better output in {self.patience} rounds")

    def _end(self, reason: str, *, is_cut: bool = False) -> None:
        self.result = replace(self.result, next_weights=None, reason=reason, is_cut=is_cut)

    def _tune_search(self, own: Pool, number: int) -> Tuned:
        """Return weights of the decoder's features, tuned on the pool from the best known ones."""
        known = [each.weights.search for each in self.result.rounds]
        assert self.result.next_weights is not None
        start = self._best_of([*known, self.result.next_weights], own)
        return self.optimise(own, self.metric, start, self.seed + number)

    def _tune_lists(self, pool: Pool, number: int, search: Sequence[Weights]) -> Weights:
        """Return weights of all features, tuned on the lists of a round.

        In the first round, weights start and seed are those that the user gave, as in tuning once.

        :param search: weights of the search, which the result is not worse than.
        """
        known = [self.start.lists, *(each.weights.lists for each in self.result.rounds)]
        seed = self.seed + number - 1
        tuned = self.optimise(pool, self.metric, self._best_of(known, pool), seed)
        start = self._best_of(search, pool)
        if pool.score(self.metric, start) > tuned.score:
            tuned = self.optimise(pool, self.metric, start, seed)
        return {**known[-1], **named_weights(tuned.weights, pool.labels)}

    def _choose_next(self) -> None:
        """Set the search weights of the next round, or end where no better ones are found."""
        done, pool = self.result.rounds[-1], self.result.pool
        assert pool is not None
        if not self._counts:
            self._bound_step(done.weights.search)
            return
        own = self._own(pool)
        tuned = self._found or self._tune_search(own, done.number)
        rounds = (*self.result.rounds[:-1], done._replace(found_score=tuned.score))
        self.result = replace(self.result, rounds=rounds)
        if self.is_stopped():
            return
        if tuned.score < done.pool_score + SMALLEST_GAIN:
            self._end(f"no weights that are better by {100 * SMALLEST_GAIN:g} points on all lists")
            return
        self._bound_step({**done.weights.search, **named_weights(tuned.weights, own.labels)})

    def _follow(self, known: Decided) -> None:
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
        self._end(TOO_FAR)

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
        before = self._total(lists, chosen)
        number = len(self.result.rounds) + 1
        after = self._score(self.decode(number, weights, segments), best.weights.lists)
        if after >= before - TRIAL_LOSS:
            return True
        self.report(
            f"round {number}: {step:g} of a step towards the weights found takes {len(segments)} "
            f"sentences from {self.metric.name} {100 * before:.2f} to {100 * after:.2f}: a "
            "smaller part is tried"
        )
        return False

    def _chosen(self, pool: Pool, lists: Weights) -> Integers:
        """Return the row of each segment's translation: the one that the user gets."""
        if not self.list_features:
            return pool.starts[:-1]  # the decoder's own best
        return pool.model_best(weights_vector(lists, pool.labels))

    def _score(self, pool: Pool, lists: Weights) -> float:
        return self._total(pool, self._chosen(pool, lists))

    def _total(self, pool: Pool, rows: Integers) -> float:
        return float(self.metric.score(pool.stats[rows].sum(axis=0)))

    def _own(self, pool: Pool) -> Pool:
        """Return a pool with the decoder's own features."""
        own = np.array([label.name not in self.list_features for label in pool.labels])
        return pool if own.all() else pool.with_features(own)

    def _best_of(self, known: Sequence[Weights], pool: Pool) -> Vector:
        """Return those weights that are best on a pool; of equals the latest."""
        vectors = [weights_vector(weights, pool.labels) for weights in known[::-1]]
        return max(vectors, key=lambda weights: pool.score(self.metric, weights))

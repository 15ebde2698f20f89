"""Promises of tuning.loop, with lists made by hand."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest

from phrasescore.records import FeatureLabel, WeightPair, Weights
from tests.list_feature_decoder import LABELS, NETWORK, START, ListFeatureDecoder
from tuning.loop import TOO_FAR, LoopResult, TuningLoop
from tuning.methods import Tuned, optimise
from tuning.metrics import Metric
from tuning.pool import Pool, Vector, named_weights, weights_vector
from tuning.settings import MethodName, TuneSettings

# For each segment its hypotheses: the values of A and B, and whether it is right.
Lists = list[list[tuple[float, float, int]]]

A, B = FeatureLabel("A", 0), FeatureLabel("B", 0)


class Share:
    """A metric of one statistic: the share of segments whose hypothesis is right."""

    name = "share"
    num_stats = 2

    def score(self, sums: np.ndarray) -> np.ndarray:
        return sums[..., 0] / sums[..., 1]


NEW = LoopResult()


class Script:
    """A decoder that gives one list after the other, and an optimiser that does likewise.

    :param rounds: for each round, for each of two segments the hypotheses as (A, B, right).
    :param found: the weights that optimising after each round gives.
    """

    def __init__(self, rounds: Sequence[Lists], found: Sequence[list[float]]) -> None:
        self.rounds, self.found = rounds, found
        self.decoded: list[tuple[int, Weights]] = []
        self.starts: list[list[float]] = []
        self.seeds: list[int] = []

    def decode(self, number: int, weights: Weights, segments: Sequence[int] | None = None) -> Pool:
        assert segments is None  # two segments are too few for a trial
        self.decoded.append((number, weights))
        return make_pool(self.rounds[number - 1])

    def optimise(self, pool: Pool, metric: Metric, start: Vector, seed: int) -> Tuned:
        self.starts.append(start.tolist())
        self.seeds.append(seed)
        weights = np.array(self.found[len(self.starts) - 1])
        scores = pool.score(metric, weights), pool.score(metric, start)
        return Tuned(weights, *scores, ())

    def run(self, iterations: int = 9, patience: int = 9, earlier: LoopResult = NEW):  # type: ignore[no-untyped-def]
        self.seen: list[LoopResult] = []
        start = WeightPair({"A": (1.0,), "B": (0.0,)}, {"A": (1.0,), "B": (0.0,)})
        arguments = (self.decode, Share(), start, self.optimise, 10, iterations, patience)
        return TuningLoop(*arguments).run(earlier, self.seen.append)


def make_pool(segments: Lists) -> Pool:
    rows = [row for segment in segments for row in segment]
    features = np.array([[a, b] for a, b, _ in rows], float)
    stats = np.array([[right, 1] for _, _, right in rows], float)
    starts = np.cumsum([0, *map(len, segments)])
    return Pool((A, B), features, stats, starts)


WRONG, RIGHT = (3, 0, 0), (1, 3, 1)
# The first round has the wrong ones first; the second one has them right; the third one worse.
ONE: Lists = [[WRONG, RIGHT], [WRONG, RIGHT]]
TWO: Lists = [[RIGHT, (0, 0, 0)], [RIGHT, (0, 0, 0)]]
THREE: Lists = [[(0, 9, 0), RIGHT], [RIGHT, (0, 9, 0)]]


def test_the_best_round_is_kept_and_not_the_last() -> None:
    # On all lists of two rounds, (1, 0.8) has 3 for the wrong one, 3.4 for the right one, and 3.2.
    two: Lists = [[RIGHT, (0, 4, 0)], [RIGHT, (0, 4, 0)]]
    script = Script([ONE, two, THREE], [[0.0, 1.0], [1.0, 0.8]])
    result = script.run(iterations=3)
    assert [done.score for done in result.rounds] == [0, 1, 0.5]
    assert result.best is not None
    assert (result.best.number, result.best.weights.search) == (2, {"A": (0,), "B": (1,)})
    assert result.best.weights.lists == result.best.weights.search
    assert (result.reason, result.next_weights) == ("limit of 3 rounds (--iterations)", None)


def test_each_round_is_decoded_with_what_the_one_before_found() -> None:
    script = Script([ONE, THREE], [[0.25, 0.75]])
    result = script.run(iterations=2)
    assert script.decoded == [(1, {"A": (1,), "B": (0,)}), (2, {"A": (0.25,), "B": (0.75,)})]
    assert [(done.new, done.hypotheses) for done in result.rounds] == [(4, 4), (2, 6)]
    assert [done.found_score for done in result.rounds] == [1, None]
    assert script.seeds == [11]


def test_optimising_starts_from_the_best_weights_on_all_lists() -> None:
    # On all lists of two rounds, (1, 0) chooses wrong, (0, 1) right.
    script = Script([ONE, TWO, THREE], [[0.0, 1.0], [1.0, 1.0]])
    script.run(iterations=3, patience=9)
    assert script.starts == [[1, 0], [0, 1]][: len(script.starts)]


def test_it_ends_where_nothing_better_is_found_on_all_lists() -> None:
    script = Script([ONE, TWO, THREE], [[0.0, 1.0], [0.0, 2.0]])
    result = script.run()
    assert len(result.rounds) == 2
    assert result.reason == "no weights are better by 0.01 points on all lists"


def test_it_ends_where_no_hypothesis_is_new() -> None:
    script = Script([ONE, ONE], [[0.0, 1.0]])
    result = script.run()
    assert (len(result.rounds), result.reason) == (2, "no new hypotheses")
    assert result.rounds[1].new == 0


def test_it_ends_where_the_output_gets_no_better_for_too_long() -> None:
    worse: Lists = [[(0, 9, 0), RIGHT], [(0, 9, 0), RIGHT]]
    script = Script([TWO, worse], [[0.0, 1.0]])
    script.rounds = [[[(1, 0, 1), (0, 1, 1)], [(1, 0, 0), (0, 1, 1)]], worse]
    result = script.run(patience=1)
    assert (len(result.rounds), result.reason) == (2, "no better output in 1 round (--patience)")
    assert result.best is not None
    assert result.best.number == 1


def test_a_stopped_run_goes_on_to_the_same_end() -> None:
    found = [[0.0, 1.0], [0.5, 0.5], [0.0, 1.0]]
    whole = Script([ONE, TWO, THREE], found)
    expected = whole.run(iterations=3)
    earlier = LoopResult(expected.rounds[:1], expected.rounds[1].weights.search)
    again = Script([ONE, TWO, THREE], found[1:])
    result = again.run(iterations=3, earlier=earlier)
    assert result.promised == expected.promised
    assert again.seeds == whole.seeds[1:]
    assert [(done.weights, done.score) for done in result.rounds] == [
        (done.weights, done.score) for done in expected.rounds
    ]


def test_each_round_is_told_when_it_is_done() -> None:
    script = Script([ONE, TWO, THREE], [[0.0, 1.0], [0.0, 1.0]])
    script.run()
    assert [len(seen.rounds) for seen in script.seen] == [1, 2]
    assert script.seen[0].next_weights == {"A": (0,), "B": (1,)}


def test_nothing_is_best_before_the_first_round() -> None:
    assert LoopResult().best is None
    with pytest.raises(ZeroDivisionError):
        TuningLoop(
            lambda _number, _weights, _segments=None: 1 // 0,  # type: ignore[arg-type,return-value]
            Share(),
            WeightPair({}, {}),
            Script([], []).optimise,
            1,
        ).run()


# A feature that the decoder lacks


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3))])
@pytest.mark.parametrize("method", ["mert", "mira", "xbleu"])
def test_a_strong_feature_of_lists_alone_helps_and_takes_the_search_nowhere(
    method: MethodName, seed: int
) -> None:
    decoder, settings = ListFeatureDecoder(seed), TuneSettings()
    own = {name: weights for name, weights in START.items() if name != NETWORK}
    lists = decoder(1, own).distinct()
    start = weights_vector(START, LABELS)
    once = optimise(method, lists, decoder.metric, start, settings, seed=seed)
    assert once.score > once.start_score + 0.09
    # Version 0.1 decoded with these weights, less the one that the decoder does not know.
    less = named_weights(once.weights, LABELS)
    del less[NETWORK]
    collapsed = decoder(2, less)
    assert total(decoder.metric, collapsed) < once.start_score - 0.5
    result = TuningLoop(
        decoder,
        decoder.metric,
        WeightPair(own, START),
        lambda *found: optimise(method, found[0], found[1], found[2], settings, seed=found[3]),
        seed,
        iterations=6,
        list_features=frozenset([NETWORK]),
    ).run()
    best = result.best
    assert best is not None
    assert best.score >= once.score
    assert min(done.decoded_score for done in result.rounds) >= once.start_score - 0.01
    # What the user does: decode with one set of weights, rerank with the other.
    again = decoder(9, best.weights.search)
    chosen = again.model_best(weights_vector(best.weights.lists, LABELS))
    assert decoder.metric.score(again.stats[chosen].sum(axis=0)) == best.score


class TwoSigns:
    """A decoder of two rounds that lacks B, and an optimiser that knows two weights of B.

    The weight 1 chooses well in three of the first round's four lists, and the weight -1 in all of
    the second round's. Where lists are pooled, A lets the first round's hypotheses win.
    """

    FIRST: ClassVar[Lists] = [*[[(1.0, 0.0, 0), (1.0, 1.0, 1)]] * 3, [(1.0, 0.0, 1), (1.0, 1.0, 0)]]

    def __init__(self, first: Lists = FIRST, list_weights: Sequence[float] = (1, -1)) -> None:
        self._first, self._list_weights = first, list_weights
        self.starts: list[tuple[list[float], int]] = []

    def decode(self, number: int, weights: Weights, segments: Sequence[int] | None = None) -> Pool:
        assert segments is None
        assert "B" not in weights
        if number == 1:
            return make_pool(self._first)
        return make_pool([[(0, 1, 0), (0, 0, 1)]] * 4)

    def optimise(self, pool: Pool, metric: Metric, start: Vector, seed: int) -> Tuned:
        self.starts.append((start.tolist(), seed))
        if pool.labels == (A,):
            weights, score = np.array([2.0]), 0.99
        else:
            tried = [start, *(np.array([1.0, weight]) for weight in self._list_weights)]
            weights = max(tried, key=lambda each: pool.score(metric, each))
            score = pool.score(metric, weights)
        return Tuned(weights, score, pool.score(metric, start), ())

    def run(self, earlier: LoopResult = NEW, start: float = 0) -> LoopResult:
        pair = WeightPair({"A": (1.0,)}, {"A": (1.0,), "B": (start,)})
        arguments = (self.decode, Share(), pair, self.optimise, 10, 2)
        return TuningLoop(*arguments, list_features=frozenset(["B"])).run(earlier)


def test_rounds_are_compared_with_weights_that_were_tuned_on_their_own_lists() -> None:
    script = TwoSigns()
    result = script.run()
    assert [done.score for done in result.rounds] == [0.75, 1]
    assert result.best == result.rounds[1]
    assert result.best.weights == WeightPair({"A": (2,)}, {"A": (1,), "B": (-1,)})
    # On the pool of both, a weight of 1 chooses better (0.75) than one of -1 (0.25).
    assert result.pool is not None
    assert [result.pool.score(Share(), np.array([1.0, sign])) for sign in (1, -1)] == [0.75, 0.25]
    # Search and lists in turn. The first lists' weights begin as in tuning once.
    assert script.starts == [([1], 11), ([1, 0], 10), ([2], 12), ([1, 1], 11)]


def test_lists_are_never_chosen_from_worse_than_with_weights_of_the_search() -> None:
    # The search's weights choose the first hypothesis, and the start chooses the second one.
    script = TwoSigns([hypotheses[::-1] for hypotheses in TwoSigns.FIRST], list_weights=())
    first, _ = script.run(start=-1).rounds
    assert script.starts[:3] == [([1], 11), ([1, -1], 10), ([2, 0], 10)]
    assert (first.score, first.weights.lists) == (0.75, {"A": (2,), "B": (0,)})


def test_a_run_with_features_of_lists_alone_goes_on_to_the_same_end() -> None:
    whole = TwoSigns()
    expected = whole.run()
    script = TwoSigns()
    result = script.run(LoopResult(expected.rounds[:1], expected.rounds[1].weights.search))
    assert result.rounds == expected.rounds
    assert script.starts == whole.starts[2:]


def total(metric: Metric, lists: Pool) -> float:
    return float(metric.score(lists.stats[lists.starts[:-1]].sum(axis=0)))


# Bounded steps

SEGMENTS = 300


def share_of_right(weight: float) -> float:
    """Return how many segments a decoder translates well: best at 0.4, nothing from 0.9 on."""
    return 0.7 if weight < 0.2 else 0.8 if weight < 0.6 else 0.5 if weight < 0.9 else 0.1


class Cliff:
    """A decoder whose translations get better, and then much worse, as the weight of B grows.

    :param in_trials: the share of segments that are right in trials, if it is another.
    """

    def __init__(self, in_trials: float | None = None) -> None:
        self.decoded: list[tuple[float, int]] = []
        self.in_trials = in_trials

    def __call__(
        self, number: int, weights: Weights, segments: Sequence[int] | None = None
    ) -> Pool:
        chosen = range(SEGMENTS) if segments is None else segments
        self.decoded.append((weights["B"][0], len(chosen)))
        right = share_of_right(weights["B"][0])
        if segments is not None and self.in_trials is not None:
            right = self.in_trials
        # Every number of rounds has hypotheses of its own; the second one is always right.
        return make_pool(
            [
                [(9, number, int(segment * 7919 % 100 < 100 * right)), (0, number + 0.5, 1)]
                for segment in chosen
            ]
        )


def towards_one(pool: Pool, metric: Metric, start: Vector, _seed: int) -> Tuned:
    return Tuned(np.array([1.0, 1.0]), 0.99, pool.score(metric, start), ())


def run_cliff(decoder: Cliff, rounds: int) -> tuple[LoopResult, list[str]]:
    lines: list[str] = []
    start = WeightPair({"A": (1.0,), "B": (0.0,)}, {"A": (1.0,), "B": (0.0,)})
    loop = TuningLoop(decoder, Share(), start, towards_one, 1, rounds, report=lines.append)
    return loop.run(), lines


def test_a_step_that_loses_much_on_some_sentences_is_halved() -> None:
    decoder = Cliff()
    result, lines = run_cliff(decoder, 2)
    assert decoder.decoded == [(0.0, 300), (1.0, 100), (0.5, 100), (0.5, 300)]
    assert result.best is not None
    assert result.best.weights.search == {"A": (1.0,), "B": (0.5,)}
    (line,) = lines
    assert line.startswith(
        "round 2: a step of 1 towards the new weights changes 100 sentences from"
    )


def test_a_step_that_loses_one_point_on_some_sentences_is_taken() -> None:
    decoder = Cliff(in_trials=0.69)
    run_cliff(decoder, 2)
    assert decoder.decoded == [(0.0, 300), (1.0, 100), (1.0, 300)]


def test_a_round_that_is_much_worse_is_not_pooled_and_the_next_step_is_shorter() -> None:
    decoder = Cliff(in_trials=0.8)
    result, lines = run_cliff(decoder, 3)
    whole = [weight for weight, count in decoder.decoded if count == 300]
    assert whole == [0.0, 1.0, 0.5]
    assert [round(done.score, 1) for done in result.rounds] == [0.7, 0.1, 0.8]
    (line,) = lines
    assert line.startswith("round 2: share 10.00 after 70.00: ignoring this round's lists; taking")
    assert result.pool is not None
    # The hypotheses of the first and the third round.
    assert set(result.pool.features[:, 1].tolist()) == {1.0, 1.5, 3.0, 3.5}
    assert result.is_cut


def test_the_step_that_fell_is_not_taken_again() -> None:
    decoder = Cliff(in_trials=0.8)
    result, _ = run_cliff(decoder, 9)
    best, falls = 0.0, 0
    for done in result.rounds:
        falls += done.score < best - 0.03
        best = max(best, done.score)
    assert best == pytest.approx(0.8)
    # Each is followed by steps that are half as long: 1, 0.5 towards it, 0.25, 0.125.
    assert falls <= 4
    assert [weight for weight, _ in decoder.decoded].count(1.0) == 2  # a trial, and a round


def test_it_ends_where_every_step_loses_much() -> None:
    class Trap(Cliff):
        def __call__(
            self, number: int, weights: Weights, segments: Sequence[int] | None = None
        ) -> Pool:
            lists = super().__call__(number, weights, segments)
            return (
                lists
                if weights["B"][0] == 0
                else super().__call__(number, {**weights, "B": (1,)}, segments)
            )

    result, lines = run_cliff(Trap(), 5)
    assert len(result.rounds) == 1
    assert len(lines) == 5
    assert result.reason == TOO_FAR
    assert (result.promised, result.is_cut) == (0.99, False)


# Start weights of new features

C = FeatureLabel("C", 0)


class NewFeatures:
    """A decoder whose translations depend on the weights of the new features B and C.

    The standard deviations of A, B and C are 1, 2 and 0.5. With a weight of -1 for A, the weights
    with the same influence are 0.5 for B and 2 for C.
    """

    def __init__(self, right: dict[tuple[float, float], float]) -> None:
        self.right = right  # the share of segments that are right, by the weights of B and C
        self.decoded: list[tuple[float, float]] = []
        self.segments: list[Sequence[int]] = []

    def __call__(
        self, number: int, weights: Weights, segments: Sequence[int] | None = None
    ) -> Pool:
        assert number == 1
        assert segments is not None
        assert weights["A"] == (-1.0,)
        b, c = (weights.get(name, (0.0,))[0] for name in "BC")
        self.decoded.append((b, c))
        self.segments.append(segments)
        right = round(self.right[b, c] * len(segments))
        stats = [row for place in range(len(segments)) for row in ([int(place < right), 1], [0, 1])]
        features = [[1.0, 3.0, 0.5], [-1.0, -1.0, -0.5]] * len(segments)
        starts = np.arange(0, len(stats) + 1, 2)
        return Pool((A, B, C), np.array(features), np.array(stats, float), starts)

    def choose(self, *new: str, num_segments: int = 1_014) -> tuple[LoopResult, list[str]]:
        lines: list[str] = []
        start = WeightPair({"A": (-1.0,), "B": (0.0,)}, {"A": (-1.0,)})
        loop = TuningLoop(self, Share(), start, towards_one, 1, report=lines.append)
        loop.choose_start(new, num_segments)
        return loop.result, lines


def test_new_features_start_one_after_another_with_the_best_weight_of_a_few() -> None:
    first = {(0.0, 0.0): 0.5, (0.05, 0.0): 0.6, (0.15, 0.0): 0.8, (0.5, 0.0): 0.4}
    decoder = NewFeatures({**first, (0.15, 0.2): 0.8, (0.15, 0.6): 0.7, (0.15, 2.0): 0.9})
    result, lines = decoder.choose("B", "C")
    assert decoder.decoded == list(decoder.right)
    assert result.next_weights == {"A": (-1.0,), "B": (0.15,), "C": (2.0,)}
    assert result.rounds == ()
    of_b = "with 0: 50.00, with 0.05: 60.00, with 0.5: 40.00"
    of_c = "with 0: 80.00, with 0.2: 80.00, with 0.6: 70.00"
    assert lines == [
        f"start weight of B: 0.15 (share of 100 sentences 80.00, {of_b})",
        f"start weight of C: 2 (share of 100 sentences 90.00, {of_c})",
    ]


def test_trials_are_spread_over_all_segments() -> None:
    decoder = NewFeatures(dict.fromkeys([(0, 0), (0.05, 0), (0.15, 0), (0.5, 0)], 0.5))
    result, lines = decoder.choose("B")
    assert len(set(decoder.segments[0])) == 100
    assert (decoder.segments[0][:3], decoder.segments[0][-1]) == ([0, 10, 20], 1003)
    assert all(segments == decoder.segments[0] for segments in decoder.segments)
    # Nothing is better than 0.
    assert result.next_weights == {"A": (-1.0,), "B": (0.0,)}
    assert lines[0].startswith("start weight of B: 0 (share of 100 sentences 50.00, with 0.05: ")
    decoder.choose("B", num_segments=7)
    assert decoder.segments[-1] == [0, 1, 2, 3, 4, 5, 6]


def test_a_feature_that_the_lists_do_not_have_is_not_tried() -> None:
    decoder = NewFeatures({(0, 0): 0.5})
    result, lines = decoder.choose("D")
    assert result.next_weights == {"A": (-1.0,), "B": (0.0,)}
    assert (lines, len(decoder.decoded)) == ([], 1)

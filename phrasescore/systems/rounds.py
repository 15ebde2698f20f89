"""Tune a system in rounds: translate, pool the lists, and optimise, until nothing improves."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from moses_integration.moses_ini import WeightsSource, weights_path
from moses_integration.nbest import read_every_list
from moses_integration.weight_lines import check_weights, is_sparse
from phrasescore.errors import ArgumentError, DataError, some_names
from phrasescore.evaluation.tune_report import FeatureRow, RoundRow, TuneReport
from phrasescore.io.folders import locked
from phrasescore.progress import format_count
from phrasescore.records import WeightPair, Weights
from phrasescore.settings import old_names
from phrasescore.settings.training import RoundTuning
from phrasescore.signals import raise_signal
from phrasescore.systems.round_files import JOURNAL, Rounds, read_rounds, write_rounds
from phrasescore.systems.system import System, read_weights
from phrasescore.systems.tuning import Optimiser, TuneOutcome, feature_rows
from tuning.loop import TOO_FAR, LoopResult, Round, TuningLoop
from tuning.metrics import Integers
from tuning.pool import Pool, weights_vector

_logger = logging.getLogger(__name__)

_NEWS = {"news": True}  # is shown on an experiment's console, too
_NOTABLE_GAIN = 0.005  # warn if decoding does not confirm a gain of this on the lists (0 to 1)


def start_weights(system: System, start: WeightsSource | None) -> WeightPair:
    """Return the weights for the first round.

    Weights that ``start`` lacks are the system's. A network in the search without a weight gets 0.
    """
    given = WeightPair({}, {}) if start is None else read_weights(start)
    where = weights_path(start) or str(system.weights_path or system.path)
    new = dict.fromkeys(system.search_names, (0.0,))
    search, lists = (
        {**new, **own, **weights} for own, weights in zip(system.weights, given, strict=True)
    )
    if not any((*system.weights, *given)):
        raise ArgumentError("the start weights are missing: give --weights, or a moses.ini")
    search = _known(search, system, where, lists.keys())
    for weights in (search, lists):
        check_weights(weights, where)
    return WeightPair(search, lists)


def _known(
    weights: Weights, system: System, where: str, unsaid: Collection[str], added: Iterable[str] = ()
) -> Weights:
    """Return the weights of the system's and added features; warn of others that are not unsaid."""
    if system.moses_ini is None:
        return weights
    names = (feature.name for feature in system.read_ini().features)
    known = {*names, *system.search_names, *added}
    others = [name for name in weights if name.partition("_")[0] not in known]
    if said := [name for name in others if name not in unsaid]:
        text = "%s: the system has no features for these weights, which are left out: %s"
        _logger.warning(text, where, some_names(said))
    return {name: own for name, own in weights.items() if name not in others}


@dataclass
class TuningRun:
    """A run of the tuning loop in its folder; `result` has all rounds so far."""

    rounds: Rounds
    settings: RoundTuning
    optimiser: Optimiser
    start: WeightPair
    # All properties that a run must have in common with the run that it resumes.
    about: Mapping[str, Any]
    _loop: TuningLoop | None = field(default=None, init=False)

    @property
    def result(self) -> LoopResult:
        """The rounds so far."""
        return LoopResult() if self._loop is None else self._loop.result

    @property
    def added(self) -> Sequence[str]:
        """The names of the features that only the lists have."""
        return self.rounds.translator.list_names

    def _check_sizes(self, done: LoopResult) -> None:
        """Check that each feature has the right number of weights, also in a resumed run."""
        system, start = self.rounds.translator.system, self.start.search
        sizes = {name: len(values) for name, values in start.items()}
        sizes |= dict.fromkeys((*self.added, *system.search_names), 1)

        def wrong(weights: Weights) -> str | None:
            for name, values in weights.items():
                if len(values) != (size := sizes.get(name, len(values))):
                    return f"expected {size} weights for {name}, found {len(values)}"
            return None

        if (problem := wrong(start) or wrong(self.start.lists)) is not None:
            raise system.weight_error(problem)
        for weights in (
            *(part for each in done.rounds for part in each.weights),
            done.next_weights,
        ):
            if weights is not None and (problem := wrong(weights)) is not None:
                raise DataError(str(self.rounds.work / JOURNAL), None, problem)

    def run(self, *, resume: bool) -> None:
        """Translate and optimise until a limit is reached or translations stop improving."""
        rounds, about = self.rounds, self.about
        with locked(rounds.work) as lock:
            earlier = read_rounds(rounds.work, about, resume=resume)
            done = earlier or LoopResult(next_weights=self.start.search)
            if earlier is None:
                write_rounds(rounds.work, about, done)  # marks the folder as a run's
            start = done.rounds[0].weights.search if done.rounds else done.next_weights
            assert start is not None  # a loop ends only after a round
            with rounds.translator.open(rounds.sentences, closed=(lock,)):
                self._check_sizes(done)
                loop = self._loop = self._make_loop(start)
                new = self._new_features(start) if earlier is None else []
                if new:
                    loop.choose_start(new, rounds.reader.num_segments)
                    # Written before the first round, so that its lists are not lost.
                    write_rounds(rounds.work, about, loop.result)
                loop.run(done, self._keep_round)
        best, count = self.result.best, format_count(len(self.result.rounds), "rounds")
        assert best is not None
        text = "stopped after %s: %s; the best is round %d"
        _logger.info(text, count, self.result.reason, best.number)

    def _make_loop(self, search: Weights) -> TuningLoop:
        optimiser, settings, added = self.optimiser, self.settings, self.added
        optimiser.others = added
        lists = old_names.weights_for(added, self.start.lists)
        lists = _known(lists, self.rounds.translator.system, "the start weights", (), added)
        return TuningLoop(
            self.rounds,
            self.rounds.reader.metric,
            WeightPair({name: search[name] for name in search if name not in added}, lists),
            optimiser,
            settings.seed,
            settings.iterations,
            settings.patience,
            list_features=frozenset(added),
            report=partial(_logger.info, extra=_NEWS),
            is_stopped=lambda: optimiser.stopped_by is not None,
        )

    def _new_features(self, start: Weights) -> list[str]:
        fixed = {*self.settings.fixed}
        fixed |= {name.rpartition("_")[0] for name in fixed} | {*self.added}
        return [
            name
            for name, values in start.items()
            if not any(values) and not is_sparse(name) and name not in fixed
        ]

    def _keep_round(self, result: LoopResult) -> None:
        """Write the state after a round, and raise the signal if the user stopped the run."""
        work = self.rounds.work
        if (signal := self.optimiser.stopped_by) is not None:
            # A resumed run reads this round again, and optimises to the end.
            *earlier, last = result.rounds
            write_rounds(work, self.about, LoopResult(tuple(earlier), last.weights.search))
            raise_signal(signal)
        write_rounds(work, self.about, result)
        text = describe_round(result, self.rounds.reader.metric.name, self.added)
        last = result.rounds[-1]
        _logger.info("%s", text, extra=_NEWS)
        if last.found_score is not None:
            scores = 100 * last.pool_score, 100 * last.found_score
            _logger.debug("reranking all lists so far: %.2f -> %.2f", *scores)

    def outcome(self, *, details: bool) -> TuneOutcome:
        """Return the weights of the best round, and the report; log what is odd about the rounds.

        :param details: whether the report has the contribution of each feature.
        """
        result, reader, best = self.result, self.rounds.reader, self.result.best
        assert best is not None
        assert result.pool is not None
        if self.added:
            _logger.info(
                "the decoder does not know %s: there are two sets of weights, [search] for "
                "decoding and [lists] for reranking",
                some_names(self.added),
            )
        problems = find_problems(result, reader.metric.name, self.added)
        for problem in problems:
            _logger.warning("%s", problem)
        lists = reader.read(self.rounds.read(best.number))
        report = TuneReport(
            self.settings.method,
            reader.metric.name,
            self.settings.seed,
            result.pool.num_segments,
            len(result.pool.stats),
            100 * result.rounds[0].decoded_score,
            100 * best.score,
            features=self._feature_rows(result.pool, best, details=details),
            rounds=tuple(map(_row, result.rounds)),
            warnings=tuple(problems),
            ended=result.reason,
            ended_by_itself=not result.is_cut,
            confidence=self.optimiser.calibrate(lists, reader.metric, best.weights.lists),
        )
        chosen = np.zeros(lists.num_segments, np.int64)  # the index in each list
        if self.added:
            vector = weights_vector(best.weights.lists, lists.labels)
            chosen = lists.model_best(vector) - lists.starts[:-1]
        path = str(self.rounds.path(best.number))
        whole = self._whole(best.weights, result.pool)
        return TuneOutcome(whole, report, partial(_read_translations, path, chosen))

    def _whole(self, best: WeightPair, pool: Pool) -> WeightPair:
        """Return weights with a 0 for each feature of the search that had none."""
        sizes = {label.name: label.place + 1 for label in pool.labels}
        unnamed = {
            name: (0.0,) * size
            for name, size in sizes.items()
            if name not in self.added and not is_sparse(name)
        }
        return WeightPair(*({**unnamed, **weights} for weights in best))

    def _feature_rows(self, pool: Pool, best: Round, *, details: bool) -> tuple[FeatureRow, ...]:
        first = self.result.rounds[0].weights.search
        added = {name: own for name, own in self.start.lists.items() if name in self.added}
        start = weights_vector({**first, **added}, pool.labels)
        found, known = weights_vector(best.weights.lists, pool.labels), best.weights.search
        search = [
            known[label.name][label.place] if label.name in known else None for label in pool.labels
        ]
        metric = self.rounds.reader.metric if details else None
        return feature_rows(pool, start, found, search if self.added else None, metric=metric)


def _read_translations(path: str, chosen: Integers) -> Iterator[bytes]:
    for found, index in zip(read_every_list(path), chosen.tolist(), strict=True):
        yield found.hypothesis(index).strip(b" ")


def _row(done: Round) -> RoundRow:
    scores = 100 * done.score, done.hypotheses, 100 * done.decoded_score
    return RoundRow(done.number, *scores, done.new)


def describe_round(result: LoopResult, metric: str, added: Sequence[str]) -> str:
    """Return a line about the latest round; ``added`` are the features only in the lists."""
    *earlier, done = result.rounds
    text = f"round {done.number}: {metric} {100 * done.score:.2f}"
    if (before := max(earlier, key=lambda each: each.score, default=None)) is not None:
        change = 100 * (done.score - before.score)
        place = "best so far" if result.best is done else f"round {before.number} is the best"
        text += f" ({change:+.2f}, {place})"
    if added:
        text += f", {100 * done.decoded_score:.2f} before reranking"
    return f"{text}, {format_count(done.new, 'new hypotheses')}"


def find_problems(result: LoopResult, metric: str, added: Sequence[str]) -> list[str]:
    """Return warnings about rounds that did not improve."""
    best, promised = result.best, result.promised
    assert best is not None
    found = []
    if result.reason == TOO_FAR:
        found.append(f"tuning ended after round {len(result.rounds)}: {TOO_FAR}")
    gain = 0.0 if promised is None else promised - best.decoded_score
    if not added and best.number == 1 and gain >= _NOTABLE_GAIN:
        found.append(
            f"some weights increase {metric} on the lists from {100 * best.decoded_score:.2f} to "
            f"{100 * (best.decoded_score + gain):.2f}, but no round decoded with them is better "
            "than the first: the result is the start weights (a larger nbest_size or more "
            "--iterations may help)"
        )
    return found

"""A run of the tuning loop in its folder."""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moses_integration.list_features import WeightedSum
from moses_integration.nbest import read_nbest
from moses_integration.weight_lines import is_sparse
from phrasescore.io.folders import locked
from phrasescore.io.output import open_output
from phrasescore.records import WeightPair, Weights
from phrasescore.report.tuning import RoundRow, TuneReport
from phrasescore.workflows.tune.optimiser import Optimiser
from phrasescore.workflows.tune.outcome import (
    describe_round,
    explain_two_sets,
    feature_rows,
    find_problems,
    with_contributions,
)
from phrasescore.workflows.tune.pooling import some_names
from phrasescore.workflows.tune.rounds import INI, Rounds, read_decisions, write_rounds
from tuning.loop import LoopResult, TuningLoop
from tuning.pool import weights_vector

_logger = logging.getLogger(__name__)


@dataclass
class LoopRun:
    """A run of the loop in its folder."""

    rounds: Rounds
    optimiser: Optimiser
    start: WeightPair
    seed: int
    # All that a run must have in common with one that it resumes.
    about: Mapping[str, Any]
    _loop: TuningLoop | None = field(default=None, init=False)

    @property
    def result(self) -> LoopResult:
        """The result of the rounds so far."""
        return LoopResult() if self._loop is None else self._loop.result

    def run(self, iterations: int, patience: int, *, resume: bool) -> None:
        """Decode and optimise until nothing better is found; `result` is kept up to date.

        :raises KeyboardInterrupt: where the user stops it.
        """
        rounds, optimiser = self.rounds, self.optimiser
        with locked(rounds.work) as lock:
            decided = read_decisions(rounds.work, self.about, resume=resume)
            if decided is None:
                # So that the lists of the first round are not lost either.
                first = LoopResult(next_weights=self.start.search)
                write_rounds(rounds.work, self.about, first)
            with rounds.opened(self.start.search, lock):
                optimiser.others = rounds.added
                self._loop = TuningLoop(
                    rounds,
                    rounds.reader.metric,
                    self.start._replace(search=self._of_decoder(self.start.search)),
                    optimiser,
                    self.seed,
                    iterations,
                    patience,
                    list_features=frozenset(rounds.added),
                    report=_logger.info,
                    is_stopped=lambda: optimiser.stopped,
                )
                self._loop.run(decided or (), self._keep_round)
        _logger.info("%d rounds: %s", len(self.result.rounds), self.result.reason)
        if iterations == 1 and not rounds.added:
            _logger.warning(
                "the weights are still those of the start: those that a round finds are tried by "
                "the next one, and --iterations is 1"
            )

    def _keep_round(self, result: LoopResult) -> None:
        """Write the state after a round, and raise the signal if the user has stopped the run."""
        work = self.rounds.work
        if self.optimiser.stopped:
            # A run that is resumed reads this round again, and optimises to the end.
            *earlier, last = result.rounds
            write_rounds(work, self.about, LoopResult(tuple(earlier), last.weights.search))
            self.optimiser.raise_stop()
        write_rounds(work, self.about, result)
        said = describe_round(result, self.rounds.reader.metric.name, self.rounds.added)
        _logger.info("%s", said, extra={"news": True})  # for an experiment's console

    def _of_decoder(self, weights: Weights) -> Weights:
        """Return the weights of the features that the decoder has."""
        added = self.rounds.added
        return {name: values for name, values in weights.items() if name not in added}

    def finish(
        self, output: str | os.PathLike[str] | None, options: Sequence[str], *, details: bool
    ) -> tuple[WeightPair, TuneReport]:
        """Write the best moses.ini into the folder; return the weights and the report.

        :param output: the file that the weights will be written to, for a message.
        :param options: ``phrasescore rescore`` options that add the features, for the same message.
        :param details: whether to evaluate each feature for the report, which takes time.
        """
        result, added, metric = self.result, self.rounds.added, self.rounds.reader.metric
        best, pool, ini = result.best, result.pool, self.rounds.ini
        assert best is not None
        assert pool is not None
        sizes = {label.name: label.place + 1 for label in pool.labels if label.name not in added}
        unnamed = {name: (0.0,) * size for name, size in sizes.items() if not is_sparse(name)}
        both = WeightPair(*({**unnamed, **weights} for weights in best.weights))
        written = None if ini is None else self.rounds.work / INI
        if ini is not None:
            unknown = ini.set_weights(both.search)
            assert written is not None
            if written.is_symlink() or not written.is_file():
                written.unlink(missing_ok=True)
            ini.write(str(written))
            lacks = f", but not those of {some_names(unknown)}" if unknown else ""
            _logger.info("%s has the search weights of round %d%s", written, best.number, lacks)
        if added:
            _logger.info("%s", explain_two_sets(added, options, output, written))
        problems = find_problems(result, metric.name, added)
        for problem in problems:
            _logger.warning("%s", problem)
        first = result.rounds[0]
        found = weights_vector(best.weights.lists, pool.labels)
        known = best.weights.search
        search = [
            known[label.name][label.place] if label.name in known else None for label in pool.labels
        ]
        start = weights_vector(first.weights.search, pool.labels)
        rows = feature_rows(pool, start, found, search if added else None)
        report = TuneReport(
            *(self.optimiser.tuning.method, metric.name, self.seed),
            *(pool.num_segments, len(pool.stats)),
            *(100 * first.decoded_score, 100 * best.score),
            features=with_contributions(rows, pool, metric, found) if details else rows,
            rounds=tuple(
                RoundRow(
                    *(done.number, 100 * done.score, done.hypotheses),
                    *(100 * done.decoded_score, done.new),
                )
                for done in result.rounds
            ),
            warnings=tuple(problems),
            ended=result.reason,
            ended_by_itself=not result.is_cut,
        )
        return both, report

    def write_translations(self, path: str, lists: Weights) -> None:
        """Write the best round's translations: the best hypothesis of each of its lists, in order.

        :param lists: the weights that choose from lists to which features were added; from others
            the first hypotheses are taken.
        """
        assert self.result.best is not None
        score = WeightedSum(lists, ignore_missing=True, ignore_unweighted=True)
        nbest = self.rounds.lists(self.result.best.number)
        with open_output(path) as stream:
            for found in read_nbest(str(nbest)):
                place = int(score(found).argmax()) if self.rounds.added else 0
                stream.write(found.hypotheses[place].strip(b" ") + b"\n")

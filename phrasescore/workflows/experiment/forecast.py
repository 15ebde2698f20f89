"""Forecast how long the steps of an experiment take.

Training takes the minutes that the file gives it. The speed of the search is measured on the user's
own text and tables; all other figures were measured on one core of an AMD EPYC.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from phrasescore.workflows.experiment.choice import NetworkChoice
from phrasescore.workflows.experiment.config import Experiment
from phrasescore.workflows.experiment.plan import Plan, build_plan
from phrasescore.workflows.experiment.rows import Run
from phrasescore.workflows.experiment.run import next_step
from phrasescore.workflows.experiment.steps import Step

_START = 4.0  # seconds until a process has imported torch
# Seconds that a network in the search takes for each word, with a small preset and without log Z:
# 1 / 5.2 - 1 / 12.9 for a sentence of 13 words (docs/performance.md), whatever the stack.
_SEARCHED = 0.009
_XBLEU = 0.004  # seconds per sentence and round
_COLUMN = 1 / 6_400  # seconds per line of the table (docs/performance.md: 189 s for 1,209,173)
# Seconds for each sentence, with its list of 100 hypotheses, and each RNNsearch.
_RESCORED = 0.03


@dataclass(frozen=True)
class Pace:
    """What the forecast knows about the machine and the data."""

    sentence: float  # seconds for a sentence, in one process without networks
    loading: float  # seconds to load the tables
    lines: int  # of the phrase table
    # The number of sentences and of words in each source text.
    sizes: Mapping[Path, tuple[int, int]]

    def seconds(
        self, step: Step, run: Run | None, wanted: Experiment, minutes: Mapping[str, float]
    ) -> float:
        """Return how long a step takes at most; ``run`` is the row that it belongs to, if any."""
        verb = step.words[0]
        if verb == "train":
            return _START + 60 * minutes[step.outputs[0].name]
        if verb == "annotate":
            return _START + _COLUMN * self.lines
        if run is None or verb == "rerank":
            return _START
        count, words = next(self.sizes[path] for path in step.inputs if path in self.sizes)
        processes = wanted.engine.processes or 1
        searched = count * self.sentence + words * _SEARCHED * len(run.system.search)
        searched /= processes
        rescored = count * _RESCORED * len(run.system.rescore)
        if verb == "tune":
            rounds = wanted.engine.iterations
            each = searched + rescored + count * _XBLEU
            return _START + self.loading + rounds * each
        return _START + (rescored if verb == "rescore" else self.loading + searched)


@dataclass(frozen=True)
class Forecaster:
    """Forecasts an experiment of which only some networks and their rows are kept."""

    wanted: Experiment  # with the rows of all networks
    folder: Path
    pace: Pace

    def steps(self, kept: Sequence[NetworkChoice], rounds: int) -> dict[str, float]:
        """Return the seconds of each step, at most, by the step's name and in order."""
        return self._forecast(kept, rounds)[1]

    def total(self, kept: Sequence[NetworkChoice], rounds: int) -> float:
        """Return the seconds of the whole experiment, at most."""
        plan, seconds = self._forecast(kept, rounds)
        return total_seconds(plan.steps, seconds, self.wanted.engine.jobs)

    def _forecast(
        self, kept: Sequence[NetworkChoice], rounds: int
    ) -> tuple[Plan, dict[str, float]]:
        rows = {self.wanted.systems[0].name, *(each.row.name for each in kept)}
        wanted = replace(
            self.wanted,
            systems=tuple(system for system in self.wanted.systems if system.name in rows),
            engine=replace(self.wanted.engine, iterations=rounds),
        )
        plan = build_plan(wanted, self.folder, is_checked=True)
        minutes = {each.model: each.minutes for each in kept}
        seconds = {}
        for step in plan.steps:
            run = next((run for run in plan.runs if run.folder in step.outputs[0].parents), None)
            seconds[step.name] = self.pace.seconds(step, run, wanted, minutes)
        return plan, seconds


def total_seconds(steps: Sequence[Step], seconds: Mapping[str, float], jobs: int) -> float:
    """Return how long all steps take if ``jobs`` steps run at a time, in an experiment's order."""
    waiting, running, now = list(steps), list[tuple[float, Step]](), 0.0
    while waiting or running:
        while len(running) < jobs:
            step = next_step(waiting, [each for _, each in running])
            if step is None:
                break
            waiting.remove(step)
            running.append((now + seconds[step.name], step))
        ended = min(running, key=lambda each: each[0])
        running.remove(ended)
        now = ended[0]
    return now

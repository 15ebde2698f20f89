"""Forecast how long the steps of an experiment take.

Training takes the minutes that the file gives it. The search is measured on the user's own text and
tables, in processor time, because other work on the machine would decide the plan; all other
figures were measured on one core of an AMD EPYC.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.moses import ListRequest
from phrasescore.systems.search import SearchTask, SearchWork
from phrasescore.workflows.experiment.choice import NetworkChoice, TuningPlan
from phrasescore.workflows.experiment.config import Experiment
from phrasescore.workflows.experiment.plan import build_plan
from phrasescore.workflows.experiment.run import next_step
from phrasescore.workflows.experiment.steps import Step
from tuning.loop import START_SHARES, TRIAL_SIZE

_logger = logging.getLogger(__name__)

_TIMED = 20  # sentences that are translated to measure the search
_START = 4.0  # seconds until a process has imported torch
# Seconds that a network in the search takes for each word, with a small preset and without log Z:
# 1 / 5.2 - 1 / 12.9 for a sentence of 13 words (docs/performance.md), whatever the stack.
_SEARCHED = 0.009
_XBLEU = 0.004  # seconds per sentence and round
_COLUMN = 1 / 6_400  # seconds per line of the table (docs/performance.md: 189 s for 1,209,173)
# Seconds for each sentence, with its list of 100 hypotheses, and each RNNsearch.
_RESCORED = 0.03
_BUSY = 1.5  # how many times as long as its processor time a search takes on a busy machine


@dataclass(frozen=True)
class Forecast:
    """Forecasts an experiment of which only some networks and their rows are kept."""

    wanted: Experiment  # with the rows of all networks
    folder: Path
    sizes: Mapping[Path, int]  # the number of sentences in each source text
    words: float  # in a sentence
    phrases: int  # lines of the phrase table
    loading: float  # seconds to load the tables
    sentence: float  # seconds for a sentence, in one process without networks

    def steps(self, kept: Sequence[NetworkChoice], tuning: TuningPlan) -> dict[Step, float]:
        """Return the seconds that each step takes at most, in order."""
        rows = {self.wanted.systems[0].name, *(each.row for each in kept)}
        systems = tuple(system for system in self.wanted.systems if system.name in rows)
        plan = build_plan(replace(self.wanted, systems=systems), self.folder, is_checked=True)
        seconds = {f"train {each.model}": 60 * each.minutes for each in kept}
        for run in plan.runs:
            networks = len(run.row.search)
            searched = self.sentence + self.words * _SEARCHED * networks
            searched /= self.wanted.engine.processes or 1
            scored = searched + _RESCORED * len(run.row.lists)
            rounds = tuning.search_rounds if networks else tuning.rounds
            trials = 1 + networks * len(START_SHARES) if networks else 0
            for step in (step for step in plan.steps if run.folder in step.outputs[0].parents):
                count = next((self.sizes[path] for path in step.inputs if path in self.sizes), 0)
                tuned = min(count, tuning.sentences or count)
                seconds[step.name] = {
                    "tune": self.loading
                    + rounds * tuned * (scored + _XBLEU)
                    + trials * min(tuned, TRIAL_SIZE) * searched,
                    "translate": self.loading + count * scored,
                }[step.function]
        annotating = _COLUMN * self.phrases
        return {step: _START + seconds.get(step.name, annotating) for step in plan.steps}

    def total(self, kept: Sequence[NetworkChoice], tuning: TuningPlan) -> float:
        """Return the seconds that the whole experiment takes at most."""
        return total_seconds(self.steps(kept, tuning), self.wanted.engine.jobs)


def measure_search(
    configuration: DecoderConfiguration, sentences: Sequence[tuple[str, ...]]
) -> tuple[float, float]:
    """Return the processor seconds to load the tables, and to translate a sentence.

    A warning says if other work slows the machine down.
    """
    sample = sentences[:: max(1, len(sentences) // _TIMED)][:_TIMED]
    weights = {slot.name: slot.weights for slot in configuration.slots}
    work = SearchWork(configuration, (), (), (), weights, sample)
    tasks = [
        SearchTask(number, words, weights, ListRequest(100, distinct=True))
        for number, words in enumerate(sample)
    ]
    work.load()(tasks[0])  # compiles the search, which is kept for later processes
    begin, start = time.monotonic(), time.process_time()
    translate = work.load()
    loaded = time.process_time()
    for task in tasks:
        translate(task)
    end, wall = time.process_time(), time.monotonic() - begin
    if wall > _BUSY * (end - start):
        _logger.warning(
            "the machine is busy: translating %d sentences took %.1f s for %.1f s of processor "
            "time; the expected times are for a machine without other work",
            *(len(sample), wall, end - start),
        )
    return loaded - start, (end - loaded) / len(sample)


def total_seconds(seconds: Mapping[Step, float], jobs: int) -> float:
    """Return how long all steps take if ``jobs`` steps run at a time, in an experiment's order."""
    waiting, ends, now = list(seconds), dict[Step, float](), 0.0
    while waiting or ends:
        while len(ends) < jobs and (step := next_step(waiting, list(ends))) is not None:
            waiting.remove(step)
            ends[step] = now + seconds[step]
        ended = min(ends, key=ends.__getitem__)
        now = ends.pop(ended)
    return now

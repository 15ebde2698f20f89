"""Run an experiment: train, annotate, tune and translate for each row of a table of systems."""

import logging
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from phrasescore.errors import ArgumentError
from phrasescore.io.folders import locked
from phrasescore.io.text_table import text_table
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.workflows.experiment.config import Experiment, read_experiment
from phrasescore.workflows.experiment.plan import Plan, build_plan
from phrasescore.workflows.experiment.running import run_steps
from phrasescore.workflows.experiment.steps import Step, StepStates, check_experiment_folder
from phrasescore.workflows.experiment.table import ExperimentTable, measure, write_table

LOGS = "logs"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step of an experiment."""

    name: str
    # The command that does the same, as a user could type it.
    command: str
    is_done: bool


def plan_experiment(
    config: str | os.PathLike[str], folder: str | os.PathLike[str]
) -> list[PlannedStep]:
    """Return the steps of an experiment in order, and whether each is done.

    Models may still be in training. Nothing is written.

    :raises PhrasescoreError: as `run_experiment`, before its first step.
    """
    _, plan, absolute = _prepare(config, folder, only_shown=True)
    done = StepStates(absolute, plan.written).done(plan.steps)
    return [
        PlannedStep(step.name, step.call.shown(), is_done)
        for step, is_done in zip(plan.steps, done, strict=True)
    ]


def run_experiment(
    config: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    progress: ProgressCallback | None = None,
) -> ExperimentTable:
    """Run the steps of an experiment that are not done, and return its table.

    The folder gets ``table.txt``, ``table.toml`` and ``table.html``, from the first row on. Each
    step runs in its own process; the same call resumes a run that was stopped.

    :param config: a TOML file; docs/experiment.md describes it.
    :param jobs: number of steps that run at once; None for the file's number. The figures do not
        depend on it.
    :param progress: called with the number of steps that are done.
    :raises ArgumentError: if ``jobs`` is less than 1.
    :raises ConfigError: if the file is invalid.
    :raises PhrasescoreError: if an input is missing or wrong, or a step fails; the message has the
        end of its log.
    """
    if jobs is not None and jobs < 1:
        raise ArgumentError(f"--jobs: expected 1 or more, got {jobs}")
    wanted, plan, absolute = _prepare(config, folder, only_shown=False)
    texts = (wanted.data.dev, *wanted.data.tests)
    outputs = {run.output(text) for run in plan.runs for text in texts}
    outputs |= {run.report for run in plan.runs}
    # The outputs of this run's settings, not those that an older run of other settings has left.
    made: set[Path] = set()
    with (
        locked(absolute) as lock,
        Meter("experiment", "steps", progress, total=len(plan.steps)) as meter,
    ):
        states = StepStates(absolute, plan.written)
        states.write_files()
        _logger.info("%d of %d steps are done", sum(states.done(plan.steps)), len(plan.steps))

        def after(step: Step, was_run: bool) -> None:
            for line in states.state(step).warnings if was_run else ():
                _logger.warning("%s: %s", step.name, line)
            translated = outputs.intersection(step.outputs)
            made.update(translated)
            if was_run and translated:
                write_table(table(), absolute)
            meter.update(note=step.name)

        def table() -> ExperimentTable:
            return collect_table(wanted, plan, made, lambda _: states)

        jobs = jobs or wanted.engine.jobs
        run_steps(plan.steps, states, absolute / LOGS, jobs, _logger.info, after, (lock,))
        found = table()
        write_table(found, absolute)
        return found


def collect_table(
    wanted: Experiment, plan: Plan, made: Collection[Path], states: Callable[[Step], StepStates]
) -> ExperimentTable:
    """Return the table of the results so far, with the warnings and times of the steps.

    :param made: translations and reports.
    :param states: returns where the state of a step is.
    """
    warnings = [
        f"{step.name}: {line}"
        for step in plan.steps
        if states(step).is_done(step)
        for line in states(step).state(step).warnings
    ]
    timed = []
    for step in plan.steps:
        seconds = states(step).state(step).seconds
        timed.append(("" if seconds is None else f"{seconds:,.1f} s", step.call.shown()))
    texts = (wanted.data.dev, *wanted.data.tests)
    return measure(texts, plan.runs, made, plan.notes, text_table(timed, "rl"), warnings)


def _prepare(
    config: str | os.PathLike[str], folder: str | os.PathLike[str], *, only_shown: bool
) -> tuple[Experiment, Plan, Path]:
    if not os.fspath(folder):
        raise ArgumentError("--output: expected the name of a folder, found ''")
    absolute = Path(folder).absolute()
    check_experiment_folder(absolute)
    wanted = read_experiment(os.fspath(config))
    return wanted, build_plan(wanted, absolute, only_shown=only_shown), absolute

"""Run an experiment: train, annotate, tune and translate for each row of a table of systems."""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasescore.errors import ArgumentError
from phrasescore.io.folders import locked
from phrasescore.workflows.experiment.config import Experiment, read_experiment
from phrasescore.workflows.experiment.plan import Plan, build_plan
from phrasescore.workflows.experiment.steps import Step, StepRunner, check_experiment_folder
from phrasescore.workflows.experiment.table import ExperimentTable, measure, write_table

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
    """Return the steps of an experiment in their order, and which of them are done.

    Models may still be in training. Nothing is written.

    :raises PhrasescoreError: as `run_experiment`, before its first step.
    """
    _, plan, absolute = _prepare(config, folder, only_shown=True)
    done = StepRunner(absolute, _logger.info, written=plan.written).done(plan.steps)
    return [
        PlannedStep(step.name, step.shown(), is_done)
        for step, is_done in zip(plan.steps, done, strict=True)
    ]


def run_experiment(
    config: str | os.PathLike[str], folder: str | os.PathLike[str], *, jobs: int | None = None
) -> ExperimentTable:
    """Run what is not done of an experiment, and return its table.

    The folder gets ``table.txt``, ``table.toml`` and ``table.html``, from the first row on. Each
    step runs in a process of its own; a run that was stopped goes on by the same call.

    :param config: a TOML file; docs/experiment.md describes it.
    :param jobs: steps that run at the same time; None for the file's number. The figures do not
        depend on it.
    :raises ConfigError: if the file is not as it should be.
    :raises PhrasescoreError: if an input is missing or wrong, or a step fails; the message has the
        end of its log.
    """
    wanted, plan, absolute = _prepare(config, folder, only_shown=False)
    with locked(absolute) as lock:
        runner = StepRunner(absolute, _logger.info, lock=lock, written=plan.written)
        runner.write_files()
        _logger.info("%d of %d steps are done", sum(runner.done(plan.steps)), len(plan.steps))
        return _run(wanted, plan, absolute, runner, jobs or wanted.engine.jobs)


def _prepare(
    config: str | os.PathLike[str], folder: str | os.PathLike[str], *, only_shown: bool
) -> tuple[Experiment, Plan, Path]:
    if not os.fspath(folder):
        raise ArgumentError("`output`: expected the name of a folder, found ''")
    absolute = Path(folder).absolute()
    check_experiment_folder(absolute)
    wanted = read_experiment(os.fspath(config))
    return wanted, build_plan(wanted, absolute, only_shown=only_shown), absolute


def _run(
    wanted: Experiment, plan: Plan, folder: Path, runner: StepRunner, jobs: int
) -> ExperimentTable:
    """Run what is not done; the table is there from the first row on, and grows."""
    texts = (wanted.dev, *wanted.tests)
    outputs = {run.output(text) for run in plan.runs for text in texts}
    outputs |= {run.report for run in plan.runs}
    # The outputs of this run's settings, not those that an older run of other settings has left.
    made: set[Path] = set()

    def after(step: Step, was_run: bool) -> None:
        for line in runner.warnings(step) if was_run else ():
            _logger.warning("%s: %s", step.name, line)
        translated = outputs.intersection(step.outputs)
        made.update(translated)
        if was_run and translated:
            write_table(table(), folder)

    def table() -> ExperimentTable:
        notes = [*plan.notes, *_warnings(plan.steps, runner)]
        return measure(texts, plan.runs, made, notes, _timed(plan.steps, runner))

    runner.run(plan.steps, jobs, after)
    found = table()
    write_table(found, folder)
    return found


def _warnings(steps: Sequence[Step], runner: StepRunner) -> list[str]:
    return [
        f"Warning of {step.name}: {line}."
        for step in steps
        if runner.is_done(step)
        for line in runner.warnings(step)
    ]


def _timed(steps: Sequence[Step], runner: StepRunner) -> list[str]:
    """Return the commands, each with the seconds that it took."""
    seconds = [runner.seconds(step) for step in steps]
    return [
        f"{'' if each is None else f'{each:,.1f} s':>12}  {step.shown()}"
        for step, each in zip(steps, seconds, strict=True)
    ]

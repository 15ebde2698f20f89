"""Run an experiment: train, annotate, tune and translate for each row of a table of systems.

Each step runs in its own process, so that it cannot change the memory or threads of another step.
"""

import logging
import math
import os
import re
import time
from collections.abc import Callable, Sequence
from itertools import compress
from pathlib import Path

from phrasescore.arguments import StrPath
from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.evaluation.systems_table import SystemsTable
from phrasescore.io.folders import locked
from phrasescore.progress import Progress, ProgressCallback, format_duration
from phrasescore.systems.folder import SYSTEM
from phrasescore.workflows.experiment.config import Experiment, read_experiment
from phrasescore.workflows.experiment.functions import OF_ROWS
from phrasescore.workflows.experiment.plan import Plan, build_plan
from phrasescore.workflows.experiment.process import RunningStep, stop
from phrasescore.workflows.experiment.steps import Step, StepStates, check_experiment_folder
from phrasescore.workflows.experiment.table import measure, write_table

_logger = logging.getLogger(__name__)

LOGS = "logs"  # the folder for the steps' logs
_INTERRUPTED = 130  # the exit code of a process stopped by Ctrl-C
_LOOK_EVERY = 0.1  # seconds to wait for one step before the next step is polled


def plan_experiment(
    config: StrPath, folder: StrPath, *, rows: Sequence[str] = ()
) -> list[tuple[Step, bool]]:
    """Return the steps of an experiment in order, with whether each is done; write nothing."""
    _, plan = _prepare(config, folder)
    steps = plan.needed(rows) if rows else plan.steps
    done = StepStates(plan.names, plan.written).done(steps)
    return list(zip(steps, done, strict=True))


def run_experiment(
    config: StrPath,
    folder: StrPath,
    *,
    rows: Sequence[str] = (),
    command: str = "",
    show: Callable[[SystemsTable], None] | None = None,
    progress: ProgressCallback | None = None,
) -> SystemsTable:
    """Run the steps of an experiment that are not done, and return its table.

    ``table.txt``, ``table.toml`` and the page ``report/index.html`` in the folder are updated from
    the first row on. Each step runs in its own process; the same call resumes a run that was
    stopped.

    :param config: a TOML file; docs/experiment.md describes it.
    :param rows: the rows to make, with what they need; empty for all. The table keeps other rows
        that are done.
    :param command: the command that the page shows at its end.
    :param show: called with the table so far.
    :param progress: called with the progress of the whole, which has no unit, and of each step,
        which is ``finished`` without a unit.
    :raises ConfigError: if the file is invalid.
    :raises PhrasescoreError: if an input is missing or wrong, or a step fails; the message ends
        with the last lines of the step's log.
    """
    wanted, plan = _prepare(config, folder)
    steps = plan.needed(rows) if rows else plan.steps
    with locked(plan.names.folder) as lock:
        states = StepStates(plan.names, plan.written)
        states.write_files()
        done = set(compress(plan.steps, states.done(plan.steps)))
        _logger.info("%d of %d steps are done", len(done.intersection(steps)), len(steps))
        for run in plan.runs:
            if any(run.report in step.outputs for step in done):
                plan.write_system(run)
            else:  # its weights belong to other networks or settings
                (run.folder / SYSTEM).unlink(missing_ok=True)

        def after(step: Step, was_run: bool) -> None:
            done.add(step)
            for run in plan.runs:
                if run.report in step.outputs:
                    plan.write_system(run)
            if was_run and step.function in OF_ROWS:
                found = table(is_final=False)
                write_table(found, plan.names, command, is_final=False)
                if show is not None:
                    show(found)

        def table(*, is_final: bool) -> SystemsTable:
            existing = {path for step in done for path in step.outputs}
            warnings = [
                f"{step.name}: {line}"
                for step in plan.steps
                if step in done
                for line in states.state(step).warnings
            ]
            return measure(wanted, plan, existing, warnings, is_final=is_final)

        if show is not None and any(step.function in OF_ROWS for step in done):
            show(table(is_final=False))
        logs, jobs = plan.names.folder / LOGS, wanted.engine.jobs
        run_steps(
            steps, states, logs, jobs, _logger.info, after, (lock,), progress or (lambda _: None)
        )
        result = table(is_final=True)
        write_table(result, plan.names, command)
        return result


def _prepare(config: StrPath, folder: StrPath) -> tuple[Experiment, Plan]:
    if not os.fspath(folder):
        raise ArgumentError("--output: expected the name of a folder, found ''")
    absolute = Path(os.path.realpath(folder))
    check_experiment_folder(absolute)
    wanted = read_experiment(os.fspath(config))
    return wanted, build_plan(wanted, absolute)


def run_steps(
    steps: Sequence[Step],
    states: StepStates,
    logs: Path,
    jobs: int,
    say: Callable[[str], None],
    after: Callable[[Step, bool], None],
    kept_open: Sequence[int] = (),
    progress: ProgressCallback = lambda _: None,
) -> None:
    """Run the steps that are not done.

    A step waits for the earlier steps that write its inputs. When a step fails, all other running
    steps are stopped; the next run resumes them. The warnings of a step are logged at its end.

    :param after: called when a step is done, with whether it had to run.
    :raises KeyboardInterrupt: if a step was interrupted.
    """
    waiting = list(steps)
    running: list[RunningStep] = []
    shown = -math.inf  # when the progress of the whole was shown

    def whole() -> Progress:
        return whole_progress(steps, states, [*waiting, *(each.step for each in running)], jobs)

    def position(step: Step) -> str:
        return f"step {steps.index(step) + 1} of {len(steps)}"

    def start(step: Step) -> RunningStep:
        is_resumed = states.begin(step)
        say(f"{position(step)}: {step.name}{' (resumed)' if is_resumed else ''}")
        _logger.debug("$ %s", step)
        log = logs / f"{re.sub('[ /]', '.', step.name)}.log"
        for path in (log, *step.outputs, *step.partial):
            path.parent.mkdir(parents=True, exist_ok=True)
        resume = is_resumed and bool(step.partial)
        progress(Progress(step.name, "", 0))
        return RunningStep(step, states.state(step), log, kept_open, resume=resume)

    def finish(step: Step) -> None:
        for line in states.state(step).warnings:
            _logger.warning("%s: %s", step.name, line)
        after(step, True)

    try:
        while waiting or running:
            if time.monotonic() > shown + 1:
                shown = time.monotonic()
                progress(whole())
            while len(running) < jobs:
                step = next_step(waiting, [process.step for process in running])
                if step is None:
                    break
                waiting.remove(step)
                if states.is_done(step):
                    after(step, False)
                    continue
                if states.recover(step):
                    finish(step)
                else:
                    running.append(start(step))
            for process in list(running):
                code = process.wait(_LOOK_EVERY)
                if process.read_messages(say, progress):
                    states.write()  # in case the run is killed later
                if code is not None:
                    running.remove(process)
                    process.close()
                    progress(Progress(process.step.name, "", 0, finished=True))
                    if (problem := process.problem(code)) is not None:
                        states.discard(process.step)
                        if code == _INTERRUPTED:
                            raise KeyboardInterrupt
                        raise PhrasescoreError(problem)
                    states.finish(process.step)
                    took = format_duration(states.state(process.step).seconds or 0)
                    left = f"; {whole().state}".removesuffix("; ")
                    say(f"{position(process.step)}: {process.step.name} took {took}{left}")
                    finish(process.step)
        progress(whole())
    except BaseException:
        _stop(running, states, say)
        raise


def _stop(running: Sequence[RunningStep], states: StepStates, say: Callable[[str], None]) -> None:
    if running:
        say("stopping: the running steps save their work; a second Ctrl-C ends them at once")
    try:
        stop(running)
    finally:
        for process in running:
            process.close()
            states.discard(process.step)  # some steps leave incomplete output after Ctrl-C


def whole_progress(
    steps: Sequence[Step], states: StepStates, unfinished: Sequence[Step], jobs: int
) -> Progress:
    """Return the progress of all steps, with text about the time that the unfinished ones take.

    Training has its limit of time; other steps take as long as finished steps of the same function.
    """
    times: dict[str, list[float]] = {}
    for step in steps:
        if (seconds := states.state(step).seconds) is not None:
            times.setdefault(step.function, []).append(seconds)
    total, is_known = 0.0, True
    for step in unfinished:
        if states.is_done(step):
            continue
        spent = states.state(step).spent
        minutes = getattr(step.settings.get("settings"), "minutes", None)
        if minutes is not None:
            total += max(60 * minutes - spent, 0)
        elif (known := times.get(step.function)) is not None:
            total += max(sum(known) / len(known) - spent, 0)
        else:
            is_known = False
    spent = sum(state.seconds or state.spent for state in map(states.state, steps))
    done = len(steps) - len(unfinished)
    share = spent / (spent + total) if is_known and spent else done / len(steps)
    time = f"{'about' if is_known else 'more than'} {format_duration(total / jobs)} left"
    note = f"{done} of {len(steps)} steps"
    return Progress("experiment", "", done, share=share, note=note, state=time if total else "")


def next_step(waiting: Sequence[Step], running: Sequence[Step]) -> Step | None:
    """Return the first waiting step whose inputs all exist."""
    missing = {path for step in running for path in step.outputs}
    for step in waiting:
        if not step.reads(missing):
            return step
        missing.update(step.outputs)
    return None

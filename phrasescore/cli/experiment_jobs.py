"""Run the steps of an experiment in their order, several at a time where they allow it."""

from collections.abc import Callable, Sequence
from pathlib import Path

from phrasescore.cli.experiment_steps import Running, Step, StepRunner, reads

# Seconds that are waited for one of the commands before looking at the next.
_LOOK_EVERY = 0.1


def run_steps(
    runner: StepRunner,
    steps: Sequence[Step],
    jobs: int,
    after: Callable[[Step, bool], None],
) -> None:
    """Run what is not done.

    A step waits for those before it in the list that write what it reads. When one fails, those
    beside it are stopped, and go on the next time.

    :param jobs: how many at a time; the outputs do not depend on it.
    :param after: called when a step is done, with whether it had to be run.
    :raises PhrasescoreError: if a command fails, with the end of its log.
    :raises KeyboardInterrupt: if one was interrupted.
    """
    waiting = list(steps)
    running: list[Running] = []
    try:
        while waiting or running:
            while len(running) < jobs and (step := _next(waiting, running)) is not None:
                waiting.remove(step)
                if runner.is_done(step):
                    after(step, False)
                elif begun := runner.begin(step, f"step {steps.index(step) + 1} of {len(steps)}"):
                    running.append(begun)
                else:
                    after(step, True)
            for each in list(running):
                code = each.command.wait(_LOOK_EVERY)
                if code is None:
                    runner.report(each)
                    continue
                running.remove(each)
                runner.report(each)
                runner.end(each, code)
                after(each.step, True)
    except BaseException:
        runner.stop(running)
        raise


def _next(waiting: Sequence[Step], running: Sequence[Running]) -> Step | None:
    """Return the first step that waits for no other one."""
    unmade: set[Path] = {path for each in running for path in each.step.outputs}
    for step in waiting:
        if not reads(step, unmade):
            return step
        unmade.update(step.outputs)
    return None

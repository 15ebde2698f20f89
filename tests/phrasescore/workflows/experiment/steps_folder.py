"""A folder with a double of the program that runs steps."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from phrasescore.io.folders import locked
from phrasescore.workflows.experiment import process
from phrasescore.workflows.experiment.run import run_steps
from phrasescore.workflows.experiment.steps import FileNames, Step, StepStates
from tests.forked import Forked

# The program: writes what it read, with the step's name before it, and a line into "calls".
COMMAND = """\
import json, os, pathlib, sys, time
given = json.load(sys.stdin)
name, settings = given["function"], given["settings"]
source, target = (pathlib.Path(settings[key]) for key in ("source", "output"))
folder = target.parent
(folder / f"pid.{name}").write_text(str(os.getpid()))
with open(folder / "calls", "a") as calls:
    calls.write(" ".join([name, *settings["more"], *["resumed"] * given["resume"]]) + "\\n")
print("working on", name, file=sys.stderr)
mood = folder / f"mood.{name}"
if mood.exists():
    if mood.read_text() == "fail":
        print("no such table", file=sys.stderr)
        sys.exit(7)
    if mood.read_text() == "stopped":
        target.write_text("half")
        sys.exit(130)
    if mood.read_text() == "whole":
        print('{"warning": "it is odd"}', flush=True)
        target.write_text(f"{name}({source.read_text()})")
    (folder / f"part.{name}").write_text("part")
    tests = pathlib.Path("/proc", os.environ.get("TESTS", str(os.getppid())))
    while mood.exists() and tests.exists():  # it outlives the run, and not the tests
        time.sleep(0.01)
target.write_text(f"{name}({source.read_text()})")
"""


def run(
    folder: Path, steps: Sequence[Step], say: Callable[[str], None] = print, jobs: int = 1
) -> list[str]:
    names: list[str] = []

    def after(step: Step, was_run: bool) -> None:
        if was_run:
            names.append(step.name)

    run_steps(steps, StepStates(FileNames(folder)), folder / "logs", jobs, say, after)
    return names


class Steps:
    """A folder where ``a`` and ``other`` read ``input`` and ``input2``, and ``b`` reads ``a``'s."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        (folder / "input").write_text("text")
        (folder / "input2").write_text("text")
        (folder / "command.py").write_text(COMMAND)

    def step(self, name: str, source: str, *more: str) -> Step:
        target = self.folder / f"{name}.out"
        return Step(
            name,
            name,
            {"source": self.folder / source, "output": target, "more": more},
            (self.folder / source,),
            (target,),
            (self.folder / f"part.{name}",),
        )

    def steps(self, *more: str) -> list[Step]:
        return [
            self.step("a", "input", *more),
            self.step("b", "a.out"),
            self.step("other", "input2"),
        ]

    def run(self, *more: str) -> list[str]:
        return run(self.folder, self.steps(*more), self.said.append)

    def done(self, *more: str) -> list[bool]:
        return StepStates(FileNames(self.folder)).done(self.steps(*more))

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def mood(self, name: str, mood: str | None) -> None:
        path = self.folder / f"mood.{name}"
        path.unlink(missing_ok=True) if mood is None else path.write_text(mood)

    def pid(self, name: str) -> int:
        """Return the process that ran a step."""
        return int((self.folder / f"pid.{name}").read_text())

    def start(
        self, jobs: int = 1, begun: Sequence[str] = ("b",), more: Sequence[str] = ()
    ) -> Forked:
        """Run all steps in a process of its own, and return when some have begun.

        :param more: names of further steps, which read input2.
        """
        process = Forked(run_all, str(self.folder), str(os.getpid()), str(jobs), *more)
        for name in begun:
            self.await_file(f"part.{name}")
        return process

    def await_file(self, name: str) -> None:
        until = time.monotonic() + 60
        while not (self.folder / name).exists():
            assert time.monotonic() < until, f"no {name}"
            time.sleep(0.01)


def run_all(folder: str, tests: str, jobs: str, *more: str) -> None:
    """Run all steps; ``tests`` is the process that they do not outlive."""
    os.environ["TESTS"] = tests
    made = Steps(Path(folder))
    program = (sys.executable, str(made.folder / "command.py"))
    pytest.MonkeyPatch().setattr(process, "PROGRAM", program)
    with locked(made.folder) as lock:
        steps = made.steps() + [made.step(name, "input2") for name in more]
        states, logs = StepStates(FileNames(made.folder)), made.folder / "logs"
        run_steps(steps, states, logs, int(jobs), lambda _: None, lambda *_: None, (lock,))

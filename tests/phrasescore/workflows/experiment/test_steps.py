"""Steps: each run once, repeated where something changed, gone on with where one was killed."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.workflows.experiment.running import RunningStep, run_steps, stop
from phrasescore.workflows.experiment.steps import Step, StepState, StepStates

# A command: writes what it read, with its own name before it, and a line into "calls".
COMMAND = """\
import pathlib, sys, time
name, source, target, *more = sys.argv[1:]
folder = pathlib.Path(target).parent
with open(folder / "calls", "a") as calls:
    calls.write(" ".join([name, *more]) + "\\n")
print("working on", name, file=sys.stderr)
mood = folder / f"mood.{name}"
if mood.exists():
    if mood.read_text() == "fail":
        print("no such table", file=sys.stderr)
        sys.exit(7)
    if mood.read_text() == "stopped":
        pathlib.Path(target).write_text("half")
        sys.exit(130)
    if mood.read_text() == "whole":
        print('{"warning": "it is odd"}', flush=True)
        pathlib.Path(target).write_text(f"{name}({pathlib.Path(source).read_text()})")
    (folder / f"part.{name}").write_text("part")
    while mood.exists():
        time.sleep(0.01)
pathlib.Path(target).write_text(f"{name}({pathlib.Path(source).read_text()})")
"""


def run(
    folder: Path, steps: Sequence[Step], say: Callable[[str], None] = print, jobs: int = 1
) -> list[str]:
    """Run steps with a new runner; return the names of those that it ran, as they ended."""
    names: list[str] = []

    def after(step: Step, was_run: bool) -> None:
        if was_run:
            names.append(step.name)

    run_steps(steps, StepStates(folder), folder / "logs", jobs, say, after)
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
        command = (sys.executable, str(self.folder / "command.py"), name)
        return Step(
            name,
            (*command, str(self.folder / source), str(target), *more),
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
        """Run all steps with a new runner; return the names of those that it ran."""
        return run(self.folder, self.steps(*more), self.said.append)

    def done(self, *more: str) -> list[bool]:
        return StepStates(self.folder).done(self.steps(*more))

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def mood(self, name: str, mood: str | None) -> None:
        path = self.folder / f"mood.{name}"
        path.unlink(missing_ok=True) if mood is None else path.write_text(mood)

    def start(
        self, jobs: int = 1, begun: Sequence[str] = ("b",), more: Sequence[str] = ()
    ) -> "subprocess.Popen[bytes]":
        """Run all steps in a process of its own, and return when some have begun.

        :param more: names of further steps, which read input2.
        """
        code = f"""
import sys; sys.path.insert(0, {os.getcwd()!r})
from pathlib import Path
from phrasescore.io.folders import locked
from phrasescore.workflows.experiment.running import run_steps
from phrasescore.workflows.experiment.steps import StepStates
from tests.phrasescore.workflows.experiment.test_steps import Steps
made = Steps(Path({str(self.folder)!r}))
with locked(made.folder) as lock:
    steps = made.steps() + [made.step(name, "input2") for name in {list(more)}]
    states = StepStates(made.folder)
    run_steps(steps, states, made.folder / "logs", {jobs}, print, lambda *_: None, (lock,))
"""
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
        for name in begun:
            self.await_file(f"part.{name}")
        return process

    def await_file(self, name: str) -> None:
        until = time.monotonic() + 60
        while not (self.folder / name).exists():
            assert time.monotonic() < until, f"no {name}"
            time.sleep(0.01)


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    return Steps(tmp_path)


def test_a_step_is_run_once(steps: Steps) -> None:
    assert steps.done() == [False, False, False]
    assert steps.run() == ["a", "b", "other"]
    assert (steps.folder / "b.out").read_text() == "b(a(text))"
    assert steps.done() == [True, True, True]
    assert steps.run() == []
    assert steps.calls() == ["a", "b", "other"]


def test_a_changed_input_repeats_what_depends_on_it_and_nothing_else(steps: Steps) -> None:
    steps.run()
    (steps.folder / "input").write_text("news")
    assert steps.done() == [False, False, True]
    assert steps.run() == ["a", "b"]
    assert (steps.folder / "b.out").read_text() == "b(a(news))"
    (steps.folder / "input2").write_text("news")
    assert steps.run() == ["other"]


def test_a_changed_setting_repeats_its_step_and_what_reads_a_changed_output(steps: Steps) -> None:
    steps.run()
    # It writes the same as before, and so there is no news for b.
    assert steps.run("--louder") == ["a"]
    assert steps.calls() == ["a", "b", "other", "a --louder"]
    assert steps.run("--louder") == []


def test_warnings_of_the_last_run_are_kept(steps: Steps) -> None:
    warning = 'print(\'{{"warning":"{}"}}\')\n'
    code = COMMAND + "".join(map(warning.format, ("it is odd", "so it is", "it is odd")))
    (steps.folder / "command.py").write_text(code)
    step = steps.step("a", "input")
    run(steps.folder, [step])
    assert StepStates(steps.folder).state(step).warnings == ["it is odd", "so it is"]
    (steps.folder / "command.py").write_text(COMMAND)
    run(steps.folder, [steps.step("a", "input2")])
    assert StepStates(steps.folder).state(step).warnings == []


def test_what_settings_made_comes_back_with_them_if_others_fail(steps: Steps) -> None:
    steps.run()
    made = (steps.folder / "a.out").stat().st_mtime_ns
    steps.mood("a", "fail")
    for _ in range(2):
        with pytest.raises(PhrasescoreError, match="a ended with exit code 7"):
            steps.run("--slip")
        assert not (steps.folder / "a.out").exists()
    steps.mood("a", None)
    calls = steps.calls()
    assert steps.run() == ["a"]
    assert steps.calls() == calls  # nothing was made again
    assert steps.run() == []
    assert (steps.folder / "a.out").stat().st_mtime_ns == made
    # What others make in the end takes its place.
    assert steps.run("--other") == ["a"]
    assert steps.run() == ["a"]
    assert not list(steps.folder.glob("*.phrasescore-old"))


def test_an_older_output_that_was_changed_does_not_come_back(steps: Steps) -> None:
    steps.run()
    steps.mood("a", "fail")
    with pytest.raises(PhrasescoreError):
        steps.run("--slip")
    steps.mood("a", None)
    (steps.folder / "a.out.phrasescore-old").write_text("tampered")
    assert steps.run() == ["a"]
    assert (steps.folder / "a.out").read_text() == "a(text)"
    assert not list(steps.folder.glob("*.phrasescore-old"))


def test_a_message_quotes_the_latest_run_of_a_step_alone(steps: Steps) -> None:
    steps.run()
    (steps.folder / "command.py").write_text("import sys; sys.exit('no such table')")
    (steps.folder / "input").write_text("news")
    with pytest.raises(PhrasescoreError, match=r"a\.log\): no such table$"):
        steps.run()


def test_logs_may_be_removed(steps: Steps) -> None:
    steps.run()
    state = json.loads((steps.folder / "steps.json").read_text())
    state["steps"]["b"] = {"begun": state["steps"]["b"]["done"], "spent": 1.0}  # it was killed
    (steps.folder / "steps.json").write_text(json.dumps(state))
    (steps.folder / "logs" / "b.log").unlink()
    assert steps.run() == ["b"]
    assert steps.calls() == ["a", "b", "other"]  # its output was there, and whole


def test_an_input_that_is_only_touched_repeats_nothing(steps: Steps) -> None:
    steps.run()
    os.utime(steps.folder / "input", ns=(1, 1))
    assert steps.run() == []


@pytest.mark.parametrize("damage", ["removed", "changed"])
def test_an_output_that_is_not_as_it_was_left_is_made_again(steps: Steps, damage: str) -> None:
    steps.run()
    output = steps.folder / "b.out"
    output.unlink() if damage == "removed" else output.write_text("b(a(tampered))")
    assert steps.run() == ["b"]
    assert output.read_text() == "b(a(text))"


def test_the_content_of_a_folder_counts(steps: Steps) -> None:
    model = steps.folder / "model"
    model.mkdir()
    (model / "weights").write_text("1")
    step = Step("show", ("true",), (model,), ())
    assert run(steps.folder, [step]) == ["show"]
    assert run(steps.folder, [step]) == []
    (model / "weights").rename(model / "renamed")
    assert run(steps.folder, [step]) == ["show"]


def test_a_step_that_fails_shows_the_end_of_its_log_and_leaves_no_output(steps: Steps) -> None:
    steps.mood("b", "fail")
    with pytest.raises(PhrasescoreError, match=r"^b ended with exit code 7 .*no such table$"):
        steps.run()
    assert not (steps.folder / "b.out").exists()
    assert "working on b\nno such table\n" in (steps.folder / "logs" / "b.log").read_text()
    steps.mood("b", None)
    assert steps.run() == ["b", "other"]


def test_a_step_that_cannot_go_on_can_be_begun_anew(steps: Steps) -> None:
    steps.mood("b", "stopped")
    (steps.folder / "part.b").write_text("of an older version")
    with pytest.raises(KeyboardInterrupt):
        steps.run()
    (steps.folder / "part.b").write_text("of an older version")
    steps.mood("b", "fail")
    with pytest.raises(PhrasescoreError, match=r"to begin this step anew, remove .*/part\.b$"):
        steps.run()


def test_a_command_that_ends_well_without_its_output_has_failed(steps: Steps) -> None:
    step = Step("nothing", ("true",), (), (steps.folder / "output",))
    with pytest.raises(PhrasescoreError, match=r"nothing wrote no .*output .*it said nothing"):
        run(steps.folder, [step])
    assert not StepStates(steps.folder).is_done(step)


def test_what_an_interrupted_command_wrote_is_no_result(steps: Steps) -> None:
    steps.mood("b", "stopped")
    with pytest.raises(KeyboardInterrupt):
        steps.run()
    steps.mood("b", None)
    assert steps.run() == ["b", "other"]
    assert steps.calls() == ["a", "b", "b --resume", "other"]


def test_a_killed_run_goes_on_where_it_was(steps: Steps) -> None:
    steps.mood("b", "wait")
    process = steps.start()
    process.kill()
    process.wait()
    # The command outlives it, and must not be run a second time beside itself.
    refused = subprocess.run(
        [sys.executable, "-c", f"""
from pathlib import Path
from phrasescore.io.folders import locked
with locked(Path({str(steps.folder)!r})):
    pass
"""],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "another run is at work here" in refused.stderr
    os.kill(_pid_of(steps.folder / "b.out"), signal.SIGKILL)
    steps.mood("b", None)
    assert steps.done() == [True, False, False]
    assert steps.run() == ["b", "other"]
    assert steps.calls() == ["a", "b", "b --resume", "other"]
    assert (steps.folder / "part.b").exists()


def _pid_of(argument: Path) -> int:
    """Return the process that has a path among its arguments."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(argument).encode() in words:
            return int(folder.name)
    raise AssertionError("no such process")


def test_a_killed_step_that_has_changed_begins_anew(steps: Steps) -> None:
    steps.mood("b", "wait")
    process = steps.start()
    os.kill(_pid_of(steps.folder / "b.out"), signal.SIGKILL)
    process.wait()
    steps.mood("b", None)
    (steps.folder / "input").write_text("news")
    assert steps.run() == ["a", "b", "other"]
    assert steps.calls() == ["a", "b", "a", "b", "other"]
    assert not (steps.folder / "part.b").exists()


def test_an_output_that_was_whole_when_the_run_was_killed_is_kept(steps: Steps) -> None:
    steps.mood("b", "whole")
    process = steps.start()
    until = time.monotonic() + 60
    while "it is odd" not in (steps.folder / "steps.json").read_text():
        assert time.monotonic() < until
        time.sleep(0.01)
    process.kill()
    process.wait()
    os.kill(_pid_of(steps.folder / "b.out"), signal.SIGKILL)
    steps.mood("b", None)
    steps.run()
    assert steps.calls() == ["a", "b", "other"]
    assert steps.done() == [True, True, True]
    assert StepStates(steps.folder).state(steps.steps()[1]).warnings == ["it is odd"]


def test_a_signal_reaches_the_command_as_ctrl_c(steps: Steps) -> None:
    code = (
        "import time\ntry:\n open('ready', 'w').close()\n time.sleep(60)\n"
        "except KeyboardInterrupt: open('stopped', 'w').close()"
    )
    step = Step("sleep", (sys.executable, "-c", code), (), ())

    def interrupt_when_ready() -> None:
        # However long a busy machine takes to start it.
        while not (steps.folder / "ready").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, _interrupt)
    folder = os.getcwd()
    os.chdir(steps.folder)
    threading.Thread(target=interrupt_when_ready, daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run(steps.folder, [step])
    finally:
        os.chdir(folder)
        signal.signal(signal.SIGALRM, before)
    assert (steps.folder / "stopped").exists()


def test_what_was_started_in_the_background_is_stopped_at_once(tmp_path: Path) -> None:
    code = "import sys; sys.stderr.write('ready'); sys.stderr.flush(); import time; time.sleep(60)"
    step = Step("sleep", (sys.executable, "-c", code), (), ())
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        running = RunningStep(step, step.command, StepState(), tmp_path / "log")
        while b"ready" not in (tmp_path / "log").read_bytes().split(b"\n", 1)[1]:
            assert running.wait(0.05) is None
        stop([running])
    finally:
        signal.signal(signal.SIGINT, before)
    assert running.wait(0) == -signal.SIGTERM
    running.close()
    assert running.state.spent < 30


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def test_a_state_that_is_none_is_an_error_that_names_it(steps: Steps) -> None:
    (steps.folder / "steps.json").write_text(json.dumps({"format": 99, "steps": {}}))
    with pytest.raises(PhrasescoreError, match=r"steps\.json: expected the state .*1, got 99"):
        steps.run()


def test_what_is_run_is_said_as_a_user_could_type_it(steps: Steps) -> None:
    steps.run()
    assert steps.said[:2] == [
        "step 1 of 3: a",
        f"$ {shlex.join(steps.steps()[0].command)}",
    ]


# Several at a time: "other" reads nothing of "a" and "b", and "b" what "a" writes.


def test_steps_run_beside_one_another_unless_one_reads_what_the_other_writes(steps: Steps) -> None:
    for name in ("a", "other", "more"):
        steps.mood(name, "wait")
    process = steps.start(2, ["a", "other"], ["more"])
    assert not (steps.folder / "part.more").exists()  # it has to wait for a place
    steps.mood("other", None)
    steps.await_file("part.more")
    assert "b" not in steps.calls()  # it waits for a
    steps.mood("more", None)
    steps.mood("a", None)
    assert process.wait(60) == 0
    assert sorted(steps.calls()) == ["a", "b", "more", "other"]
    assert (steps.folder / "b.out").read_text() == "b(a(text))"
    assert steps.done() == [True, True, True]


def test_when_one_fails_the_others_are_stopped_and_go_on_the_next_time(steps: Steps) -> None:
    steps.mood("a", "wait")
    steps.mood("other", "fail")
    with pytest.raises(PhrasescoreError, match=r"^other ended with exit code 7 .*no such table$"):
        run(steps.folder, steps.steps(), steps.said.append, jobs=2)
    with pytest.raises(AssertionError, match="no such process"):
        _pid_of(steps.folder / "a.out")
    steps.mood("a", None)
    steps.mood("other", None)
    assert steps.done() == [False, False, False]
    assert sorted(steps.run()) == ["a", "b", "other"]
    assert "a --resume" in steps.calls()
    assert (steps.folder / "b.out").read_text() == "b(a(text))"


def test_ctrl_c_stops_all_of_them(steps: Steps) -> None:
    for name in ("a", "other"):
        steps.mood(name, "wait")
    process = steps.start(2, ["a", "other"])
    process.send_signal(signal.SIGINT)
    assert process.wait(60) != 0
    for name in ("a", "other"):
        with pytest.raises(AssertionError, match="no such process"):
            _pid_of(steps.folder / f"{name}.out")
        steps.mood(name, None)
    assert steps.run() == ["a", "b", "other"]
    assert steps.calls()[2:] == ["a --resume", "b", "other --resume"]

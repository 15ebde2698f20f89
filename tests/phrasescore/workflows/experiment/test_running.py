"""Steps at work: told, stopped, killed, gone on with, and beside one another."""

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.settings.training import NewNetwork
from phrasescore.workflows.experiment import process
from phrasescore.workflows.experiment.process import RunningStep, stop
from phrasescore.workflows.experiment.run import whole_progress
from phrasescore.workflows.experiment.steps import FileNames, Step, StepState, StepStates
from tests.phrasescore.workflows.experiment.steps_folder import COMMAND, Steps, run


def test_warnings_of_the_last_run_are_kept(steps: Steps) -> None:
    warning = 'print(\'{{"warning":"{}"}}\')\n'
    code = COMMAND + "".join(map(warning.format, ("it is odd", "so it is", "it is odd")))
    (steps.folder / "command.py").write_text(code)
    step = steps.step("a", "input")
    run(steps.folder, [step])
    assert StepStates(FileNames(steps.folder)).state(step).warnings == ["it is odd", "so it is"]
    (steps.folder / "command.py").write_text(COMMAND)
    (steps.folder / "input").write_text("news")
    run(steps.folder, [step])
    assert StepStates(FileNames(steps.folder)).state(step).warnings == []


def test_a_step_that_fails_shows_the_end_of_its_log_and_leaves_no_output(steps: Steps) -> None:
    steps.mood("b", "fail")
    with pytest.raises(PhrasescoreError, match=r"^b ended with exit code 7 .*no such table$"):
        steps.run()
    assert not (steps.folder / "b.out").exists()
    assert "working on b\nno such table\n" in (steps.folder / "logs" / "b.log").read_text()
    steps.mood("b", None)
    assert steps.run() == ["b", "other"]


def test_a_step_that_ends_well_without_its_output_has_failed(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "PROGRAM", ("true",))
    step = Step("nothing", "nothing", {}, (), (steps.folder / "output",))
    with pytest.raises(PhrasescoreError, match=r"nothing wrote no .*output .*no output"):
        run(steps.folder, [step])
    assert not StepStates(FileNames(steps.folder)).is_done(step)


def test_what_an_interrupted_command_wrote_is_no_result(steps: Steps) -> None:
    steps.mood("b", "stopped")
    with pytest.raises(KeyboardInterrupt):
        steps.run()
    steps.mood("b", None)
    assert steps.run() == ["b", "other"]
    assert steps.calls() == ["a", "b", "b resumed", "other"]


def test_a_killed_run_goes_on_where_it_was(steps: Steps) -> None:
    steps.mood("b", "wait")
    process = steps.start()
    process.kill()
    process.communicate()
    # The command outlives it, and must not be run a second time beside itself.
    refused = subprocess.run(
        [sys.executable, "-c", f"""
from dataclasses import replace
from pathlib import Path
from phrasescore.io.folders import locked
with locked(Path({str(steps.folder)!r})):
    pass
"""],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "another run is using this folder" in refused.stderr
    os.kill(steps.pid("b"), signal.SIGKILL)
    steps.mood("b", None)
    assert steps.done() == [True, False, False]
    assert steps.run() == ["b", "other"]
    assert steps.calls() == ["a", "b", "b resumed", "other"]
    assert (steps.folder / "part.b").exists()


def test_a_killed_step_that_has_changed_begins_anew(steps: Steps) -> None:
    steps.mood("b", "wait")
    process = steps.start()
    os.kill(steps.pid("b"), signal.SIGKILL)
    process.communicate()
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
    process.communicate()
    os.kill(steps.pid("b"), signal.SIGKILL)
    steps.mood("b", None)
    steps.run()
    assert steps.calls() == ["a", "b", "other"]
    assert steps.done() == [True, True, True]
    warnings = StepStates(FileNames(steps.folder)).state(steps.steps()[1]).warnings
    assert warnings == ["it is odd"]


def test_a_signal_reaches_the_process_as_ctrl_c(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import time\ntry:\n open('ready', 'w').close()\n time.sleep(60)\n"
        "except KeyboardInterrupt: open('stopped', 'w').close()"
    )
    monkeypatch.setattr(process, "PROGRAM", (sys.executable, "-c", code))
    step = Step("sleep", "sleep", {}, (), ())

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


def test_what_was_started_in_the_background_is_stopped_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import sys; sys.stderr.write('ready'); sys.stderr.flush(); import time; time.sleep(60)"
    monkeypatch.setattr(process, "PROGRAM", (sys.executable, "-c", code))
    step = Step("sleep", "sleep", {}, (), ())
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        at_work = RunningStep(step, StepState(), tmp_path / "log")
        while b"ready" not in (tmp_path / "log").read_bytes().split(b"\n", 1)[1]:
            assert at_work.wait(0.05) is None
        stop([at_work])
    finally:
        signal.signal(signal.SIGINT, before)
    assert at_work.wait(0) == -signal.SIGTERM
    at_work.close()
    assert at_work.state.spent < 30


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def test_each_step_is_said_with_its_time_and_what_is_left(
    steps: Steps, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="phrasescore"):
        steps.run()
    first, took = steps.said[:2]
    assert first == "step 1 of 3: a"
    assert re.fullmatch(r"step 1 of 3: a took \d+:\d\d", took)  # nothing is known of other verbs
    # The settings are for --verbose, and at the beginning of the log.
    source, output = steps.folder / "input", steps.folder / "a.out"
    line = f'$ a {{"source": "{source}", "output": "{output}", "more": []}}'
    assert line in caplog.messages
    assert (steps.folder / "logs" / "a.log").read_text() == f"{line}\nworking on a\n"


def test_the_time_that_is_left_is_that_of_limits_and_of_finished_steps(steps: Steps) -> None:
    steps.run()
    states = StepStates(FileNames(steps.folder))
    done = steps.steps()[0]
    states.state(done).seconds = 90.0
    new = [
        replace(done, name="same", settings={}),
        replace(done, name="train", function="train", settings={"settings": NewNetwork(minutes=2)}),
        replace(done, name="unknown", function="rare", settings={}),
    ]
    everything = [done, *new]
    whole = partial(whole_progress, everything, states)
    assert whole(new[:1], 1).state == "about 1:30 left"
    assert whole(new[:2], 2).state == "about 1:45 left"  # (90 + 120) / 2 s
    assert (whole(new, 1).state, whole(new, 1).share) == ("more than 3:30 left", 0.25)
    assert (whole(new[2:], 1).state, whole([done], 1).state) == ("", "")
    states.begin(new[1])
    states.state(new[1]).spent = 60.0
    assert (whole(new[1:2], 1).state, whole(new[1:2], 1).share) == ("about 1:00 left", 150 / 210)


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
    process.communicate()
    assert process.returncode == 0
    assert sorted(steps.calls()) == ["a", "b", "more", "other"]
    assert (steps.folder / "b.out").read_text() == "b(a(text))"
    assert steps.done() == [True, True, True]


def test_when_one_fails_the_others_are_stopped_and_go_on_the_next_time(steps: Steps) -> None:
    steps.mood("a", "wait")
    steps.mood("other", "fail")
    with pytest.raises(PhrasescoreError, match=r"^other ended with exit code 7 .*no such table$"):
        run(steps.folder, steps.steps(), steps.said.append, jobs=2)
    assert not Path("/proc", str(steps.pid("a"))).exists()
    steps.mood("a", None)
    steps.mood("other", None)
    assert steps.done() == [False, False, False]
    assert sorted(steps.run()) == ["a", "b", "other"]
    assert "a resumed" in steps.calls()
    assert (steps.folder / "b.out").read_text() == "b(a(text))"


def test_ctrl_c_stops_all_of_them(steps: Steps) -> None:
    for name in ("a", "other"):
        steps.mood(name, "wait")
    process = steps.start(2, ["a", "other"])
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode != 0
    for name in ("a", "other"):
        assert not Path("/proc", str(steps.pid(name))).exists()
        steps.mood(name, None)
    assert steps.run() == ["a", "b", "other"]
    assert steps.calls()[2:] == ["a resumed", "b", "other resumed"]

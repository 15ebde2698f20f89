"""Steps: each run once, and repeated where something changed."""

import json
import os

import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.workflows.experiment import process
from phrasescore.workflows.experiment.steps import Step
from tests.phrasescore.workflows.experiment.steps_folder import Steps, run


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


def test_the_content_of_a_folder_counts(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "PROGRAM", ("true",))
    model = steps.folder / "model"
    model.mkdir()
    (model / "weights").write_text("1")
    step = Step("show", "show", {}, (model,), ())
    assert run(steps.folder, [step]) == ["show"]
    assert run(steps.folder, [step]) == []
    (model / "weights").rename(model / "renamed")
    assert run(steps.folder, [step]) == ["show"]


def test_a_state_that_is_none_is_an_error_that_names_it(steps: Steps) -> None:
    (steps.folder / "steps.json").write_text(json.dumps({"format": 99, "steps": {}}))
    with pytest.raises(PhrasescoreError, match=r"steps\.json: expected the state .*2, got 99"):
        steps.run()

"""The command of a step, and the process that runs it."""

import functools
import importlib
import inspect
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

import phrasescore
from phrasescore.cli import main
from phrasescore.cli import step as step_module
from phrasescore.workflows.experiment.config import read_experiment
from phrasescore.workflows.experiment.plan import build_plan
from phrasescore.workflows.experiment.steps import Step
from tests.phrasescore.workflows.experiment.experiment_folder import CONFIG

FILES = "lexicon = 'lex'\nlm = 'five.arpa'\n[engine]\nthreads = 3\n"
ROWS = """\
systems = ["Baseline", "+CSLM+RNN",
  {name = "+lists", rescore = ["lm", "turned", "length_ratio", "cslm"]},
  {name = "+better", columns = ["lexicon"], rescore = ["better"]}]
"""
MODELS = """
[engine.search]
stack = 5
[tuning]
replicas = 1
[models.encoder-decoder]
minutes = 2.5
seed = 4
set.training.batch_size = 8
[models.turned]
kind = "rnnsearch"
right_to_left = true
[models.cslm]
unnormalized = true
[models.better.xbleu]
model = "turned"
row = "+lists"
lists = ["lists"]
source = "train.en"
references = "train.fr"
"""


def steps_of(folder: Path, engine: str) -> tuple[Step, ...]:
    for name in ("lists", "lex", "five.arpa", "moses"):
        (folder / name).write_text("")
    config = CONFIG.replace("[engine]\n", f"{FILES}{engine}")
    (folder / "x.toml").write_text(ROWS + config + MODELS)
    return build_plan(read_experiment("x.toml"), folder / "out").steps


FUNCTIONS = {"train", "fine_tune", "annotate", "tune_with_decoder", "decode", "rescore", "rerank"}


class CalledError(BaseException):
    """Ends a command where it calls its function."""


@pytest.mark.parametrize("engine", ["", "decoder = 'moses'\nmoses_bin = '.'\n"])
def test_the_command_of_a_step_calls_a_function_of_the_package(
    folder: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    called: dict[str, dict[str, Any]] = {}

    def record(name: str) -> Callable[..., None]:
        function = getattr(phrasescore, name)

        @functools.wraps(function)  # a command groups its options by the function's parameters
        def recorded(*values: Any, **more: Any) -> None:
            called[name] = inspect.signature(function).bind(*values, **more).arguments
            raise CalledError

        return recorded

    for name in FUNCTIONS:
        module = importlib.import_module(getattr(phrasescore, name).__module__)
        monkeypatch.setattr(module, name, record(name))
    for step in steps_of(folder, engine):
        words = [*step.words, *(["--resume"] if step.partial else [])]
        with pytest.raises(CalledError):
            CliRunner().invoke(main, words, standalone_mode=False, catch_exceptions=False)
    assert called.keys() == FUNCTIONS
    for name in ("train", "annotate", "rescore", "tune_with_decoder"):
        assert called[name]["compute"].threads == 3, name
    assert called["train"]["state"].resume
    assert called["annotate"]["resume"]
    assert called["tune_with_decoder"]["resume"]
    assert called["fine_tune"]["model"] == str(folder / "out" / "models" / "turned")
    kinds = [column.kind() for column in called["tune_with_decoder"]["columns"]]
    assert sorted(kinds) == ["model"]  # of the last row
    assert called["decode"]["search"].stack_size == 5
    assert called["decode"]["nbest"][1:3] == (100, True)


def step(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "phrasescore.cli.step", *words],
        capture_output=True, check=False, cwd=folder, text=True,
    )  # fmt: skip


def test_warnings_are_sent_and_messages_stand_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("a\n" * 20)
    (tmp_path / "long").write_text("a b c d e f g h i j\n" * 20)
    done = step(tmp_path, "evaluate", "short", "--references", "long", "-o", "out")
    (message,) = map(json.loads, done.stdout.splitlines())
    assert message["warning"].startswith("short has 20 words, the references 200")
    assert f"phrasescore: warning: {message['warning']}\n" in done.stderr


def test_an_error_is_that_of_the_verb(tmp_path: Path) -> None:
    done = step(tmp_path, "evaluate", "none", "--references", "none")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: none: cannot open: No such file or directory\n"


def test_rounds_of_tuning_are_sent_and_other_information_is_not(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # The process keeps its stdout.
    keeping = SimpleNamespace(dup=os.dup, fdopen=os.fdopen, dup2=lambda *_: None)
    monkeypatch.setattr(step_module, "os", keeping)
    sender = step_module._Sender()
    for text, more in (("reading", {}), ("round 1: BLEU 12.34", {"news": True})):
        sender.emit(logging.makeLogRecord({"msg": text, "levelno": logging.INFO, **more}))
    sender._file.close()
    assert capfd.readouterr().out == '{"news":"round 1: BLEU 12.34"}\n'

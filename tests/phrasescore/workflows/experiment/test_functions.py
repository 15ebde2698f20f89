"""The functions of steps, their settings, and the process that runs them."""

import functools
import importlib
import inspect
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phrasescore.cli import step as step_module
from phrasescore.features.columns import Column
from phrasescore.features.foreign import CTranslate2Model
from phrasescore.features.model import Network
from phrasescore.features.named import NamedFeature
from phrasescore.features.program import Command
from phrasescore.settings.training import ListTraining, NewNetwork
from phrasescore.workflows.experiment.functions import FUNCTIONS, Parts, run_step, written
from tests.phrasescore.workflows.experiment.experiment_folder import CONFIG, plan_of

FILES = """\
alignments = "train.en"
monolingual = "train.fr"
[engine]
threads = 3
"""
ROWS = """\
systems = ["Baseline", "+CSLM+RNN",
  {name = "+lists", lists = ["lm", "turned", "length_ratio", "cslm"]},
  {name = "+better", columns = ["lexicon", "better"], lists = ["turned"]}]
"""
MODELS = """
[engine.search]
stack = 5
[metrics]
command = "cat"
[features]
lexicon.lexicon = "lex"
lm.lm = "five.arpa"
[tuning]
replicas = 1
metric = "cer"
[text]
lowercase = true
[models.encoder-decoder]
minutes = 2.5
seed = 4
set.training.batch_size = 8
[models.turned]
kind = "rnnsearch"
right_to_left = true
[models.cslm]
unnormalized = true
[models.better]
objective = "bleu"
start = "encoder-decoder"
"""


@pytest.mark.parametrize("engine", ["", "decoder = 'moses'\nmoses_bin = '.'\n"])
def test_the_settings_of_a_step_reach_its_function(
    folder: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    for name in ("lex", "five.arpa", "moses"):
        (folder / name).write_text("")
    (folder / "lm.arpa").write_text("\\data\\\nngram 1=1\n\n")
    monkeypatch.setattr(
        "phrasescore.workflows.experiment.config.check_folds", lambda *_: None
    )  # the files are empty
    called: dict[str, dict[str, Any]] = {}
    for verb, home in FUNCTIONS.items():
        module, _, name = home.partition(":")
        function = getattr(importlib.import_module(module), name)

        @functools.wraps(function)
        def record(*, verb: str = verb, **values: Any) -> None:
            called[verb] = values

        monkeypatch.setattr(f"{module}.{name}", record)
    config = CONFIG.replace("[engine]\n", f"{FILES}{engine}")
    monkeypatch.setattr("tests.phrasescore.workflows.experiment.experiment_folder.CONFIG", config)
    seen = set()
    for step in plan_of(folder, MODELS, ROWS).steps:
        message = {"settings": written(step.settings), "resume": bool(step.partial)}
        run_step(json.dumps({"function": step.function, **message}).encode(), None)
        arguments = called[step.function]
        module, _, name = FUNCTIONS[step.function].partition(":")
        inspect.signature(getattr(importlib.import_module(module), name)).bind(**arguments)
        is_resumed = [arguments.pop(key) for key in ("resume", "state") if key in arguments]
        assert bool(is_resumed) == bool(step.partial)
        del arguments["progress"]
        assert written(arguments) == message["settings"]
        seen.add(step.function)
    assert seen == FUNCTIONS.keys()
    settings = called["fine_tune"]["settings"]
    assert settings == ListTraining(feature="TM0_2")
    assert called["train"]["compute"].threads == 3
    assert all(isinstance(column, Column) for column in called["annotate"]["columns"])
    parts = called["translate"]["parts"]
    assert isinstance(parts, Parts)
    assert (parts.limits, parts.lists) == (
        {"stack": 5}, (Network(str(folder / "out" / "models" / "turned")),)
    )  # fmt: skip
    assert parts.moses_bin == (folder if engine else None)


def test_settings_with_other_names_of_files() -> None:
    settings = {
        "inputs": (Path("/a/train"), Path("/a/b")),
        "columns": (
            Network("/a/joint", unnormalized=True),
            Command("/bin/sh qe.sh --model=/a/qe", timeout=5.0),
            NamedFeature("unknown_words", model="/a/rnn"),
            CTranslate2Model("/a/gpt", prompt="{source}"),
        ),
        "settings": NewNetwork(minutes=2, changes=("training.batch_size=8",)),
        "seed": 1,
    }
    assert written(settings, os.path.basename) == {
        "inputs": ["train", "b"],
        "columns": [
            {"model": "joint", "unnormalized": True},
            {"command": "sh qe.sh --model=qe", "timeout": 5.0},
            {"feature": "unknown_words", "model": "rnn"},
            {"ctranslate2": "gpt", "prompt": "{source}"},
        ],
        "settings": {"minutes": 2, "changes": ["training.batch_size=8"]},
        "seed": 1,
    }


def process(folder: Path, **settings: Any) -> "subprocess.CompletedProcess[str]":
    """Run a step that annotates a table."""
    settings = {"table": str(folder / "table"), "output": str(folder / "new"), **settings}
    message = {"function": "annotate", "settings": settings, "resume": False}
    return subprocess.run(
        [sys.executable, "-m", "phrasescore.cli.step"],
        input=json.dumps(message), capture_output=True, check=False, text=True,
    )  # fmt: skip


def test_warnings_are_sent_and_messages_stand_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "table").write_text("la ||| the ||| 1 ||| 0-0\n")
    (tmp_path / "lex").write_text("a b 1\n")
    done = process(tmp_path, columns=[{"lexicon": str(tmp_path / "lex")}])
    assert done.returncode == 0
    sent = list(map(json.loads, done.stdout.splitlines()))
    (message,) = (each for each in sent if "progress" not in each)
    assert sent[0]["progress"]["task"] == "annotate"
    assert "has no translation for 1 of 1 target words" in message["warning"]
    assert f"phrasescore: warning: {message['warning']}\n" in done.stderr
    assert "annotate: 1 line in" in done.stderr
    assert (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ({"lexicon": "no"}, "no: cannot open: No such file or directory"),
        ({"feature": "length_ratio"}, "feature length_ratio is only for"),
    ],
)
def test_an_error_is_one_line(tmp_path: Path, column: dict[str, Any], problem: str) -> None:
    (tmp_path / "table").write_text("la ||| the ||| 1 ||| 0-0\n")
    done = process(tmp_path, columns=[column])
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert problem in done.stderr


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

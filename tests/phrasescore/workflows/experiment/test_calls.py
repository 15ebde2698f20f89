"""The work of a step as a value: it survives JSON, and its command does the same."""

import functools
import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import phrasescore
from phrasescore.cli import main
from phrasescore.settings.compute import Compute
from phrasescore.settings.declaration import Settings, grouped
from phrasescore.workflows.experiment.calls import Call
from phrasescore.workflows.experiment.config import read_experiment
from phrasescore.workflows.experiment.plan import build_plan
from phrasescore.workflows.experiment.steps import Step
from tests.phrasescore.workflows.experiment.experiment_folder import CONFIG

FILES = "lexicon = 'lex'\nlm = 'five.arpa'\nscores.mine = 'table'\n[engine]\nthreads = 3\n"
ROWS = """\
systems = ["Baseline", "+CSLM+RNN",
  {name = "+lists", rescore = ["lm", "turned", "length_ratio", "cslm"]},
  {name = "+better", columns = ["lexicon", "mine"], rescore = ["better"]}]
"""
MODELS = """
[engine.search]
stack = 5
[tuning]
replicas = 1
[models.rnn]
minutes = 2.5
seed = 4
set.training.batch_size = 8
[models.turned]
kind = "attention"
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


def plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, Settings):
        return {name: plain(each) for name, each in vars(value).items()}
    return str(value) if isinstance(value, Path) else value


class Called(BaseException):
    """Ends a command where it calls its function."""


@pytest.mark.parametrize("engine", ["", "decoder = 'moses'\nmoses_bin = '.'\n"])
def test_the_command_of_a_step_calls_the_same_function_with_the_same_arguments(
    folder: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    seen = set()
    for step in steps_of(folder, engine):
        call = step.call.resumed() if step.partial else step.call
        function = getattr(phrasescore, call.function)
        module = importlib.import_module(function.__module__)
        signature = inspect.signature(function)

        @functools.wraps(function)
        def record(*values: Any, **more: Any) -> None:
            raise Called(signature.bind(*values, **more).arguments)  # noqa: B023

        with monkeypatch.context() as patch, pytest.raises(Called) as called:
            patch.setattr(module, call.function, record)
            CliRunner().invoke(
                main, call.words()[1:], standalone_mode=False, catch_exceptions=False
            )
        (arguments,) = called.value.args
        again = Call.from_json(call.to_json())
        typed = grouped(function, again.arguments)
        for name, value in grouped(function, call.arguments).items():
            assert plain(arguments[name]) == plain(typed[name]) == plain(value), name
        seen.add(call.function)
    wanted = {"train", "fine_tune", "annotate", "tune_with_decoder", "decode", "rescore", "rerank"}
    assert seen == wanted


def test_a_call_runs_its_function_with_typed_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    def rescore(nbest: str, compute: Compute | None = None) -> tuple[Any, ...]:
        return nbest, compute

    monkeypatch.setattr(phrasescore, "rescore", rescore, raising=False)
    call = Call("rescore", {"nbest": Path("lists"), "compute": Compute(threads=2)})
    again = Call.from_json(call.to_json())
    assert again.run(progress=print) == ("lists", Compute(threads=2))
    assert again.shown() == call.shown() == "phrasescore rescore lists --threads 2"


def step(folder: Path, function: str, **arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "phrasescore.cli.step", Call(function, arguments).to_json()],
        capture_output=True, check=False, cwd=folder, text=True,
    )  # fmt: skip


def test_warnings_are_sent_and_messages_stand_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("a\n" * 20)
    (tmp_path / "long").write_text("a b c d e f g h i j\n" * 20)
    done = step(tmp_path, "evaluate", hypotheses=["short"], references=["long"])
    (message,) = map(json.loads, done.stdout.splitlines())
    assert message["warning"].startswith("short has 20 words, the references 200")
    assert f"phrasescore: warning: {message['warning']}\n" in done.stderr


def test_an_error_is_that_of_the_verb(tmp_path: Path) -> None:
    done = step(tmp_path, "evaluate", hypotheses=["none"], references=["none"])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: none: cannot open: No such file or directory\n"

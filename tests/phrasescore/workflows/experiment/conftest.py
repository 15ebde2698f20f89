"""What the tests of ``phrasescore experiment`` share."""

import sys
from pathlib import Path

import pytest

from phrasescore.workflows.experiment import process
from tests.phrasescore.workflows.experiment.experiment_folder import CONFIG, INI, tuning_report
from tests.phrasescore.workflows.experiment.steps_folder import Steps

COMMANDS = """\
import json, pathlib, sys
given = json.load(sys.stdin)
verb, settings = given["function"], given["settings"]
with open({calls!r}, "a") as calls:
    calls.write(verb + "\\n")
output = pathlib.Path(settings.get("output") or settings["parts"]["folder"])
if verb == "train":
    output.mkdir()
    (output / "config.toml").write_text(f'kind = "{{settings["kind"]}}"')
elif verb == "annotate":
    output.write_text("table")
elif verb == "tune":
    print(json.dumps({{"news": "round 1: BLEU 12.34"}}))
    (output / "weights").write_text("LM0= 0.5\\n")
    (output / "report.json").write_text({report!r})
    translations = pathlib.Path(settings["translations"])
    translations.write_text(pathlib.Path(settings["source"]).read_text())
elif verb == "translate":
    output.write_text(pathlib.Path(settings["source"]).read_text())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("train.en", "train.fr", "dev.en", "dev.fr", "test.en", "test.fr", "table"):
        (tmp_path / name).write_text("a\nb\n")
    (tmp_path / "lm.arpa").write_text("")
    (tmp_path / "moses.ini").write_text(INI.replace("/lm.arpa", f"{tmp_path}/lm.arpa"))
    (tmp_path / "x.toml").write_text(CONFIG)
    return tmp_path


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    monkeypatch.setattr(process, "PROGRAM", (sys.executable, str(tmp_path / "command.py")))
    return Steps(tmp_path)


@pytest.fixture
def doubles(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a double in the place of every function; ``calls`` has the verbs that were run."""
    text = COMMANDS.format(calls=str(folder / "calls"), report=tuning_report())
    (folder / "commands.py").write_text(text)
    monkeypatch.setattr(process, "PROGRAM", (sys.executable, str(folder / "commands.py")))
    (folder / "x.toml").write_text(
        f"systems = ['Baseline', '+RNN']\n{CONFIG}[tuning]\nreplicas = 1\n"
    )
    return folder

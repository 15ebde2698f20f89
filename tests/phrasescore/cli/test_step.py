"""The work of a step in its process: its messages are values, all else is its log."""

import json
import subprocess
import sys
from pathlib import Path

from phrasescore.workflows.experiment.calls import Call


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

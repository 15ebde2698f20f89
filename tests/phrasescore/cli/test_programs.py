"""``--command`` as a user types it, with the program of the how-to page."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from phrasescore.features.program import Command
from tests.command_line import check_refusal, column_options, run, succeeded

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "program-feature.md"
NBEST = """0 ||| la maison 5 ||| LM0= -1 ||| -1
0 ||| la maison ||| LM0= -2 ||| -2
0 ||| la maison 5 ||| LM0= -3 ||| -3
1 ||| une rue 12 x7 ||| LM0= -3 ||| -3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as the page describes it; its environment has no packages at all."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (program, *_) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.M)
    Path("qe.py").write_text(program)
    Path("nbest").write_text(NBEST)
    Path("source").write_text("the house 5\na street 12\n")
    return tmp_path


@pytest.fixture
def command(folder: Path) -> str:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "qe-env"], check=True)
    (typed,) = set(re.findall('--command "(.*?)"', PAGE.read_text()))
    assert (folder / shlex.split(typed)[0]).exists()
    return typed


def test_the_page_s_program_scores_lists_and_text_from_its_own_environment(command: str) -> None:
    given = ["--source", "source", *column_options(Command(command, name="QE0"))]
    result = succeeded(run("rescore", "nbest", *given, "--cache", "scores.db"))
    # By hand: the numbers that only one side has.
    assert re.findall(r" (QE0= \S+)", result.stdout) == ["QE0= 0", "QE0= 1", "QE0= 0", "QE0= 1"]
    assert "QE0: 3 scores by a program\n" in result.stderr
    again = succeeded(run("rescore", "nbest", *given, "--cache", "scores.db"))
    assert again.stdout == result.stdout
    assert "3 scores by a program, 3 of them from the cache" in again.stderr
    Path("target").write_text("la maison 6\nune rue 12\n")
    result = succeeded(run("score", "source", "target", "--command", command))
    assert result.stdout == "2\n0\n"


def test_it_has_a_name_of_its_own_and_a_place_among_the_columns(command: str) -> None:
    given = ["--command", command, "--feature", "target_length", "--command", command]
    result = succeeded(run("rescore", "nbest", "--source", "source", *given))
    assert " Program0= 0 TargetLength0= 3 Program1= 0 |||" in result.stdout


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        (
            "while not (line := input()).endswith('maison'): print(1, flush=True)",
            r"line 2 of its input, 'the house 5\tla maison': expected a number, but",
        ),
        ("while input(): print('high', flush=True)", "expected a number, found 'high'"),
        ("import sys\nfor _ in sys.stdin: print(1)", "expected a number within 0.5 seconds, found"),
    ],
)
def test_an_error_of_the_program_is_one_line_and_nothing_is_written(
    program: str, problem: str
) -> None:
    Path("bad.py").write_text(program)
    Path("out").write_text("old")
    command = shlex.join([sys.executable, "bad.py"])
    seconds = 0.5 if "0.5" in problem else 60
    given = ["--source", "source", *column_options(Command(command, timeout=seconds))]
    result = run("rescore", "nbest", *given, "-o", "out")
    assert result.exit_code == 1
    (error,) = [line for line in result.stderr.splitlines() if not line.startswith("phrasescore: ")]
    assert error.startswith(f"Error: command {command!r}: line ")
    assert problem in error
    assert Path("out").read_text() == "old"


def test_a_command_that_cannot_be_is_refused() -> None:
    given = ["rescore", "nbest", "--source", "source", "--command"]
    check_refusal(run(*given, "a 'b"), "No closing quotation", 2)
    result = run(*given, "no-such-program")
    assert (result.exit_code, "there is no program" in result.stderr) == (1, True)
    check_refusal(run("annotate", "table", "--command", "x"), "No such option", 2)

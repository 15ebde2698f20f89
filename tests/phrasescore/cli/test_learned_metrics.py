"""The program of the how-to page on learned metrics, with a stand-in for COMET."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import check_refusal, run, succeeded

REPOSITORY = Path(__file__).resolve().parents[3]
PAGE = (REPOSITORY / "docs" / "how-to" / "learned-metrics.md").read_text(encoding="utf-8")
STAND_IN = REPOSITORY / "tests" / "data" / "comet_stand_in" / "comet.py"
(PROGRAM,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
TEXTS = {
    "test.fr": "la maison est petite .\nun chien dort\nle chat mange une souris\n",
    "test.en": "the house is small .\na dog sleeps\nthe cat eats a mouse\n",
    "test.moses": "la maison est petite .\nun chat dort\nle chat mange\n",
    "test.out": "la maison est petite .\nun chien dort\nle chat mange\n",
}
# By hand, the words of both divided by the words of either: 1, 2/4 and 3/5; and 1, 1 and 3/5.
BASELINE, SYSTEM = (1 + 2 / 4 + 3 / 5) / 3, (1 + 1 + 3 / 5) / 3


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in TEXTS.items():
        Path(name).write_text(text)
    return tmp_path


def typed(verb: str, word: str) -> list[str]:
    """Return the words of the page's only command that has a verb and another word."""
    lines = PAGE.replace("\\\n", " ").splitlines()
    start = f"$ phrasescore {verb} "
    (line,) = (each for each in lines if each.startswith(start) and f" {word} " in each)
    return shlex.split(line)[2:]


@pytest.fixture
def _program() -> None:
    """The page's program in its environment, which has the stand-in and no other package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "comet-env"], check=True)
    shutil.copy(STAND_IN, ".")
    Path("comet_program.py").write_text(PROGRAM)


@pytest.mark.usefixtures("_program")
def test_evaluate_reports_the_mean_of_the_program_s_numbers() -> None:
    words = typed("evaluate", "--command")
    found = json.loads(succeeded(run(*words, "--format", "json")).stdout)
    scores = [system["COMET"]["score"] for system in found["systems"]]
    assert scores == pytest.approx([BASELINE, SYSTEM])
    (paired,) = (each for each in found["paired"]["metrics"] if each["metric"] == "COMET")
    baseline, system = paired["systems"]
    assert (baseline["score"], system["score"]) == pytest.approx((BASELINE, SYSTEM), rel=1e-6)
    assert baseline["p_value"] is None
    assert 0 < system["p_value"] < 1
    text = succeeded(run(*words)).stdout
    line = r"^  COMET\|nrefs:1\|tok:none\|package:program\|version:\w{8} = 0\.7000$"
    assert re.search(line, text, re.MULTILINE)
    line = r"^  test.out +0\.8667 +0\.\d{4} ± 0\.\d{4} +0\.\d{4}$"
    assert re.search(line, text, re.MULTILINE)


@pytest.mark.usefixtures("_program")
def test_the_same_program_scores_lists_without_references() -> None:
    Path("nbest").write_text("0 ||| the house ||| LM0= -1 ||| -1\n")
    Path("source").write_text("the house is small .\n")
    command = "comet-env/bin/python comet_program.py Unbabel/wmt22-cometkiwi-da 0"
    result = succeeded(run("rescore", "nbest", "--source", "source", "--command", command))
    # By hand: "the" and "house" are two of the source's five words.
    assert " Program0= 0.4 " in result.stdout


def test_a_program_gets_each_sentence_once_with_all_references() -> None:
    Path("log.py").write_text(
        "import sys\n"
        "for line in sys.stdin:\n"
        "    print(line, end='', file=open('log', 'a'))\n"
        "    print(1, flush=True)\n"
    )
    command = shlex.join([sys.executable, "log.py"])
    given = ["--references", "test.fr", "--references", "test.en", "--command", command]
    succeeded(run("evaluate", "test.moses", "test.out", *given, "--paired", "bootstrap"))
    lines = Path("log").read_text().splitlines()
    assert lines[1] == "\tun chat dort\tun chien dort\ta dog sleeps"
    assert len(lines) == len(set(lines)) == 4  # the systems differ in one of three sentences


def test_an_error_of_the_program_is_one_line() -> None:
    Path("bad.py").write_text("while input(): print('high', flush=True)")
    command = shlex.join([sys.executable, "bad.py"])
    result = run("evaluate", "test.out", "--references", "test.fr", "--command", command)
    check_refusal(result, "line 1 of its input, ")
    assert "expected a number, found 'high'" in result.stderr

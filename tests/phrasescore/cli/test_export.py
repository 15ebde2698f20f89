"""``phrasescore export``: what it says, and how it ends."""

from pathlib import Path

import pytest
from click.testing import Result

from tests.command_line import run
from tests.doubles import RandomCslm
from tests.reference_nplm import ReferenceNplm


@pytest.fixture(autouse=True)
def _model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    RandomCslm("uvw", order=3, self_normalization=0.1, path=tmp_path / "model")


def export(*options: str) -> Result:
    return run("export", "model", *options)


def test_it_says_what_moses_will_load(tmp_path: Path) -> None:
    (tmp_path / "old.ini").write_text("[feature]\nWordPenalty\n[weight]\nWordPenalty0= -1\n")
    files = ["-o", "nplm", "--moses-ini", "old.ini", "--moses-ini-out", "new.ini"]
    result = export(*files)
    # Of RandomCslm's 9 units in the first layer, each word and place has a float: 9 * 7 * 2 * 4.
    problem = "NeuralLM CSLM0: order 3, 7 words; 0 MB in Moses"
    assert result.exit_code == 0
    assert result.stderr.startswith(f"phrasescore: {problem}\nphrasescore: wrote nplm, new.ini;")
    assert ReferenceNplm(tmp_path / "nplm").config["ngram_size"] == "3"
    assert "CSLM0= 0\n" in (tmp_path / "new.ini").read_text()


def test_without_a_moses_ini_the_file_may_go_to_stdout(tmp_path: Path) -> None:
    result = export()
    assert (result.exit_code, result.stderr[:29]) == (0, "phrasescore: NeuralLM: order ")
    export("-o", "nplm")
    assert result.stdout_bytes == (tmp_path / "nplm").read_bytes()


@pytest.mark.parametrize(
    ("options", "code", "problem"),
    [
        (["-o", "x.gz"], 2, "--output: NPLM cannot read gzip: expected a name without .gz"),
        (["--moses-ini", "a", "--moses-ini-out", "b"], 2, "--moses-ini requires an --output"),
        (["--moses-ini", "model"], 2, "--moses-ini and --moses-ini-out must be given together"),
        (["-o", "x", "--moses-ini", "no", "--moses-ini-out", "new"], 1, "no: cannot open: No such"),
    ],
)
def test_a_fault_is_one_line_and_leaves_no_file(
    tmp_path: Path, options: list[str], code: int, problem: str
) -> None:
    result = export(*options)
    assert result.exit_code == code
    assert f"Error: {problem}" in result.stderr.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]

"""``phrasescore export``: what it says, and how it ends; and systems for Moses."""

from pathlib import Path

import pytest
from click.testing import Result

from moses_integration.moses_ini import load_weights
from tests.command_line import run
from tests.doubles import RandomCslm
from tests.reference_nplm import ReferenceNplm
from tests.small_system import INI, SYSTEM, WEIGHTS, write_system


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
    problem = "NeuralLM CSLM0: order 3, 7 words"
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


# Systems


def export_moses(*options: str) -> Result:
    return run("export", "system", "--format", "moses", *options)


def test_moses_gets_a_system_with_absolute_paths_its_limits_and_weights(tmp_path: Path) -> None:
    (tmp_path / "system").mkdir()
    folder = write_system(tmp_path / "system")
    ini = INI.replace("TM0= 1 0", "TM0= 1 0.125").replace("[weight]", "[stack]\n9\n[weight]")
    (folder / "moses.ini").write_text(f'# phrasescore: truecase_source = "table"\n{ini}')
    weights = WEIGHTS.replace("TM0= 1 0", "TM0= 1 0.125")
    (folder / "weights").write_text(weights)
    limits = 'limits = { stack = 30, search-algorithm = "cube", drop-unknown = true }'
    (folder / "system.toml").write_text(SYSTEM.replace("limits = { stack = 30 }", limits))
    result = export_moses("-o", "moses.ini")
    assert result.exit_code == 0
    lists = f"{folder}/rnnsearch, unknown_words"
    assert result.stderr.splitlines()[:2] == [
        "phrasescore: warning: Moses does not have the features in the search: CSLM0",
        f"phrasescore: warning: Moses does not have the features of the lists: {lists}",
    ]
    expected = ini.replace("path=", f"path={folder}/").replace("[stack]\n9", "[stack]\n30")
    assert (tmp_path / "moses.ini").read_text() == (
        f'# phrasescore: truecase_source = "{folder}/table"\n{expected}'
        "\n[search-algorithm]\n1\n\n[drop-unknown]\ntrue\n"
    )
    assert export_moses().stdout == (tmp_path / "moses.ini").read_text()


def test_other_weights_can_be_written_into_a_moses_ini(tmp_path: Path) -> None:
    (tmp_path / "system").mkdir()
    write_system(tmp_path / "system")
    (tmp_path / "new").write_text("[search]\nTM0= 0.5 0.5\nLM0= 2\nRNN0= 0\n[lists]\nRNN0= 1\n")
    words = ("export", "system/moses.ini", "--format", "moses", "--weights", "new", "-o", "out")
    assert run(*words).exit_code == 0
    own = load_weights("out").search
    assert (own["TM0"], own["LM0"], own["Distortion0"]) == ((0.5, 0.5), (2,), (1,))


@pytest.mark.parametrize(
    ("weights", "options", "problem"),
    [
        ("", ["-o", "system/moses.ini"], "system/moses.ini: would overwrite another file"),
        ("", ["-o", "system/table"], "system/table: would overwrite another file"),
        ("NLM0= 1\n", [], "there is a weight for NLM0, a feature that "),
        ("", ["--weights", "no"], "no: cannot open: No such file"),
        ("", ["--moses-ini", "a"], "--moses-ini requires --format nplm"),
    ],
)
def test_a_system_that_cannot_be_exported_is_an_error_in_one_line(
    tmp_path: Path, weights: str, options: list[str], problem: str
) -> None:
    (tmp_path / "system").mkdir()
    folder = write_system(tmp_path / "system")
    (folder / "weights").write_text(WEIGHTS.replace("[lists]", f"{weights}[lists]"))
    result = export_moses(*options)
    assert result.exit_code in (1, 2)
    assert problem in result.stderr.splitlines()[-1]
    assert result.stdout == ""

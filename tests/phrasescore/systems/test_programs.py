"""Moses, or another program, as the decoder of a system."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from click.testing import Result

from moses_integration.moses_ini import MosesIni
from moses_integration.nbest import read_nbest
from tests.command_line import check_refusal, run, succeeded
from tests.small_system import INI, TEXT, write_moses, write_system

MOSES_SYSTEM = 'moses_ini = "moses.ini"\ndecoder = { moses = "bin" }\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_system(tmp_path)
    write_moses(tmp_path)
    (tmp_path / "system.toml").write_text(MOSES_SYSTEM)
    return tmp_path


def translate(*options: str) -> Result:
    return run("translate", "system.toml", "source", "--tokenized", "--workers", "2", *options)


def test_moses_gets_the_limits_the_weights_and_what_lists_have(folder: Path) -> None:
    (folder / "tuned").write_text("TM0= 1 0\nLM0= 0.25\n")
    (folder / "system.toml").write_text(
        MOSES_SYSTEM.replace("moses.ini", "own.ini")
        + 'weights = "tuned"\nlimits = { stack = 50, search-algorithm = "cube" }\n'
    )
    (folder / "own.ini").write_text(re.sub("LM0= 0.5", "LM0= 0.25", INI))
    lists = ("--nbest", "nbest.gz", "--nbest-size", "5", "--distinct", "--alignment")
    assert succeeded(translate(*lists, "--segmentation")).stdout == TEXT.upper()
    assert len(list(read_nbest("nbest.gz"))) == 4
    arguments = (folder / "arguments").read_text()
    assert "-threads 2 -stack 50 -search-algorithm 1 -f " in arguments
    assert " -weight-overwrite TM0= 1 0 LM0= 0.25 -n-best-list " in arguments
    assert arguments.endswith(
        " 5 distinct -print-alignment-info-in-n-best -include-segmentation-in-n-best"
    )


def test_features_are_added_to_the_lists_of_moses(folder: Path) -> None:
    # The stand-in has no feature but LM0.
    (folder / "moses.ini").write_text(re.sub("(?m)^(Distortion|WordPenalty|TM)0=.*\n", "", INI))
    (folder / "tuned").write_text("LM0= 0.5\nRNNsearch0= 1\n")
    lists = 'weights = "tuned"\nlists = [{ model = "rnnsearch" }]\n'
    (folder / "system.toml").write_text(MOSES_SYSTEM + lists)
    result = succeeded(translate("--nbest", "lists", "--nbest-size", "5"))
    assert result.stdout == TEXT.upper()
    assert (folder / "arguments").read_text().endswith(" 100 distinct")
    for found in read_nbest("lists"):
        total = sum((-0.5, *found.features(0)["RNNsearch0"]))
        assert found.total(0) == pytest.approx(total)


def test_what_moses_lists_omit_is_the_rest_of_the_score(folder: Path) -> None:
    succeeded(translate("--explain", "json"))
    (best,) = json.loads((folder / "json").read_text().splitlines()[0])["hypotheses"]
    # The stand-in's total is -1, and its only feature is LM0= -1, with the weight 0.5.
    assert {part["name"]: part["contribution"] for part in best["features"]} == {
        "LM0": -0.5,
        "UnknownWordPenalty0 + PhrasePenalty0": -0.5,
    }


def test_moses_gets_absolute_paths_in_any_working_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    succeeded(run("translate", "../system.toml", "../source", "-o", "out"))
    ini, written = MosesIni.read("given.ini"), MosesIni.read("../moses.ini")
    names = [os.path.abspath(written.resolve(name)) for name in written.named_paths()]
    assert ini.named_paths() == names
    assert all(map(os.path.exists, names))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("fail", "the decoder ended with exit code 1: cannot load the table"),
        ("fewer", "expected 4 translations from Moses, found 1; it wrote nothing to stderr"),
        ("lists", "the decoder wrote no n-best list; it wrote nothing to stderr"),
    ],
)
def test_what_goes_wrong_in_moses_is_shown(folder: Path, name: str, problem: str) -> None:
    (folder / name).write_text("")
    check_refusal(translate("-o", "out", "--nbest", "nbest"), problem)
    assert not (folder / "out").exists()
    assert not (folder / "nbest").exists()


def test_a_program_that_is_not_there_is_named(folder: Path) -> None:
    shutil.rmtree(folder / "bin")
    check_refusal(translate(), "bin/moses: system.toml names it: cannot open: No such file")
    command = 'moses_ini = "moses.ini"\ndecoder = { command = "bin/moses -v 0" }\n'
    (folder / "system.toml").write_text(command)
    check_refusal(translate(), "[decoder] command: there is no program 'bin/moses'")


@pytest.mark.moses
@pytest.mark.parametrize("algorithm", ["normal", "cube"])
def test_moses_and_the_search_of_this_package_give_the_same_files(
    folder: Path, algorithm: str
) -> None:
    binary = shutil.which("moses")
    if binary is None:
        pytest.skip("needs moses on the PATH")
    (folder / "source").write_text("la maison\n\nla bleue maison xyz\n")
    # Without a beam: that of Moses cuts small stacks, too, as it happens in the order of its work.
    limits = f'limits = {{ search-algorithm = "{algorithm}", beam-threshold = 0 }}\n'
    usual = ["--distinct", "--alignment", "--nbest-size", "5"]
    (folder / "system.toml").write_text(f'moses_ini = "moses.ini"\n{limits}')
    succeeded(translate(*usual, "--nbest", "one", "-o", "one.out"))
    program = os.path.dirname(binary)
    (folder / "system.toml").write_text(MOSES_SYSTEM.replace("bin", program) + limits)
    succeeded(translate(*usual, "--nbest", "two", "-o", "two.out"))
    assert (folder / "one.out").read_bytes() == (folder / "two.out").read_bytes()
    for one, two in zip(read_nbest("one"), read_nbest("two"), strict=True):
        assert [text.strip() for text in one.hypotheses] == [
            text.strip() for text in two.hypotheses
        ]
        for place in range(len(one.raws)):
            assert one.total(place) == pytest.approx(two.total(place), 1e-4)
            assert one.features(place).keys() == two.features(place).keys()

"""``phrasescore.annotate`` as a library function: what it returns, and refuses."""

import subprocess
import sys
from pathlib import Path

import pytest

import phrasescore
from phrasescore.errors import ArgumentError
from phrasescore.features.columns import Column
from phrasescore.features.language_model import LanguageModel
from phrasescore.features.named import NamedFeature
from phrasescore.progress import Progress
from tests.log import warnings
from tests.random_tables import make_model

NUMBERS = NamedFeature("number_mismatch")


def test_it_returns_counts_and_sentences_and_hands_on_progress(
    tmp_path: Path, tiny_table: Path
) -> None:
    model = make_model(tmp_path / "model")
    seen: list[Progress] = []
    done = phrasescore.annotate(
        tiny_table, [str(model.path), NUMBERS], tmp_path / "out", progress=seen.append
    )
    assert done.lines == 4
    assert done.columns[0].startswith("4 pairs scored in ")
    assert len(done.columns) == 2
    assert (seen[-1].task, seen[-1].done, seen[-1].finished) == ("annotate", 4, True)
    lines = (tmp_path / "out").read_text().splitlines()
    assert [len(line.split(" ||| ")[2].split()) for line in lines] == [4, 4, 4, 4]


def test_relative_paths_in_a_moses_ini_of_another_folder_are_warned_of(
    tmp_path: Path, tiny_table: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "other").mkdir()
    ini = tmp_path / "moses.ini"
    ini.write_text(
        f"[feature]\nPhraseDictionaryMemory name=T0 num-features=2 path={tiny_table}\n"
        "KENLM name=LM0 path=lm.gz\nKENLM name=LM1 path=/lm.gz\nDistortion\n[weight]\nT0= 1 1\n"
    )

    def warned(new: str) -> list[str]:
        caplog.clear()
        out = tmp_path / "out"
        phrasescore.annotate(
            tiny_table, [NUMBERS], out, moses_ini=ini, moses_ini_out=tmp_path / new
        )
        return warnings(caplog)

    (warning,) = warned("other/new.ini")
    assert warning == (
        f"{tmp_path}/other/new.ini is in another folder than {ini} and has relative paths, "
        "which Moses resolves from its working folder; make them absolute: lm.gz"
    )
    assert warned("new.ini") == []
    ini.write_text(ini.read_text().replace("path=lm.gz", "path=/lm.gz"))
    assert warned("other/new.ini") == []


@pytest.mark.parametrize(
    ("columns", "options", "problem"),
    [
        ([], {}, "nothing to add"),
        ([LanguageModel("lm.arpa")], {}, "a language model can only be used with rescore"),
        (
            [NUMBERS],
            {"moses_ini": "x"},
            "--moses-ini and --moses-ini-out must be given together",
        ),
        ([NUMBERS], {"resume": True}, "--resume needs --output FILE"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(
    tiny_table: Path, columns: list[Column], options: dict, problem: str
) -> None:
    with pytest.raises(ArgumentError, match=problem):
        phrasescore.annotate(tiny_table, columns, "-", **options)


def test_a_column_without_a_network_does_not_import_torch(tmp_path: Path, tiny_table: Path) -> None:
    code = (
        "import sys, phrasescore\n"
        "from phrasescore import NamedFeature\n"
        "column = NamedFeature('number_mismatch')\n"
        "phrasescore.annotate(sys.argv[1], [column], sys.argv[2])\n"
        "print('torch' in sys.modules)\n"
    )
    command = [sys.executable, "-c", code, str(tiny_table), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

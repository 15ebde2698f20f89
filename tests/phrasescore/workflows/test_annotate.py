"""``phrasescore.annotate`` as a library function: what it returns, and refuses."""

import subprocess
import sys
from pathlib import Path

import pytest

import phrasescore
from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.features.columns import Column
from phrasescore.features.language_model import LanguageModel
from phrasescore.features.named import NamedFeature
from phrasescore.progress import Progress
from phrasescore.systems.system import read_system
from tests.command_line import run
from tests.log import warnings
from tests.random_tables import make_model
from tests.small_system import write_system
from tests.small_system import write_system as write_files

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


@pytest.mark.parametrize(
    ("columns", "options", "problem"),
    [
        ([], {}, "nothing to add"),
        ([LanguageModel("lm.arpa")], {}, "a language model can only be used with rescore"),
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


def test_a_system_gets_a_table_with_columns_of_weight_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old").mkdir()
    write_system(Path("old"))
    make_model(Path("rnn"))
    (tmp_path / "text").write_text("la maison\nmaison\n")
    done = phrasescore.annotate("old", ["rnn", NUMBERS], "new")
    assert (done.lines, warnings(caplog)) == (5, [])
    system = read_system("new")
    assert [path.name for path in sorted(Path("new").iterdir())] == [
        *("moses.ini", "system.toml", "table", "weights")
    ]
    assert [(each.name, each.argument) for each in system.columns] == [
        ("TM0_2", f"{tmp_path}/rnn"),
        ("TM0_3", "number_mismatch"),
    ]
    assert system.weights.search["TM0"] == (1.0, 0.0, 0.0, 0.0)
    assert system.weights.lists["TM0"] == (0.5, 0.5, 0.0, 0.0)
    text = Path("new/moses.ini").read_text()
    assert "PhraseDictionaryMemory name=TM0 num-features=4 path=table " in text
    assert "path=../old/lm.arpa" in text
    assert Path("new/system.toml").read_text().count(str(tmp_path)) == 0
    translated = [run("translate", each, "text").stdout for each in ("old", "new")]
    assert translated[0] == translated[1] != ""
    # More columns follow, and the record has all of them.
    phrasescore.annotate("new", [NUMBERS], "newer")
    assert [each.name for each in read_system("newer").columns] == ["TM0_2", "TM0_3", "TM0_4"]
    phrasescore.annotate("old/moses.ini", [NUMBERS], "plain", texts=["text"])
    assert read_system("plain").weights.search["TM0"] == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("output", "options", "problem"),
    [
        ("old", {}, "expected the folder of the new system, which is not that of the old one"),
        ("-", {}, "expected the folder of the new system"),
        ("new", {"texts": ["none"]}, "none: cannot open"),
    ],
)
def test_a_system_that_gets_no_columns_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, options: dict, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old").mkdir()
    write_system(Path("old"))
    with pytest.raises(PhrasescoreError, match=problem):
        phrasescore.annotate("old", [NUMBERS], output, **options)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        ("weights", b"TM0", b"TM1", "weights: no weight for the phrase table TM0"),
        ("moses.ini", b"path=table", b"", r"moses.ini: \[feature\] TM0: expected a path="),
        ("moses.ini", b"[weight]", b"[weight]\n\xd5= 1", "the name of a feature in UTF-8"),
    ],
)
def test_what_no_new_system_can_have_is_refused_before_a_folder_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, old: bytes, new: bytes, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old").mkdir()
    write_system(Path("old"))
    path = Path("old") / name
    path.write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(PhrasescoreError, match=problem):
        phrasescore.annotate("old", [NUMBERS], "new")
    assert not Path("new").exists()


def test_no_file_of_the_old_system_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "system.toml").write_text('moses_ini = "../moses.ini"\n')
    (tmp_path / "tables").mkdir()
    (tmp_path / "table").rename(tmp_path / "tables" / "table")
    before = (tmp_path / "moses.ini").read_bytes().replace(b"=table ", b"=tables/table ")
    (tmp_path / "moses.ini").write_bytes(before)
    with pytest.raises(PhrasescoreError, match=r"moses\.ini: would overwrite"):
        phrasescore.annotate("sub", [NUMBERS], ".")
    assert (tmp_path / "moses.ini").read_bytes() == before


def test_values_that_moses_cannot_read_are_counted_in_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = tmp_path / "table"
    numbers = " ".join(["5"] * 89)
    table.write_text(f"a ||| b ||| 1\na ||| {numbers} ||| 1\n" * 2)
    phrasescore.annotate(table, [NUMBERS], tmp_path / "out")
    (warning,) = warnings(caplog)
    assert warning.startswith(f"{table}: 2 values above 88 (the first in line 2) are written as")
    assert (tmp_path / "out").read_text().splitlines()[1].endswith("||| 1 1.651636e+38")
    caplog.clear()
    (tmp_path / "text").write_text("a\n")
    phrasescore.annotate(table, [NUMBERS], tmp_path / "out", texts=[tmp_path / "text"])
    assert "2 values above 88 (the first in line 2)" in warnings(caplog)[0]

"""``phrasescore annotate`` as a user runs it: what it writes, and what it refuses."""

import gzip
import math
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from phrasescore.cli import main
from phrasescore.errors import PhrasescoreError
from tests.command_line import check_refusal, succeeded
from tests.doubles import RandomModel
from tests.random_tables import TARGET_WORDS, make_model, make_table
from tests.table_lines import remove_scores

ODD_TABLE = Path(__file__).parents[2] / "data" / "odd.fr-en.phrase-table"


@pytest.fixture
def model(tmp_path: Path) -> RandomModel:
    return make_model(tmp_path / "model")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["annotate", *map(str, arguments)])


def columns(path: Path, how_many: int) -> list[list[float]]:
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    rows = []
    for line in data.rstrip(b"\n").split(b"\n"):
        scores = line.split(b"|||")[2].split()
        rows.append([math.log(float(score)) for score in scores[-how_many:]])
    return rows


def words(line: bytes) -> tuple[list[str], list[str]]:
    fields = line.decode().split("|||")
    return tuple([word for word in field.split(" ") if word] for field in fields[:2])  # type: ignore[return-value]


# What it writes


def test_every_column_holds_the_reference_s_values_in_the_order_of_the_options(
    tmp_path: Path, model: RandomModel
) -> None:
    reverse = RandomModel(tmp_path / "back", ["la"], ["the", "house"], seed=1, reverse=True)
    table, out = make_table(tmp_path / "table", 300), tmp_path / "out.gz"
    options = ["--model", reverse.path, "--feature", "unknown_words", "--model", model.path]
    result = succeeded(run(table, *options, "-o", out))
    assert result.stdout == ""
    raws = table.read_bytes().split(b"\n")[:-1]
    for raw, (backward, count, forward) in zip(raws, columns(out, 3), strict=True):
        source, target = words(raw)
        assert backward == pytest.approx(max(reverse.log_prob(source, target), -100), abs=1e-5)
        assert forward == pytest.approx(max(model.log_prob(source, target), -100), abs=1e-5)
        unknown = [word for word in target if word not in {"the", "house"} & set(TARGET_WORDS)]
        assert count == pytest.approx(len(unknown), abs=1e-6)


def test_removing_the_new_columns_gives_back_odd_lines_byte_for_byte(
    tmp_path: Path, model: RandomModel
) -> None:
    out = tmp_path / "out"
    assert run(ODD_TABLE, "--model", model.path, "--model", model.path, "-o", out).exit_code == 0
    lines = out.read_bytes().split(b"\n")
    assert b"\n".join([line and remove_scores(line, 2) for line in lines]) == ODD_TABLE.read_bytes()


def test_a_phrase_of_500_words_and_a_line_of_1_mb_are_scored(
    tmp_path: Path, model: RandomModel
) -> None:
    table, out = tmp_path / "table", tmp_path / "out"
    source, target = ["maison", "la"] * 250, ["house", "x"] * 250
    long_line = f"rue ||| street ||| 0.5 ||| {' '.join(['0-0'] * 250_000)}\n"
    table.write_text(f"{' '.join(source)} ||| {' '.join(target)} ||| 0.5\n{long_line}")
    options = ["--model", model.path, "--feature", "unknown_words"]
    assert run(table, *options, "-o", out).exit_code == 0
    (first, count), (second, none) = columns(out, 2)
    assert first == pytest.approx(-100, abs=1e-4)
    assert model.log_prob(source, target) < -100
    assert second == pytest.approx(model.log_prob(["rue"], ["street"]), abs=1e-5)
    # 250 unknown words: Moses would read e to the 250 as infinity.
    assert [count, none] == pytest.approx([88, 0], abs=1e-6)


# What it refuses


@pytest.mark.parametrize(
    ("features", "problem"),
    [
        ("Distortion", "PhraseDictionary"),
        ("PhraseDictionaryMemory name=T0 num-features=4 path={table}", "num-features"),
    ],
)
def test_a_moses_ini_that_does_not_fit_is_refused_before_the_work(
    tmp_path: Path, model: RandomModel, tiny_table: Path, features: str, problem: str
) -> None:
    ini, out = tmp_path / "moses.ini", tmp_path / "out"
    ini.write_text(f"[feature]\n{features.format(table=tiny_table)}\n[weight]\nT0= 1 1 1 1\n")
    result = run(ini, "--model", model.path, "-o", out)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert str(ini) in result.stderr
    assert problem in result.stderr
    assert not out.exists()


def test_files_that_are_in_the_way_are_named_and_kept(
    tmp_path: Path, model: RandomModel, tiny_table: Path
) -> None:
    out, part = tmp_path / "out", tmp_path / "out.part"
    part.write_bytes(tiny_table.read_bytes())
    for table, problem in ((part, "would overwrite another file"), (tiny_table, "rename it")):
        check_refusal(run(table, "--model", model.path, "-o", out), problem)
        assert part.read_bytes() == tiny_table.read_bytes()
        assert not out.exists()


def test_a_system_that_cannot_be_written_costs_no_scores(
    tmp_path: Path, model: RandomModel, tiny_table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ini, new = tmp_path / "moses.ini", tmp_path / "new"
    ini.write_text(
        f"[feature]\nPhraseDictionaryMemory name=T0 num-features=2 path={tiny_table}\n"
        "[weight]\nT0= 1 1\n"
    )
    options, out = ["--model", model.path, "-o", new], new / tiny_table.name

    def fail(*_arguments: object) -> None:
        raise PhrasescoreError("moses.ini: cannot write: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("moses_integration.moses_ini.MosesIni.write", fail)
        result = run(ini, *options)
    assert (result.exit_code, out.exists()) == (1, False)
    assert "with --resume continues from there" in result.stderr
    whole = tiny_table.read_bytes()
    tiny_table.write_bytes(whole + b"rue ||| way ||| 1 0.5\n")
    longer = run(ini, *options, "--resume")
    assert (longer.exit_code, out.exists()) == (1, False)
    assert f"{tiny_table}: has more lines than the 4 from which " in longer.stderr
    tiny_table.write_bytes(whole)
    result = succeeded(run(ini, *options, "--resume"))
    assert "continuing after line 4" in result.stderr
    assert "0 pairs scored" in result.stderr
    assert f"path={tiny_table.name}\n" in (new / "moses.ini").read_text()
    lines = [remove_scores(line, 1) for line in out.read_bytes().splitlines()]
    assert lines == tiny_table.read_bytes().splitlines()

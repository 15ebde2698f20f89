"""Promises of parts: joined, they are the bytes of one run; what is not of one run is refused."""

import gzip
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import phrasescore
from phrasescore.cli import main
from phrasescore.engines import EngineSettings
from phrasescore.errors import ArgumentError, DataError, PhrasescoreError
from phrasescore.features import BLOCK_SIZE, ColumnSpec
from phrasescore.workflows.table_scoring import TableScorer
from tests.random_tables import make_model, make_table

CHUNK = 100
COLUMNS = [ColumnSpec("feature", "punctuation_mismatch")]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    # Smaller blocks than chunks, and a chunk that ends inside of a block.
    monkeypatch.setattr("phrasescore.io.text.BLOCK_SIZE", 1100)
    monkeypatch.setattr("phrasescore.workflows.annotate.CHUNK_LINES", CHUNK)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return make_table(tmp_path / "table", 9 * CHUNK + 7)


def annotate(table: Path, out: Path, columns: Any = COLUMNS, **options: Any) -> Path:
    phrasescore.annotate(table, columns, out, **options)
    return out


def parts_of(table: Path, count: int, end: str = "", **options: Any) -> list[Path]:
    folder = table.parent
    return [
        annotate(table, folder / f"part{number}{end}", part=f"{number}/{count}", **options)
        for number in range(1, count + 1)
    ]


@pytest.mark.parametrize("count", [1, 3, 10, 13])
@pytest.mark.parametrize("end", ["", ".gz"])
def test_joined_parts_are_the_bytes_of_one_run(table: Path, count: int, end: str) -> None:
    whole = annotate(table, table.parent / f"whole{end}").read_bytes()
    parts = parts_of(table, count, end)
    sizes = [json.loads(Path(f"{part}.json").read_text())["size"] for part in parts]
    assert sum(sizes) == 9 * CHUNK + 7
    assert max(sizes) <= -(-10 // count) * CHUNK
    joined = table.parent / f"joined{end}"
    done = phrasescore.join(parts[::-1], joined)
    assert (done.parts, done.size, done.num_bytes) == (count, 9 * CHUNK + 7, len(whole))
    assert joined.read_bytes() == whole


def test_a_network_s_values_are_those_of_one_run(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BLOCK_SIZE, "cpu", CHUNK // 2)
    model = [str(make_model(table.parent / "model").path)]
    whole = annotate(table, table.parent / "whole", model)
    processes = EngineSettings("processes", 2)
    phrasescore.join(parts_of(table, 4, columns=model, engine=processes), table.parent / "joined")
    assert (table.parent / "joined").read_bytes() == whole.read_bytes()


def test_a_pipe_in_the_place_of_a_part_keeps_nobody_waiting(table: Path) -> None:
    parts = parts_of(table, 2)
    parts[0].unlink()
    os.mkfifo(parts[0])
    record = parts[0].with_name("part1.json")
    record.write_text(re.sub('"bytes": [0-9]+', '"bytes": 0', record.read_text()))
    with pytest.raises(DataError, match="expected a plain file, found a pipe"):
        phrasescore.join(parts, table.parent / "joined")


def test_a_stopped_part_is_resumed(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = annotate(table, table.parent / "whole").read_bytes()
    first, second = parts_of(table, 2)
    second.unlink()
    lines = table.read_bytes()

    class StopError(Exception):
        pass

    def stop(progress: phrasescore.progress.Progress) -> None:
        if progress.done >= 4 * CHUNK:  # the first chunk is on the disk
            raise StopError

    monkeypatch.setattr("phrasescore.progress.INTERVAL", 0)
    with pytest.raises(StopError):
        annotate(table, second, part="2/2", progress=stop)
    with pytest.raises(PhrasescoreError, match="another part"):
        annotate(table, second, part="1/2", resume=True)
    table.write_bytes(lines.replace(b"0.5", b"0.6", 1))  # in the other part
    with pytest.raises(PhrasescoreError, match="another input"):
        annotate(table, second, part="2/2", resume=True)
    table.write_bytes(lines)
    done = phrasescore.annotate(table, COLUMNS, second, part="2/2", resume=True)
    assert done.lines <= 4 * CHUNK + 7
    phrasescore.join([first, second], table.parent / "joined")
    assert (table.parent / "joined").read_bytes() == whole


def test_a_part_is_resumed_on_a_like_machine_alone(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = table.parent / "part"
    with monkeypatch.context() as context:
        context.setattr("phrasescore.engines.likeness._processor", lambda: "another one")
        context.setattr("phrasescore.workflows.parts.InputPart.write_state", stop_here)
        with pytest.raises(KeyboardInterrupt):
            annotate(table, part, part="1/2")
    with pytest.raises(PhrasescoreError, match="another machine's processor"):
        annotate(table, part, part="1/2", resume=True)
    with monkeypatch.context() as context:
        context.setattr("phrasescore.engines.likeness._processor", lambda: "another one")
        annotate(table, part, part="1/2", resume=True)
    state = json.loads(Path(f"{part}.json").read_text())
    assert state["machine"]["processor"] == "another one"


def stop_here(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_finished_part_is_not_made_again(
    table: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    part = parts_of(table, 2, ".gz")[1]
    before = part.read_bytes()
    with monkeypatch.context() as context, caplog.at_level("INFO"):
        context.delattr(TableScorer, "score")
        assert phrasescore.annotate(table, COLUMNS, part, part="2/2", resume=True).lines == 0
    assert f"{part} is there already; there was nothing left to do" in caplog.text
    # What is not as it was written is made anew.
    part.write_bytes(before[:-1])
    assert phrasescore.annotate(table, COLUMNS, part, part="2/2", resume=True).lines > 0
    assert part.read_bytes() == before
    other = [ColumnSpec("feature", "number_mismatch")]
    assert phrasescore.annotate(table, other, part, part="2/2", resume=True).lines > 0
    assert phrasescore.annotate(table, other, part, part="2/2").lines > 0


def test_a_part_killed_at_its_last_step_leaves_nothing_beside_it(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = table.parent / "part"
    with monkeypatch.context() as context:
        context.setattr("phrasescore.io.resumable._remove", stop_here)
        with pytest.raises(KeyboardInterrupt):
            annotate(table, part, part="1/2")
    assert part.exists()
    assert Path(f"{part}.part.json").exists()
    assert phrasescore.annotate(table, COLUMNS, part, part="1/2", resume=True).lines == 0
    assert sorted(path.name for path in table.parent.glob("part*")) == ["part", "part.json"]


def test_only_the_whole_table_is_said_to_lack_what_the_texts_have(table: Path) -> None:
    (table.parent / "text").write_text("nowhere\n")
    arguments = (table, COLUMNS, table.parent / "out")
    texts = [table.parent / "text"]
    assert phrasescore.annotate(*arguments, texts=texts, part="1/2").warnings == ()
    assert phrasescore.annotate(*arguments, texts=texts).warnings == (
        f"{table}: no source phrase occurs in the texts",
    )


def test_a_wrong_line_is_found_by_the_part_that_has_it(table: Path) -> None:
    lines = table.read_bytes().splitlines(keepends=True)
    lines[8 * CHUNK] = b"no phrase pair\n"
    table.write_bytes(b"".join(lines))
    annotate(table, table.parent / "part1", part="1/3")
    with pytest.raises(DataError, match=f"table:{8 * CHUNK + 1}: expected at least 3 fields"):
        annotate(table, table.parent / "part3", part="3/3")
    table.write_bytes(b"")
    with pytest.raises(DataError, match="expected a phrase table, found no lines"):
        annotate(table, table.parent / "part2", part="2/3")


@pytest.mark.parametrize("part", ["0/4", "5/4", "a/b", "1/0", "1", "-1/4", "1/4/2", ""])
def test_a_part_is_a_number_of_a_number(table: Path, part: str) -> None:
    with pytest.raises(ArgumentError, match=r"`part`: expected I/N, such as 2/4"):
        annotate(table, table.parent / "out", part=part)
    result = CliRunner().invoke(
        main, ["annotate", str(table), "--feature=number_mismatch", "--part", part]
    )
    assert result.exit_code == 2
    assert "--part: expected I/N" in result.stderr


def test_a_part_needs_files_and_writes_no_moses_ini(table: Path) -> None:
    with pytest.raises(ArgumentError, match="`part`: the input is read twice"):
        phrasescore.annotate("-", COLUMNS, table.parent / "out", part="1/2")
    with pytest.raises(ArgumentError, match="`part` needs `output` FILE"):
        phrasescore.annotate(table, COLUMNS, "-", part="1/2")
    with pytest.raises(ArgumentError, match="`moses_ini` is for the whole table"):
        annotate(table, table.parent / "out", part="1/2", moses_ini="in", moses_ini_out="out")


@pytest.mark.parametrize("count", [2, 13])
def test_moses_ini_gets_the_columns_and_the_joined_table(table: Path, count: int) -> None:
    ini, new, out = (table.parent / name for name in ("moses.ini", "new.ini", "out.gz"))
    line = "PhraseDictionaryMemory name=T0 num-features={} path={}\n"
    ini.write_text(f"[feature]\n{line.format(2, table)}[weight]\nT0= 0.2 0.3\n")
    parts = parts_of(table, count, ".gz", columns=COLUMNS * 2)
    done = phrasescore.join(parts, out, moses_ini=ini, moses_ini_out=new)
    assert done.warnings == ()
    assert new.read_text() == f"[feature]\n{line.format(4, out)}[weight]\nT0= 0.2 0.3 0 0\n"
    with pytest.raises(ArgumentError, match="`moses_ini` and `moses_ini_out` go together"):
        phrasescore.join(parts, out, moses_ini=ini)


# What join refuses


def refused(parts: list[Path], output: Path, message: str) -> None:
    """Join parts by the command line, which must refuse and write nothing."""
    before = sorted(output.parent.iterdir())
    result = CliRunner().invoke(main, ["join", *map(str, parts), "-o", str(output)])
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1), result.output
    assert message in result.stderr
    assert sorted(output.parent.iterdir()) == before


def test_parts_that_are_missing_or_there_twice_are_refused(table: Path) -> None:
    parts, out = parts_of(table, 4), table.parent / "out"
    refused([parts[0], parts[3]], out, "is one of 4 parts, of which 2 are missing: 2, 3")
    copy = table.parent / "copy"
    shutil.copy(parts[1], copy)
    refused([*parts, copy], out, "copy: expected a file that --part has made; there is no")
    shutil.copy(f"{parts[1]}.json", f"{copy}.json")
    refused([*parts, copy], out, "are both part 2 of 4")
    refused([*parts[:3], table.parent / "part5"], out, "part5: cannot open: No such file")


def test_parts_of_other_runs_are_refused(table: Path) -> None:
    parts, out = parts_of(table, 2), table.parent / "out"
    other = table.parent / "other"
    annotate(table, other, part="2/3")
    refused([parts[0], other], out, "another number of parts (3, there 2)")
    annotate(table, other, [ColumnSpec("feature", "number_mismatch")], part="2/2")
    refused([parts[0], other], out, "another column 1 (number_mismatch, there punctuation_mismatch")
    annotate(table, other, [*COLUMNS, *COLUMNS], part="2/2")
    refused([parts[0], other], out, "another column 2 (punctuation_mismatch, there None)")
    packed = annotate(table, table.parent / "part2.gz", part="2/2")
    refused([parts[0], packed], out, "another gzip (zlib-ng")
    table.write_bytes(table.read_bytes()[:-5] + b"x" + table.read_bytes()[-4:])
    annotate(table, other, part="2/2")
    refused([parts[0], other], out, "another input")


@pytest.mark.parametrize("name", ["version", "precision"])
def test_parts_of_another_version_or_precision_are_refused(table: Path, name: str) -> None:
    model = [str(make_model(table.parent / "model").path)]
    parts = parts_of(table, 2, columns=model)
    state = Path(f"{parts[1]}.json")
    values = json.loads(state.read_text())
    values["settings"][name] = "other"
    state.write_text(json.dumps(values))
    refused(parts, table.parent / "out", f"another {name} (other, there ")


def test_parts_of_unlike_machines_are_joined_when_that_is_allowed(table: Path) -> None:
    parts, out = parts_of(table, 2), table.parent / "out"
    state = Path(f"{parts[0]}.json")
    values = json.loads(state.read_text())
    values["machine"]["processor"] = "abacus"
    state.write_text(json.dumps(values))
    refused(parts, out, "the last bits of values may differ; --allow-unlike joins such parts")
    (warning,) = phrasescore.join(parts, out, allow_unlike=True).warnings
    assert "part2 was made with another processor" in warning
    assert out.read_bytes() == parts[0].read_bytes() + parts[1].read_bytes()


def test_changed_parts_are_refused(table: Path) -> None:
    parts, out = parts_of(table, 2), table.parent / "out"
    out.write_bytes(b"older")
    data = parts[1].read_bytes()
    parts[1].write_bytes(data[:-1])
    refused(parts, out, f"expected {len(data):,} bytes as --part has written them, found")
    parts[1].write_bytes(data[:-2] + b"x\n")
    refused(parts, out, "expected the bytes as --part has written them, found others")
    Path(f"{parts[1]}.json").write_text("{}")
    refused(parts, out, "part2.json: expected the state of a run of this version")
    assert out.read_bytes() == b"older"


def test_the_output_s_name_says_whether_it_is_gzip(table: Path) -> None:
    plain, packed = parts_of(table, 2), parts_of(table, 2, ".gz")
    with pytest.raises(ArgumentError, match=r"the parts are gzip, so the name has to end in \.gz"):
        phrasescore.join(packed, table.parent / "out")
    with pytest.raises(ArgumentError, match=r"the parts are plain, so the name must not end"):
        phrasescore.join(plain, table.parent / "out.gz")
    result = CliRunner().invoke(main, ["join", *map(str, packed)])
    assert gzip.decompress(result.stdout_bytes) == b"".join(part.read_bytes() for part in plain)
    with pytest.raises(PhrasescoreError, match="would overwrite another file"):
        phrasescore.join(plain, plain[0])
    with pytest.raises(ArgumentError, match="`parts`: expected a sequence"):
        phrasescore.join(str(plain[0]), table.parent / "out")
    with pytest.raises(ArgumentError, match="`parts`: expected at least one"):
        phrasescore.join([], table.parent / "out")


def test_the_last_part_has_blocks_as_the_whole_table(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A table of less than two blocks is scored in smaller ones; of it, the last part alone is.
    sizes = set()
    monkeypatch.setitem(BLOCK_SIZE, "cpu", CHUNK // 2)

    def note(scorer: Any, blocks: Any, size: int) -> Any:
        sizes.add(size)
        return score(scorer, blocks, size)

    score = TableScorer.score
    monkeypatch.setattr(TableScorer, "score", note)
    parts_of(table, 10)
    assert sizes == {CHUNK // 2}

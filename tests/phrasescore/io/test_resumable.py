"""An output that goes on after a kill: the moments that a killed process leaves behind."""

import json
import os
import resource
from pathlib import Path
from typing import NamedTuple

import pytest

from moses_integration import phrase_table
from phrasescore.errors import DataError, ModelError, PhrasescoreError
from phrasescore.io import resumable
from phrasescore.io.resumable import ResumableOutput
from phrasescore.io.text import read_blocks


class Pieces(NamedTuple):
    """Consecutive lines of an input."""

    before: int
    pieces: list[bytes]

    @property
    def num_lines(self) -> int:
        return len(self.pieces)

    @property
    def raw(self) -> bytes:
        return b"".join(self.pieces)

    def lines(self, first: int, after: int) -> "Pieces":
        return Pieces(self.before + first, self.pieces[first:after])


def write_all(out: Path, pieces: list[bytes], *, resume: bool = False) -> None:
    with ResumableOutput(str(out), {"model": "m"}, resume=resume, chunk_lines=1) as target:
        for block in target.remaining([Pieces(0, pieces)], "input"):
            target.write(block.raw.upper(), block.raw, block.num_lines)


class Killed(BaseException):
    """Stands for a kill: nothing that follows is run."""


def _nothing(*_arguments: object) -> None:
    """What a killed process does."""


PIECES = [b"a\n" * 1000, b"b\n" * 10, b"c\n"]


def kill_in(out: Path, num_chunks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ResumableOutput, "_leave", _nothing)
        with pytest.raises(Killed):  # noqa: SIM117
            with ResumableOutput(str(out), {"model": "m"}, resume=False, chunk_lines=1) as target:
                for piece in PIECES[:num_chunks]:
                    target.write(piece.upper(), piece, 1)
                target._chunk_lines = 100
                target.write(b"HALF A CHUNK", b"", 1)
                while target._waiting:
                    target._waiting.popleft().result()
                raise Killed


@pytest.mark.parametrize("name", ["out", "out.gz"])
@pytest.mark.parametrize("num_chunks", [0, 1, 2])
def test_a_killed_run_goes_on_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, num_chunks: int
) -> None:
    whole, out = tmp_path / f"whole.{name}", tmp_path / name
    write_all(whole, PIECES)
    kill_in(out, num_chunks, monkeypatch)
    assert sorted(os.listdir(tmp_path)) == sorted([whole.name, f"{name}.part", f"{name}.part.json"])
    write_all(out, PIECES, resume=True)
    assert out.read_bytes() == whole.read_bytes()
    assert sorted(os.listdir(tmp_path)) == sorted([name, whole.name])
    assert b"".join(read_blocks(str(out))) == b"".join(PIECES).upper()
    assert out.read_bytes().startswith(b"\x1f\x8b") == (name == "out.gz")


def test_a_run_killed_before_its_first_chunk_starts_anew_without_asking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    kill_in(out, 0, monkeypatch)
    write_all(out, PIECES)
    assert out.read_bytes() == b"".join(PIECES).upper()


def finish_and_be_killed(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave what a kill leaves between the last two steps: the output, and the journal."""
    with monkeypatch.context() as patch:
        patch.setattr(resumable, "_remove", _nothing)
        write_all(out, PIECES)


@pytest.mark.parametrize("resume", [False, True])
def test_after_a_kill_between_the_last_two_steps_the_output_is_whole_and_may_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resume: bool
) -> None:
    out = tmp_path / "out"
    finish_and_be_killed(out, monkeypatch)
    assert out.read_bytes() == b"".join(PIECES).upper()
    assert sorted(os.listdir(tmp_path)) == ["out", "out.part.json"]
    write_all(out, PIECES[::-1], resume=resume)
    assert out.read_bytes() == b"".join(PIECES[::-1]).upper()
    assert os.listdir(tmp_path) == ["out"]


def test_a_run_that_was_killed_at_its_end_is_not_for_a_longer_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    kill_in(out, 3, monkeypatch)
    settings = {"model": "m"}
    with pytest.raises(DataError, match=r"more lines than the 3 from which .*\.part was written"):  # noqa: SIM117
        with ResumableOutput(str(out), settings, resume=True, chunk_lines=2) as target:
            target.remaining([Pieces(0, [*PIECES, b"d\n"])], "input")
    with ResumableOutput(str(out), settings, resume=True, chunk_lines=2) as target:
        assert list(target.remaining([Pieces(0, PIECES)], "input")) == []
    assert out.read_bytes() == b"".join(PIECES).upper()


def test_blocks_end_where_chunks_do(tmp_path: Path) -> None:
    line = b"a ||| b ||| 1\n"
    # As they are read: whole lines, as many as there happened to be.
    read = [phrase_table._check("t", before, 1, line * n)[0] for before, n in ((0, 3), (3, 7))]
    with ResumableOutput(str(tmp_path / "out"), {}, resume=False, chunk_lines=4) as target:
        found = [(block.before, block.num_lines) for block in target.remaining(read, "t")]
    assert found == [(0, 3), (3, 1), (4, 4), (8, 2)]


@pytest.mark.parametrize("error", [DataError("t", 1, "bad"), ModelError("nan")])
def test_what_is_wrong_removes_what_this_run_began_and_nothing_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: PhrasescoreError
) -> None:
    out = tmp_path / "out"
    with pytest.raises(type(error)):  # noqa: SIM117
        with ResumableOutput(str(out), {"model": "m"}, resume=False) as target:
            target.write(b"A", b"a", 1)
            raise error
    assert os.listdir(tmp_path) == []
    kill_in(out, 2, monkeypatch)
    with pytest.raises(type(error)), ResumableOutput(str(out), {"model": "m"}, resume=True):
        raise error
    write_all(out, PIECES, resume=True)
    assert out.read_bytes() == b"".join(PIECES).upper()


def test_a_part_file_that_is_not_what_was_written_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    kill_in(out, 2, monkeypatch)
    part = Path(f"{out}.part")
    good = part.read_bytes()
    for damaged in (good[:5], good.replace(b"A", b"B", 1), b"\0" * len(good)):
        part.write_bytes(damaged)
        with pytest.raises(PhrasescoreError, match="is damaged"):
            write_all(out, PIECES, resume=True)
        assert part.read_bytes() == damaged
    journal = Path(f"{out}.part.json")
    state = json.loads(journal.read_text())
    for text in ("{}", json.dumps({**state, "bytes": -1}), json.dumps({**state, "lines": -1})):
        journal.write_text(text)
        with pytest.raises(PhrasescoreError, match="expected the state of a run of this version"):
            write_all(out, PIECES, resume=True)


def test_a_run_that_cannot_begin_leaves_nothing_and_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, loop, out = tmp_path / "done", tmp_path / "loop", tmp_path / "out"
    loop.symlink_to("loop")
    with pytest.raises(PhrasescoreError, match="loop: cannot write: Too many levels of symbolic"):
        write_all(loop, PIECES)
    finish_and_be_killed(done, monkeypatch)
    kill_in(out, 2, monkeypatch)
    before = sorted(os.listdir(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A disk without any space, on which a file can be made and not written.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        for path in (tmp_path / "new", done, out):
            with pytest.raises(
                PhrasescoreError, match=rf"{path.name}[.a-z]*: cannot write: File too large"
            ):
                write_all(path, PIECES, resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(os.listdir(tmp_path)) == before
    write_all(done, PIECES, resume=True)
    write_all(out, PIECES, resume=True)
    assert out.read_bytes() == b"".join(PIECES).upper()


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_what_is_no_file_in_the_place_of_the_part_is_left_alone(tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"somebody's\n" * 100)
    if kind == "pipe":
        os.mkfifo(tmp_path / "out.part")
    else:
        (tmp_path / "out.part").symlink_to(other)
    journal = {"format": 2, "lines": 1, "bytes": 7, "input": "", "settings": {}}
    (tmp_path / "out.part.json").write_text(json.dumps(journal))
    for resume in (True, False):
        with pytest.raises(
            PhrasescoreError, match=r"out\.part: expected a plain file, found a link"
        ):
            write_all(tmp_path / "out", PIECES, resume=resume)
    assert other.read_bytes() == b"somebody's\n" * 100


@pytest.mark.parametrize("resume", [False, True])
def test_a_journal_without_its_part_file_promises_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resume: bool
) -> None:
    out = tmp_path / "out"
    kill_in(out, 2, monkeypatch)
    Path(f"{out}.part").unlink()
    write_all(out, PIECES, resume=resume)
    assert out.read_bytes() == b"".join(PIECES).upper()
    assert os.listdir(tmp_path) == ["out"]


def test_nothing_is_promised_after_a_write_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    failing = [b"b\n" * 10]

    def append(self: ResumableOutput, data: bytes) -> None:
        if data in [piece.upper() for piece in failing]:
            raise PhrasescoreError("full")
        original(self, data)

    original = ResumableOutput._append
    monkeypatch.setattr(ResumableOutput, "_append", append)
    with pytest.raises(PhrasescoreError, match="full"):
        write_all(out, PIECES)
    assert json.loads(Path(f"{out}.part.json").read_text())["lines"] == 1
    failing.clear()
    write_all(out, PIECES, resume=True)
    assert out.read_bytes() == b"".join(PIECES).upper()

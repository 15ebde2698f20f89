"""An output that goes on after a kill: the moments that a killed process leaves behind."""

import gzip
import json
import os
import resource
from pathlib import Path

import pytest

from phrasescore.errors import DataError, ModelError, PhrasescoreError
from phrasescore.io import resumable
from phrasescore.io.resumable import ResumableOutput


def write_all(out: Path, pieces: list[bytes], *, resume: bool = False) -> bool:
    """Write what is not done yet, a chunk a piece; return whether there was nothing left to do."""
    with ResumableOutput(str(out), {"model": "m"}, resume=resume) as target:
        for piece in pieces[: target.done.lines]:
            target.skip(piece)
        target.check_skipped("input")
        if target.finished:
            target.check_end(next(iter(pieces[target.done.lines :]), None), "input")
            return True
        for piece in pieces[target.done.lines :]:
            target.write(piece.upper(), piece)
            target.end_chunk(1)
    return False


class Killed(BaseException):
    """Stands for a kill: nothing that follows is run."""


def _nothing(*_arguments: object) -> None:
    """What a killed process does."""


PIECES = [b"a\n" * 1000, b"b\n" * 10, b"c\n"]


def kill_in(out: Path, num_chunks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave what a kill leaves after some chunks and a part of the next."""
    with monkeypatch.context() as patch:
        patch.setattr(ResumableOutput, "_leave", _nothing)
        with pytest.raises(Killed):  # noqa: SIM117
            with ResumableOutput(str(out), {"model": "m"}, resume=False) as target:
                for piece in PIECES[:num_chunks]:
                    target.write(piece.upper(), piece)
                    target.end_chunk(1)
                target.write(b"HALF A CHUNK", b"")
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
    assert not write_all(out, PIECES, resume=True)
    assert out.read_bytes() == whole.read_bytes()
    assert sorted(os.listdir(tmp_path)) == sorted([name, whole.name])
    data = gzip.decompress(out.read_bytes()) if name.endswith(".gz") else out.read_bytes()
    assert data == b"".join(PIECES).upper()


def test_a_run_killed_before_its_first_chunk_starts_anew_without_asking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    kill_in(out, 0, monkeypatch)
    write_all(out, PIECES)
    assert out.read_bytes() == b"".join(PIECES).upper()


def test_a_kill_between_the_last_two_steps_leaves_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(resumable, "_remove", _nothing)
        write_all(out, PIECES)
    assert json.loads(Path(f"{out}.part.json").read_text())["complete"]
    before = out.read_bytes()
    assert write_all(out, PIECES, resume=True)
    assert out.read_bytes() == before
    assert os.listdir(tmp_path) == ["out"]


def finish_and_be_killed(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(resumable, "_remove", _nothing)
        write_all(out, PIECES)


def test_a_finished_output_is_not_taken_for_that_of_another_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    finish_and_be_killed(out, monkeypatch)
    for _ in range(2):
        with pytest.raises(DataError, match=r"its first 3 lines are not those that .*/out was"):
            write_all(out, PIECES[::-1], resume=True)
        assert out.read_bytes() == b"".join(PIECES).upper()
        assert not Path(f"{out}.part").exists()
    with pytest.raises(DataError, match=r"has more lines than the 3 that .*/out was made from"):
        write_all(out, [*PIECES, b"d\n"], resume=True)
    # Without --resume it is an output like any other.
    write_all(out, PIECES[::-1])
    assert out.read_bytes() == b"".join(PIECES[::-1]).upper()
    assert os.listdir(tmp_path) == ["out"]


def test_a_run_that_was_killed_at_its_end_is_not_for_a_longer_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    kill_in(out, 3, monkeypatch)
    with ResumableOutput(str(out), {"model": "m"}, resume=True) as target:
        for piece in PIECES:
            target.skip(piece)
        target.check_skipped("input")
        with pytest.raises(DataError, match=r"more lines than the 3 that .*\.part was made from"):
            target.check_end(b"d\n", "input")
        target.check_end(None, "input")


@pytest.mark.parametrize("error", [DataError("t", 1, "bad"), ModelError("nan")])
def test_what_is_wrong_removes_what_this_run_began_and_nothing_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: PhrasescoreError
) -> None:
    out = tmp_path / "out"
    with pytest.raises(type(error)):  # noqa: SIM117
        with ResumableOutput(str(out), {"model": "m"}, resume=False) as target:
            target.write(b"A", b"a")
            target.end_chunk(1)
            raise error
    assert os.listdir(tmp_path) == []
    kill_in(out, 2, monkeypatch)
    with pytest.raises(type(error)), ResumableOutput(str(out), {"model": "m"}, resume=True):
        raise error
    assert not write_all(out, PIECES, resume=True)
    assert out.read_bytes() == b"".join(PIECES).upper()


def test_a_part_file_that_is_too_short_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    kill_in(out, 2, monkeypatch)
    part = Path(f"{out}.part")
    part.write_bytes(part.read_bytes()[:5])
    with pytest.raises(PhrasescoreError, match="is damaged"):
        write_all(out, PIECES, resume=True)
    journal = Path(f"{out}.part.json")
    state = json.loads(journal.read_text())
    for text in ("{}", json.dumps({**state, "bytes": -1}), json.dumps({**state, "lines": -1})):
        journal.write_text(text)
        with pytest.raises(PhrasescoreError, match="unreadable"):
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
                PhrasescoreError, match=f"{path.name}: cannot write: File too large"
            ):
                write_all(path, PIECES, resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(os.listdir(tmp_path)) == before
    assert write_all(done, PIECES, resume=True)
    assert not write_all(out, PIECES, resume=True)
    assert out.read_bytes() == b"".join(PIECES).upper()


def test_a_journal_without_its_part_file_is_said_to_be_damaged_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    kill_in(out, 2, monkeypatch)
    Path(f"{out}.part").unlink()
    for resume in (False, True):
        with pytest.raises(PhrasescoreError, match="is damaged, or is not there; delete it and"):
            write_all(out, PIECES, resume=resume)
        assert os.listdir(tmp_path) == ["out.part.json"]


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
    assert not write_all(out, PIECES, resume=True)
    assert out.read_bytes() == b"".join(PIECES).upper()

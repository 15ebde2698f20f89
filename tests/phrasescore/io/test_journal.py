"""Promises of phrasescore.io.journal: a state file is whole, of its kind, and of the same run."""

import errno
import gzip
import os
from pathlib import Path

import msgspec
import pytest

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.journal import (
    FileDigests,
    check_settings,
    digest_content,
    digest_file,
    digest_text,
    read_journal,
    write_journal,
)


class Rounds(msgspec.Struct):
    number: int
    names: list[str] = []


def test_what_is_written_is_what_is_read_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert read_journal(path, Rounds) is None
    for state in (Rounds(1), Rounds(2, ["\u00e9t\u00e9"])):
        write_journal(path, state)
        assert read_journal(path, Rounds) == state
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1]",
        b"\xff",
        b'{"number": 1}',
        b'{"format": 1, "number": 1}',
        b'{"format": 2, "number": "1"}',
        b'{"format": 2}',
        b'{"format": 2, "number": ' + b"[" * 5000,
    ],
)
def test_what_is_no_state_of_this_kind_and_format_is_refused(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(content)
    with pytest.raises(
        DataError, match=r"state\.json: expected the state of a run of this version"
    ):
        read_journal(path, Rounds)


@pytest.mark.parametrize("name", ["state.json", "state.json.phrasescore-part"])
def test_a_pipe_in_the_place_of_a_state_keeps_nobody_waiting(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(PhrasescoreError, match=r"state\.json.*: expected a plain file"):
        read_journal(tmp_path / "state.json", Rounds)
        write_journal(tmp_path / "state.json", Rounds(1))


def test_a_link_in_the_place_of_a_new_state_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    (tmp_path / "state.json.phrasescore-part").symlink_to("mine")
    with pytest.raises(PhrasescoreError, match=r"state\.json.*: expected a plain file"):
        write_journal(tmp_path / "state.json", Rounds(1))
    assert (tmp_path / "mine").read_text() == "x"


def test_a_state_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"{tmp_path}: cannot open: "):
        read_journal(tmp_path, Rounds)
    path = tmp_path / "none" / "state.json"
    with pytest.raises(PhrasescoreError, match=f"{path}: cannot write: there is no folder"):
        write_journal(path, Rounds(1))


def test_a_full_disk_leaves_the_old_state_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.json"
    write_journal(path, Rounds(1))

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PhrasescoreError, match=f"{path}: cannot write: No space left"):
        write_journal(path, Rounds(2))
    assert read_journal(path, Rounds) == Rounds(1)
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_goes_on_only_with_what_it_was_begun_with() -> None:
    check_settings({"a": 1, "b": [2]}, {"b": [2], "a": 1}, "w", "start over")
    problem = (
        r"^w was started with another value for b \(2, now None\): "
        r"resume it with the same settings, or start over$"
    )
    with pytest.raises(PhrasescoreError, match=problem):
        check_settings({"a": 1, "b": 2, "c": 3}, {"a": 1, "c": 4}, "w", "start over")


def test_a_digest_is_that_of_the_content(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a", tmp_path / "a.gz"
    plain.write_bytes("\u00e9t\u00e9".encode())
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    wanted = digest_text("\u00e9t\u00e9")
    assert [digest_file(plain), digest_content(str(plain)), digest_content(str(packed))] == (
        [wanted] * 3
    )
    assert digest_file(packed) != wanted
    assert len(wanted) == 32
    assert digest_text("\udcff") != digest_text("")  # a name that is not UTF-8


def test_files_are_read_again_only_where_they_have_changed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    first, second = tmp_path / "folder" / "a", tmp_path / "folder" / "b"
    first.write_text("1")
    second.write_text("2")
    digests = FileDigests({}, {second: b"3"})
    before = digests.digest(first.parent)
    assert digests.known.keys() == {str(first)}
    assert digests.digest(first) == digest_text("1")
    assert digests.digest(second) == digest_text("3")
    size, changed, _ = digests.known[str(first)]
    again = FileDigests({str(first): [size, changed, "kept"]}, {})
    assert again.digest(first) == "kept"
    first.write_text("12")
    assert again.digest(first) == digest_text("12")
    assert digests.digest(first.parent) != before
    with pytest.raises(DataError, match="none: cannot open: No such file"):
        digests.digest(tmp_path / "none")

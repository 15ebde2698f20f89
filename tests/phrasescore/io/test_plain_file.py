"""Promises of phrasescore.io.plain_file: no reader waits, or fills memory."""

import os
from pathlib import Path

import pytest

from phrasescore.errors import DataError
from phrasescore.io.plain_file import check_plain, open_plain, read_plain


def test_a_plain_file_is_read_also_by_way_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "b").symlink_to("a")
    for name in ("a", "b"):
        check_plain(tmp_path / name, 3)
        assert read_plain(tmp_path / name, 3) == b"abc"
        with open_plain(tmp_path / name) as file:
            assert file.read() == b"abc"


@pytest.mark.parametrize("kind", ["pipe", "device", "link"])
def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "pipe":
        os.mkfifo(path)
    path = Path("/dev/zero") if kind == "device" else path
    if kind == "link":
        path.symlink_to("/dev/zero")
    with pytest.raises(DataError) as caught:
        read_plain(path, 10)
    assert str(caught.value) == f"{path}: expected a plain file, found a pipe or a device"


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(DataError, match=r"large: expected at most 1,024 bytes, found 1,099,511"):
        read_plain(path, 1024)


def test_a_file_that_does_not_say_how_large_it_is_is_read_up_to_the_limit() -> None:
    with pytest.raises(DataError, match="/proc/self/status: expected at most 10 bytes, found more"):
        read_plain(Path("/proc/self/status"), 10)


def test_what_cannot_be_opened_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        check_plain(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        check_plain(tmp_path)

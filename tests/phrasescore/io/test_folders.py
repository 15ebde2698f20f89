"""Promises of phrasescore.io.folders."""

import os
from pathlib import Path

import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.io.folders import NEW, OLD, check_folder_above, writing_folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_there_only_when_it_is_whole(tmp_path: Path) -> None:
    with writing_folder(tmp_path / "model") as new:
        (new / "a").write_text("1")
        assert not (tmp_path / "model").exists()
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == ["a"]


def test_a_new_folder_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with writing_folder(tmp_path / "model") as new:
            (new / name).write_text("1")
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == ["b"]


def write_and_fail(path: Path, error: type[BaseException]) -> None:
    with writing_folder(path) as new:
        (new / "b").write_text("1")
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_older_folder_as_it_was(
    tmp_path: Path, error: type[BaseException]
) -> None:
    with writing_folder(tmp_path / "model") as new:
        (new / "a").write_text("1")
    with pytest.raises(error):
        write_and_fail(tmp_path / "model", error)
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == ["a"]


def test_what_a_killed_run_left_is_no_hindrance(tmp_path: Path) -> None:
    for end in (NEW, OLD):
        left = tmp_path / f"model{end}"
        left.mkdir()
        (left / "stale").write_text("1")
    for name in ("a", "b"):
        with writing_folder(tmp_path / "model") as new:
            (new / name).write_text("1")
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == ["b"]


def test_folders_that_a_user_called_new_and_old_stay(tmp_path: Path) -> None:
    # As after "mv model model.old", before training once more.
    theirs = ["model.bak", "model.new", "model.old", "model.part", "model.tmp"]
    for name in theirs:
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    for name in ("a", "b"):
        with writing_folder(tmp_path / "model") as new:
            (new / name).write_text("1")
    assert names(tmp_path) == ["model", *theirs]
    assert [(tmp_path / name / "a").read_text() for name in theirs] == theirs


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path: Path, is_there: bool) -> None:
    link = tmp_path / "model"
    link.symlink_to("elsewhere")
    if is_there:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "a").write_text("1")
    with writing_folder(link) as new:
        (new / "b").write_text("1")
    assert names(tmp_path) == ["elsewhere", "model"]
    assert link.is_symlink()
    assert names(tmp_path / "elsewhere") == ["b"]


def test_where_no_folder_can_be_is_found_out_before(tmp_path: Path) -> None:
    check_folder_above(tmp_path / "not" / "there" / "model")
    (tmp_path / "file").write_text("")
    with pytest.raises(PhrasescoreError, match=r"model: cannot write: .*file is not a folder"):
        check_folder_above(tmp_path / "file" / "model")
    if os.geteuid() == 0:
        return  # root may write everywhere
    (tmp_path / "shut").mkdir(mode=0o500)
    with pytest.raises(PhrasescoreError, match=r"model: cannot write: .* is not writable"):
        check_folder_above(tmp_path / "shut" / "model")


def test_a_full_disk_is_an_error_that_names_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(PhrasescoreError, match="model: cannot write: No space left on device"),
        writing_folder(tmp_path / "model") as new,
    ):
        (new / "a").write_text("1")
    assert names(tmp_path) == []

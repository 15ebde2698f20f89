"""Promises of phrasescore.folders."""

import os
from pathlib import Path

import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.folders import writing_folder


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
    for name in ("model.new", "model.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stale").write_text("1")
    for name in ("a", "b"):
        with writing_folder(tmp_path / "model") as new:
            (new / name).write_text("1")
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == ["b"]


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

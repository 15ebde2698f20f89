"""Promises of phrasescore.training.run_folder: no run takes another's folder, or loses its own."""

import dataclasses
import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from phrasescore.errors import ConfigError, DataError, ModelError, PhrasescoreError
from phrasescore.io.folders import locked
from phrasescore.training import run as run_module
from phrasescore.training.likelihood import PairRun
from phrasescore.training.pair_store_writer import CountedPair
from phrasescore.training.run import train_model
from phrasescore.training.run_folder import RunFolder
from tests.tiny_runs import TINY, KilledError, kill_after, make_run, weights

SAVING = TINY.override(["training.checkpoint_updates=4"])


pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_work_folder_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.work.mkdir()
    (run.work / "thesis.tex").write_text("x")
    with pytest.raises(PhrasescoreError, match="expected a folder for this run only"):
        train_model(run)
    assert (run.work / "thesis.tex").exists()


def test_a_kill_while_the_work_folder_is_removed_leaves_no_run_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path, SAVING)

    def killed(folder: Path, **_: object) -> None:
        # Half way, at the worst: what the next run would look for is gone.
        for path in (*folder.glob("state-*"), *folder.glob("best-*")):
            path.unlink()
        raise KilledError

    rmtree = shutil.rmtree
    # Only the end of a run removes its folder when the model is there.
    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(
            shutil,
            "rmtree",
            lambda path, **kwargs: (killed if path == run.work else rmtree)(path, **kwargs),
        )
        train_model(run)
    before = weights(run)
    assert run.work.exists()
    for resume in (True, False):
        with pytest.raises(PhrasescoreError, match="model: already exists"):
            train_model(run, resume=resume)
    assert weights(run) == before


def test_a_finished_model_is_not_replaced_by_a_run_that_lost_its_state(tmp_path: Path) -> None:
    run = dataclasses.replace(make_run(tmp_path, SAVING), keep_work=True)
    train_model(run)
    before = weights(run)
    for path in [*run.work.glob("state-*"), *run.work.glob("best-*")]:
        path.unlink()
    for resume, problem in (
        (True, "state-0000000.*: cannot continue"),
        (False, "an unfinished run"),
    ):
        with pytest.raises(PhrasescoreError, match=problem):
            train_model(run, resume=resume)
    assert weights(run) == before


@pytest.mark.parametrize("found", ["folder", "file", "model", "longer run", "link"])
def test_a_run_that_goes_on_replaces_nothing_that_it_has_not_made(
    tmp_path: Path, found: str
) -> None:
    run = make_run(tmp_path, SAVING)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(10))
    theirs = tmp_path / "theirs"
    match found:
        case "folder" | "link":
            theirs.mkdir()
            (theirs / "thesis.tex").write_text("x")
        case "file":
            theirs.write_text("x")
        case "model":
            train_model(make_run(tmp_path, SAVING.override(["training.seed=5"]), "theirs"))
        case "longer run":
            # Stopped by its limit at update 9, the run would put less in its place.
            train_model(make_run(tmp_path, SAVING, "theirs"))
            run = dataclasses.replace(run, config=SAVING.override(["training.updates=9"]))
    if found == "link":
        run.model.symlink_to(theirs)
    else:
        theirs.rename(run.model)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(PhrasescoreError, match="model: already exists, and the run in"):
        train_model(run, resume=True)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("resume", [False, True])
def test_a_state_whose_weights_are_missing_is_an_error(tmp_path: Path, resume: bool) -> None:
    run = make_run(tmp_path, SAVING)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(10))
    for path in run.work.glob("state-*"):
        path.unlink()
    problem = "remove the folder to start over" if resume else "an unfinished run"
    with pytest.raises(PhrasescoreError, match=problem):
        train_model(run, resume=resume)
    assert list(run.work.glob("best-*"))


def test_a_run_that_ended_while_another_waited_for_the_lock_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path, SAVING)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(5))
    lock, calls = locked, itertools.count()

    def slow(work: Path) -> object:
        if next(calls) == 0:
            train_model(run, resume=True)  # by another process, in truth
        return lock(work)

    monkeypatch.setattr(run_module, "locked", slow)
    with pytest.raises(PhrasescoreError, match="model: already exists"):
        train_model(run, resume=True)


def test_a_run_without_a_state_is_begun_anew_with_other_settings(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(3))
    (run.work / "state-000000004.safetensors.part").touch()  # killed as it was written
    other = TINY.override(["training.seed=5", "vocabulary.source_size=3"])
    with pytest.raises(ConfigError, match=r"--resume: \[vocabulary\] source_size"):
        train_model(dataclasses.replace(run, config=other), resume=True)
    again = dataclasses.replace(run, config=other)
    train_model(again)
    fresh = make_run(tmp_path, other, "fresh")
    train_model(fresh)
    assert weights(again) == weights(fresh)
    assert not run.work.exists()


def test_an_error_as_a_run_is_begun_anew_leaves_nothing_of_the_old_one(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(3))
    with pytest.raises(PhrasescoreError, match="no pair to train on"):
        train_model(dataclasses.replace(run, read=lambda: iter(())))
    assert not run.work.exists()


def test_a_run_without_a_state_that_is_resumed_reads_the_table_no_more(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(3))
    train_model(dataclasses.replace(run, read=lambda: iter(())), resume=True)
    assert run.model.is_dir()


def killed_as_it_read(run: PairRun) -> None:
    def copied() -> Iterator[CountedPair]:
        shutil.copytree(run.work, aside)
        return iter(())

    aside = run.work.with_name("aside")
    with pytest.raises(PhrasescoreError, match="no pair to train on"):
        train_model(dataclasses.replace(run, read=copied))
    aside.rename(run.work)


def test_a_run_that_was_killed_as_it_read_its_table_keeps_its_settings(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path)
    killed_as_it_read(run)
    assert RunFolder(run.work).settings() == TINY
    # Neither another's settings nor an error in the table cost the run its own.
    other = dataclasses.replace(run, config=TINY.override(["training.seed=5"]))
    with pytest.raises(ConfigError, match=r"--resume: \[training\] seed"):
        train_model(other, resume=True)
    with pytest.raises(PhrasescoreError, match="no pair to train on"):
        train_model(dataclasses.replace(run, read=lambda: iter(())), resume=True)
    assert RunFolder(run.work).settings() == TINY
    train_model(run, resume=True)
    fresh = make_run(tmp_path, name="fresh")
    train_model(fresh)
    assert weights(run) == weights(fresh)
    assert not run.work.exists()


def test_a_run_that_was_killed_as_it_read_its_table_may_be_begun_anew(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    killed_as_it_read(run)
    again = dataclasses.replace(run, config=TINY.override(["training.seed=5"]))
    train_model(again)
    assert again.model.is_dir()


def test_pairs_that_are_lost_beside_a_state_are_an_error(tmp_path: Path) -> None:
    run = make_run(tmp_path, SAVING)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(10))
    shutil.rmtree(run.work / "pairs")
    with pytest.raises(ModelError, match="pairs"):
        train_model(run, resume=True)
    assert list(run.work.glob("state-*"))


def test_a_run_that_is_at_work_is_not_begun_anew(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(3))
    with (
        locked(run.work),
        pytest.raises(PhrasescoreError, match="another run is using this folder"),
    ):
        train_model(run)
    assert RunFolder(run.work).settings() == TINY


@pytest.mark.parametrize("text", ["{", "[]", "null"])
def test_settings_that_are_none_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(DataError, match=r"run\.json: expected the state of a run"):
        RunFolder(tmp_path).settings()


@pytest.mark.parametrize(
    "name",
    ["state-000000008.safetensors", "run.json", "lock"]
    + [f"pairs/{name}" for name in ("pairs.json", "source.words", "target.starts", "source.vocab")],
)
def test_a_pipe_in_a_work_folder_keeps_nobody_waiting(tmp_path: Path, name: str) -> None:
    run = make_run(tmp_path, SAVING)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(10))
    (run.work / name).unlink()
    os.mkfifo(run.work / name)
    if name == "lock":  # nothing is read from it
        train_model(run, resume=True)
        return
    with pytest.raises(PhrasescoreError, match=f"{name}: expected a plain file, found a pipe"):
        train_model(run, resume=True)


def test_the_lock_of_a_work_folder_is_no_way_to_another_file(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.work.mkdir()
    (tmp_path / "mine").write_text("x")
    (run.work / "lock").symlink_to(tmp_path / "mine")
    with pytest.raises(PhrasescoreError, match="cannot write: Too many levels of symbolic links"):
        train_model(run)
    assert (tmp_path / "mine").read_text() == "x"

"""Promises of a training run as a whole: phrasescore.training.run and run_state."""

import dataclasses
import itertools
import json
import math
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from phrasescore.checkpoint import load_checkpoint
from phrasescore.errors import ConfigError, ModelError, PhrasescoreError
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.training import run as run_module
from phrasescore.training.batches import PairBatch
from phrasescore.training.loop import TrainingProgress
from phrasescore.training.run import train_model
from phrasescore.training.table_spool import CountedPair
from tests.tiny_runs import (
    TINY,
    KilledError,
    kill_after,
    make_run,
    read_table,
    weights,
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny products only wait for one another on more threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_finished_run_leaves_the_model_and_nothing_else(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    train_model(run)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "table"]
    checkpoint = load_checkpoint(run.model)
    assert checkpoint.config == TINY
    assert checkpoint.record.updates == 23
    assert not checkpoint.reverse


def test_a_work_folder_that_is_kept_can_be_trained_on(tmp_path: Path) -> None:
    run = dataclasses.replace(make_run(tmp_path), keep_work=True)
    train_model(run)
    longer = dataclasses.replace(run, config=TINY.override(["training.updates=46"]))
    record = train_model(longer, resume=True)
    assert record is not None
    assert record.updates == 46
    whole = make_run(tmp_path, TINY.override(["training.updates=46"]), "whole")
    train_model(whole)
    # The end of the shorter run was validated, too, which may have found better weights.
    if record.best_update != 23:
        assert weights(longer) == weights(whole)


def test_only_the_newest_state_and_the_best_weights_are_kept(tmp_path: Path) -> None:
    config = TINY.override(["training.checkpoint_updates=4"])
    run = make_run(tmp_path, config)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(22))
    states = [path.name for path in run.work.glob("state-*")]
    assert states == ["state-000000020"]
    state = json.loads((run.work / states[0] / "state.json").read_text())
    best = [path.name for path in run.work.glob("best-*")]
    assert f"best-{state['best_update']:09d}.safetensors" in best


def test_a_kill_while_a_state_is_written_goes_back_to_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TINY.override(["training.checkpoint_updates=4"])
    whole = make_run(tmp_path, config, "whole")
    train_model(whole)
    run = make_run(tmp_path, config)
    rename = Path.rename

    def killed(self: Path, target: Path) -> Path:
        if target.name == "state-000000012":
            # What a kill leaves: the new folder not renamed, and nothing tidied up.
            shutil.copytree(self, run.work / "state-000000012.new2")
            raise KilledError
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KilledError):
        train_model(run)
    monkeypatch.undo()
    (run.work / "state-000000012.new2").rename(run.work / "state-000000012.new")
    train_model(run, resume=True)
    assert weights(run) == weights(whole)


def test_a_signal_saves_the_state_and_says_so(tmp_path: Path) -> None:
    whole = make_run(tmp_path, name="whole")
    train_model(whole)
    for number in (signal.SIGINT, signal.SIGTERM):
        run = make_run(tmp_path, name=f"run{number}")

        def report(now: TrainingProgress, number: int = number) -> None:
            if now.update == 13:
                os.kill(os.getpid(), number)

        assert train_model(run, report=report) is None
        assert [path.name for path in run.work.glob("state-*")] == ["state-000000013"]
        assert not run.model.exists()
        train_model(run, resume=True)
        assert weights(run) == weights(whole)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_training_works_in_a_thread_where_no_signal_can_be_caught(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    thread = threading.Thread(target=train_model, args=(run,))
    thread.start()
    thread.join()
    assert run.model.is_dir()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: float
) -> None:
    calls = itertools.count(1)
    forward = EncoderDecoder.forward

    def poisoned(self: EncoderDecoder, batch: PairBatch) -> torch.Tensor:
        values = forward(self, batch)
        return values * bad if self.training and next(calls) == 11 else values

    run = make_run(tmp_path, TINY.override(["training.checkpoint_updates=4"]))
    monkeypatch.setattr(EncoderDecoder, "forward", poisoned)
    with pytest.raises(ModelError, match=r"update 11: the loss is.*after update 8 is kept"):
        train_model(run)
    monkeypatch.undo()
    train_model(run, resume=True)
    whole = make_run(tmp_path, name="whole")
    train_model(whole)
    assert weights(run) == weights(whole)


def test_a_gradient_that_is_not_finite_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = EncoderDecoder.forward

    def steep(self: EncoderDecoder, batch: PairBatch) -> torch.Tensor:
        values = forward(self, batch)
        # sqrt has an infinite slope at 0.
        return values + torch.sqrt((values - values.detach()).abs())

    monkeypatch.setattr(EncoderDecoder, "forward", steep)
    with pytest.raises(ModelError, match="update 1: the norm of the gradient is nan"):
        train_model(make_run(tmp_path))


def test_an_existing_model_or_an_unfinished_run_is_not_overwritten(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(3))
    with pytest.raises(PhrasescoreError, match="an unfinished run; go on with it by --resume"):
        train_model(run)
    train_model(run, resume=True)
    before = weights(run)
    for resume in (False, True):
        with pytest.raises(PhrasescoreError, match="model: there is something already"):
            train_model(run, resume=resume)
    assert weights(run) == before


def test_a_work_folder_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.work.mkdir()
    (run.work / "thesis.tex").write_text("x")
    with pytest.raises(PhrasescoreError, match="expected a folder for this run alone"):
        train_model(run)
    assert (run.work / "thesis.tex").exists()


def test_resuming_what_has_not_begun_begins(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    train_model(run, resume=True)
    assert run.model.is_dir()


def test_a_run_is_not_resumed_with_other_settings_or_another_table(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(3))
    other = dataclasses.replace(run, config=TINY.override(["training.batch_size=6"]))
    with pytest.raises(ConfigError, match=r"--resume: \[training\] batch_size: .* has 5, got 6"):
        train_model(other, resume=True)
    with pytest.raises(ConfigError, match="--reverse: the run to resume was started without it"):
        train_model(dataclasses.replace(run, reverse=True), resume=True)
    with (tmp_path / "table").open("a") as file:
        file.write("a ||| b ||| 1\n")
    with pytest.raises(PhrasescoreError, match="not the table that the run in"):
        train_model(run, resume=True)


def test_two_runs_cannot_share_a_work_folder(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    with (
        run_module._locked(run.work),
        pytest.raises(PhrasescoreError, match="another run is at work here"),
    ):
        train_model(run, resume=True)


@pytest.mark.parametrize("error", [PhrasescoreError("bad line"), KeyboardInterrupt()])
def test_an_error_in_the_table_leaves_no_folder(tmp_path: Path, error: BaseException) -> None:
    def broken() -> Iterator[CountedPair]:
        yield from read_table(tmp_path / "table")
        raise error

    run = dataclasses.replace(make_run(tmp_path), read=broken)
    with pytest.raises(type(error)):
        train_model(run)
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


def test_a_damaged_state_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path, TINY.override(["training.checkpoint_updates=4"]))
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(6))
    (run.work / "state-000000004" / "optimizer.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(ModelError, match="state-000000004"):
        train_model(run, resume=True)

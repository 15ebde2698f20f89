"""Promises of a training run as a whole: phrasescore.training.run."""

import dataclasses
import itertools
import json
import math
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import torch

from phrasescore.errors import ConfigError, ModelError, PhrasescoreError, StoppedError
from phrasescore.io.journal import write_journal
from phrasescore.models.batches import PairBatch
from phrasescore.models.checkpoint import load_checkpoint, save_tensors
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.training import run_folder
from phrasescore.training.loop import TrainingProgress
from phrasescore.training.pair_store_writer import CountedPair
from phrasescore.training.run import train_model
from tests.tiny_runs import TINY, KilledError, kill_after, make_run, read_table, weights

pytestmark = pytest.mark.usefixtures("one_thread")


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
    assert states == ["state-000000020.safetensors"]
    state = json.loads((run.work / "run.json").read_text())["state"]
    best = [path.name for path in run.work.glob("best-*")]
    assert f"best-{state['best_update']:09d}.safetensors" in best


@pytest.mark.parametrize("moment", ["weights", "journal"])
def test_a_kill_while_a_state_is_written_goes_back_to_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    config = TINY.override(["training.checkpoint_updates=4"])
    whole = make_run(tmp_path, config, "whole")
    train_model(whole)
    run = make_run(tmp_path, config)
    name = "state-000000012.safetensors"

    def save_or_die(path: Path, tensors: dict[str, torch.Tensor]) -> None:
        save_tensors(path, tensors)
        if moment == "weights" and path.name == f"{name}.part":
            path.write_bytes(path.read_bytes()[:100])
            raise KilledError

    def write_or_die(path: Path, journal: msgspec.Struct) -> None:
        if (run.work / name).exists():
            raise KilledError
        write_journal(path, journal)

    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(run_folder, "save_tensors", save_or_die)
        patch.setattr(run_folder, "write_journal", write_or_die)
        train_model(run)
    states = [path.name for path in run.work.glob("state-*")]
    assert name in states or f"{name}.part" in states
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

        with pytest.raises(StoppedError, match="stopped after update 13; --resume") as caught:
            train_model(run, report=report)
        assert caught.value.signal == number
        assert [path.name for path in run.work.glob("state-*")] == ["state-000000013.safetensors"]
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
    with pytest.raises(
        ModelError, match=r"update 1: the norm .* is nan; .* No state was saved yet"
    ):
        train_model(make_run(tmp_path))


def test_an_existing_model_or_an_unfinished_run_is_not_overwritten(tmp_path: Path) -> None:
    run = make_run(tmp_path, TINY.override(["training.checkpoint_updates=2"]))
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(3))
    with pytest.raises(PhrasescoreError, match="an unfinished run; continue it with --resume"):
        train_model(run)
    train_model(run, resume=True)
    before = weights(run)
    for resume in (False, True):
        with pytest.raises(PhrasescoreError, match="model: already exists"):
            train_model(run, resume=resume)
    assert weights(run) == before


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
    problem = "--right-to-left: the run to resume was started without it"
    with pytest.raises(ConfigError, match=problem):
        train_model(dataclasses.replace(run, right_to_left=True), resume=True)
    with (tmp_path / "table").open("a") as file:
        file.write("a ||| b ||| 1\n")
    with pytest.raises(PhrasescoreError, match="not the table that the run in"):
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


def poison(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def initialize(_self: EncoderDecoder, _generator: torch.Generator) -> None:
        raise error

    monkeypatch.setattr(EncoderDecoder, "initialize", initialize)


@pytest.mark.parametrize(
    "error",
    [
        # What torch 2.13 makes of torch.empty(10**14) on a CPU.
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate "
            "memory: you tried to allocate 400000000000000 bytes. Error code 12 (Cannot "
            "allocate memory)"
        ),
        torch.OutOfMemoryError("CUDA out of memory."),
        MemoryError(),
    ],
    ids=["cpu", "cuda", "python"],
)
def test_a_network_that_does_not_fit_is_said_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    poison(monkeypatch, error)
    with pytest.raises(PhrasescoreError, match=r"^out of memory on cpu: the network does not fit"):
        train_model(make_run(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


def test_another_runtime_error_is_not_taken_for_a_lack_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, RuntimeError("shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="multiplied"):
        train_model(make_run(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


def test_a_batch_that_does_not_fit_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(_self: EncoderDecoder, _batch: PairBatch) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(EncoderDecoder, "forward", forward)
    with pytest.raises(PhrasescoreError, match=r"a batch does not fit; .*batch_size below 5$"):
        train_model(make_run(tmp_path))
    by_words = TINY.override(["training.batch_words=9"])
    with pytest.raises(PhrasescoreError, match=r"a batch does not fit; .*batch_words below 9$"):
        train_model(make_run(tmp_path, by_words))


def test_the_first_best_weights_come_with_a_state(tmp_path: Path) -> None:
    # Without a checkpoint by updates or minutes; the first validation is after update 6.
    run = make_run(tmp_path)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(10))
    assert [path.name for path in run.work.glob("state-*")] == ["state-000000006.safetensors"]
    assert (run.work / "best-000000006.safetensors").exists()


def test_a_damaged_state_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path, TINY.override(["training.checkpoint_updates=4"]))
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(6))
    (run.work / "state-000000004.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(ModelError, match="state-000000004"):
        train_model(run, resume=True)

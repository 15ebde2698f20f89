"""Promises of a training run: phrasescore.training.loop, run_state and run."""

import dataclasses
import itertools
import json
import math
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from phrasescore.checkpoint import REVERSE, load_checkpoint
from phrasescore.config import Config
from phrasescore.errors import ConfigError, ModelError, PhrasescoreError
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.records import PhrasePair
from phrasescore.training import run as run_module
from phrasescore.training.batches import PairBatch
from phrasescore.training.loop import TrainingProgress
from phrasescore.training.optimizers import FusedAdadelta
from phrasescore.training.pair_store_writer import Shortlist, write_pair_store
from phrasescore.training.random_order import DrawSettings, PairDraw
from phrasescore.training.run import TrainingRun, default_work, train_model
from phrasescore.training.table_spool import CountedPair
from phrasescore.vocabulary import Vocabulary

TINY = Config().override(
    [
        "model.hidden_size=6",
        "model.embedding_size=4",
        "model.maxout_size=3",
        "model.output_rank=4",
        "model.init_std=0.1",
        "training.batch_size=5",
        "training.updates=23",
        "training.validation_pairs=8",
        "training.validation_share=0.5",
        "training.validation_updates=6",
        "training.checkpoint_minutes=0",
    ]
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny products only wait for one another on more threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def write_table(path: Path, size: int = 60) -> Path:
    with path.open("w") as file:
        for i in range(size):
            source = " ".join(f"s{(i * 7 + j) % 11}" for j in range(1 + i % 3)) + f" x{i}"
            target = " ".join(f"t{(i * 5 + j) % 9}" for j in range(1 + i % 4))
            file.write(f"{source} ||| {target} ||| 1\n")
    return path


def read_table(path: Path) -> Iterator[CountedPair]:
    for line in path.read_bytes().split(b"\n")[:-1]:
        source, target, _ = line.decode().split(" ||| ")
        yield CountedPair(line, PhrasePair(tuple(source.split()), tuple(target.split())), 1.0)


def make_run(folder: Path, config: Config = TINY, name: str = "model") -> TrainingRun:
    table = folder / "table"
    if not table.exists():
        write_table(table)
    return TrainingRun(
        table=str(table),
        read=lambda: read_table(table),
        model=folder / name,
        work=default_work(folder / name),
        config=config,
        device=torch.device("cpu"),
    )


def weights(run: TrainingRun) -> bytes:
    return (run.model / "model.safetensors").read_bytes()


class KilledError(BaseException):
    """Stands for a process that ends at once."""


def kill_after(update: int) -> Callable[[TrainingProgress], None]:
    def report(now: TrainingProgress) -> None:
        if now.update == update:
            raise KilledError

    return report


SETTINGS = {
    "adadelta": [],
    "adam": ["training.optimizer=adam", "training.learning_rate=0.01"],
    "linear": ["training.schedule=linear", "training.window_batches=3"],
    "mean": ["training.loss=mean", "training.clip_norm=0"],
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_killed_run_that_is_resumed_ends_in_the_same_weights(tmp_path: Path, name: str) -> None:
    config = TINY.override([*SETTINGS[name], "training.checkpoint_updates=4"])
    whole = make_run(tmp_path, config, "whole")
    expected = train_model(whole)
    assert expected is not None
    killed = make_run(tmp_path, config, "killed")
    for place, update in enumerate((2, 4, 9, 18, 23)):
        with pytest.raises(KilledError):
            train_model(killed, resume=place > 0, report=kill_after(update))
        assert not killed.model.exists()
    record = train_model(killed, resume=True)
    assert weights(killed) == weights(whole)
    assert record is not None
    points = [
        (point.update, point.training_loss, point.validation_perplexity) for point in record.curve
    ]
    assert points == [
        (point.update, point.training_loss, point.validation_perplexity) for point in expected.curve
    ]
    assert record.best_update == expected.best_update


def test_the_same_seed_gives_the_same_weights_and_another_does_not(tmp_path: Path) -> None:
    first = make_run(tmp_path, name="first")
    again = make_run(tmp_path, name="again")
    other = make_run(tmp_path, TINY.override(["training.seed=2"]), "other")
    for run in (first, again, other):
        train_model(run)
    assert weights(first) == weights(again)
    assert weights(first) != weights(other)


def test_validation_pairs_are_never_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every pair has a word of its own, so a batch says which pairs are in it.
    seen: dict[bool, set[int]] = {True: set(), False: set()}
    forward = EncoderDecoder.forward

    def spy(self: EncoderDecoder, batch: PairBatch) -> torch.Tensor:
        last = batch.source_ids.gather(1, batch.source_lengths.unsqueeze(1) - 1)
        seen[self.training] |= set(last.flatten().tolist())
        return forward(self, batch)

    monkeypatch.setattr(EncoderDecoder, "forward", spy)
    record = train_model(make_run(tmp_path, TINY.override(["training.updates=40"])))
    assert record is not None
    assert (record.training_pairs, record.validation_pairs) == (52, 8)
    assert (len(seen[True]), len(seen[False])) == (52, 8)
    assert not seen[True] & seen[False]


def test_perplexity_counts_every_target_word_and_the_end(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    record = train_model(run)
    assert record is not None
    loaded = load_checkpoint(run.model)
    store = write_pair_store(tmp_path / "p", run.read(), run.config.vocabulary, max_length=100)
    held_out = PairDraw(store, DrawSettings(1, 5, 1, 8)).held_out()
    total, words = 0.0, 0
    for index in held_out.tolist():
        batch = store.batch(np.array([index]))
        total -= loaded.model(batch).item()
        words += int(batch.target_lengths[0]) + 1
    best = next(point for point in record.curve if point.update == record.best_update)
    assert best.validation_perplexity == pytest.approx(math.exp(total / words), rel=1e-5)


def test_the_training_loss_is_the_mean_over_predicted_words_since_the_last_point(
    tmp_path: Path,
) -> None:
    # With a vanishing learning rate the network stays a uniform guess over 9 words and 2 symbols
    # (its weights are about 1e-6), so that -log p a word is ln 11.
    config = TINY.override(
        ["training.learning_rate=1e-9", "model.init_std=1e-6", "training.updates=12"]
    )
    record = train_model(make_run(tmp_path, config))
    assert record is not None
    losses = [point.training_loss for point in record.curve]
    assert losses == pytest.approx([math.log(11)] * 2, abs=1e-4)
    perplexities = [point.validation_perplexity for point in record.curve]
    assert perplexities == pytest.approx([11.0] * 2, abs=1e-3)


def test_the_best_weights_on_validation_are_kept(tmp_path: Path) -> None:
    # A pair's 60 repetitions are soon learnt by heart, and then the held-out pairs get worse.
    config = TINY.override(
        [
            "training.optimizer=adam",
            "training.learning_rate=0.05",
            "training.updates=300",
            "training.validation_updates=10",
        ]
    )
    record = train_model(make_run(tmp_path, config))
    assert record is not None
    found = {point.update: point.validation_perplexity for point in record.curve}
    assert record.best_update == min(found, key=lambda update: found[update] or math.inf)
    assert record.best_update < 300
    assert found[record.best_update] != found[300]
    # The weights really are those: a run that ends there has the same.
    short = make_run(tmp_path, config.override([f"training.updates={record.best_update}"]), "short")
    train_model(short)
    assert weights(short) == weights(make_run(tmp_path))


def test_training_stops_when_validation_does_not_improve(tmp_path: Path) -> None:
    config = TINY.override(
        [
            "training.optimizer=adam",
            "training.learning_rate=0.05",
            "training.updates=0",
            "training.validation_updates=10",
            "training.patience=3",
        ]
    )
    record = train_model(make_run(tmp_path, config))
    assert record is not None
    assert record.stopped_by == "patience"
    assert record.updates == record.best_update + 30


@pytest.mark.parametrize(
    ("assignment", "stopped_by", "updates"),
    [
        # 52 pairs in batches of 5 are 11 batches an epoch.
        ("training.epochs=2", "epochs", 22),
        ("training.epochs=0.5", "epochs", 6),
        ("training.minutes=1e-9", "minutes", 1),
        ("training.updates=7", "updates", 7),
    ],
)
def test_a_run_stops_at_the_first_limit(
    tmp_path: Path, assignment: str, stopped_by: str, updates: int
) -> None:
    config = TINY.override(["training.updates=50", assignment])
    record = train_model(make_run(tmp_path, config))
    assert record is not None
    assert (record.stopped_by, record.updates) == (stopped_by, updates)


def test_minutes_count_over_resumptions(tmp_path: Path) -> None:
    config = TINY.override(["training.minutes=100", "training.checkpoint_updates=1"])
    run = make_run(tmp_path, config)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(5))
    state = next(run.work.glob("state-*")) / "state.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "seconds": 6001.0}))
    record = train_model(run, resume=True)
    assert record is not None
    assert (record.stopped_by, record.updates) == ("minutes", 4)


def test_without_held_out_pairs_the_last_weights_are_kept(tmp_path: Path) -> None:
    run = make_run(tmp_path, TINY.override(["training.validation_pairs=0"]))
    record = train_model(run)
    assert record is not None
    assert (record.validation_pairs, record.best_update) == (0, 23)
    assert {point.validation_perplexity for point in record.curve} == {None}
    assert load_checkpoint(run.model).record.training_pairs == 60


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


@pytest.mark.parametrize(
    ("assignments", "problem"),
    [
        (["training.updates=0", "training.schedule=linear"], "linear needs a limit"),
        (["training.updates=0"], "the run would never end"),
        (
            ["training.updates=0", "training.patience=3", "training.validation_pairs=0"],
            "the run would never end",
        ),
    ],
)
def test_a_run_without_an_end_is_refused(
    tmp_path: Path, assignments: list[str], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        train_model(make_run(tmp_path, TINY.override(assignments)))


def test_a_reverse_run_says_so_and_reads_the_target_side(tmp_path: Path) -> None:
    run = dataclasses.replace(
        make_run(tmp_path),
        reverse=True,
        shortlists=lambda: (Shortlist(), Shortlist("v", vocabulary=Vocabulary(["s1"]))),
    )
    train_model(run)
    checkpoint = load_checkpoint(run.model)
    assert checkpoint.record.direction == REVERSE
    assert "t1" in checkpoint.source_vocabulary
    assert checkpoint.target_vocabulary == Vocabulary(["s1"])
    assert checkpoint.table_source_vocabulary == Vocabulary(["s1"])


def test_the_learning_rate_falls_to_zero_where_it_is_linear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []

    def note(_self: object, learning_rate: float, _clip_norm: float) -> float:
        rates.append(learning_rate)
        return 0.0

    monkeypatch.setattr(FusedAdadelta, "step", note)
    config = TINY.override(
        ["training.schedule=linear", "training.updates=4", "training.learning_rate=0.8"]
    )
    train_model(make_run(tmp_path, config))
    assert rates == pytest.approx([0.8, 0.6, 0.4, 0.2])


def test_bfloat16_trains_to_about_the_same_and_keeps_float32_weights(tmp_path: Path) -> None:
    exact = train_model(make_run(tmp_path, name="exact"))
    run = make_run(tmp_path, TINY.override(["training.precision=bfloat16"]), "rounded")
    rounded = train_model(run)
    assert exact is not None
    assert rounded is not None
    losses = [[point.training_loss for point in record.curve] for record in (exact, rounded)]
    # A number in bfloat16 is good to 2^-9 of its value.
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
    model = load_checkpoint(run.model).model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_progress_tells_where_the_run_is(tmp_path: Path) -> None:
    seen: list[TrainingProgress] = []
    train_model(make_run(tmp_path), report=seen.append)
    assert [now.update for now in seen] == list(range(1, 24))
    assert seen[10].epochs == 1.0
    assert seen[5].latest is None
    assert seen[6].latest is not None
    assert seen[6].latest.update == 6
    assert all(now.loss > 0 and now.words_per_second > 0 for now in seen)
    assert seen[-1].seconds_left == 0


def test_a_precision_that_the_device_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="tf32 needs a CUDA device"):
        train_model(make_run(tmp_path, TINY.override(["training.precision=tf32"])))

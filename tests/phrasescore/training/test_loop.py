"""Promises of the training loop: phrasescore.training.loop."""

import dataclasses
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from phrasescore.errors import ConfigError, ModelError
from phrasescore.models.batches import PairBatch
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.training.draw import Draw
from phrasescore.training.loop import TrainingProgress
from phrasescore.training.optimizers import FusedAdadelta
from phrasescore.training.pair_store_writer import write_pair_store
from phrasescore.training.run import train_model
from tests.tiny_runs import TINY, KilledError, kill_after, make_run, weights

pytestmark = pytest.mark.usefixtures("one_thread")


SETTINGS = {
    "adadelta": [],
    "adam": ["training.optimizer=adam", "training.learning_rate=0.01"],
    "linear": ["training.schedule=linear", "training.window_batches=3"],
    "mean": ["training.loss=mean", "training.clip_norm=0"],
    "sgd": ["training.optimizer=sgd", "training.schedule=halving", "training.halving_start=1"],
    "dropout": ["model.dropout=0.3"],
    "sampled": ["training.softmax=sampled", "training.sampled_words=4"],
    "averages": ["training.average_checkpoints=3", "training.label_smoothing=0.1"],
    "pieces": ["vocabulary.subwords=30", "training.subword_dropout=0.3"],
    "words": ["training.batch_words=20", "training.window_batches=3"],
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_killed_run_that_is_resumed_ends_in_the_same_weights(tmp_path: Path, name: str) -> None:
    config = TINY.override([*SETTINGS[name], "training.checkpoint_updates=4"])
    whole = make_run(tmp_path, config, "whole")
    expected = train_model(whole)
    killed = make_run(tmp_path, config, "killed")
    kills = (2, 4, 9, 18, 23) if name == "adadelta" else (9, 18)
    for place, update in enumerate(kills):
        with pytest.raises(KilledError):
            train_model(killed, resume=place > 0, report=kill_after(update))
        assert not killed.model.exists()
    record = train_model(killed, resume=True)
    assert weights(killed) == weights(whole)
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
        source = batch.source
        seen[self.training] |= set(source.ids[source.starts + source.lengths - 1].tolist())
        return forward(self, batch)

    monkeypatch.setattr(EncoderDecoder, "forward", spy)
    record = train_model(make_run(tmp_path, TINY.override(["training.updates=40"])))
    assert (record.training_pairs, record.validation_pairs) == (52, 8)
    assert (len(seen[True]), len(seen[False])) == (52, 8)
    assert not seen[True] & seen[False]


def test_perplexity_counts_every_target_word_and_the_end(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    record = train_model(run)
    loaded = load_checkpoint(run.model)
    store = write_pair_store(tmp_path / "p", run.read(), run.config.vocabulary, max_length=100)
    held_out = Draw(store, run.config.training, 8).held_out()
    total, words = 0.0, 0
    for index in held_out.tolist():
        batch = store.batch(np.array([index]))
        total -= loaded.model(batch).item()
        words += int(batch.target.lengths[0]) + 1
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
    losses = [point.training_loss for point in record.curve]
    assert losses == pytest.approx([math.log(11)] * 2, abs=1e-4)
    perplexities = [point.validation_perplexity for point in record.curve]
    assert perplexities == pytest.approx([11.0] * 2, abs=1e-3)


OVERFITTING = [f"training.{each}" for each in ("optimizer=adam", "learning_rate=0.05")]
OVERFITTING += ["training.validation_updates=10"]


def test_the_best_weights_on_validation_are_kept(tmp_path: Path) -> None:
    # A pair's 60 repetitions are soon learnt by heart, and then the held-out pairs get worse.
    config = TINY.override([*OVERFITTING, "training.updates=120"])
    record = train_model(make_run(tmp_path, config))
    found = {point.update: point.validation_perplexity for point in record.curve}
    assert record.best_update == min(found, key=lambda update: found[update] or math.inf)
    assert record.best_update < 120
    assert found[record.best_update] != found[120]
    # The weights really are those: a run that ends there has the same.
    short = make_run(tmp_path, config.override([f"training.updates={record.best_update}"]), "short")
    train_model(short)
    assert weights(short) == weights(make_run(tmp_path))


def test_training_stops_when_validation_does_not_improve(tmp_path: Path) -> None:
    config = TINY.override([*OVERFITTING, "training.updates=0", "training.patience=3"])
    record = train_model(make_run(tmp_path, config))
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
    assert (record.stopped_by, record.updates) == (stopped_by, updates)


def test_minutes_count_over_resumptions(tmp_path: Path) -> None:
    config = TINY.override(["training.minutes=100", "training.checkpoint_updates=1"])
    run = make_run(tmp_path, config)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(5))
    path = run.work / "run.json"
    journal = json.loads(path.read_text())
    journal["state"]["seconds"] = 6001.0
    path.write_text(json.dumps(journal))
    record = train_model(run, resume=True)
    assert (record.stopped_by, record.updates) == ("minutes", 4)


def test_without_held_out_pairs_the_last_weights_are_kept(tmp_path: Path) -> None:
    run = make_run(tmp_path, TINY.override(["training.validation_pairs=0"]))
    record = train_model(run)
    assert (record.validation_pairs, record.best_update) == (0, 23)
    assert {point.validation_perplexity for point in record.curve} == {None}
    assert load_checkpoint(run.model).record.training_pairs == 60


@pytest.mark.parametrize(
    ("assignments", "problem"),
    [
        (["training.updates=0", "training.schedule=linear"], "linear needs a limit"),
        (["training.updates=0"], "the run would never end"),
        (["training.average_checkpoints=2", "training.validation_pairs=0"], "are averaged at"),
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


def test_a_right_to_left_run_learns_what_a_run_on_targets_turned_round_learns(
    tmp_path: Path,
) -> None:
    run = dataclasses.replace(make_run(tmp_path), right_to_left=True)
    train_model(run)
    (tmp_path / "turned").mkdir()
    lines = [line.split(" ||| ") for line in (tmp_path / "table").read_text().splitlines()]
    turned = "".join(
        f"{source} ||| {' '.join(target.split()[::-1])} ||| {count}\n"
        for source, target, count in lines
    )
    (tmp_path / "turned" / "table").write_text(turned)
    other = make_run(tmp_path / "turned")
    train_model(other)
    assert (run.model / "model.safetensors").read_bytes() == (
        other.model / "model.safetensors"
    ).read_bytes()
    record = load_checkpoint(run.model).record
    assert record.direction == "target-given-source-right-to-left"
    assert not load_checkpoint(other.model).right_to_left


# The tiny run has 52 pairs: with 13 in a batch, an epoch has 4 updates.
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["schedule=linear", "updates=4"], [0.8, 0.6, 0.4, 0.2]),
        (["schedule=linear", "updates=4", "warmup_updates=2"], [0.4, 0.6, 0.4, 0.2]),
        (
            ["schedule=halving", "halving_start=1", "halving_epochs=0.5", "updates=9"],
            [0.8] * 4 + [0.4] * 2 + [0.2] * 2 + [0.1],
        ),
        (["warmup_updates=4", "updates=6"], [0.2, 0.4, 0.6, 0.8, 0.8, 0.8]),
        (
            ["schedule=inverse-sqrt", "warmup_updates=2", "updates=8"],
            [0.4, *(0.8 * math.sqrt(2 / update) for update in range(2, 9))],
        ),
    ],
)
def test_the_learning_rate_follows_the_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: list[str], expected: list[float]
) -> None:
    rates: list[float] = []

    def note(_self: object, learning_rate: float, _clip_norm: float) -> float:
        rates.append(learning_rate)
        return 0.0

    monkeypatch.setattr(FusedAdadelta, "step", note)
    shared = ["batch_size=13", "learning_rate=0.8"]
    config = TINY.override([f"training.{setting}" for setting in [*shared, *settings]])
    train_model(make_run(tmp_path, config))
    assert rates == pytest.approx(expected)


def test_the_mean_of_the_latest_validations_is_validated_and_kept(tmp_path: Path) -> None:
    found = []
    for updates, count in ((2, 1), (4, 1), (6, 1), (6, 2), (6, 9)):
        settings = [f"updates={updates}", "validation_updates=2", f"average_checkpoints={count}"]
        run = make_run(tmp_path, TINY.override([f"training.{each}" for each in settings]))
        record = train_model(replace(run, model=tmp_path / f"{updates} {count}"))
        assert record.best_update == updates
        found.append(load_checkpoint(tmp_path / f"{updates} {count}").model.state_dict())
    first, second, third, of_two, of_all = found
    for name, value in third.items():
        torch.testing.assert_close(of_two[name], (second[name] + value) / 2)
        # There are fewer validations than the mean may have.
        torch.testing.assert_close(of_all[name], (first[name] + second[name] + value) / 3)


def test_a_state_without_some_of_the_recent_weights_is_refused(tmp_path: Path) -> None:
    config = TINY.override([*SETTINGS["averages"], "training.checkpoint_updates=4"])
    run = make_run(tmp_path, config)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(9))
    (path,) = run.work.glob("state-*.safetensors")
    tensors = load_file(path)
    del tensors[next(name for name in tensors if name.startswith("recent/0/"))]
    save_file(tensors, path)
    with pytest.raises(ModelError, match=r"state-.*: cannot continue from this state"):
        train_model(run, resume=True)


def test_the_mean_loss_of_a_batch_of_words_is_over_words(tmp_path: Path) -> None:
    one = ["updates=1", "optimizer=sgd", "loss=mean", "clip_norm=0", "validation_pairs=0"]
    # The table has 60 pairs, and 150 words and 60 ends are predicted.
    batches = {"pairs": ["batch_size=60", "learning_rate=0.6"]}
    batches["words"] = ["batch_words=210", "learning_rate=2.1"]
    found = []
    for name, settings in batches.items():
        config = TINY.override([f"training.{setting}" for setting in (*one, *settings)])
        run = make_run(tmp_path, config, name)
        train_model(run)
        found.append(load_checkpoint(run.model).model.state_dict())
    for name, value in found[0].items():
        torch.testing.assert_close(found[1][name], value)


def test_a_sample_as_large_as_the_shortlist_is_the_whole_softmax(tmp_path: Path) -> None:
    full = make_run(tmp_path, TINY, "full")
    settings = ["training.softmax=sampled", "training.sampled_words=11"]
    sampled = make_run(tmp_path, TINY.override(settings), "sampled")
    smaller = make_run(tmp_path, TINY.override([*settings[:1], "training.sampled_words=5"]), "less")
    for run in (full, sampled, smaller):
        train_model(run)
    assert weights(sampled) == weights(full)
    assert weights(smaller) != weights(full)


def test_what_is_dropped_depends_on_the_seed_and_the_update_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[float] = []
    forward = EncoderDecoder.forward

    def spy(self: EncoderDecoder, batch: PairBatch) -> torch.Tensor:
        if self.training:
            drawn.append(torch.rand(()).item())
        return forward(self, batch)

    monkeypatch.setattr(EncoderDecoder, "forward", spy)
    config = TINY.override(["model.dropout=0.1", "training.updates=8"])
    for place, seed in enumerate((1, 1, 2)):
        torch.manual_seed(place)
        train_model(make_run(tmp_path, config.override([f"training.seed={seed}"]), f"m{place}"))
    first, again, other = drawn[:8], drawn[8:16], drawn[16:]
    assert first == again
    assert len({*first, *other}) == 16


def test_bfloat16_trains_to_about_the_same_and_keeps_float32_weights(tmp_path: Path) -> None:
    exact = train_model(make_run(tmp_path, name="exact"))
    run = make_run(tmp_path, TINY.override(["training.precision=bfloat16"]), "rounded")
    rounded = train_model(run)
    losses = [[point.training_loss for point in record.curve] for record in (exact, rounded)]
    # A number in bfloat16 is good to 2^-9 of its value.
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
    model = load_checkpoint(run.model).model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_progress_tells_where_the_run_is(tmp_path: Path) -> None:
    seen: list[TrainingProgress] = []
    train_model(make_run(tmp_path), report=seen.append)
    assert [now.update for now in seen if now.is_validating] == [6, 12, 18, 23]
    seen = [now for now in seen if not now.is_validating]
    assert [now.update for now in seen] == list(range(1, 24))
    assert seen[10].epochs == 1.0
    assert seen[5].latest is None
    assert seen[6].latest is not None
    assert seen[6].latest.update == 6
    assert all(now.loss > 0 and now.words_per_second > 0 for now in seen)
    assert [now.share for now in seen] == pytest.approx([n / 23 for n in range(1, 24)])


def test_past_a_limit_the_whole_share_is_used(tmp_path: Path) -> None:
    seen: list[TrainingProgress] = []
    # Six tenths of a microsecond, which are over before the first update is.
    config = TINY.override(["training.minutes=1e-8"])
    train_model(make_run(tmp_path, config), report=seen.append)
    assert [now.share for now in seen] == [1.0, 1.0]  # the second one while it validates


def test_a_precision_that_the_device_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="tf32 needs a CUDA device"):
        train_model(make_run(tmp_path, TINY.override(["training.precision=tf32"])))

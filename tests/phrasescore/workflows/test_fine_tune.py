"""Promises of phrasescore.workflows.fine_tune: what the lists say, and what is learned of them."""

import math
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch

import phrasescore
from moses_integration.moses_ini import load_weights
from moses_integration.nbest import read_nbest
from phrasescore.errors import ArgumentError, DataError, ModelError, PhrasescoreError
from phrasescore.models.batches import batch_pairs
from phrasescore.models.checkpoint import (
    Checkpoint,
    FineTuning,
    TrainingRecord,
    load_checkpoint,
)
from phrasescore.models.layers import PairNetwork
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import FINE_TUNING, fine_tuning_settings
from phrasescore.settings.declaration import grouped
from phrasescore.settings.training import ListTraining
from phrasescore.training.draw import Permutation
from phrasescore.training.expected_bleu import ExpectedBleuLoop
from phrasescore.training.loop import TrainingProgress
from phrasescore.training.run_folder import RunFolder
from phrasescore.training.stores import ListBatch
from phrasescore.workflows import train as module
from phrasescore.workflows.training_lists import find_feature, read_training_lists
from tests.tiny_lists import FEATURES, WEIGHTS, ListTask
from tests.tiny_runs import KilledError
from tuning.metrics import Bleu, sentence_bleu

pytestmark = pytest.mark.usefixtures("one_thread")

# Few lists, few updates.
SMALL = ["training.validation_updates=5", "training.batch_size=8", "training.learning_rate=0.02"]


def fine_tune(task: ListTask, name: str, output: str = "model", **given: object) -> TrainingRecord:
    if name == "joint":
        given = {"alignments": task.alignments, **given}
    options = {
        "updates": 20,
        "changes": SMALL,
        "feature": FEATURES[name],
        "compute": Compute(threads=1, device="cpu"),
        **given,
    }
    return phrasescore.fine_tune(
        *(task.model, [task.lists], task.source, [task.references], task.weights),
        *(task.folder / output,),
        **grouped(phrasescore.fine_tune, options),
    )


@pytest.mark.parametrize("kind", ["cslm", "encoder-decoder", "joint"])
def test_expected_bleu_rises_and_the_network_chooses_better(tmp_path: Path, kind: str) -> None:
    task = ListTask(tmp_path, kind, sentences=40)
    record = fine_tune(task, kind)
    first, *_, last = (point.expected_bleu or 0.0 for point in record.curve)
    best = max(point.expected_bleu or 0.0 for point in record.curve)
    assert best > first + 5
    assert last <= best
    made = load_checkpoint(tmp_path / "model")
    assert made.record == record
    tuning = record.fine_tuning
    assert tuning is not None
    assert (tuning.lists, tuning.held_out_lists, tuning.objective) == (36, 4, "bleu")
    assert (tuning.feature, tuning.weight, tuning.likelihood) == (FEATURES[kind], 1.0, 0.1)
    assert tuning.start_fingerprint == load_checkpoint(task.model).fingerprint
    # All lists: the best hypotheses by the weights, before and after.
    before, after = (chosen_gain(task, load_checkpoint(path)) for path in (task.model, made.folder))
    assert after > before + 0.05


def chosen_gain(task: ListTask, checkpoint: Checkpoint) -> float:
    """Return the mean BLEU of the hypotheses of the highest totals, 0 to 1."""
    gains = []
    for rows in independent_lists(task, checkpoint):
        gains.append(max(rows)[1])
    return sum(gains) / len(gains)


def independent_lists(task: ListTask, checkpoint: Checkpoint) -> list[list[tuple[float, float]]]:
    references = [line.split() for line in task.references.read_text().splitlines()]
    sources = [line.split() for line in task.source.read_text().splitlines()]
    bleu = Bleu([references])
    found = []
    # Phrases of one word recur in most lists.
    log_prob = cache(partial(log_prob_of, checkpoint))
    for nbest in read_nbest(str(task.lists)):
        totals: dict[tuple[str, ...], float] = {}
        for place, field in enumerate(nbest.hypotheses):
            words = nbest.distinct()[field]
            features = nbest.features(place)
            total = features["LM0"][0] + 0.5 * features["TranslationModel0"][0]
            if checkpoint.config.kind == "encoder-decoder":
                both = [tuple(side) for side in (sources[nbest.id], words)]
                phrases = zip(
                    *([side[:2], *((word,) for word in side[2:])] for side in both), strict=True
                )
                total += sum(log_prob(*phrase) for phrase in phrases)
            else:
                total += features["TranslationModel0"][1]
                total += log_prob(tuple(sources[nbest.id]), words)
            totals[words] = max(total, totals.get(words, -math.inf))
        stats = bleu.statistics(list(totals), [nbest.id] * len(totals))
        gains = sentence_bleu(stats, rewards_length=True).tolist()
        found.append(list(zip(totals.values(), gains, strict=True)))
    return found


def log_prob_of(checkpoint: Checkpoint, source: tuple[str, ...], target: tuple[str, ...]) -> float:
    if checkpoint.reverse:
        source, target = target, source
    read = [] if checkpoint.config.kind == "cslm" else checkpoint.source_vocabulary.ids(source)
    # The second word's sources are the first two, of which the first one is the middle.
    aligned = [[0, 0, *range(2, len(target))]] if checkpoint.config.kind == "joint" else None
    batch = batch_pairs([(read, checkpoint.target_vocabulary.ids(target))], aligned)
    with torch.no_grad():
        return float(checkpoint.model(batch))


@pytest.mark.parametrize("kind", ["cslm", "encoder-decoder", "joint", "lstm"])
def test_the_first_point_is_the_expected_bleu_of_the_start(tmp_path: Path, kind: str) -> None:
    task = ListTask(tmp_path, kind, sentences=8)
    settings = [*SMALL, "training.validation_share=0.5"]
    record = fine_tune(task, kind, updates=1, changes=settings)
    tuning = record.fine_tuning
    assert tuning is not None
    lists = independent_lists(task, load_checkpoint(task.model))
    expected = []
    for rows in lists:
        highest = max(total for total, _ in rows)
        shares = [math.exp(tuning.scale * (total - highest)) for total, _ in rows]
        gain = sum(share * gain for share, (_, gain) in zip(shares, rows, strict=True))
        expected.append(100 * gain / sum(shares))
    held_out = Permutation(8, seed=FINE_TUNING.seed, stream=0)(np.arange(4)).tolist()
    mean = sum(expected[place] for place in held_out) / 4
    assert record.curve[0].expected_bleu == pytest.approx(mean, abs=1e-3)
    # The scale gives the totals of the held-out lists a standard deviation of 2.
    squares = []
    for place in held_out:
        totals = [total for total, _ in lists[place]]
        middle = sum(totals) / len(totals)
        squares += [(tuning.scale * (total - middle)) ** 2 for total in totals]
    assert sum(squares) / len(squares) == pytest.approx(4.0, rel=1e-4)


def make_loop(
    task: ListTask, checkpoint: Checkpoint, kind: str, network: PairNetwork, likelihood: float
) -> ExpectedBleuLoop:
    weights = load_weights(task.weights).lists
    feature = find_feature(weights, FEATURES[kind], "weights")
    lists = read_training_lists(
        *([str(task.lists)], str(task.source), [str(task.references)], weights, feature),
        checkpoint,
        alignments=str(task.alignments) if kind == "joint" else None,
        where="weights",
    )
    config = fine_tuning_settings(checkpoint.config, SMALL).training
    tuning = FineTuning("bleu", "", 0, 0, FEATURES[kind], feature.weight, 0.0, likelihood)
    folder = RunFolder(task.folder / "work")
    return ExpectedBleuLoop(network, lists, config, folder, lambda _: None, tuning)


@pytest.mark.parametrize(
    ("kind", "likelihood"),
    [("encoder-decoder", 0.0), ("encoder-decoder", 0.5), ("lstm", 0.5), ("joint", 0.5)],
)
def test_the_gradient_is_that_of_finite_differences(
    tmp_path: Path, kind: str, likelihood: float
) -> None:
    task = ListTask(tmp_path, kind, sentences=5)
    checkpoint = load_checkpoint(task.model)
    network = checkpoint.model.double()
    assert isinstance(network, PairNetwork)
    loop = make_loop(task, checkpoint, kind, network.requires_grad_(), likelihood)
    loop.state.scale = 1.5
    batch = loop._store.batch(np.arange(5))
    assert isinstance(batch, ListBatch)

    def loss() -> float:
        network.zero_grad()
        return loop._make_gradient(batch, 5).item() / 5

    loss()
    gradients = {
        name: weight.grad.clone()
        for name, weight in network.named_parameters()
        if weight.grad is not None
    }
    for name, weight in network.named_parameters():
        flat, gradient = weight.detach().view(-1), gradients[name].view(-1)
        place = int(gradient.abs().argmax())
        before, step = flat[place].item(), 1e-5
        losses = []
        for value in (before + step, before - step):
            flat[place] = value
            losses.append(loss())
        flat[place] = before
        slope = (losses[0] - losses[1]) / (2 * step)
        assert gradient[place].item() == pytest.approx(slope, rel=1e-5, abs=1e-9), name
        assert slope != 0, name


def test_the_network_with_the_highest_expected_bleu_is_kept(tmp_path: Path) -> None:
    task = ListTask(tmp_path, "lstm", sentences=20)
    # The likelihood of the references counts alone, and by the weight it is a bad thing.
    task.write_weights({**WEIGHTS, "Network0": (-1.0,)})
    done = fine_tune(task, "lstm", updates=20, likelihood=1e4)
    assert (done.updates, done.best_update) == (20, 0)
    made, start = load_checkpoint(tmp_path / "model"), load_checkpoint(task.model)
    assert made.fingerprint == start.fingerprint  # the same weights
    assert made.record.fine_tuning is not None
    assert done.summary().count("expected BLEU") == 2


@pytest.fixture(name="kill_at")
def killing(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def choose(update: int) -> None:
        def report(_meter: object, now: TrainingProgress, _curve: object) -> None:
            if now.update == update:
                raise KilledError

        monkeypatch.setattr(module, "report_update", report)

    return choose


def test_a_killed_run_goes_on_to_the_same_weights(
    tmp_path: Path, kill_at: Callable[[int], None]
) -> None:
    task = ListTask(tmp_path, "lstm", sentences=20)
    settings = [*SMALL, "training.checkpoint_updates=3"]
    whole = fine_tune(task, "lstm", "whole", changes=settings)
    for update in (1, 8, 16):
        kill_at(update)
        with pytest.raises(KilledError):
            fine_tune(task, "lstm", "killed", changes=settings, resume=True)
        assert not (tmp_path / "killed").exists()
    kill_at(0)
    resumed = fine_tune(task, "lstm", "killed", changes=settings, resume=True)
    files = [tmp_path / name / "model.safetensors" for name in ("whole", "killed")]
    assert files[0].read_bytes() == files[1].read_bytes()
    curves = [
        [(point.update, point.training_loss, point.expected_bleu) for point in done.curve]
        for done in (whole, resumed)
    ]
    assert curves[0] == curves[1]
    assert not (tmp_path / "killed.work").exists()


def test_a_run_is_resumed_with_its_lists_alone(
    tmp_path: Path, kill_at: Callable[[int], None]
) -> None:
    task = ListTask(tmp_path, "lstm", sentences=20)
    kill_at(1)
    with pytest.raises(KilledError):
        fine_tune(task, "lstm")
    with pytest.raises(PhrasescoreError, match="an unfinished run; continue it with --resume"):
        fine_tune(task, "lstm")
    with pytest.raises(PhrasescoreError, match="was started with another value for likelihood"):
        fine_tune(task, "lstm", resume=True, likelihood=0.2)
    task.references.write_text(task.references.read_text().replace("t1", "t2"))
    with pytest.raises(
        PhrasescoreError, match="was started with another value for text of lists, source or"
    ):
        fine_tune(task, "lstm", resume=True)


def test_a_run_that_was_kept_is_trained_further(tmp_path: Path) -> None:
    task = ListTask(tmp_path, "lstm", sentences=20)
    settings = [*SMALL, "training.schedule=constant"]
    whole = fine_tune(task, "lstm", "whole", updates=8, changes=settings)
    fine_tune(task, "lstm", updates=5, changes=settings, keep_work=True)
    done = fine_tune(task, "lstm", updates=8, changes=settings, resume=True)
    assert done.updates == 8
    files = [tmp_path / name / "model.safetensors" for name in ("whole", "model")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len(whole.curve) == 3  # after 0, 5 and 8 updates
    with pytest.raises(PhrasescoreError, match="model: already exists"):
        fine_tune(task, "lstm", updates=9)


def test_lists_of_several_files_follow_one_another(tmp_path: Path) -> None:
    task = ListTask(tmp_path, "lstm", sentences=20)
    whole = fine_tune(task, "lstm", "whole", updates=2)
    lines = task.lists.read_text().splitlines(keepends=True)
    task.lists.write_text("".join(line for line in lines if int(line.split()[0]) < 13))
    second = tmp_path / "second"
    rest = [line.split(" ", 1) for line in lines if int(line.split()[0]) >= 13]
    second.write_text("".join(f"{int(number) - 13} {line}" for number, line in rest))
    done = phrasescore.fine_tune(
        *(task.model, [task.lists, second], task.source, [task.references], task.weights),
        tmp_path / "parts",
        settings=ListTraining(feature="Network0", changes=SMALL, updates=2),
        compute=Compute(threads=1),
    )
    assert [point.expected_bleu for point in done.curve] == [
        point.expected_bleu for point in whole.curve
    ]


def test_a_kind_that_cannot_learn_from_lists_is_refused(tmp_path: Path) -> None:
    task = ListTask(tmp_path, "lstm", sentences=20)
    with pytest.raises(ModelError, match="expected a model of the kind grconv, found lstm"):
        fine_tune(task, "lstm", kind="grconv")
    with pytest.raises(
        ArgumentError, match="--alignments can only be used with joint, not with lstm"
    ):
        fine_tune(task, "lstm", alignments=task.alignments)
    joint = ListTask(tmp_path, "joint", sentences=20)
    with pytest.raises(ArgumentError, match="joint is trained on aligned text: --alignments is"):
        fine_tune(joint, "joint", alignments=None)
    joint.alignments.write_text("0-0\n")
    with pytest.raises(DataError, match="alignments:1: the text ends with this line"):
        fine_tune(joint, "joint")
    joint.alignments.write_text("0-9\n" * 20)
    with pytest.raises(DataError, match=r"alignments:1: the alignment link 0-9"):
        fine_tune(joint, "joint")
    assert not (tmp_path / "model").exists()

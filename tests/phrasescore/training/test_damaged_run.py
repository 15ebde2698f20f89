"""A damaged work folder is one line of error before the training."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch

from phrasescore.errors import ModelError, PhrasescoreError
from phrasescore.training.run import train_model
from tests.tiny_runs import TINY, KilledError, kill_after, make_run

SAVING = TINY.override(["training.checkpoint_updates=4"])


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("name", "kind", "place", "number"),
    [
        ("source.words", np.uint16, 7, 65535),
        ("target.words", np.uint16, 0, 900),
        ("source.starts", np.int64, 3, -1),
        ("target.starts", np.int64, 0, 1),
        ("target.starts", np.int64, 2, 1 << 62),
        ("source.starts", np.int64, 59, 1),
    ],
)
def test_numbers_of_pairs_that_cannot_be_are_an_error_before_the_training(
    tmp_path: Path, name: str, kind: type[np.generic], place: int, number: int
) -> None:
    run = make_run(tmp_path, SAVING)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(10))
    numbers = np.fromfile(run.work / "pairs" / name, kind)
    numbers[place] = number
    numbers.tofile(run.work / "pairs" / name)
    seen: list[int] = []
    with pytest.raises(
        ModelError, match=r"pairs: expected .* in the vocabularies, found other numbers"
    ):
        train_model(run, resume=True, report=lambda now: seen.append(now.update))
    assert seen == []


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("state", {"update": -1}),
        ("state", {"update": 10**30}),
        ("state", {"epoch": -1}),
        ("state", {"epoch": (1 << 64) - 1}),
        ("state", {"batch": 11}),
        ("state", {"batch": -1}),
        ("state", {"seconds": -1.0}),
        ("state", {"seconds": 1e308}),
        ("state", {"loss_words": -1}),
        ("state", {"loss_words": 10**400}),
        ("state", {"stale": -1}),
        ("state", {"scale": -1.0}),
        ("state", {"curve": "x"}),
        ("state", {"curve": [[1] * 5000]}),
        ("pairs", {"pairs": -1}),
        ("pairs", {"pairs": 0}),
        ("pairs", {"pairs": 1 << 63}),
        ("pairs", {"lines": -3}),
        ("pairs", {"max_length": "x" * 100000}),
        ("pairs", {"source_coverage": 1e308}),
        ("pairs", {"fingerprint": 3}),
        ("pairs", {"reverse": "yes"}),
    ],
)
def test_a_state_that_cannot_be_is_an_error_before_the_training(
    tmp_path: Path, name: str, values: dict[str, object]
) -> None:
    run = make_run(tmp_path, SAVING)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(10))
    path = run.work / {"state": "run.json", "pairs": "pairs/pairs.json"}[name]
    content = json.loads(path.read_text())
    (content["state"] if name == "state" else content).update(values)
    path.write_text(json.dumps(content))
    seen: list[int] = []
    with pytest.raises(PhrasescoreError, match=r"model\.work"):
        train_model(run, resume=True, report=lambda now: seen.append(now.update))
    assert seen == []


def test_an_optimizer_s_state_of_another_network_is_said_with_its_file(tmp_path: Path) -> None:
    run = make_run(tmp_path, SAVING)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(10))
    path = run.work / "state-000000008.safetensors"
    tensors = safetensors.torch.load_file(path)
    changed = {
        name.replace("optimizer/", "optimizer/other"): each for name, each in tensors.items()
    }
    safetensors.torch.save_file(changed, path)
    with pytest.raises(
        ModelError, match=r"state-000000008\.safetensors: cannot continue from this"
    ):
        train_model(run, resume=True)

"""The precision of training that a measurement at the start chooses."""

from pathlib import Path

import pytest
import torch

from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.training import precision
from phrasescore.training.ranks import Ranks
from phrasescore.training.run import train_model
from tests.tiny_runs import TINY, KilledError, kill_after, make_run

AUTO = TINY.override(["training.precision=auto"])


def times(monkeypatch: pytest.MonkeyPatch, bfloat16: float) -> None:
    """Give products in bfloat16 this time, and products in float32 the time 1."""
    monkeypatch.setattr(precision, "lacks_units", lambda _: False)
    seconds = {"float32": 1.0, "bfloat16": bfloat16}
    monkeypatch.setattr(precision, "_seconds", lambda name, _: seconds[name])


@pytest.mark.parametrize(
    ("bfloat16", "expected"), [(0.5, "bfloat16"), (0.9, "float32"), (1.5, "float32")]
)
def test_bfloat16_is_chosen_where_its_products_are_faster(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    bfloat16: float,
    expected: str,
) -> None:
    times(monkeypatch, bfloat16)
    run = make_run(tmp_path, AUTO)
    caplog.set_level("INFO")
    train_model(run)
    assert f"bfloat16 products take {bfloat16:.2f} of the time" in caplog.text
    assert f"precision {expected}, seed" in caplog.text
    assert load_checkpoint(run.model).config.training.precision == expected


def test_a_processor_without_bfloat16_is_not_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    times(monkeypatch, 0.1)
    monkeypatch.setattr(precision, "lacks_units", lambda _: True)
    run = make_run(tmp_path, AUTO)
    train_model(run)
    assert load_checkpoint(run.model).config.training.precision == "float32"


def test_a_resumed_run_keeps_its_precision(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    times(monkeypatch, 0.5)
    run = make_run(tmp_path, AUTO)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(1))
    times(monkeypatch, 2.0)
    train_model(run, resume=True)
    assert load_checkpoint(run.model).config.training.precision == "bfloat16"


def test_the_precision_of_products_holds_within_the_block() -> None:
    device, backend = torch.device("cpu"), torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = backend.fp32_precision
    for name, expected in (("bfloat16", "bf16"), ("float32", "ieee"), ("auto", "ieee")):
        with precision.product_precision(name, device):  # type: ignore[arg-type]
            assert backend.fp32_precision == expected
        assert backend.fp32_precision == before


def test_products_are_timed_in_their_precision() -> None:
    device = torch.device("cpu")
    chosen = precision.choose_precision(AUTO, None, device, Ranks()).training.precision
    assert chosen in ("float32", "bfloat16")
    assert precision._seconds("float32", device) > 0

"""The precision of training."""

from pathlib import Path

import pytest
import torch

from phrasescore.models import transformer
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.settings.config import Config, TrainingPrecision
from phrasescore.settings.kinds import RnnsearchConfig
from phrasescore.training.loop import product_precision
from phrasescore.training.run import train_model
from tests.tiny_runs import TINY, KilledError, kill_after, make_run

AUTO = TINY.override(["training.precision=auto"])
RNNSEARCH = Config("rnnsearch", RnnsearchConfig(6, 4, 3, 4), TINY.vocabulary, AUTO.training)


def give_units(monkeypatch: pytest.MonkeyPatch, **units: bool) -> None:
    """Let torch report these instructions."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: units)


@pytest.mark.parametrize(
    ("kind", "units", "expected"),
    [
        ("rnnsearch", {"amx_bf16": True, "avx512_bf16": True}, "bfloat16"),
        ("rnnsearch", {"amx_bf16": False, "avx512_bf16": True}, "float32"),
        ("rnnsearch", {}, "float32"),
        # Slower in bfloat16, 11 updates a second for 16, on an Intel with AMX.
        ("encoder-decoder", {"amx_bf16": True, "avx512_bf16": True}, "float32"),
    ],
    ids=["AMX", "AVX512", "not reported", "AMX, another kind"],
)
def test_bfloat16_is_chosen_by_the_kind_and_the_processor(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    kind: str,
    units: dict[str, bool],
    expected: str,
) -> None:
    give_units(monkeypatch, **units)
    run = make_run(tmp_path, AUTO if kind == "encoder-decoder" else RNNSEARCH)
    caplog.set_level("INFO")
    train_model(run)
    assert f"precision {expected}, seed" in caplog.text
    assert load_checkpoint(run.model).config.training.precision == expected


def test_a_resumed_run_keeps_its_precision(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    give_units(monkeypatch, amx_bf16=True)
    run = make_run(tmp_path, RNNSEARCH)
    with pytest.raises(KilledError):
        train_model(run, report=kill_after(1))
    give_units(monkeypatch, amx_bf16=False)
    train_model(run, resume=True)
    assert load_checkpoint(run.model).config.training.precision == "bfloat16"


def test_the_precision_of_products_holds_within_the_block() -> None:
    device, backend = torch.device("cpu"), torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = backend.fp32_precision
    for name, expected in (("bfloat16", "bf16"), ("float32", "ieee"), ("auto", "ieee")):
        with product_precision(name, device):  # type: ignore[arg-type]
            assert backend.fp32_precision == expected
        assert backend.fp32_precision == before


def test_heads_attend_in_float32() -> None:
    # Their small products are slow in bfloat16. The reference is torch's own gradient.
    generator = torch.Generator().manual_seed(1)
    mask = torch.arange(40) < torch.tensor([40, 35, 23, 1])[:, None, None, None]
    heads = [torch.randn(4, 2, 40, 32, generator=generator, requires_grad=True) for _ in range(3)]
    results = []
    names: tuple[TrainingPrecision, ...] = ("float32", "bfloat16")
    for name in names:
        with product_precision(name, torch.device("cpu")):
            attended = transformer._FloatAttention.apply(*heads, mask)
            gradients = torch.autograd.grad(attended.square().sum(), heads)
        results.append([attended.detach(), *gradients])
    assert all(map(torch.equal, *results))
    query, key, value = heads
    plain = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask)
    expected = torch.autograd.grad(plain.square().sum(), heads)
    assert all(map(torch.equal, results[0], [plain, *expected]))

"""The benchmark of the beam search computes what it says; not how fast anything is."""

from __future__ import annotations

from pathlib import Path

import pytest

from phrasescore.models.checkpoint import load_checkpoint, save_checkpoint
from phrasescore.settings.config import Config
from tests.benchmarks import generation
from tests.benchmarks.generation import GenerationOptions, measure_generation
from tests.doubles import RandomModel
from tests.random_networks import RandomNetwork


@pytest.fixture
def texts(tmp_path: Path) -> tuple[str, str]:
    """A text, and what the network makes of it for a reference."""
    (tmp_path / "source").write_text("u v w\nw\nv v u\n" * 3)
    (tmp_path / "reference").write_text("a b c d\n" * 9)
    return str(tmp_path / "source"), str(tmp_path / "reference")


def test_each_network_and_their_ensemble_is_measured_with_each_width(
    texts: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "WIDTHS", (1, 3))
    first = RandomModel(tmp_path / "first", "uvw", "abcd").path
    assert load_checkpoint(first)
    save_checkpoint(tmp_path / "second", RandomNetwork("lstm", "uvw", "abcd").checkpoint)
    models = [str(first), str(tmp_path / "second")]
    options = GenerationOptions(*texts, 8, models, Config.preset("lstm-small"), 2)
    report = measure_generation(options)
    found = {row.label: row.values for row in report.rows}
    for name in ("one", "ensemble"):
        for width in (1, 3):
            label = f"{name}, beam {width}"
            assert len(found[f"{label}: batched"]) == 2
            assert min(found[f"{label}: one at a time"]) > 0
            assert 0 <= found[f"{label}: BLEU"][0] <= 100
    assert len(found) == 16
    assert report.what.startswith("8 sentences of ")


def test_without_networks_there_is_speed_and_no_bleu(
    texts: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "WIDTHS", (2,))
    sizes = ["model.hidden_size=8", "model.embedding_size=4", "model.layers=1"]
    words = ["vocabulary.source_size=20", "vocabulary.target_size=20"]
    config = Config.preset("lstm-small").override([*sizes, *words])
    report = measure_generation(GenerationOptions(*texts, 6, [], config, 1))
    assert [row.label for row in report.rows] == [
        "random, beam 2: batched",
        "random, beam 2: one at a time",
        "random, beam 2: batched against one at a time",
    ]

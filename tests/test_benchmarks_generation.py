"""Benchmarks of generation, of GPUs and of many workers compute what they say."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from phrasescore.models.checkpoint import load_checkpoint, save_checkpoint
from phrasescore.settings.config import Config
from tests.benchmarks import generation
from tests.benchmarks.capacity import Rates, simulate
from tests.benchmarks.generation import GenerationOptions, measure_generation
from tests.doubles import RandomModel
from tests.random_networks import RandomNetwork
from tests.test_benchmarks import run

EVEN = Rates(
    driver=100_000.0,
    worker=1_000.0,
    piece=1_000,
    line_bytes=100.0,
    load=5.0,
    piece_megabytes=1.0,
    worker_megabytes=1.0,
    uneven=0.0,
    deaths=0.0,
)


def test_one_worker_takes_the_time_of_all_pieces() -> None:
    # 5 s to load, and 1 s for each of 100 pieces, before each of which the driver needs 0.01 s.
    found = simulate(EVEN, 100_000, 1)
    assert math.isclose(found.seconds, 5 + 100 * 1.01)
    assert math.isclose(found.workers_busy, 100 / found.seconds)
    assert found.repeated == 0


def test_even_workers_share_the_work_evenly() -> None:
    found = simulate(EVEN, 1_000_000, 10)
    assert 5 + 100 <= found.seconds <= 5 + 100 * 1.02


def test_the_driver_is_the_limit_of_many_workers() -> None:
    # 100,000 lines a second, whatever the workers could do.
    found = simulate(EVEN, 10_000_000, 1_000)
    assert 100 <= found.seconds <= 100 + 5 + 2
    assert found.driver_busy > 0.9


def test_deaths_cost_pieces_and_not_the_job() -> None:
    calm = simulate(EVEN, 10_000_000, 10)
    found = simulate(replace(EVEN, deaths=36.0), 10_000_000, 10)
    # One death in 100 s of each worker: of 10,000 pieces, about 100 are computed again.
    assert 60 < found.repeated < 140
    assert calm.seconds < found.seconds < 1.1 * calm.seconds


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


@pytest.mark.gpu
def test_it_compares_the_scores_of_the_cpu(repository: Path, tmp_path: Path) -> None:
    table = repository / "examples" / "english-french" / "phrase-table.gz"
    sizes = ("--lines", "300", "--training-lines", "300", "--turns", "2", "--gpu-peak-size", "64")
    figures = run(table, tmp_path, "gpu", *sizes)
    assert figures["float32: largest error in log"]["median"] < 1e-4
    assert figures["tf32: largest error in log"]["median"] < 0.1
    assert 1e-6 < figures["bfloat16: largest error in log"]["median"] < 1
    for name in ("float32", "tf32", "bfloat16"):
        assert figures[f"{name}: matrix-product peak"]["min"] > 0
        assert len(figures[f"{name}: scoring alone"]["values"]) == 3
        assert len(figures[f"{name}: annotate, from .gz to .gz"]["values"]) == 3
        assert len(figures[f"{name}: training"]["values"]) == 2

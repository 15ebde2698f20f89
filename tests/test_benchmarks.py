"""The benchmarks run, and what they print is what they measured; not how fast anything is."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from phrasescore.models.batches import batch_pairs
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.scoring.tree_scorer import PairWork
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import EncoderDecoderConfig
from tests.benchmarks.gpu import plan_operations
from tests.benchmarks.material import write_slices
from tests.benchmarks.results import Row
from tests.benchmarks.run import main
from tests.benchmarks.tuning import write_made_up
from tests.benchmarks.tuning_scale import resample
from tests.command_line import succeeded
from tests.random_pools import random_pool
from tests.random_tables import make_table

TINY = (
    "model.hidden_size=8",
    "model.embedding_size=4",
    "model.maxout_size=4",
    "model.output_rank=4",
    "vocabulary.source_size=900",
    "vocabulary.target_size=900",
    "training.batch_size=8",
)


def run(table: Path, tmp_path: Path, *arguments: str) -> dict[str, Any]:
    found = tmp_path / "found.json"
    sets = [part for setting in TINY for part in ("--set", setting)]
    threads = torch.get_num_threads()
    done = succeeded(
        CliRunner().invoke(
            main,
            [*arguments, "--table", str(table), "--json", str(found), *sets],
            catch_exceptions=False,
        )
    )
    assert torch.get_num_threads() == threads
    (report,) = json.loads(found.read_text(encoding="utf-8"))["reports"]
    for label in report["figures"]:
        assert label in done.stdout
    figures: dict[str, Any] = report["figures"]
    return figures


@pytest.fixture
def example_table(repository: Path) -> Path:
    return repository / "examples" / "english-french" / "phrase-table.gz"


def test_scoring_compares_the_same_values(example_table: Path, tmp_path: Path) -> None:
    figures = run(
        example_table,
        tmp_path,
        *("scoring", "--lines", "300", "--slice-lines", "100"),
        *("--precision", "bfloat16", "--precision", "int8"),
    )
    # float32 sums of some ten terms of size 1, in another order.
    assert figures["annotate float32, largest error in log"]["median"] < 1e-4
    # bfloat16 has 8 bits.
    assert 1e-6 < figures["annotate bfloat16, largest error in log"]["median"] < 1
    # int8 has 7 and a sign.
    assert 1e-6 < figures["annotate int8, largest error in log"]["median"] < 1
    assert len(figures["annotate float32 / plain float32 (target 4)"]["values"]) == 3


@pytest.mark.slow
def test_training_times_both_sides(example_table: Path, tmp_path: Path) -> None:
    figures = run(example_table, tmp_path, "training", "--training-lines", "300", "--turns", "3")
    assert len(figures["phrasescore / plain (target 1.3)"]["values"]) == 3
    assert len(figures["plain torch loop"]["values"]) == 3


def test_the_transformer_has_the_scores_of_torch_and_of_ctranslate2(repository: Path) -> None:
    pytest.importorskip("ctranslate2")
    transformer = importlib.import_module("tests.benchmarks.transformer")
    example = repository / "examples" / "english-french"
    texts = [str(example / f"test.{side}") for side in ("en", "fr")]
    sizes = ("model.layers=2", "model.hidden_size=8", "model.heads=2", "vocabulary.subwords=2000")
    options = transformer.TransformerOptions(
        *texts,
        *(str(example / "test.20best.gz"), texts[0]),
        lists=2,
        model=None,
        config=Config.preset("transformer-small").override(sizes),
        turns=1,
        scoring_turns=1,
    )
    figures = transformer.measure_transformer(options).to_dict()["figures"]
    assert figures["scores: largest difference in log"]["median"] < 1e-4
    checkpoint = transformer.random_transformer(options)
    pairs = [([3, 4, 5], [6, 7]), ([8], [9, 10, 11, 12])]
    plain = transformer.PlainTransformer(checkpoint.model).eval().loss(pairs, 0.0).item()
    assert -checkpoint.model(batch_pairs(pairs)).sum().item() == pytest.approx(plain, rel=1e-5)


def test_reading_reads_and_writes(example_table: Path, tmp_path: Path) -> None:
    figures = run(example_table, tmp_path, "reading", "--lines", "300")
    assert figures["read_phrase_table"]["min"] > 0


@pytest.mark.slow
def test_memory_is_that_of_the_command(tmp_path: Path, tiny_table: Path) -> None:
    figures = run(tiny_table, tmp_path, "memory", "--threads", "1")
    # Torch alone takes more than 100 MB; nothing here needs 2 GB.
    assert 100 < figures["2 lines: peak memory"]["median"] < 2000
    assert figures["4 lines: peak memory"]["median"] > 100


def test_peak_memory_is_not_that_of_its_parent(repository: Path) -> None:
    # 200 MB here, which Linux would count for a child that were started from here.
    ballast = bytearray(b"x" * 200_000_000)
    script = repository / "tests" / "benchmarks" / "peak_memory.py"
    command = [sys.executable, str(script), sys.executable, "-c", "x = b'x' * 50_000_000"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(ballast) == 200_000_000
    assert 50e6 < json.loads(done.stdout)["bytes"] < 150e6


def test_the_file_runs_from_anywhere(repository: Path, tmp_path: Path) -> None:
    script = repository / "tests" / "benchmarks" / "run.py"
    done = subprocess.run(
        [sys.executable, str(script), "reading", "--lines", "10"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "read_phrase_table" in done.stdout


def test_the_arithmetic_is_counted_by_hand() -> None:
    # H = 2, E = 3, maxout 1, rank 4, 5 target ids.
    config = Config().override(
        [
            *("model.hidden_size=2", "model.embedding_size=3"),
            *("model.maxout_size=1", "model.output_rank=4"),
        ]
    )
    assert isinstance(config.model, EncoderDecoderConfig)
    model = EncoderDecoder(config.model, 6, 5)
    # A source step 3 * 4; a source (1 + 1 + 3) * 4 + 2 * 2; a product 3 * 4; a distribution
    # 2 * 2 + 1 * 4 + 4 * 5.
    work = PairWork(pairs=9, source_nodes=1, sources=10, products=100, target_nodes=1000)
    assert plan_operations(work, model) == 2 * (12 + 10 * 24 + 100 * 12 + 1000 * 28)


def test_slices_hold_each_line_once(tiny_table: Path, tmp_path: Path) -> None:
    import gzip

    paths = write_slices(str(tiny_table), tmp_path, lines=3, slice_lines=2)
    text = b"".join(gzip.decompress(path.read_bytes()) for path in paths)
    assert text == b"".join(tiny_table.read_bytes().splitlines(keepends=True)[:3])
    assert [path.name for path in paths] == ["slice-0.gz"]
    assert len(write_slices(str(tiny_table), tmp_path, lines=4, slice_lines=2)) == 2


def test_a_row_has_the_median_and_the_range() -> None:
    assert Row("speed", [3.0, 1.0, 2.5], "lines/s", 1).text().endswith(" 2.5 lines/s (1.0 to 3.0)")
    assert Row("size", [4.0], digits=0).text().endswith(" 4")


@pytest.mark.slow
def test_rescoring_compares_the_same_values(example_table: Path, tmp_path: Path) -> None:
    lists = [str(example_table.with_name(name)) for name in ("test.20best.gz", "test.en")]
    figures = run(example_table, tmp_path, "rescoring", "--nbest", *lists, "--lists", "3")
    assert figures["lstm: largest difference in log"]["max"] < 1e-4
    # 20 lines a list, all of them different.
    assert figures["lstm: words of plain / decoder steps"]["median"] > 1


@pytest.mark.slow
def test_caching_compares_the_same_bytes(example_table: Path, tmp_path: Path) -> None:
    lists = [str(example_table.with_name(name)) for name in ("test.20best.gz", "test.en")]
    options = ("--cache-preset", "attention-small", "--cache-lists", "20")
    figures = run(example_table, tmp_path, "caching", "--nbest", *lists, *options)
    assert figures["a full cache"]["median"] > 0


def test_tuning_names_seconds_and_bleu(
    example_table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.benchmarks.tuning.MADE_UP_LISTS", 6)
    monkeypatch.setattr("tests.benchmarks.tuning.MADE_UP_SIZE", 5)
    monkeypatch.setattr("tests.benchmarks.run.EXTRACTED", tmp_path)
    files = write_made_up(tmp_path)
    figures = run(
        *(example_table, tmp_path, "tuning", "--seeds", "2", "--starts", "1", "--no-moses"),
        *("--extracted-test", files.features, files.scores),
    )
    assert list(figures) == [
        f"tune, {method}: {what}"
        for method in ("mert", "mira")
        for what in (
            "from the files to the weights",
            "the same, of the processor",
            "BLEU reached",
            "spread of it, a deviation",
            "BLEU of the test set",
        )
    ] + ["sentences", "distinct hypotheses"]
    reached = figures["tune, mert: BLEU reached"]
    assert len(reached["values"]) == 2
    assert 0 < reached["min"] <= 100
    # The other set is the same one here, and so the weights must do the same on it.
    assert figures["tune, mert: BLEU of the test set"]["values"] == reached["values"]


@pytest.mark.slow
def test_tuning_scale_measures_each_method_in_a_process_of_its_own(
    example_table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.benchmarks.tuning_scale.SIZES", ((20, ("mert", "mira")),))
    monkeypatch.setattr("tests.benchmarks.run.EXTRACTED", tmp_path)
    figures = run(*(example_table, tmp_path, "tuning_scale", "--scale", "4", "5", "--starts", "1"))
    for method in ("mert", "mira"):
        what = f"20 features, {method}"
        assert figures[f"{what}: seconds"]["min"] > 0
        assert figures[f"{what}: peak of the process"]["min"] > 10
        reached = figures[f"{what}: BLEU reached"]["min"]
        assert reached >= figures[f"{what}: BLEU at the start"]["min"]


def test_resampled_lists_have_the_hypotheses_of_one_list_each() -> None:
    real = random_pool(3, 4, 7)
    made = resample(real, 6, 10, 8, seed=1)
    assert made.features.shape == (60, 8)
    assert len(np.unique(made.features, axis=0)) == 60
    for begin in range(0, 60, 10):
        rows = [
            np.flatnonzero((real.features == row[:3]).all(axis=1)).item()
            for row in made.features[begin : begin + 10]
        ]
        assert len({row // 7 for row in rows}) == 1
        assert set(np.bincount(rows)[min(rows) // 7 * 7 :]) <= {1, 2}
        np.testing.assert_array_equal(made.stats[begin : begin + 10], real.stats[rows])


@pytest.mark.slow
def test_engines_take_turns_and_write_the_same_bytes(tmp_path: Path) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    table = make_table(tmp_path / "table", 600)
    figures = run(table, tmp_path, "engines", "--lines", "300", "--slice-lines", "150")
    for name in ("here", "processes", "ray"):
        assert len(figures[f"{name}, 2 workers"]["values"]) == 2
    assert figures["ray / here (target 0.95)"]["median"] > 0
    assert figures["ray: driver's CPU per 10,000 lines (target 0.05)"]["median"] > 0

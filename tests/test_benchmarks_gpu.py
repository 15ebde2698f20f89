"""The benchmark for a GPU runs, and its figures are of what they say; not how fast anything is."""

from pathlib import Path

import pytest

from tests.test_benchmarks import run


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

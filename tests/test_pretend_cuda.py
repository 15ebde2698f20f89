"""The tests that need a GPU, on a pretended one: so they run, and so does what they test."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SOME = (
    "not benchmarks and not tf32 and (not bfloat16 or encoder-decoder)"
    " and not (samples and not rnnsearch) and not (waits and (adam or sgd) and not encoder-decoder)"
)


# A torch that is built for CUDA has that device already, and its tests need a real one.
@pytest.mark.skipif(torch.backends.cuda.is_built(), reason="torch is built for CUDA: -m gpu")
@pytest.mark.parametrize(
    ("chosen", "least"),
    [
        # Each kind of network in float32, and one of them in bfloat16 and by each optimizer, too.
        (SOME, 44),
        pytest.param("test", 120, marks=pytest.mark.slow),
    ],
    ids=["some", "all"],
)
def test_gpu_tests_pass_without_a_gpu(repository: Path, chosen: str, least: int) -> None:
    found = [path for path in (repository / "tests").rglob("test_*.py") if _is_for_gpus(path)]
    assert repository / "tests" / "test_cuda.py" in found
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-p", "tests.pretend_cuda", "-q"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-k", chosen, *map(str, found)],
        cwd=repository,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > least
    assert "skipped" not in done.stdout


def _is_for_gpus(path: Path) -> bool:
    return "pytest.mark.gpu" in path.read_text(encoding="utf-8")

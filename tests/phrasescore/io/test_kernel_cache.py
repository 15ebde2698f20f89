"""Compiled code is kept where the user says."""

import os
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


def _show(table: Path, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "phrasescore", "-q", "show", str(table)],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)} | environ,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_cache_folder_of_ones_own_is_used(tiny_table: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    done = _show(tiny_table, tmp_path, NUMBA_CACHE_DIR=str(cache))
    assert (done.returncode, done.stderr) == (0, "")
    assert list(cache.rglob("*.nbc"))


def test_every_kernel_is_kept_in_one_way() -> None:
    folders = ("phrasescore", "moses_integration", "tuning")
    files = [path for name in folders for path in (REPOSITORY / name).rglob("*.py")]
    keeping = [path for path in files if re.search(r"\bcache=True", path.read_text("utf-8"))]
    assert keeping == [REPOSITORY / "phrasescore" / "io" / "kernel_cache.py"]

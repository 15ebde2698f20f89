"""Compiled code is kept where the user says."""

import os
import re
import subprocess
import sys
from pathlib import Path

from phrasescore.io.kernel_cache import drop_stale_kernels

REPOSITORY = Path(__file__).resolve().parents[3]


PROGRAM = """\
from phrasescore.io.kernel_cache import kept_njit

@kept_njit()
def double(number):
    return 2 * number

assert double(2) == 4
"""


def test_a_cache_folder_of_ones_own_is_used(tmp_path: Path) -> None:
    program, cache = tmp_path / "program.py", tmp_path / "cache"
    program.write_text(PROGRAM)
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "NUMBA_CACHE_DIR": str(cache)}
    subprocess.run([sys.executable, program], env=environment, check=True)
    assert list(cache.rglob("*.nbc"))


def test_every_kernel_is_kept_in_one_way() -> None:
    folders = ("phrasescore", "moses_integration", "tuning")
    files = [path for name in folders for path in (REPOSITORY / name).rglob("*.py")]
    keeping = [path for path in files if re.search(r"\bcache=True", path.read_text("utf-8"))]
    assert keeping == [REPOSITORY / "phrasescore" / "io" / "kernel_cache.py"]


def _make(path: Path, seconds: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    os.utime(path, (seconds, seconds))
    return path


def test_what_is_older_than_any_source_is_compiled_again(tmp_path: Path) -> None:
    _make(tmp_path / "inner.py", 200)
    _make(tmp_path / "outer.py", 100)
    # Its own file is older, what it has compiled in is not.
    old = _make(tmp_path / "__pycache__" / "outer.expand-1.py311.nbi", 150)
    new = _make(tmp_path / "__pycache__" / "inner.score-1.py311.nbi", 250)
    other = _make(tmp_path / "__pycache__" / "inner.cpython-311.pyc", 50)
    drop_stale_kernels(tmp_path)
    assert (old.exists(), new.exists(), other.exists()) == (False, True, True)


def test_a_folder_without_compiled_functions_is_no_error(tmp_path: Path) -> None:
    _make(tmp_path / "inner.py", 200)
    drop_stale_kernels(tmp_path)
    drop_stale_kernels(tmp_path / "nothing")


def test_a_source_elsewhere_counts_if_its_functions_are_compiled_in(tmp_path: Path) -> None:
    _make(tmp_path / "inner.py", 100)
    old = _make(tmp_path / "__pycache__" / "inner.score-1.py311.nbi", 150)
    drop_stale_kernels(tmp_path)
    assert old.exists()
    elsewhere = _make(tmp_path / "elsewhere" / "hashing.py", 200)
    drop_stale_kernels(tmp_path, elsewhere)
    assert not old.exists()

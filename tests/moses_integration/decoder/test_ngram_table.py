"""Promises of moses_integration.decoder.ngram_table: no old machine code under new sources."""

import os
from pathlib import Path

from moses_integration.decoder.ngram_table import drop_stale_kernels


def make(path: Path, seconds: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    os.utime(path, (seconds, seconds))
    return path


def test_what_is_older_than_any_source_is_compiled_again(tmp_path: Path) -> None:
    make(tmp_path / "inner.py", 200)
    make(tmp_path / "outer.py", 100)
    # Its own file is older, what it has compiled in is not.
    old = make(tmp_path / "__pycache__" / "outer.expand-1.py311.nbi", 150)
    new = make(tmp_path / "__pycache__" / "inner.score-1.py311.nbi", 250)
    other = make(tmp_path / "__pycache__" / "inner.cpython-311.pyc", 50)
    drop_stale_kernels(tmp_path)
    assert (old.exists(), new.exists(), other.exists()) == (False, True, True)


def test_a_folder_without_compiled_functions_is_no_error(tmp_path: Path) -> None:
    make(tmp_path / "inner.py", 200)
    drop_stale_kernels(tmp_path)
    drop_stale_kernels(tmp_path / "nothing")

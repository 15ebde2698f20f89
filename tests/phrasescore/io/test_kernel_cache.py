"""Compiled code is kept where the user says."""

import os
import re
import subprocess
import sys
from pathlib import Path

from phrasescore.io.kernel_cache import drop_stale_kernels

REPOSITORY = Path(__file__).resolve().parents[3]


PROGRAM = """\
import sys
from phrasescore.io.kernel_cache import kept_njit

@kept_njit()
def double(number):
    return 2 * number

assert double(2) == 4
print("numba.np.arrayobj" in sys.modules, len(double.stats.cache_hits))
"""


def _run(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    given = {"PYTHONPATH": str(REPOSITORY), "NUMBA_CACHE_DIR": str(folder / "cache")}
    call = (sys.executable, program)
    return subprocess.run(
        call, env=os.environ | given | environment, capture_output=True, text=True, check=False
    )


def test_code_is_kept_and_loaded_without_the_compiler(tmp_path: Path) -> None:
    assert _run(tmp_path).stdout == "True 0\n"
    assert _run(tmp_path).stdout == "False 1\n"
    assert len([*tmp_path.rglob("*.nbc")]) == 1


def test_damaged_code_is_compiled_again(tmp_path: Path) -> None:
    _run(tmp_path)
    (code,) = tmp_path.rglob("*.nbc")
    content = bytearray(code.read_bytes())
    content[-1] ^= 1
    for damaged in (content, b""):
        code.write_bytes(damaged)
        again = _run(tmp_path)
        assert again.stdout == "True 0\n"
        assert again.stderr == f"{code}: damaged compiled code: compiling it again\n"
    assert _run(tmp_path).stdout == "False 1\n"


def test_code_that_cannot_be_kept_costs_a_warning(tmp_path: Path) -> None:
    _run(tmp_path)
    (code,) = tmp_path.rglob("*.nbc")
    code.unlink()
    code.mkdir()
    done = _run(tmp_path)
    assert done.stdout == "True 0\n"
    assert done.stderr == f"{code.parent}: Is a directory: compiled code is not kept\n"
    assert [*code.parent.iterdir()] == [code]


def test_without_a_compiler_there_is_one_error(tmp_path: Path) -> None:
    done = _run(tmp_path, NUMBA_DISABLE_JIT="1")
    assert done.returncode == 1
    assert done.stderr.endswith(
        "PhrasescoreError: NUMBA_DISABLE_JIT is set, but phrasescore needs compiled code\n"
    )


def test_every_kernel_is_kept_in_one_way() -> None:
    folders = ("phrasescore", "moses_integration", "tuning")
    files = [path for name in folders for path in (REPOSITORY / name).rglob("*.py")]
    assert not [path for path in files if re.search(r"\bcache=True", path.read_text("utf-8"))]


def _make(path: Path, seconds: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    os.utime(path, (seconds, seconds))
    return path


def test_what_is_older_than_any_source_is_compiled_again(tmp_path: Path) -> None:
    _make(tmp_path / "inner.py", 200)
    _make(tmp_path / "outer.py", 100)
    # Its own file is older, what it has compiled in is not.
    old = _make(tmp_path / "__pycache__" / "outer.expand-1.py311.nbc", 150)
    new = _make(tmp_path / "__pycache__" / "inner.score-1.py311.nbc", 250)
    other = _make(tmp_path / "__pycache__" / "inner.cpython-311.pyc", 50)
    drop_stale_kernels(tmp_path)
    assert (old.exists(), new.exists(), other.exists()) == (False, True, True)


def test_a_folder_without_compiled_functions_is_no_error(tmp_path: Path) -> None:
    _make(tmp_path / "inner.py", 200)
    drop_stale_kernels(tmp_path)
    drop_stale_kernels(tmp_path / "nothing")


def test_a_source_elsewhere_counts_if_its_functions_are_compiled_in(tmp_path: Path) -> None:
    _make(tmp_path / "inner.py", 100)
    old = _make(tmp_path / "__pycache__" / "inner.score-1.py311.nbc", 150)
    drop_stale_kernels(tmp_path)
    assert old.exists()
    elsewhere = _make(tmp_path / "elsewhere" / "hashing.py", 200)
    drop_stale_kernels(tmp_path, elsewhere)
    assert not old.exists()

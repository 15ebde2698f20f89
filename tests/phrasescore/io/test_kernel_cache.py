"""Compiled code is kept where the user says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]


PROGRAM = """\
import sys
from phrasescore.io.kernel_cache import kept_njit

@kept_njit()
def double(number):
    return 2 * number

print(double(2), "numba.np.arrayobj" in sys.modules, len(double.stats.cache_hits))
"""


def _run(folder: Path, text: str = PROGRAM, **environment: str) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(text)
    given = {"PYTHONPATH": str(REPOSITORY), "NUMBA_CACHE_DIR": str(folder / "cache")}
    call = (sys.executable, "-B", program)
    return subprocess.run(
        call, env=os.environ | given | environment, capture_output=True, text=True, check=False
    )


def test_code_is_kept_and_loaded_without_the_compiler(tmp_path: Path) -> None:
    assert _run(tmp_path).stdout == "4 True 0\n"
    assert _run(tmp_path).stdout == "4 False 1\n"
    assert len([*tmp_path.rglob("*.nbc")]) == 1


def test_damaged_code_is_compiled_again(tmp_path: Path) -> None:
    _run(tmp_path)
    (code,) = tmp_path.rglob("*.nbc")
    content = bytearray(code.read_bytes())
    content[-1] ^= 1
    for damaged in (content, b""):
        code.write_bytes(damaged)
        again = _run(tmp_path)
        assert again.stdout == "4 True 0\n"
        assert again.stderr == f"{code}: damaged compiled code: compiling it again\n"
    assert _run(tmp_path).stdout == "4 False 1\n"


def test_a_signal_waits_until_code_is_loaded(tmp_path: Path) -> None:
    """An exception after `LLVMPY_AddModule` makes llvmlite free a module twice, and crash."""
    program = f"""\
{PROGRAM.rpartition("print")[0]}
import signal
from llvmlite.binding.executionengine import ExecutionEngine

add = ExecutionEngine.add_module

def add_module(engine, module):
    ExecutionEngine.add_module = add
    signal.raise_signal(signal.SIGINT)
    add(engine, module)

ExecutionEngine.add_module = add_module
try:
    double(2)
except KeyboardInterrupt:
    print(len(double.signatures))
"""
    assert _run(tmp_path, program).stdout == "1\n"
    assert _run(tmp_path, program).stdout == "1\n"


def test_code_that_cannot_be_kept_costs_a_warning(tmp_path: Path) -> None:
    _run(tmp_path)
    (code,) = tmp_path.rglob("*.nbc")
    code.unlink()
    code.mkdir()
    done = _run(tmp_path)
    assert done.stdout == "4 True 0\n"
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
    own = r"\bcache=True|import.*\boverload"
    found = [path.stem for path in files if re.search(own, path.read_text("utf-8"))]
    assert found == ["kernel_cache"]


@pytest.mark.parametrize(
    "inner",
    [
        "import kept_njit\n\n@kept_njit()\ndef factor():\n    return {}\n",
        (
            "import kept_overload\n\ndef factor(): ...\n\n"
            "@kept_overload(factor)\ndef _factor():\n    return lambda: {}\n"
        ),
    ],
    ids=["a loop", "what stands for a function"],
)
def test_code_depends_on_what_is_compiled_into_it(inner: str, tmp_path: Path) -> None:
    inner = f"from phrasescore.io.kernel_cache {inner}"
    (tmp_path / "inner.py").write_text(inner.format(2))
    program = PROGRAM.replace("import sys", "import sys\nfrom inner import factor")
    program = program.replace("2 * number", "factor() * number")
    assert _run(tmp_path, program).stdout == "4 True 0\n"
    assert _run(tmp_path, program).stdout == "4 False 1\n"
    (tmp_path / "inner.py").write_text(inner.format(3))
    assert _run(tmp_path, program).stdout == "6 True 0\n"
    assert len([*tmp_path.rglob("*double*.nbc")]) == 1

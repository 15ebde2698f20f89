"""Compiled code is loaded from no folder that strangers can write to."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from phrasescore.io import kernel_cache

REPOSITORY = Path(__file__).resolve().parents[3]
US, ROOT, STRANGER, OWNER_OF_SOURCES = 1000, 0, 1001, 1002
GROUP, OTHER_GROUP = 50, 51


def folder(mode: int, owner: int, group: int = GROUP) -> os.stat_result:
    return os.stat_result((0o40000 | mode, 0, 0, 0, owner, group, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("cache", "sources", "is_refused"),
    [
        pytest.param(folder(0o755, US), folder(0o755, ROOT), False, id="ours"),
        pytest.param(folder(0o755, ROOT), folder(0o755, ROOT), False, id="root's"),
        pytest.param(folder(0o755, STRANGER), folder(0o755, ROOT), True, id="a stranger's"),
        pytest.param(folder(0o757, US), folder(0o755, US), True, id="for everyone"),
        pytest.param(folder(0o1777, US), folder(0o755, US), True, id="sticky: new files"),
        pytest.param(folder(0o775, US), folder(0o755, US), True, id="for a group"),
        # Who can change the sources needs no compiled code.
        pytest.param(
            folder(0o755, OWNER_OF_SOURCES), folder(0o755, OWNER_OF_SOURCES), False, id="beside"
        ),
        pytest.param(folder(0o775, US), folder(0o775, US), False, id="sources of the same group"),
        pytest.param(
            folder(0o775, US, OTHER_GROUP), folder(0o775, US), True, id="sources of another group"
        ),
    ],
)
def test_a_folder_that_others_can_write_to_is_no_cache(
    monkeypatch: pytest.MonkeyPatch,
    cache: os.stat_result,
    sources: os.stat_result,
    is_refused: bool,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: US)
    monkeypatch.setattr(kernel_cache, "_is_private", lambda _group: False)
    assert kernel_cache._may_strangers_write(cache, sources) is is_refused


def test_a_group_of_the_user_alone_is_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: US)
    monkeypatch.setattr(kernel_cache, "_is_private", lambda group: group == GROUP)
    assert not kernel_cache._may_strangers_write(folder(0o775, US), folder(0o755, ROOT))
    assert kernel_cache._may_strangers_write(folder(0o777, US), folder(0o755, ROOT))


def _show(table: Path, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "phrasescore", "-q", "show", str(table)],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)} | environ,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_cache_folder_for_everyone_is_refused_in_one_line(
    tiny_table: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    done = _show(tiny_table, tmp_path, NUMBA_CACHE_DIR=str(cache))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"Error: {cache}: others can write to this folder of compiled code, or own it; remove it, "
        "or set NUMBA_CACHE_DIR to one that only you can write to\n"
    )


def test_a_cache_folder_of_ones_own_is_used(tiny_table: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    done = _show(tiny_table, tmp_path, NUMBA_CACHE_DIR=str(cache))
    assert (done.returncode, done.stderr) == (0, "")
    assert list(cache.rglob("*.nbc"))


def test_no_cache_is_taken_from_a_file_in_the_current_folder(
    tiny_table: Path, tmp_path: Path
) -> None:
    pytest.importorskip("yaml")
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: downloaded\n", encoding="utf-8")
    (tmp_path / "downloaded").mkdir()
    done = _show(tiny_table, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: .numba_config.yaml: its cache_dir is a folder of compiled code, which is taken "
        "from NUMBA_CACHE_DIR alone; remove the file\n"
    )


def test_every_kernel_that_is_kept_is_checked() -> None:
    folders = ("phrasescore", "moses_integration", "tuning")
    files = [path for name in folders for path in (REPOSITORY / name).rglob("*.py")]
    keeping = [path for path in files if re.search(r"\bcache=True", path.read_text("utf-8"))]
    assert keeping == [REPOSITORY / "phrasescore" / "io" / "kernel_cache.py"]

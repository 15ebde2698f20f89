"""Compile loops with numba, and cache the code on disk.

numba caches the code beside the sources, in the user's cache, or in NUMBA_CACHE_DIR, and trusts
what it finds there.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba


def kept_njit(*, fastmath: bool | set[str] = False) -> Callable[[Callable[..., Any]], Any]:
    """Return numba's decorator for loops that release the GIL and are cached on disk."""
    decorate: Callable[[Callable[..., Any]], Any] = numba.njit(
        nogil=True, cache=True, error_model="numpy", fastmath=fastmath
    )
    return decorate


def drop_stale_kernels(folder: Path, *others: Path) -> None:
    """Remove a folder's compiled functions that are older than one of its sources.

    numba checks the file of a function, but not the files of inlined functions: after a ``git
    pull`` a program would mix old and new code. A read-only cache is left unchanged.
    """
    sources = [*folder.glob("*.py"), *others]
    newest = max((source.stat().st_mtime_ns for source in sources), default=0)
    for index in folder.glob("__pycache__/*.nbi"):
        # Another process may delete the file first.
        with contextlib.suppress(OSError):
            if index.stat().st_mtime_ns < newest:
                index.unlink()

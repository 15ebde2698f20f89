"""Compile loops with numba, and keep the code on disk.

The code is kept where numba keeps it: beside the sources, in the user's cache, or in
NUMBA_CACHE_DIR. As with numba, whoever may write there can run code here.
"""

import contextlib
import hashlib
import logging
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import config
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from phrasescore.errors import PhrasescoreError

_logger = logging.getLogger(__name__)
_CHECKSUM = 16  # bytes


def kept_njit(*, fastmath: bool | set[str] = False) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles loops, which release the GIL, and keeps the code on disk.

    What numba implements in its module ``arraymath`` (``sum``, ``max``, ``searchsorted``, ...)
    loads scipy at every start: write a loop.
    """
    compiled: Any = numba.njit(nogil=True, error_model="numpy", fastmath=fastmath)

    def decorate(function: Callable[..., Any]) -> Any:
        if config.DISABLE_JIT:
            raise PhrasescoreError("NUMBA_DISABLE_JIT is set, but phrasescore needs compiled code")
        kernel = compiled(function)
        kernel._cache = _KernelCache(function)
        return kernel

    return decorate


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """numba's cache, with checksums, and without loading what only the compiler needs.

    numba loads all its implementations before it looks for code, which takes 0.3 s, half of it for
    scipy. The compiler loads them itself.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _CodeFiles(self._impl)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        return self._load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn(f"{self._cache_path}: {error.strerror}: compiled code is not kept")


class _CodeFiles:
    """The compiled code of a function: a file for each combination of types.

    Damaged code could give wrong numbers: a file begins with a checksum.
    """

    def __init__(self, kept: Any) -> None:
        folder, self._stamp = kept.locator.get_cache_path(), kept.locator.get_source_stamp()
        self._base = os.path.join(folder, kept.filename_base)

    def _path(self, key: Any) -> str:
        names = repr((numba.__version__, self._stamp, key)).encode()
        return f"{self._base}.{hashlib.blake2b(names, digest_size=8).hexdigest()}.nbc"

    def load(self, key: Any) -> Any:
        """Return what was kept for a key, or None."""
        try:
            content = Path(self._path(key)).read_bytes()
        except OSError:
            return None
        if _checksum(content[_CHECKSUM:]) != content[:_CHECKSUM]:
            _warn(f"{self._path(key)}: damaged compiled code: compiling it again")
            return None
        return pickle.loads(content[_CHECKSUM:])  # noqa: S301 (numba's format)

    def save(self, key: Any, data: Any) -> None:
        """Keep data for a key.

        :raises OSError: if it cannot be written.
        """
        code, path = dumps(data), self._path(key)
        temporary = f"{path}.{os.getpid()}.tmp"
        try:
            Path(temporary).write_bytes(_checksum(code) + code)
            os.replace(temporary, path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise


def _checksum(code: bytes) -> bytes:
    return hashlib.blake2b(code, digest_size=_CHECKSUM).digest()


_warned: set[str] = set()


def _warn(problem: str) -> None:
    """Show the first of such warnings: a verb may load a hundred functions."""
    if not _warned:
        _logger.warning(problem)
    _warned.add(problem)


def drop_stale_kernels(folder: Path, *others: Path) -> None:
    """Remove a folder's compiled functions that are older than one of its sources.

    The name of compiled code depends on the file of its function, but not on the files of inlined
    functions: after a ``git pull`` a program would mix old and new code. A read-only cache is left
    unchanged.
    """
    sources = [*folder.glob("*.py"), *others]
    newest = max((source.stat().st_mtime_ns for source in sources), default=0)
    for code in folder.glob("__pycache__/*.nb[ci]"):
        # Another process may delete the file first.
        with contextlib.suppress(OSError):
            if code.stat().st_mtime_ns < newest:
                code.unlink()

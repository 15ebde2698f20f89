"""Compile loops with numba, and keep the code on disk.

The code is kept where numba keeps it: beside the sources, in the user's cache, or in
NUMBA_CACHE_DIR. As with numba, whoever may write there can run code here.
"""

import functools
import glob
import hashlib
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
from numba.core import config, types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.extending import intrinsic, overload

from phrasescore.errors import PhrasescoreError
from phrasescore.signals import deferring_signals

_logger = logging.getLogger(__name__)
_types: Any = types
_CHECKSUM = 16  # bytes
# Digests of the modules with what is compiled, by name: the files as they were when imported.
_modules: dict[str, str] = {}


def kept_njit(*, fastmath: bool | set[str] = False) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles loops, which release the GIL, and keeps the code on disk.

    What numba implements in its module ``arraymath`` (``sum``, ``max``, ``searchsorted``, ...)
    loads scipy at every start: write a loop.
    """
    compiled: Any = numba.njit(nogil=True, error_model="numpy", fastmath=fastmath)

    def decorate(function: Callable[..., Any]) -> Any:
        if config.DISABLE_JIT:
            raise PhrasescoreError("NUMBA_DISABLE_JIT is set, but phrasescore needs compiled code")
        _add_module(function.__module__, function.__code__.co_filename)
        kernel = compiled(function)
        kernel._cache = _KernelCache(function)
        # If an exception of a handler interrupted llvmlite, it would free memory twice, and crash.
        kernel.compile = deferring_signals()(kernel.compile)
        return kernel

    return decorate


def kept_overload(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Return numba's decorator of what stands for a function in loops, whose code depends on it."""

    def decorate(implementation: Callable[..., Any]) -> Any:
        _add_module(implementation.__module__, implementation.__code__.co_filename)
        return overload(function, inline="always")(implementation)

    return decorate


def _borrow(_context: Any, values: Any) -> Any:
    """Return a kernel's argument, an array or a tuple with arrays, without its reference counts.

    numba counts a reference, atomically, at each use of a tuple's array: in the search this took a
    third of the time. The caller's arrays live as long as the call; do not return what is borrowed.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without_counts(context, builder, signature.args[0], arguments[0])

    return values(values), generate


borrow: Any = intrinsic(_borrow)


def _without_counts(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = context.get_constant_null(_types.MemInfoPointer(types.voidptr))
        array.parent = context.get_constant_null(types.pyobject)
        return array._getvalue()
    if isinstance(kind, _types.BaseTuple):
        for index, part in enumerate(kind.types):
            inner = _without_counts(context, builder, part, builder.extract_value(value, index))
            value = builder.insert_value(value, inner, index)
    return value


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """numba's cache, with checksums, and without loading what only the compiler needs.

    numba loads all its implementations before it looks for code, which takes 0.3 s, half of it for
    scipy. The compiler loads them itself.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _CodeFiles(function.__module__, self._impl)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        return self._load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn(f"{self._cache_path}: {error.strerror}: compiled code is not kept")


class _CodeFiles(IndexDataCacheFile):  # type: ignore[misc]
    """The compiled code of a function: a file for each combination of types, without an index.

    Its name depends on the sources of all functions that are compiled into the code. Damaged code
    could give wrong numbers: a file ends with a checksum, which numba does not read.
    """

    def __init__(self, module: str, kept: Any) -> None:
        super().__init__(kept.locator.get_cache_path(), kept.filename_base, None)
        self._module, self._base = module, kept.filename_base

    def _name(self, key: Any) -> str:
        signature, *others = key
        kinds = [(str(kind), _fields(kind)) for kind in signature]
        return f"{self._base}.{_digest_of_sources(self._module)}.{_digest(kinds, others)}.nbc"

    def load(self, key: Any) -> Any:
        """Return what was kept for a key, or None."""
        name = self._name(key)
        path = self._data_path(name)
        try:
            content = Path(path).read_bytes()
        except OSError:
            return None
        if _checksum(content[:-_CHECKSUM]) != content[-_CHECKSUM:]:
            _warn(f"{path}: damaged compiled code: compiling it again")
            return None
        return self._load_data(name)

    def save(self, key: Any, data: Any) -> None:
        """Keep data for a key, and remove the code of older sources.

        :raises OSError: if it cannot be written.
        """
        code, name = self._dump(data), self._name(key)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(code + _checksum(code))
        current = f"{self._base}.{_digest_of_sources(self._module)}."
        for old in Path(self._cache_path).glob(f"{glob.escape(self._base)}.*.nbc"):
            if not old.name.startswith(current):
                old.unlink(missing_ok=True)


@functools.cache
def _digest_of_sources(name: str) -> str:
    """Return a digest of a module's source, and of those whose functions it may compile in."""
    found: dict[str, str] = {}
    waiting = {name}
    while waiting:
        name = waiting.pop()
        found[name] = _modules[name]
        for value in vars(sys.modules[name]).values():
            is_module = isinstance(value, ModuleType)
            origin = value.__name__ if is_module else getattr(value, "__module__", None)
            if origin in _modules and origin not in found:
                waiting.add(origin)
    return _digest(numba.__version__, sorted(found.items()))


def _add_module(name: str, path: str) -> None:
    if name not in _modules:
        _modules[name] = _digest(Path(path).read_bytes())


def _fields(kind: Any) -> Any:
    """Return the fields of named tuples in a type, whose text does not show them."""
    inner = [_fields(each) for each in getattr(kind, "types", ())]
    return getattr(kind, "fields", ()), inner


def _digest(*values: Any) -> str:
    return hashlib.blake2b(repr(values).encode(), digest_size=8).hexdigest()


def _checksum(code: bytes) -> bytes:
    return hashlib.blake2b(code, digest_size=_CHECKSUM).digest()


_warned: set[str] = set()


def _warn(problem: str) -> None:
    """Show the first of such warnings: a verb may load a hundred functions."""
    if not _warned:
        _logger.warning(problem)
    _warned.add(problem)


_add_module(__name__, __file__)
with deferring_signals():
    cpu_target.target_context  # numba makes it on first use  # noqa: B018

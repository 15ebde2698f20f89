"""Compile loops with numba, and keep the code on disk.

numba keeps it beside the sources, in the user's cache, or in NUMBA_CACHE_DIR, and trusts what it
finds there.
"""

from collections.abc import Callable
from typing import Any

import numba


def kept_njit(*, fastmath: bool | set[str] = False) -> Callable[[Callable[..., Any]], Any]:
    """Return numba's decorator for loops that release the GIL and are cached on disk.

    :raises RuntimeError: on decorating, if there is no folder for the cache.
    """
    decorate: Callable[[Callable[..., Any]], Any] = numba.njit(
        nogil=True, cache=True, error_model="numpy", fastmath=fastmath
    )
    return decorate

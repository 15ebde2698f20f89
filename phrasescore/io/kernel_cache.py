"""Compiled loops that are kept on disk.

numba keeps them beside the sources, in the user's cache, or where NUMBA_CACHE_DIR says, and runs
what it finds there.
"""

from collections.abc import Callable
from typing import Any

import numba


def kept_njit(*, fastmath: bool | set[str] = False) -> Callable[[Callable[..., Any]], Any]:
    """Return numba's decorator of loops that run without the GIL and are kept on disk.

    :raises RuntimeError: when it decorates, if there is no folder to keep loops in.
    """
    decorate: Callable[[Callable[..., Any]], Any] = numba.njit(
        nogil=True, cache=True, error_model="numpy", fastmath=fastmath
    )
    return decorate

"""Compiled loops that are kept on disk, in no folder that strangers can write to.

numba keeps them beside the sources, in the user's cache, or where NUMBA_CACHE_DIR says, and runs
what it finds there: whoever can write to that folder can run code as the user.
"""

import functools
import grp
import os
import pwd
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

from phrasescore.errors import PhrasescoreError

# numba reads it in whatever folder a command runs in, maybe one that came from a stranger.
_CONFIG = ".numba_config.yaml"


def kept_njit(*, fastmath: bool | set[str] = False) -> Callable[[Callable[..., Any]], Any]:
    """Return numba's decorator of loops that run without the GIL and are kept on disk.

    :raises PhrasescoreError: when it decorates, if strangers can write to the folder.
    :raises RuntimeError: then, if there is no folder to keep loops in.
    """
    compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=fastmath)

    def decorate(loop: Callable[..., Any]) -> Any:
        kernel = compiled(loop)
        # Nothing is loaded before the first call.
        _check_folder(kernel.stats.cache_path, os.path.dirname(loop.__code__.co_filename))
        return kernel

    return decorate


@functools.cache
def _check_folder(folder: str, sources: str) -> None:
    chosen = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    if os.path.exists(_CONFIG) and chosen != os.environ.get("NUMBA_CACHE_DIR", ""):
        problem = "its cache_dir is a folder of compiled code, which is taken from NUMBA_CACHE_DIR"
        raise PhrasescoreError(f"{_CONFIG}: {problem} alone; remove the file")
    trusted = os.stat(sources)
    path = Path(folder)
    for place in (path, path.parent):
        found = os.stat(place)
        # As in /tmp: nobody can put another folder in its place.
        is_sticky = place != path and found.st_mode & stat.S_ISVTX
        if not is_sticky and _may_strangers_write(found, trusted):
            problem = "others can write to this folder of compiled code, or own it; remove it, or"
            cure = "set NUMBA_CACHE_DIR to one that only you can write to"
            raise PhrasescoreError(f"{place}: {problem} {cure}")


def _may_strangers_write(folder: os.stat_result, sources: os.stat_result) -> bool:
    """Return whether anyone can write to a folder but the user, root, and who owns the sources."""
    writers = folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if folder.st_gid == sources.st_gid:
        writers &= ~sources.st_mode
    if _is_private(folder.st_gid):
        writers &= ~stat.S_IWGRP
    return bool(writers) or folder.st_uid not in {0, os.geteuid(), sources.st_uid}


def _is_private(group: int) -> bool:
    """Return whether a group is the user's alone, as many systems make one for each user."""
    try:
        found, user = grp.getgrgid(group), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return found.gr_name == user.pw_name and {*found.gr_mem} <= {user.pw_name}

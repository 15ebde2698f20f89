"""Machine code that numba has kept, and that is of sources which have changed since.

numba looks whether the file of a function has changed, and not the files of the functions that are
compiled into it: after an edit or a ``git pull`` a search would run half old and half new code.
"""

import contextlib
from pathlib import Path


def drop_stale_kernels(folder: Path) -> None:
    """Forget the compiled functions of a package if one of its sources is newer than they are.

    :param folder: of the package. A cache that cannot be written to stays as it is.
    """
    newest = max((source.stat().st_mtime_ns for source in folder.glob("*.py")), default=0)
    for index in folder.glob("__pycache__/*.nbi"):
        # Another process may be faster.
        with contextlib.suppress(OSError):
            if index.stat().st_mtime_ns < newest:
                index.unlink()

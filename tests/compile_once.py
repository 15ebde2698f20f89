"""Let the workers of a test run compile each function of numba once, all together.

numba keeps what it has compiled on the disk, but two processes that need a function at the same
time both compile it. With this, the second one waits and then reads what the first one has kept.
"""

import contextlib
import fcntl
import hashlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from numba.core.dispatcher import Dispatcher

# Seconds after which a worker compiles a function itself.
_PATIENCE = 90.0


def share_compiled_functions(run: str) -> None:
    """Share what is compiled from now on with other processes of a run.

    :param run: a name of the run that is not that of any other.
    """
    folder = Path(tempfile.gettempdir()) / f"phrasescore-compiling-{run}"
    folder.mkdir(exist_ok=True)
    compile_alone: Callable[..., Any] = Dispatcher.compile
    held: Counter[str] = Counter()

    def compile_once(dispatcher: Any, signature: Any) -> Any:
        name = f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__qualname__}"
        # Threads of this process, and compilations within this one, are numba's own business.
        held[name] += 1
        try:
            with _locked(folder, name) if held[name] == 1 else contextlib.nullcontext():
                return compile_alone(dispatcher, signature)
        finally:
            held[name] -= 1

    setattr(Dispatcher, "compile", compile_once)  # noqa: B010


@contextlib.contextmanager
def _locked(folder: Path, name: str) -> Iterator[None]:
    with (folder / hashlib.md5(name.encode()).hexdigest()).open("w") as file:
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.02)
        yield

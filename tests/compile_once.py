"""Let the workers of a test run compile each function of numba once, all together.

numba keeps what it has compiled on the disk, but two processes that need a function at the same
time both compile it. With this, the second one waits and then reads what the first one has kept.
"""

import contextlib
import fcntl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from numba.core.dispatcher import Dispatcher

# Seconds after which a worker compiles a function itself.
_PATIENCE = 90.0


def share_compiled_functions() -> None:
    """Share what is compiled from now on with other processes that do the same."""
    compile_alone: Callable[..., Any] = Dispatcher.compile
    held: Counter[Path] = Counter()

    def compile_once(dispatcher: Any, signature: Any) -> Any:
        # The lock lies where numba keeps what it has compiled.
        source = Path(dispatcher.py_func.__code__.co_filename)
        lock = source.with_name("__pycache__") / f"{source.stem}.{dispatcher.py_func.__name__}.lock"
        # Threads of this process, and compilations within this one, are numba's own business.
        held[lock] += 1
        try:
            with _locked(lock) if held[lock] == 1 else contextlib.nullcontext():
                return compile_alone(dispatcher, signature)
        finally:
            held[lock] -= 1

    setattr(Dispatcher, "compile", compile_once)  # noqa: B010


@contextlib.contextmanager
def _locked(lock: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            file = stack.enter_context(lock.open("w"))
            end = time.monotonic() + _PATIENCE
            while time.monotonic() < end:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(0.02)
        yield

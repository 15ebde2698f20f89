"""Which device and how many threads a network runs on, and how its threads wait for one another.

Torch's OpenMP library (libgomp) lets a thread spin at a barrier, 300,000 times by default. On a
free machine that is the fastest way. Beside other work a thread then spins while the one it waits
for has no core: training by two threads on two busy cores was ten times slower than by one. How
they wait is decided before torch is loaded, which reads it once.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from phrasescore.errors import PhrasescoreError

if TYPE_CHECKING:
    import torch

# Threads that keep a GPU busy with scoring: while it computes for one, another plans.
GPU_THREADS = 2

_SPINS, _POLICY = "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"
# Some 2 ms, a third of the default: fewer cost speed on a free machine (docs/performance.md).
_ON_FREE_MACHINE = "100000"
# The running processes of the whole machine and all others, as "2/89", in the fourth place.
_LOAD = Path("/proc/loadavg")

# How often it is read, and seconds in between: most processes run for an instant only.
_LOOKS, _BETWEEN_LOOKS = 5, 0.005

_is_ours = False

# The caller's setting of torch's threads, then those in force, the latest last.
_torch_threads: dict[object, int] = {}
_lock = threading.Lock()


def choose_device(name: str) -> "torch.device":
    """Return the device of a name: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.

    :raises PhrasescoreError: if a CUDA device is asked for that is not there.
    """
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise PhrasescoreError(f"--device {name}: torch sees {count} CUDA devices")
    return device


def move(device: "torch.device", *parts: "torch.Tensor") -> "Sequence[torch.Tensor]":
    """Return flat tensors of one type on ``device``: one copy, for which nobody waits."""
    if device.type == "cpu":
        return parts
    import torch

    together = torch.cat(parts) if len(parts) > 1 else parts[0]
    if device.type == "cuda":
        together = together.pin_memory()
    moved: Sequence[torch.Tensor] = together.to(device, non_blocking=True).split(
        list(map(len, parts))
    )
    return moved


def is_out_of_memory(error: MemoryError | RuntimeError) -> bool:
    """Return whether torch or numpy raised this because memory is short.

    On a CPU torch's is a RuntimeError like any other: "DefaultCPUAllocator: can't allocate memory:
    ...", "unable to mmap ...: Cannot allocate memory (12)".
    """
    if isinstance(error, MemoryError):
        return True
    # The last two of a GPU: torch.OutOfMemoryError or AcceleratorError, and that of a library.
    known = ("allocate memory", "out of memory", "_STATUS_ALLOC_FAILED")
    return any(words in str(error) for words in known)


def memory_problem(error: MemoryError | RuntimeError) -> str | None:
    """Return what a user is told where memory is short; None of any other error."""
    if not is_out_of_memory(error):
        return None
    reason = str(error).partition("\n")[0].split(". ")[0]
    return f"out of memory{': ' if reason else ''}{reason}"


def usable_threads(wanted: int | None) -> int:
    """Return how many threads to use: as many as wanted, else one for each core we may use."""
    if wanted is not None:
        return wanted
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def choose_waiting() -> None:
    """Let threads spin shortly, and not at all on a machine that is busy now.

    A user's own OMP_WAIT_POLICY or GOMP_SPINCOUNT stays. The numbers that torch computes do not
    depend on it.
    """
    global _is_ours
    if "torch" in sys.modules or {_SPINS, _POLICY} & os.environ.keys():
        return
    os.environ[_SPINS] = "0" if _is_busy() else _ON_FREE_MACHINE
    _is_ours = True


def environment_of_children() -> dict[str, str]:
    """Return the environment without what `choose_waiting` has set: a child decides for itself."""
    return {name: value for name, value in os.environ.items() if name != _SPINS or not _is_ours}


def _is_busy() -> bool:
    """Return whether other processes run on half of the machine's cores or more, at every look."""
    for _ in range(_LOOKS):
        try:
            running = int(_LOAD.read_text().split()[3].split("/")[0])
        except (OSError, ValueError, IndexError):  # not on every system
            return False
        if 2 * (running - 1) < (os.cpu_count() or 1):
            return False
        time.sleep(_BETWEEN_LOOKS)
    return True


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let each of torch's operations use this many threads meanwhile, and then as many as before.

    Of several that overlap, as iterators do, the latest that has not ended counts.
    """
    import torch

    token = object()
    with _lock:
        if not _torch_threads:
            _torch_threads[None] = torch.get_num_threads()
        _torch_threads[token] = count
        torch.set_num_threads(count)
    try:
        yield
    finally:
        with _lock:
            del _torch_threads[token]
            torch.set_num_threads(next(reversed(_torch_threads.values())))
            if len(_torch_threads) == 1:
                _torch_threads.clear()

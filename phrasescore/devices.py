"""Which device and how many threads a network runs on."""

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from phrasescore.errors import PhrasescoreError

if TYPE_CHECKING:
    import torch

# Threads that keep a GPU busy with scoring: while it computes for one, another plans.
GPU_THREADS = 2

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

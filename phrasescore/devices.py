"""Choose the device and the number of threads for a network."""

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from phrasescore.errors import PhrasescoreError

if TYPE_CHECKING:
    import torch

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h

GPU_THREADS = 2  # they keep a GPU busy: while it computes for one, another prepares work

# torch's number of threads before the first `torch_threads`, then the active numbers, innermost
# last.
_torch_threads: dict[object, int] = {}
_lock = threading.Lock()


def choose_device(name: str) -> "torch.device":
    """Return the device ``auto``, ``cpu``, ``cuda`` or ``cuda:N``, which must exist."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        problem = f"--device {name}: torch sees {torch.cuda.device_count()} CUDA devices"
        raise PhrasescoreError(problem)
    return device


def move(device: "torch.device", *parts: "torch.Tensor") -> "Sequence[torch.Tensor]":
    """Move flat tensors of one type to ``device`` in one asynchronous copy."""
    if device.type == "cpu":
        return parts
    import torch

    joined = torch.cat(parts) if len(parts) > 1 else parts[0]
    if device.type == "cuda":
        joined = joined.pin_memory()
    sizes = list(map(len, parts))
    moved: Sequence[torch.Tensor] = joined.to(device, non_blocking=True).split(sizes)
    return moved


def is_out_of_memory(error: MemoryError | RuntimeError) -> bool:
    """Return whether torch or numpy raised an error because memory is short.

    torch raises a plain RuntimeError on a CPU, "... can't allocate memory ...", and on a GPU an
    OutOfMemoryError or a library's "..._STATUS_ALLOC_FAILED".
    """
    known = ("allocate memory", "out of memory", "_STATUS_ALLOC_FAILED")
    return isinstance(error, MemoryError) or any(words in str(error) for words in known)


def memory_problem(error: MemoryError | RuntimeError) -> str | None:
    """Return a message if memory is short, or None for any other error."""
    if not is_out_of_memory(error):
        return None
    reason = str(error).partition("\n")[0].split(". ")[0]
    return f"out of memory{': ' if reason else ''}{reason}"


def usable_threads(wanted: int | None) -> int:
    """Return the number of threads to use: ``wanted``, or one per available core."""
    if wanted is not None:
        return wanted
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not available on every system
        return os.cpu_count() or 1


def keep_memory() -> None:
    """Let glibc keep the memory of freed tensors.

    Otherwise each update of a training returns megabytes to the system and faults them in again,
    page by page: a fifth of the time of a small joint model.
    """
    adjust = getattr(ctypes.CDLL(None), "mallopt", None)
    if adjust is not None:
        adjust(_M_MMAP_THRESHOLD, 1 << 25)  # the largest value that glibc takes
        adjust(_M_TRIM_THRESHOLD, (1 << 31) - 1)


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Set the number of threads for torch's operations within the block.

    Nested uses, also in overlapping iterators: the innermost active one wins.
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

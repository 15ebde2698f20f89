"""Which device and how many threads a network runs on."""

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from phrasescore.errors import PhrasescoreError

if TYPE_CHECKING:
    import torch

# Threads that keep a GPU busy with scoring: while it computes for one, another plans.
GPU_THREADS = 2
# Instructions by which the libraries of matrix products choose their kernels.
_INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")


def choose_device(name: str) -> "torch.device":
    """Return the device of a ``--device`` option: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.

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


def usable_threads(wanted: int | None) -> int:
    """Return how many threads to use: as many as wanted, else one for each core we may use."""
    if wanted is not None:
        return wanted
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def processor() -> str:
    """Return what decides the last bits of a product: the maker, and the vector instructions."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:  # not on every system
        return platform.machine()
    found = dict(line.split(":", 1) for line in text.replace("\t", "").splitlines())
    flags = found.get("flags", "").split()
    known = [name for name in _INSTRUCTIONS if name in flags]
    return " ".join([platform.machine(), found.get("vendor_id", "").strip(), *known])

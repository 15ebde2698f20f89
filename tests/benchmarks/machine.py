"""The machine that the figures are of, and how fast it multiplies matrices at best."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

import torch

# Rows, inner size and columns: a recurrent product of a large block at the paper's sizes.
SHAPE = (2048, 1000, 3000)


def describe_machine() -> dict[str, str]:
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    return {
        "cpu": model,
        "cores": str(os.cpu_count()),
        "vector instructions": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "load before (1, 5, 15 minutes)": load,
    }


@contextlib.contextmanager
def torch_threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def measure_peak(threads: int, kind: torch.dtype, seconds: float) -> float:
    """Return the operations a second of the fastest of many matrix products.

    :param kind: float32, bfloat16, or int8, of which the products are int32.
    :param seconds: for how long products are tried; one is the least.
    """
    rows, inner, columns = SHAPE
    # 25 times, so that integers are neither all 0 nor too large.
    left = (25 * torch.randn(rows, inner)).to(kind)
    # As layers store it, which is how the scorer lays its smaller matrices out, too.
    right = (25 * torch.randn(columns, inner)).to(kind).t()
    if kind == torch.float32:
        right = right.contiguous()
    is_integer = kind == torch.int8
    out = torch.empty(rows, columns, dtype=torch.int32 if is_integer else kind)
    multiply = torch._int_mm if is_integer else torch.mm
    best = float("inf")
    with torch_threads(threads), torch.inference_mode():
        end = time.perf_counter() + seconds
        while True:
            start = time.perf_counter()
            multiply(left, right, out=out)
            now = time.perf_counter()
            best = min(best, now - start)
            if now >= end:
                return 2.0 * rows * inner * columns / best

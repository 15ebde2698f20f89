"""The machine that the figures are of."""

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

import torch


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

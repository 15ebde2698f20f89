"""The machine and the versions that the figures are of."""

import contextlib
import datetime
import os
import platform
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import torch

from phrasescore.version import __version__

PACKAGES = ("torch", "numpy", "numba", "ctranslate2", "sacrebleu", "ray")


def describe_machine() -> dict[str, str]:
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    versions = {"phrasescore": __version__}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cpu": model,
        "cores": str(os.cpu_count()),
        "vector instructions": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        **versions,
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

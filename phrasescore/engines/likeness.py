"""Describe what the last bits of results depend on: the processor, the GPU, the versions."""

import platform
import sys
from pathlib import Path

from phrasescore.version import __version__

# Instructions by which libraries choose their matrix kernels.
_INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")


def describe(device: str = "cpu") -> dict[str, str]:
    """Return everything that the last bits of results depend on; it should be equal on all workers.

    :param device: the device that the work computes on; a GPU is described only if it is used.
    """
    properties = {"phrasescore": __version__, "processor": _processor()}
    torch = sys.modules.get("torch")
    if torch is not None:
        properties["torch"] = str(torch.__version__)
        if device.startswith("cuda"):
            properties["GPU"] = torch.cuda.get_device_name()
    return properties


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:  # other operating systems
        return platform.machine()
    fields = dict(line.split(":", 1) for line in text.replace("\t", "").splitlines())
    flags = fields.get("flags", "").split()
    known = [name for name in _INSTRUCTIONS if name in flags]
    return " ".join([platform.machine(), fields.get("vendor_id", "").strip(), *known])

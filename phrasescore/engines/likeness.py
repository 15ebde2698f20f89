"""What the last bits of results depend on beside the work: the processor, the GPU, the versions."""

import platform
import sys
from pathlib import Path

from phrasescore.version import __version__

# Instructions by which the libraries of matrix products choose their kernels.
_INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")


def describe(device: str = "cpu") -> dict[str, str]:
    """Return what results may depend on beside the work: two workers should not differ in it.

    :param device: where the work computes; a GPU that it does not use does not count.
    """
    found = {"phrasescore": __version__, "processor": _processor()}
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = str(torch.__version__)
        if device.startswith("cuda"):
            found["GPU"] = torch.cuda.get_device_name()
    return found


def _processor() -> str:
    """Return what decides the last bits of a product: the maker, and the vector instructions."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:  # not on every system
        return platform.machine()
    found = dict(line.split(":", 1) for line in text.replace("\t", "").splitlines())
    flags = found.get("flags", "").split()
    known = [name for name in _INSTRUCTIONS if name in flags]
    return " ".join([platform.machine(), found.get("vendor_id", "").strip(), *known])

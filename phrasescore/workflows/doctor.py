"""Check what this machine offers to phrasescore, and how to get what it lacks."""

import importlib.metadata
import json
import os
import platform
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from phrasescore.arguments import PRECISIONS
from phrasescore.devices import usable_threads
from phrasescore.errors import PhrasescoreError
from phrasescore.io.text_table import text_table
from phrasescore.version import __version__

# A container's limit of CPU time: "200000 100000" (microseconds per period) or "max 100000".
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_GPU_FILE = Path("/dev/nvidia0")

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a machine has or lacks, what was found, and how to use it or to get it."""

    name: str
    is_there: bool
    found: str
    advice: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings about a machine; none of them is an error."""

    findings: tuple[Finding, ...]

    def to_json(self) -> str:
        """Return a JSON list, indented."""
        return json.dumps([asdict(finding) for finding in self.findings], indent=2)

    def to_text(self) -> str:
        """Return two lines per finding, without a newline at the end."""
        rows = []
        for finding in self.findings:
            state = "found" if finding.is_there else "missing"
            rows += [(state, finding.name, finding.found), ("", "", f"-> {finding.advice}")]
        return "\n".join(text_table(rows, "l"))


def doctor() -> Diagnosis:
    """Return what phrasescore can use on this machine; nothing is computed or changed."""
    return Diagnosis(
        (_versions(), _processor(), _threads(), _gpu(), _moses(), _kenlm(), *_packages())
    )


def _versions() -> Finding:
    import torch

    versions = f"phrasescore {__version__}, Python {platform.python_version()}"
    advice = "name these where you report a problem"
    return Finding("versions", True, f"{versions}, torch {torch.__version__}", advice)


def _processor() -> Finding:
    from phrasescore.engines.ray_connection import describe
    from phrasescore.kernels.precision import lacks_units

    found = f"{_model_name()}: {describe()['processor']}"
    faster = [name for name in PRECISIONS if name in ("bfloat16", "int8") and not lacks_units(name)]
    advice = "keep --precision float32: it has no instructions for bfloat16 or int8"
    if faster:
        names = " and ".join(faster)
        advice = f"it has instructions for --precision {names}, faster than float32"
    return Finding("processor", True, found, advice)


def _model_name() -> str:
    """Return the processor's name, which Linux knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown")


def _threads() -> Finding:
    """Return the number of usable cores, and whether the container limits their time."""
    usable, cores = usable_threads(None), os.cpu_count() or 1
    found = f"{usable} of {cores} cores"
    quota = _quota()
    if quota is None or quota >= usable:
        advice = "verbs use all of them; --threads N or --workers N use fewer"
        return Finding("threads", True, found, advice)
    found += f", but this container has the time of {quota:g}"
    advice = f"give --threads {max(1, int(quota))}, else threads wait for one another"
    return Finding("threads", True, found, advice)


def _quota() -> float | None:
    try:
        allowed, period = _QUOTA.read_text(encoding="utf-8").split()
        return int(allowed) / int(period)
    except (OSError, ValueError):  # "max", or none
        return None


def _gpu() -> Finding:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a driver that is too old
        is_there = torch.cuda.is_available()
    if is_there:
        devices = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
        found = ", ".join(f"{each.name} ({each.total_memory // _MIB:,} MiB)" for each in devices)
        advice = "--device auto takes it; --precision tf32 or bfloat16 is faster than float32"
        return Finding("GPU", True, found, advice)
    if torch.version.cuda is None and torch.version.hip is None and _GPU_FILE.exists():
        found = "there is one, but this torch is built for CPUs only"
        return Finding("GPU", False, found, "install a torch with CUDA: https://pytorch.org")
    if _GPU_FILE.exists():
        found = f"there is one, but torch, built for CUDA {torch.version.cuda}, cannot use it"
        return Finding("GPU", False, found, "update its driver; nvidia-smi tells the version")
    advice = "networks run on the CPU; the presets of the papers' sizes want a GPU"
    return Finding("GPU", False, "none", advice)


def _moses() -> Finding:
    program = shutil.which("moses")
    if program is not None:
        folder = os.path.dirname(program)
        advice = f"decode --decoder moses --moses-bin {folder}; tune --decoder 'moses -f moses.ini'"
        return Finding("Moses", True, program, advice)
    advice = "decode and tune --decoder embedded need none; decode --moses-bin DIR names a folder"
    return Finding("Moses", False, "no program moses on the PATH", advice)


def _kenlm() -> Finding:
    from phrasescore.language_models.kenlm_model import import_kenlm

    try:
        import_kenlm()
    except PhrasescoreError as error:
        found, _, advice = str(error).partition(": ")
        return Finding("kenlm", False, found, advice)
    advice = "n-gram models: --lm, --backoff-lm, select"
    return Finding("kenlm", True, importlib.metadata.version("kenlm"), advice)


def _packages() -> Iterator[Finding]:
    """Yield a finding per optional package, without importing it."""
    for name, extra, use in (
        ("ctranslate2", "ctranslate2", "networks of other toolkits: rescore --ctranslate2"),
        ("ray", "cluster", "work on several machines: --engine ray"),
    ):
        try:
            yield Finding(name, True, importlib.metadata.version(name), use)
        except importlib.metadata.PackageNotFoundError:
            advice = f"for {use}: pip install 'phrasescore[{extra}]'"
            yield Finding(name, False, "not installed", advice)

"""List what this installation offers: the machine's equipment, the features and the metrics."""

import importlib.metadata
import inspect
import json
import os
import pkgutil
import platform
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from phrasescore.arguments import METRICS, PRECISIONS
from phrasescore.devices import usable_threads
from phrasescore.errors import PhrasescoreError, PluginError
from phrasescore.features.named import FEATURES, NOT_OF_PHRASES, OF_SHORTLISTS
from phrasescore.features.packages import find_classes
from phrasescore.io.text_table import text_table
from phrasescore.version import __version__
from tuning.settings import METRICS as TUNING_METRICS

# A container's limit of CPU time: "200000 100000" (microseconds per period) or "max 100000".
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_GPU_FILE = Path("/dev/nvidia0")

_MIB = 1 << 20
_OUR_PACKAGE = f"phrasescore {__version__}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A component that a machine has or lacks."""

    name: str
    is_there: bool
    found: str  # a description, or why it is missing
    advice: str  # how to use it, or how to install it


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings about a machine; none of them is an error."""

    findings: tuple[Finding, ...]

    def to_json(self) -> str:
        """Return the findings as an indented JSON list."""
        return json.dumps([asdict(finding) for finding in self.findings], indent=2)

    def to_text(self) -> str:
        """Return two lines per finding, without a newline at the end."""
        rows = []
        for finding in self.findings:
            state = "found" if finding.is_there else "missing"
            rows += [(state, finding.name, finding.found), ("", "", f"-> {finding.advice}")]
        return "\n".join(text_table(rows, "l"))

    __repr__ = to_text


def doctor() -> Diagnosis:
    """Return what phrasescore can use on this machine; nothing is computed or changed."""
    import torch

    versions = f"{_OUR_PACKAGE}, Python {platform.python_version()}, torch {torch.__version__}"
    return Diagnosis(
        (
            Finding("versions", True, versions, "mention these when you report a problem"),
            *(_processor(), _threads(), _gpu(), _moses(), _kenlm(), *_packages()),
        )
    )


def _processor() -> Finding:
    from phrasescore.engines.ray_connection import describe, processor_fields
    from phrasescore.kernels.precision import lacks_units

    found = f"{processor_fields().get('model name', 'unknown')}: {describe()['processor']}"
    faster = [name for name in PRECISIONS if name in ("bfloat16", "int8") and not lacks_units(name)]
    advice = "use --precision float32: the processor has no instructions for bfloat16 or int8"
    if faster:
        advice = f"--precision {' and '.join(faster)}: faster than float32 on this processor"
    return Finding("processor", True, found, advice)


def _threads() -> Finding:
    usable, cores = usable_threads(None), os.cpu_count() or 1
    found = f"{usable} of {cores} cores"
    try:
        allowed, period = _QUOTA.read_text(encoding="utf-8").split()
        quota = int(allowed) / int(period)
    except (OSError, ValueError):  # no limit
        quota = float(usable)
    if quota >= usable:
        advice = "verbs use all of them; --threads N or --workers N use fewer"
        return Finding("threads", True, found, advice)
    found += f", but this container is limited to {quota:g}"
    advice = f"use --threads {max(1, int(quota))}; more threads wait for one another"
    return Finding("threads", True, found, advice)


def _gpu() -> Finding:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a driver that is too old
        is_there = torch.cuda.is_available()
    if is_there:
        devices = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
        found = ", ".join(f"{each.name} ({each.total_memory // _MIB:,} MiB)" for each in devices)
        advice = "--device auto uses it; --precision tf32 or bfloat16 is faster than float32"
        return Finding("GPU", True, found, advice)
    if torch.version.cuda is None and torch.version.hip is None and _GPU_FILE.exists():
        found = "present, but this torch is built for CPUs only"
        return Finding("GPU", False, found, "install a torch with CUDA: https://pytorch.org")
    if _GPU_FILE.exists():
        found = f"present, but torch, built for CUDA {torch.version.cuda}, cannot use it"
        return Finding("GPU", False, found, "update its driver; nvidia-smi shows the version")
    advice = "networks run on the CPU; presets with the papers' sizes need a GPU"
    return Finding("GPU", False, "none", advice)


def _moses() -> Finding:
    program = shutil.which("moses")
    if program is not None:
        folder = os.path.dirname(program)
        advice = f"decode --decoder moses --moses-bin {folder}; tune --decoder 'moses -f moses.ini'"
        return Finding("Moses", True, program, advice)
    advice = (
        "decode and tune --decoder embedded run without it; decode --moses-bin DIR names a folder"
    )
    return Finding("Moses", False, "no program moses on the PATH", advice)


def _kenlm() -> Finding:
    from phrasescore.language_models.ngram_scorer import import_kenlm

    try:
        import_kenlm()
    except PhrasescoreError as error:
        found, _, advice = str(error).partition(": ")
        return Finding("kenlm", False, found, advice)
    advice = "KenLM's binary files, for --lm, --backoff-lm and select"
    return Finding("kenlm", True, importlib.metadata.version("kenlm"), advice)


def _packages() -> Iterator[Finding]:
    """Yield a finding per optional package, without importing it."""
    for name, extra, use in (
        ("ctranslate2", "ctranslate2", "networks of other toolkits: rescore --ctranslate2"),
        ("ray", "cluster", "work on several machines: --engine ray"),
        ("plotly", "report", "pages of report; --plot of evaluate needs its matplotlib"),
    ):
        try:
            yield Finding(name, True, importlib.metadata.version(name), use)
        except importlib.metadata.PackageNotFoundError:
            advice = f"for {use}: pip install 'phrasescore[{extra}]'"
            yield Finding(name, False, "not installed", advice)


# What phrasescore's own metrics measure; TER is lower for better translations.
_METRICS: dict[str, str] = {
    "multi-bleu": "BLEU on the words of the file, as in Moses' multi-bleu.perl.",
    "bleu": "BLEU; evaluate has sacrebleu's, with its signature.",
    "chrf": "The F-score of character n-grams, chrF2.",
    "chrf++": "chrF2 with n-grams of one and two words.",
    "ter": "The translation edit rate: lower is better.",
    "word_accuracy": "1 minus the word error rate, for lines of few words.",
    "cer": "1 minus the character error rate in tune, which maximises; the rate in evaluate.",
}


@dataclass(frozen=True, slots=True)
class ListedName:
    """A feature or a metric, listed under the name that options accept."""

    kind: Literal["feature", "metric"]
    name: str
    package: str  # its package, with the version
    used_for: tuple[str, ...] = ()  # for a feature: lists, tables or both; for a metric: its verbs
    about: str = ""  # what it measures: for a class, the first line of its docstring
    needs: str = ""  # the option or the arguments that it requires
    problem: str | None = None  # why it cannot be used; None if it can


@dataclass(frozen=True, slots=True)
class FeatureList:
    """All features, then all metrics; phrasescore's own come first."""

    names: tuple[ListedName, ...]

    def to_json(self) -> str:
        """Return the names as a JSON list of objects."""
        return json.dumps([asdict(each) for each in self.names], indent=2, ensure_ascii=False)

    def to_text(self) -> str:
        """Return a table of features, a table of metrics, and a line for each unusable name."""
        groups = dict.fromkeys((each.kind, each.package) for each in self.names)
        parts = [self._table(kind, package) for kind, package in groups]
        parts.append(
            [
                f"refused: {each.package}: {each.kind} {each.name}: {each.problem}"
                for each in self.names
                if each.problem is not None
            ]
        )
        return "\n\n".join("\n".join(lines) for lines in parts if lines)

    __repr__ = to_text

    def _table(self, kind: str, package: str) -> list[str]:
        listed = [
            each
            for each in self.names
            if (each.kind, each.package) == (kind, package) and each.problem is None
        ]
        rows = [[kind, "for", "what it measures"]]
        for each in listed:
            about = f"{each.about} Needs {each.needs}." if each.needs else each.about
            rows.append([each.name, ", ".join(each.used_for), about])
        lines = text_table(rows, "l", indent="  ", wrap=True)
        return [f"{kind.capitalize()}s of {package}:", *lines] if listed else []


def list_features() -> FeatureList:
    """Return the features and metrics that options accept by name, and the unusable ones.

    Features from other packages are imported but not instantiated: whether they meet the contract
    is checked when they are used.
    """
    found = []
    for name in sorted(FEATURES):
        places = ("lists",) if name in NOT_OF_PHRASES else ("lists", "tables")
        about = _about(pkgutil.resolve_name(FEATURES[name]))
        needs = "--model" if name in OF_SHORTLISTS else ""
        found.append(ListedName("feature", name, _OUR_PACKAGE, places, about, needs))
    found += _from_packages()
    for name in METRICS:
        verbs = ("tune", "evaluate") if name in TUNING_METRICS else ("evaluate",)
        found.append(ListedName("metric", name, _OUR_PACKAGE, verbs, _METRICS[name]))
    return FeatureList(tuple(found))


def _from_packages() -> Iterator[ListedName]:
    for each in find_classes():
        try:
            made = each.load()
        except PluginError as error:
            yield ListedName("feature", each.name, each.package, problem=error.problem)
            continue
        is_for_tables = getattr(made, "not_of_phrases", None) is None
        places = ("lists", "tables") if is_for_tables else ("lists",)
        yield ListedName("feature", each.name, each.package, places, _about(made))


def _about(made: object) -> str:
    return (inspect.getdoc(made) or "").partition("\n")[0].replace("``", "")

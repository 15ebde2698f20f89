"""Report what works on this machine, or the content of a model, a system or an experiment."""

import dataclasses
import importlib.metadata
import inspect
import json
import os
import pkgutil
import platform
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from phrasescore.arguments import METRICS, PRECISIONS, StrPath
from phrasescore.devices import usable_threads
from phrasescore.errors import PhrasescoreError, PluginError
from phrasescore.features.named import FEATURES, NOT_OF_PHRASES, OF_SHORTLISTS
from phrasescore.features.packages import find_classes
from phrasescore.io.journal import read_journal
from phrasescore.io.text_table import text_table
from phrasescore.progress import format_duration
from phrasescore.systems.folder import STEPS
from phrasescore.systems.system import read_system
from phrasescore.version import __version__
from phrasescore.workflows.system_facts import system_facts
from tuning.settings import METRICS as TUNING_METRICS

if TYPE_CHECKING:
    from phrasescore.models.summary import ModelReport

# A folder with one of these files is a model, although it may be damaged.
_MODEL_FILES = {"config.toml", "model.safetensors", "training.json"}
# A container's limit of CPU time: "200000 100000" (microseconds per period) or "max 100000".
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_GPU_FILE = Path("/dev/nvidia0")


@dataclass(frozen=True, slots=True)
class Overview:
    """The main facts about this machine, a system or an experiment."""

    path: str | None
    facts: dict[str, str]
    table: str = ""  # an experiment's results

    def to_json(self) -> str:
        """Return one JSON object, indented."""
        return json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False)

    def to_text(self) -> str:
        """Return the facts as text, without a newline at the end."""
        lines = text_table(list(self.facts.items()), "l", wrap=True)
        return "\n".join([*lines, *([f"\n{self.table}"] if self.table else [])]).rstrip()

    __repr__ = to_text


def show(path: StrPath | None = None) -> "ModelReport | Overview":
    """Return facts about a file or folder that a verb wrote; ``to_text()`` formats them.

    Without a path, the facts are what works on this machine and what is missing, and the features
    and metrics that options accept. Nothing is computed or changed.

    :param path: a model, a system (its folder, ``system.toml`` or moses.ini), or the folder of
        ``experiment``, whose best row is described, too.
    """
    if path is None:
        others = ", ".join(name for name in METRICS if name not in TUNING_METRICS)
        metrics = f"{', '.join(METRICS)}; tune has no {others}"
        return Overview(None, {**dict(_machine()), **dict(_features()), "metrics": metrics})
    path = os.fspath(path)
    names = os.listdir(path) if os.path.isdir(path) else []
    if STEPS in names:
        return _experiment_overview(path)
    if not _MODEL_FILES.intersection(names):
        return Overview(path, system_facts(read_system(path)))
    from phrasescore.models.summary import model_report  # imports torch

    return model_report(path)


def _experiment_overview(path: str) -> Overview:
    from phrasescore.workflows.experiment.steps import StepRecords

    folder = Path(path)
    kept = read_journal(folder / STEPS, StepRecords, "name another folder")
    steps = {} if kept is None else kept.steps
    done = sum(state.done is not None for state in steps.values())
    seconds = sum(state.seconds or 0 for state in steps.values())
    facts = {"steps done": f"{done} of {len(steps)}, in {format_duration(seconds)}"}
    try:
        facts |= system_facts(read_system(path))
    except PhrasescoreError as error:
        facts["ready"] = f"no: {error}"
    table = folder / "table.txt"
    return Overview(path, facts, table.read_text("utf-8", "replace") if table.exists() else "")


def _machine() -> Iterator[tuple[str, str]]:
    import torch

    from phrasescore.engines.ray_connection import describe, processor_fields
    from phrasescore.kernels.precision import lacks_units

    python = platform.python_version()
    yield "versions", f"phrasescore {__version__}, Python {python}, torch {torch.__version__}"
    model = processor_fields().get("model name", "unknown")
    yield "processor", f"{model}: {describe()['processor']}"
    fast = [name for name in PRECISIONS if name in ("bfloat16", "int8") and not lacks_units(name)]
    yield "fast --precision", " and ".join(fast or ["float32"])
    yield "threads", _threads()
    yield "GPU", _gpu()
    moses = shutil.which("moses")
    yield "moses", moses or "missing on the PATH; only systems with Moses as the decoder need it"
    yield "kenlm", _kenlm()
    for name, extra, use in (
        ("ctranslate2", "ctranslate2", "for rescore --ctranslate2"),
        ("ray", "cluster", "for --engine ray"),
        ("matplotlib", "report", "for report"),
    ):
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield name, f"missing, {use}: pip install 'phrasescore[{extra}]'"


def _threads() -> str:
    usable = usable_threads(None)
    found = f"{usable} of {os.cpu_count() or 1} cores"
    try:
        allowed, period = _QUOTA.read_text(encoding="utf-8").split()
        quota = int(allowed) / int(period)
    except (OSError, ValueError):  # no limit
        return found
    if quota >= usable:
        return found
    return f"{found}, but this container is limited to {quota:g}: --threads {max(1, int(quota))}"


def _gpu() -> str:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a driver that is too old
        is_there = torch.cuda.is_available()
    if is_there:
        return ", ".join(map(torch.cuda.get_device_name, range(torch.cuda.device_count())))
    if _GPU_FILE.exists():
        return "unusable: install a torch with CUDA (https://pytorch.org), or update the driver"
    return "none; networks run on the CPU"


def _kenlm() -> str:
    from phrasescore.language_models.kenlm_scorer import import_kenlm

    try:
        import_kenlm()
    except PhrasescoreError as error:
        return str(error)
    return importlib.metadata.version("kenlm")


def _features() -> Iterator[tuple[str, str]]:
    for name in sorted(FEATURES):
        only = " Only for lists." if name in NOT_OF_PHRASES else ""
        needs = " Needs --model." if name in OF_SHORTLISTS else ""
        yield f"feature {name}", f"{_about(pkgutil.resolve_name(FEATURES[name]))}{only}{needs}"
    for found in find_classes():  # which are imported
        try:
            made = found.load()
        except PluginError as error:
            yield f"refused feature {found.name}", f"{found.package}: {error.problem}"
            continue
        only = "" if getattr(made, "not_of_phrases", None) is None else " Only for lists."
        yield f"feature {found.name}", f"{_about(made)}{only} ({found.package})"


def _about(made: object) -> str:
    return (inspect.getdoc(made) or "").partition("\n")[0].replace("``", "")

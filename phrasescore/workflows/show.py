"""Report the content of a model, a system or an experiment."""

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from moses_integration.moses_ini import MosesIni
from phrasescore.arguments import StrPath
from phrasescore.errors import PhrasescoreError
from phrasescore.io.journal import read_journal
from phrasescore.io.text_table import text_table
from phrasescore.progress import format_duration
from phrasescore.settings.toml_file import read_toml
from phrasescore.workflows.experiment.steps import STATE, TABLE_FILES, StepRecords

if TYPE_CHECKING:
    from phrasescore.report.model_summary import ModelReport

# A folder with one of these files is a model, although it may be damaged.
_MODEL_FILES = {"config.toml", "model.safetensors", "training.json"}


@dataclass(frozen=True, slots=True)
class Overview:
    """The main facts about a system or an experiment."""

    path: str
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


def show(path: StrPath) -> "ModelReport | Overview":
    """Return facts about a file or folder that a verb wrote; ``to_text()`` formats them.

    :param path: a model, the folder of ``build`` or ``experiment``, or a ``system.toml``.
    """
    path = os.fspath(path)
    if path.endswith(".toml"):
        return _system_overview(path)
    names = os.listdir(path) if os.path.isdir(path) else []
    if STATE in names:
        return _experiment_overview(path)
    if "moses.ini" in names and not _MODEL_FILES.intersection(names):
        return _build_overview(path)
    if not _MODEL_FILES.intersection(names):
        expected = "expected a system.toml, or the folder of a model, of build or of an experiment"
        raise PhrasescoreError(f"{path}: {expected}")
    from phrasescore.report.model_summary import model_report  # imports torch

    return model_report(path)


def _system_overview(path: str) -> Overview:
    values = read_toml(path)
    facts = {}
    for key, value in values.items():
        named = value if isinstance(value, list) else [value]
        texts = (
            ", ".join(f"{name} {shown}" for name, shown in each.items())
            if isinstance(each, dict)
            else str(each)
            for each in named
        )
        facts[key] = "; ".join(texts)
    return Overview(path, facts)


def _experiment_overview(path: str) -> Overview:
    folder = Path(path)
    kept = read_journal(folder / STATE, StepRecords, "name another folder")
    steps = {} if kept is None else kept.steps
    done = sum(state.done is not None for state in steps.values())
    seconds = sum(state.seconds or 0 for state in steps.values())
    table = folder / TABLE_FILES[0]
    facts = {"steps done": f"{done} of {len(steps)}, in {format_duration(seconds)}"}
    if systems := sorted(map(str, folder.glob("systems/*/*/system.toml"))):
        facts["to translate"] = " ".join(systems)
    return Overview(path, facts, table.read_text("utf-8", "replace") if table.exists() else "")


def _build_overview(path: str) -> Overview:
    ini = MosesIni.read(os.path.join(path, "moses.ini"))
    weights = {
        name: "weights " + " ".join(f"{value:g}" for value in values)
        for name, values in ini.tuneable_weights().items()
    }
    sizes = {
        name: f"{os.stat(ini.resolve(name)).st_size / 1e6:,.1f} MB"
        for name in ini.named_paths()
        if os.path.exists(ini.resolve(name))
    }
    return Overview(path, {**sizes, **weights})

"""Report the content of a model, a phrase table, a system or an experiment."""

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from moses_integration.moses_ini import MosesIni
from moses_integration.phrase_table import read_phrase_table
from moses_integration.table_report import TableReport, report_table
from phrasescore.arguments import StrPath
from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.io.journal import read_journal
from phrasescore.io.output import optional_path
from phrasescore.io.text_table import text_table
from phrasescore.progress import Meter, ProgressCallback, format_duration
from phrasescore.settings.toml_file import read_toml
from phrasescore.workflows.experiment.steps import STATE, TABLE_FILES, StepRecords

if TYPE_CHECKING:
    from phrasescore.report.model_summary import ModelReport

_LONGEST = 10  # phrases with more words share one row of the text output
# A folder with one of these files is a model, although it may be damaged.
_MODEL_FILES = {"config.toml", "model.safetensors", "training.json"}


@dataclass(frozen=True, slots=True)
class TableFigures:
    """Statistics about a phrase table."""

    path: str
    report: TableReport

    def to_json(self) -> str:
        """Return one JSON object, indented."""
        return json.dumps({"path": self.path, **dataclasses.asdict(self.report)}, indent=2)

    def to_text(self) -> str:
        """Return the report as text, without a newline at the end."""
        tables = (
            text_table(_rows(self.report), "l"),
            text_table(_length_rows(self.report), "r"),
            text_table(_score_rows(self.report), "r"),
        )
        return "\n\n".join("\n".join(lines) for lines in tables)

    __repr__ = to_text


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


def show(
    path: StrPath, *, model: StrPath | None = None, progress: ProgressCallback | None = None
) -> "ModelReport | TableFigures | Overview":
    """Return facts about a file or folder that a verb wrote; ``to_text()`` formats them.

    :param path: a model, a phrase table, the folder of ``build`` or ``experiment``, or a
        ``system.toml``.
    """
    path = os.fspath(path)
    is_system = path.endswith(".toml")
    if not os.path.isdir(path) and not is_system:
        return _count_table(path, optional_path(model), progress)
    if model is not None:
        raise ArgumentError("--model can only be used with a phrase table")
    if is_system:
        return _system_overview(path)
    names = os.listdir(path)
    if STATE in names:
        return _experiment_overview(path)
    if not _MODEL_FILES.intersection(names):
        if "moses.ini" in names:
            return _build_overview(path)
        expected = "expected the folder of a model, of build or of an experiment"
        raise PhrasescoreError(f"{path}: {expected}, found none of their files")
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


def _count_table(path: str, model: str | None, progress: ProgressCallback | None) -> TableFigures:
    shortlists = None
    if model is not None:
        from phrasescore.models.checkpoint import load_checkpoint  # imports torch

        checkpoint = load_checkpoint(model)
        if not checkpoint.config.network.reads_source:
            problem = f"{model}: expected a translation model,"
            raise PhrasescoreError(f"{problem} found a language model ({checkpoint.config.kind})")
        shortlists = (checkpoint.table_source_vocabulary, checkpoint.table_target_vocabulary)
    can_read_again = os.path.isfile(path)  # and not a pipe
    with Meter("show", "lines", progress, lines_of=path) as meter:
        report = report_table(
            meter.track(read_phrase_table(path)),
            shortlists=shortlists,
            read_again=(lambda: read_phrase_table(path)) if can_read_again else None,
        )
    return TableFigures(path, report)


def _rows(report: TableReport) -> list[tuple[str, str]]:
    each = report.targets_per_source
    counts = report.counts
    rows = [
        ("lines", f"{report.lines:,}"),
        ("distinct sources", f"{report.distinct_sources:,}"),
        ("distinct targets", f"{report.distinct_targets:,}"),
        (
            "targets per source",
            f"mean {each.mean:.2f}, median {each.median:g}, max {each.max:,}"
            + ("" if each.max_source is None else f" (of {each.max_source!r})"),
        ),
        ("times extracted", f"{counts.joint:,.0f} in all (joint counts)"),
        ("lines extracted once", f"{counts.once:,} ({counts.once / report.lines:.1%})"),
        ("lines without counts", f"{report.lines - counts.lines:,}"),
    ]
    if (coverage := report.coverage) is not None:
        for side in ("source", "target"):
            share = getattr(coverage, f"{side}_words")
            by_count = getattr(coverage, f"{side}_words_by_count")
            text = f"{share:.2%} of the running words; {by_count:.2%} weighted by the counts"
            rows.append((f"{side} words in shortlist", text))
        rows.append(("pairs without <unk>", f"{coverage.pairs:.2%} of the lines"))
    return rows


def _length_rows(report: TableReport) -> list[list[str]]:
    """Return the number of phrases by length; all longer phrases share one row."""
    names = [*map(str, range(1, _LONGEST + 1)), f"> {_LONGEST}"]
    sides = []
    for lengths in (report.source_lengths, report.target_lengths):
        counts = [lengths.get(length, 0) for length in range(1, _LONGEST + 1)]
        sides.append([*counts, report.lines - sum(counts)])
    rows = [["words", "source phrases", "", "target phrases", ""]]
    for name, *both in zip(names, *sides, strict=True):
        if any(both):
            shares = ((f"{count:,}", f"{count / report.lines:.1%}") for count in both)
            rows.append([name, *(cell for share in shares for cell in share)])
    return rows


def _score_rows(report: TableReport) -> list[list[str]]:
    return [["column", "lowest", "highest", "mean of ln"]] + [
        [str(number), f"{column.min:.6g}", f"{column.max:.6g}", f"{column.mean_log:.4f}"]
        for number, column in enumerate(report.scores, start=1)
    ]

"""The folder of an experiment as input for a report: its results, texts and weights."""

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from phrasescore.arguments import METRIC_TITLES, TableMetric
from phrasescore.errors import DataError
from phrasescore.evaluation.comparison import SystemScore
from phrasescore.report.systems import Results, TextResults
from phrasescore.report.tuning import TuneReport, read_tune_report
from phrasescore.settings.toml_file import read_toml

TABLE, STEPS = "table.toml", "steps.toml"
MOST_SYSTEMS = 10  # systems whose translations are compared

# TOML allows inf and nan, which a report cannot show.
_Finite = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]


class TextFiles(msgspec.Struct):
    """A text of an experiment; ``tuned`` tells that the weights were tuned on it."""

    name: str
    source: str
    references: list[str]
    tuned: bool = False

    def inside(self, folder: str) -> "TextFiles":
        """Return a copy with paths from the working folder; they are relative to ``folder``."""
        source, *references = (
            os.path.normpath(os.path.join(folder, path)) for path in (self.source, *self.references)
        )
        return msgspec.structs.replace(self, source=source, references=references)


class _Cell(msgspec.Struct):
    replicas: tuple[_Finite, ...]
    length_ratio: _Finite = 0.0
    difference: _Finite | None = None
    interval: tuple[_Finite, _Finite] | None = None
    p_value: _Finite | None = None


class _Row(msgspec.Struct):
    name: str
    rounds: list[str] = []
    remarks: list[str] = []
    outputs: dict[str, list[str]] = {}  # paths of translations by text, relative to the folder
    reports: list[str] = []  # paths of tuning reports
    features: str = ""  # what it adds to the baseline
    system: str = ""  # path of its best system.toml


@dataclass(frozen=True, slots=True)
class ExperimentFolder:
    """The results of an experiment, and the files that its ``table.toml`` names."""

    folder: Path
    results: Results
    texts: tuple[TextFiles, ...]
    rows: tuple[_Row, ...]

    def compared_text(self) -> tuple[TextFiles, list[tuple[str, str]]] | None:
        """Return the first test text, with each system's name and its first translation.

        Of more than `MOST_SYSTEMS` systems, the first one and the best ones are returned. The
        result is None if a file is missing.
        """
        if not self.results.tests:
            return None
        measured = self.results.tests[0]
        text = next((text for text in self.texts if text.name == measured.name), None)
        if text is None:
            return None
        names = list(measured.scores)
        by_score = sorted(names[1:], key=lambda name: -measured.scores[name].mean)
        kept = {*names[:1], *by_score[: MOST_SYSTEMS - 1]}
        systems = [
            (row.name, str(self.folder / row.outputs[text.name][0]))
            for row in self.rows
            if row.name in kept and row.outputs.get(text.name)
        ]
        files = [text.source, *text.references, *(path for _, path in systems)]
        return (text, systems) if systems and all(map(os.path.exists, files)) else None

    def tune_reports(self) -> dict[str, TuneReport]:
        """Return the report of each row's first tuning run, if it exists."""
        paths = {row.name: self.folder / row.reports[0] for row in self.rows if row.reports}
        return {name: read_tune_report(path) for name, path in paths.items() if path.exists()}


def read_experiment_folder(folder: str) -> ExperimentFolder:
    """Read ``table.toml`` in the folder of an experiment."""
    path = os.path.join(folder, TABLE)
    table = read_toml(path)
    try:
        named = msgspec.convert(table.get("text", []), tuple[TextFiles, ...])
        texts = tuple(text.inside(folder) for text in named)
        rows = msgspec.convert(table["row"], tuple[_Row, ...])
        results = _read_results(table, texts, rows)
    except (AttributeError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise DataError(path, None, f"expected the table of an experiment: {error}") from error
    return ExperimentFolder(Path(folder), results, texts, rows)


def is_of_tuning(path: str) -> bool:
    """Return whether a file has the translations of the text on which an experiment has tuned."""
    file = Path(os.path.realpath(path))
    folder = next((each for each in file.parents[:4] if (each / STEPS).exists()), None)
    if folder is None or not (folder / TABLE).exists():
        return False
    found = read_experiment_folder(str(folder))
    tuned = [text.name for text in found.texts if text.tuned]
    outputs = (path for row in found.rows for name in tuned for path in row.outputs.get(name, ()))
    return file in (folder / output for output in outputs)


def _read_results(
    table: Mapping[str, Any], texts: tuple[TextFiles, ...], rows: tuple[_Row, ...]
) -> Results:
    cells = {
        row["name"]: {key: cell for key, cell in row.items() if key not in _Row.__struct_fields__}
        for row in table["row"]
    }
    keys = {key for own in cells.values() for cell in own.values() for key in cell}
    metric: TableMetric = next((name for name in METRIC_TITLES if name in keys), "bleu")
    tuned = {text.name for text in texts if text.tuned}
    names = dict.fromkeys([text.name for text in texts])
    names |= dict.fromkeys(name for own in cells.values() for name in own)
    measured = []
    for name in names:
        is_dev = name in tuned
        scores = {row: _score(row, own[name], is_dev) for row, own in cells.items() if name in own}
        measured.append(TextResults(name, scores, is_dev))
    remarks = {row.name: row.remarks for row in rows}
    rounds = {row.name: ", ".join(row.rounds) for row in rows}
    notes = msgspec.convert(table.get("notes", []), list[str])
    caption = [f"{row.name}: {row.features}." for row in rows if row.features]
    results = Results(tuple(cells), tuple(measured), metric, rounds, remarks, notes, caption)
    for system in (row.system for row in rows if row.system and row.name == results.best):
        command = f"phrasescore translate {shlex.quote(system)} TEXT -o TRANSLATIONS"
        caption.append(f"To use {results.choice}, in the experiment's folder: {command}")
    return results


def _score(system: str, values: object, is_dev: bool) -> SystemScore:
    cell = msgspec.convert(values, _Cell)
    score = SystemScore(system, cell.replicas, cell.length_ratio)
    if is_dev:  # version 0.3 compared systems on it
        return score
    return replace(score, difference=cell.difference, interval=cell.interval, p_value=cell.p_value)

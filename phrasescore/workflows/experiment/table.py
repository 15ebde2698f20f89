"""The table of an experiment: the score of each system, its deviation and its significance."""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from moses_integration.text_settings import to_toml as toml_value
from phrasescore.arguments import TableMetric
from phrasescore.evaluation.comparison import (
    ComparedSystem,
    Comparison,
    SystemScore,
    read_translations,
)
from phrasescore.evaluation.sentences import read_sentences
from phrasescore.evaluation.significance import p_value_text
from phrasescore.io.output import open_output
from phrasescore.io.text_table import text_table
from phrasescore.report.systems import P_VALUES, Results, TextResults
from phrasescore.report.tuning import TuneReport, read_tune_report
from phrasescore.settings.evaluation import SectionName
from phrasescore.workflows.experiment.commands import FileNames
from phrasescore.workflows.experiment.config import TextSet
from phrasescore.workflows.experiment.rows import Run
from phrasescore.workflows.experiment.steps import TABLE_FILES
from phrasescore.workflows.report import make_report
from phrasescore.workflows.report.experiment_folder import STEPS

REPORT = "report"  # the folder of the page
_QUICK_SECTIONS: tuple[SectionName, ...] = ("results", "tuning")
_MEAN = "the mean over the replicas ± their standard deviation"
METRICS: dict[TableMetric, str] = {
    "bleu": f"BLEU on the tokenised text (as in multi-bleu.perl): {_MEAN}.",
    "word_accuracy": f"Word accuracy, 1 minus the word error rate, in percent: {_MEAN}.",
}
_IN_RUNS = r" \(in \d+ of \d+ runs\)$"  # the end of a remark on some replicas
ROUNDS = "rounds: tuning rounds; + means that the limit ended tuning, and more rounds could help."


class StepRecord(NamedTuple):
    """A step of an experiment; ``seconds`` is None if it is not done."""

    name: str
    command: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class SystemRow:
    """A table row: the scores of one system."""

    name: str
    cells: Mapping[str, SystemScore]  # by text; lacks texts that no replica has translated yet
    # Tuning rounds per replica, such as "4, 6+"; + means that the limit ended tuning.
    rounds: str = ""
    remarks: tuple[str, ...] = ()
    system: str = ""  # the system.toml of its best run on dev; "" before tuning
    # The translations of each text by the replicas, and the replicas' tuning reports.
    outputs: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    reports: Sequence[Path] = ()
    features: str = ""  # what it adds to the baseline


@dataclass(frozen=True, slots=True)
class ExperimentTable:
    """The table of results, with its notes."""

    texts: tuple[TextSet, ...]  # the columns; the first one is the text of tuning
    rows: tuple[SystemRow, ...]
    notes: tuple[str, ...]
    steps: tuple[StepRecord, ...]
    warnings: tuple[str, ...] = ()  # from the steps, with their names; the notes include them
    metric: TableMetric = "bleu"

    @property
    def results(self) -> Results:
        """The scores by text, which say what is best."""
        texts = (
            TextResults(
                text.name,
                {row.name: row.cells[text.name] for row in self.rows if text.name in row.cells},
                is_dev=text == self.texts[0],
            )
            for text in self.texts
        )
        return Results(tuple(row.name for row in self.rows), tuple(texts), self.metric)

    @property
    def best(self) -> int | None:
        """The index of the row that is best on dev; None if fewer than two rows are measured."""
        results = self.results
        if results.best is None or len(results.dev) < 2:
            return None
        return results.systems.index(results.best)

    def __repr__(self) -> str:
        """Return the table as text."""
        return to_text(self)


def measure(
    texts: Sequence[TextSet],
    runs: Sequence[Run],
    existing: Collection[Path],
    notes: Sequence[str],
    steps: Sequence[StepRecord],
    warnings: Sequence[str] = (),
    *,
    metric: TableMetric = "bleu",
) -> ExperimentTable:
    """Return the table for the texts that have been translated so far."""
    runs_by_name: dict[str, list[Run]] = {}
    for run in runs:
        runs_by_name.setdefault(run.system.name, []).append(run)
    cells: dict[str, dict[str, SystemScore]] = {name: {} for name in runs_by_name}
    for text in texts:
        for score in _compare(text, runs_by_name, existing, metric, is_test=text != texts[0]):
            cells[score.name][text.name] = score
    rows = tuple(
        _row(name, own, existing, cells[name], texts) for name, own in runs_by_name.items()
    )
    remarks = [(row.name, remark) for row in rows for remark in row.remarks]
    # A warning from tuning is already one of the remarks.
    known = tuple(f": {re.sub(_IN_RUNS, '', remark)}" for _, remark in remarks)
    is_compared = any(each.p_value is not None for row in rows for each in row.cells.values())
    all_notes = (
        METRICS[metric],
        *([P_VALUES] if is_compared else []),
        ROUNDS,
        *(f"* {name}: {remark}." for name, remark in remarks),
        *notes,
        *(f"Warning of {warning}." for warning in warnings if not warning.endswith(known)),
    )
    return ExperimentTable(tuple(texts), rows, all_notes, tuple(steps), tuple(warnings), metric)


def _compare(
    text: TextSet,
    runs_by_name: Mapping[str, Sequence[Run]],
    existing: Collection[Path],
    metric: TableMetric,
    *,
    is_test: bool,
) -> list[SystemScore]:
    outputs = {name: _outputs(runs, text, existing) for name, runs in runs_by_name.items()}
    systems = [
        ComparedSystem(name, [read_translations(str(path)) for path in paths])
        for name, paths in outputs.items()
        if paths
    ]
    if not systems:
        return []
    references = [read_sentences(str(path)) for path in text.references]
    # On the text of tuning, a p-value says nothing: each system had its choice there.
    is_compared = is_test and systems[0].name == next(iter(outputs))
    return Comparison(systems, references, has_baseline=is_compared, metric=metric).scores


def _outputs(runs: Sequence[Run], text: TextSet, existing: Collection[Path]) -> list[Path]:
    return [path for run in runs if (path := run.output(text)) in existing]


def _row(
    name: str,
    runs: Sequence[Run],
    existing: Collection[Path],
    cells: Mapping[str, SystemScore],
    texts: Sequence[TextSet],
) -> SystemRow:
    done = [(run, read_tune_report(run.report)) for run in runs if run.report in existing]
    rounds = [f"{len(report.rounds)}{'' if report.ended_by_itself else '+'}" for _, report in done]
    counts = Counter(
        remark
        for run, report in done
        for remark in (*run.remarks(report), *_worse(run, report, existing))
    )
    remarks = (
        remark if count == len(done) else f"{remark} (in {count} of {len(done)} runs)"
        for remark, count in counts.items()
    )
    best = max(done, key=lambda pair: pair[1].reached, default=None)
    system = "" if best is None else str(best[0].system_file)
    outputs = {text.name: _outputs(runs, text, existing) for text in texts if text.name in cells}
    reports = [run.report for run, _ in done]
    features = runs[0].system.describe()
    return SystemRow(
        name, cells, ", ".join(rounds), tuple(remarks), system, outputs, reports, features
    )


def _worse(run: Run, report: TuneReport, existing: Collection[Path]) -> Iterator[str]:
    """Yield a remark if a system is worse than an earlier one with a subset of its features."""
    parts = [each for each in run.parts if each.report in existing]
    scores = {each.system.name: read_tune_report(each.report).reached for each in parts}
    name = max(scores, key=lambda name: scores[name], default=None)
    if name is not None and report.reached < scores[name]:
        yield f"on dev it is worse than {name}, whose features it has: {name}'s weights are better"


def write_table(
    table: ExperimentTable, names: FileNames, command: str = "", *, is_final: bool = True
) -> None:
    """Write ``table.txt``, ``table.toml``, ``steps.toml`` and the report, each atomically.

    :param command: the command that the report shows.
    :param is_final: False to write only the sections of the report that take no time.
    """
    texts = (to_text(table), to_toml(table, names), steps_toml(table.steps))
    folder = names.folder
    for name, text in zip((*TABLE_FILES, STEPS), texts, strict=True):
        with open_output(str(folder / name)) as stream:
            # Paths may have bytes that are not UTF-8; TOML has no notation for them.
            stream.write(text.encode(errors="replace"))
    if any(row.cells for row in table.rows):
        only = () if is_final else _QUICK_SECTIONS
        # The page names files as the user does here.
        given = os.path.relpath(folder)
        make_report(folder / REPORT, experiment=given, only=only, command=command)


def to_text(table: ExperimentTable) -> str:
    """Return the table as text, one line per row."""
    rows = []
    for index, row in enumerate(table.rows):
        name = f"{row.name} *" if row.remarks else row.name
        cells = (_cell_text(row.cells.get(text.name)) for text in table.texts)
        rows.append([name, *cells, row.rounds, "best" if index == table.best else ""])
    heads = ["", *(text.name for text in table.texts), "rounds", ""]
    best = [] if table.best is None else [table.results.headline()]
    return "\n".join([*text_table([heads, *rows], "l"), "", *best, *table.notes]) + "\n"


def _cell_text(cell: SystemScore | None) -> str:
    if cell is None:
        return "-"
    text = f"{cell.mean:.2f}"
    if cell.deviation is not None:
        text += f" ± {cell.deviation:.2f}"
    if cell.difference is not None and cell.p_value is not None:
        text += f" ({cell.difference:+.2f}, {p_value_text(cell.p_value)})"
    return text


def to_toml(table: ExperimentTable, names: FileNames) -> str:
    """Return the table as TOML, with unrounded numbers."""
    lines = [_pair("notes", table.notes)]
    for number, text in enumerate(table.texts):
        lines += ["", "[[text]]", _pair("name", text.name), _pair("source", names.of(text.source))]
        lines.append(_pair("references", list(map(names.of, text.references))))
        lines += ["tuned = true"] if number == 0 else []
    for row in table.rows:
        values = {
            "name": row.name,
            "rounds": row.rounds and row.rounds.split(", "),
            "remarks": row.remarks,
            "features": row.features,
            "system": row.system and names.of(Path(row.system)),
            "reports": list(map(names.of, row.reports)),
        }
        lines += ["", "[[row]]", *(_pair(*value) for value in values.items() if value[1])]
        for name, paths in row.outputs.items():
            lines.append(f"outputs.{_pair(toml_value(name), list(map(names.of, paths)))}")
        for name, cell in row.cells.items():
            figures = [f"{table.metric} = {cell.mean!r}", f"replicas = {list(cell.scores)!r}"]
            if cell.deviation is not None:
                figures.append(f"deviation = {cell.deviation!r}")
            if cell.difference is not None:
                figures += [f"difference = {cell.difference!r}", f"p_value = {cell.p_value!r}"]
            if cell.interval is not None:
                figures.append(f"interval = {list(cell.interval)!r}")
            if cell.length_ratio:
                figures.append(f"length_ratio = {cell.length_ratio!r}")
            lines.append(f"{toml_value(name)} = {{ {', '.join(figures)} }}")
    return "\n".join(lines) + "\n"


def steps_toml(steps: Sequence[StepRecord]) -> str:
    """Return the steps as TOML: names, commands and times."""
    lines = []
    for step in steps:
        lines += ["[[step]]", _pair("name", step.name), _pair("command", step.command)]
        lines += [] if step.seconds is None else [_pair("seconds", step.seconds)]
    return "\n".join(lines) + "\n"


def _pair(key: str, value: object) -> str:
    return f"{key} = {toml_value(value)}"

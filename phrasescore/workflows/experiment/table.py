"""The table of an experiment: the score of each system, its deviation and its significance."""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path

import jinja2

from phrasescore.arguments import METRIC_TITLES, TableMetric
from phrasescore.evaluation.comparison import (
    SEED,
    TRIALS,
    ComparedSystem,
    Comparison,
    SystemScore,
    read_translations,
)
from phrasescore.evaluation.sentences import read_sentences
from phrasescore.evaluation.significance import p_value_text
from phrasescore.io.output import open_output
from phrasescore.io.text_table import text_table
from phrasescore.report.tuning import TuneReport, read_tune_report
from phrasescore.workflows.experiment.config import TextSet
from phrasescore.workflows.experiment.rows import Run

TABLE_FILES = ("table.txt", "table.toml", "table.html")
_MEAN = "the mean over the replicas ± their standard deviation"
METRICS: dict[TableMetric, str] = {
    "bleu": f"BLEU on the tokenised text (as in multi-bleu.perl): {_MEAN}.",
    "word_accuracy": f"Word accuracy, 1 minus the word error rate, in percent: {_MEAN}.",
}
TEST = (
    "p: the probability of such a difference from the first row by chance, from approximate "
    f"randomization over sentences, {TRIALS:,} trials, seed {SEED}."
)
ROUNDS = "rounds: tuning rounds; + means that the limit ended tuning, and more rounds could help."


@dataclass(frozen=True, slots=True)
class SystemRow:
    """A table row: the scores of one system."""

    name: str
    cells: Mapping[str, SystemScore]  # by text; lacks texts that no replica has translated yet
    # Tuning rounds per replica, such as "4, 6+"; + means that the limit ended tuning.
    rounds: str = ""
    remarks: tuple[str, ...] = ()
    system: str = ""  # the system.toml of its best run on dev; "" before tuning

    @property
    def shown_name(self) -> str:
        """The name, with an asterisk if there are remarks."""
        return f"{self.name} *" if self.remarks else self.name


@dataclass(frozen=True, slots=True)
class ExperimentTable:
    """The table of results, with its notes."""

    texts: tuple[str, ...]  # names of the columns
    rows: tuple[SystemRow, ...]
    notes: tuple[str, ...]
    steps: tuple[str, ...]  # the commands with their times in seconds, for the HTML file
    warnings: tuple[str, ...] = ()  # from the steps, with their names; the notes include them
    metric: TableMetric = "bleu"

    @property
    def best(self) -> int | None:
        """The index of the row that is best on dev; None if fewer than two rows are measured."""
        scores = [
            (row.cells[self.texts[0]].mean, -index)
            for index, row in enumerate(self.rows)
            if self.texts[0] in row.cells
        ]
        return -max(scores)[1] if len(scores) > 1 else None

    def __repr__(self) -> str:
        """Return the table as text."""
        return to_text(self)


def measure(
    texts: Sequence[TextSet],
    runs: Sequence[Run],
    existing: Collection[Path],
    notes: Sequence[str],
    steps: Sequence[str],
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
        for score in _compare(text, runs_by_name, existing, metric):
            cells[score.name][text.name] = score
    rows = tuple(_row(name, own, existing, cells[name]) for name, own in runs_by_name.items())
    remarks = [(row.name, remark) for row in rows for remark in row.remarks]
    # A warning from tuning is already one of the remarks.
    known = tuple(f": {remark}" for _, remark in remarks)
    all_notes = (
        *(METRICS[metric], TEST, ROUNDS),
        *(f"* {name}: {remark}." for name, remark in remarks),
        *notes,
        *(f"Warning of {warning}." for warning in warnings if not warning.endswith(known)),
    )
    names = tuple(text.name for text in texts)
    return ExperimentTable(names, rows, all_notes, tuple(steps), tuple(warnings), metric)


def _compare(
    text: TextSet,
    runs_by_name: Mapping[str, Sequence[Run]],
    existing: Collection[Path],
    metric: TableMetric,
) -> list[SystemScore]:
    outputs = {
        name: [str(path) for run in runs if (path := run.output(text)) in existing]
        for name, runs in runs_by_name.items()
    }
    systems = [
        ComparedSystem(name, list(map(read_translations, paths)))
        for name, paths in outputs.items()
        if paths
    ]
    if not systems:
        return []
    references = [read_sentences(str(path)) for path in text.references]
    has_baseline = systems[0].name == next(iter(outputs))
    return Comparison(systems, references, has_baseline=has_baseline, metric=metric).scores


def _row(
    name: str, runs: Sequence[Run], existing: Collection[Path], cells: Mapping[str, SystemScore]
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
    return SystemRow(name, cells, ", ".join(rounds), tuple(remarks), system)


def _worse(run: Run, report: TuneReport, existing: Collection[Path]) -> Iterator[str]:
    """Yield a remark if a system is worse than an earlier one with a subset of its features."""
    parts = [each for each in run.parts if each.report in existing]
    scores = {each.system.name: read_tune_report(each.report).reached for each in parts}
    name = max(scores, key=lambda name: scores[name], default=None)
    if name is not None and report.reached < scores[name]:
        yield f"on dev it is worse than {name}, whose features it has: {name}'s weights are better"


def write_table(table: ExperimentTable, folder: Path) -> None:
    """Write ``table.txt``, ``table.toml`` and ``table.html`` atomically."""
    for name, text in zip(TABLE_FILES, (to_text, to_toml, to_html), strict=True):
        with open_output(str(folder / name)) as stream:
            stream.write(text(table).encode())


def to_text(table: ExperimentTable) -> str:
    """Return the table as text, one line per row."""
    rows = [
        [row.shown_name, *map(_cell_text, _cells(table, row)), row.rounds] for row in table.rows
    ]
    for index, row in enumerate(rows):
        row.append("best" if index == table.best else "")
    heads = ["", *table.texts, "rounds", ""]
    best = [] if table.best is None else [f"best: the highest figure on {table.texts[0]}."]
    return "\n".join([*text_table([heads, *rows], "l"), "", *best, *table.notes]) + "\n"


def _cells(table: ExperimentTable, row: SystemRow) -> Iterator[SystemScore | None]:
    return (row.cells.get(text) for text in table.texts)


def _cell_text(cell: SystemScore | None) -> str:
    if cell is None:
        return "-"
    text = f"{cell.mean:.2f}"
    if cell.deviation is not None:
        text += f" ± {cell.deviation:.2f}"
    if cell.difference is not None and cell.p_value is not None:
        text += f" ({cell.difference:+.2f}, {p_value_text(cell.p_value)})"
    return text


def to_toml(table: ExperimentTable) -> str:
    """Return the table as TOML, with unrounded numbers."""
    lines = [f"notes = {json.dumps(table.notes, ensure_ascii=False)}"]
    for row in table.rows:
        lines += ["", "[[row]]", f"name = {json.dumps(row.name, ensure_ascii=False)}"]
        if row.rounds:
            lines.append(f"rounds = {json.dumps(row.rounds.split(', '))}")
        if row.remarks:
            lines.append(f"remarks = {json.dumps(row.remarks, ensure_ascii=False)}")
        for text, cell in row.cells.items():
            figures = [f"{table.metric} = {cell.mean!r}", f"replicas = {list(cell.scores)!r}"]
            if cell.deviation is not None:
                figures.append(f"deviation = {cell.deviation!r}")
            if cell.difference is not None:
                figures += [f"difference = {cell.difference!r}", f"p_value = {cell.p_value!r}"]
            lines.append(f'"{text}" = {{ {", ".join(figures)} }}')
    return "\n".join(lines) + "\n"


def to_html(table: ExperimentTable) -> str:
    """Return the table as a self-contained HTML page."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"cells": partial(_cells, table), "shown": _cell_text}
    template = resources.files("phrasescore.workflows.experiment") / "table.html.j2"
    return environment.from_string(template.read_text("utf-8")).render(
        table=table, title=METRIC_TITLES[table.metric]
    )

"""The table of an experiment: BLEU of each row, its spread, and how much of it is chance."""

import html
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from phrasescore.evaluation.sentences import check_aligned, read_sentences
from phrasescore.io.output import open_output
from phrasescore.io.text_table import text_table
from phrasescore.report.shown_text import p_value_text
from phrasescore.report.tuning import TuneReport, read_tune_report
from phrasescore.workflows.experiment.config import TextSet
from phrasescore.workflows.experiment.runs import Run
from tuning.bleu import Bleu
from tuning.metric import Statistics
from tuning.significance import randomization_p_value

TABLE_FILES = ("table.txt", "table.toml", "table.html")
TRIALS = 10_000
SEED = 12345
METRIC = (
    "BLEU of tokenised text as it is (multi-bleu.perl's figure), the mean of the replicas ± their "
    "standard deviation."
)
TEST = (
    "p: how often chance alone gives such a difference from the first row, by approximate "
    f"randomization over sentences, {TRIALS:,} trials, seed {SEED}."
)
ROUNDS = "rounds: of tuning; + where the limit of rounds ended it, and more could gain."


@dataclass(frozen=True, slots=True)
class SystemScores:
    """The figures of a row on a text."""

    # Of each replica, 0 to 100.
    scores: tuple[float, ...]
    # From the first row; None for the first row itself.
    difference: float | None = None
    p_value: float | None = None

    @property
    def mean(self) -> float:
        """The mean of the replicas."""
        return float(np.mean(self.scores))

    @property
    def deviation(self) -> float | None:
        """Of the sample, divided by replicas - 1; None for a single one."""
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else None


@dataclass(frozen=True, slots=True)
class SystemRow:
    """A system."""

    name: str
    # By text; a text that no replica has translated yet is not there.
    cells: Mapping[str, SystemScores]
    # Of tuning, of each replica: "4", and "6+" where the number of rounds ended it.
    rounds: str = ""
    # For the reader of the table.
    remarks: tuple[str, ...] = ()

    @property
    def shown_name(self) -> str:
        """The name, with a mark where there are remarks."""
        return f"{self.name} *" if self.remarks else self.name


@dataclass(frozen=True, slots=True)
class ExperimentTable:
    """All rows."""

    texts: tuple[str, ...]
    rows: tuple[SystemRow, ...]
    notes: tuple[str, ...]
    # The commands with their seconds, for the HTML file.
    steps: tuple[str, ...]
    # Of the steps, each with the name of its step; the notes have them, too.
    warnings: tuple[str, ...] = ()


def measure(
    texts: Sequence[TextSet],
    runs: Sequence[Run],
    made: Collection[Path],
    notes: Sequence[str],
    steps: Sequence[str],
    warnings: Sequence[str] = (),
) -> ExperimentTable:
    """Return the table of the texts that have been translated so far.

    :param made: the translations and reports that are there.
    :raises DataError: if a translation has more or fewer lines than its references.
    """
    names = dict.fromkeys(run.system.name for run in runs)
    of_row = {name: [run for run in runs if run.system.name == name] for name in names}
    cells: dict[str, dict[str, SystemScores]] = {name: {} for name in names}
    for text in texts:
        for name, scores in _score_rows(text, of_row, made):
            cells[name][text.name] = scores
    rows = tuple(_row(name, of_row[name], made, cells[name]) for name in names)
    remarks = [f"{row.name}: {remark}." for row in rows for remark in row.remarks]
    # A warning of tuning is one of the remarks already.
    shown = [f"Warning of {each}." for each in warnings if not f"{each}.".endswith(_ends(rows))]
    about = (METRIC, TEST, ROUNDS, *(f"* {remark}" for remark in remarks), *notes, *shown)
    names_of_texts = tuple(text.name for text in texts)
    return ExperimentTable(names_of_texts, rows, about, tuple(steps), tuple(warnings))


def _ends(rows: Sequence[SystemRow]) -> tuple[str, ...]:
    return tuple(f": {remark}." for row in rows for remark in row.remarks)


def _score_rows(
    text: TextSet, of_row: Mapping[str, Sequence[Run]], made: Collection[Path]
) -> Iterator[tuple[str, SystemScores]]:
    """Yield the figures on a text of each row that has translated it."""
    metric = None
    baseline: tuple[float, Statistics] | None = None
    for place, (name, runs) in enumerate(of_row.items()):
        outputs = [path for run in runs if (path := run.output(text)) in made]
        if not outputs:
            continue
        metric = metric or _metric(text)
        systems = [read_sentences(str(path)) for path in outputs]
        check_aligned([read_sentences(str(text.references[0])), *systems])
        segments = range(metric.num_segments)
        stats = np.array([metric.statistics(system.words, segments) for system in systems])
        found = SystemScores(tuple((100 * metric.score(stats.sum(axis=1))).tolist()))
        if place == 0:
            baseline = found.mean, stats
        elif baseline is not None:
            mean, before = baseline
            p_value = randomization_p_value(metric, before, stats, trials=TRIALS, seed=SEED)
            found = SystemScores(found.scores, found.mean - mean, p_value)
        yield name, found


def _row(
    name: str, runs: Sequence[Run], made: Collection[Path], cells: Mapping[str, SystemScores]
) -> SystemRow:
    """Return a row with its rounds and remarks, from the reports of its tuning."""
    done = [(run, read_tune_report(run.report)) for run in runs if run.report in made]
    rounds = [f"{len(found.rounds)}{'' if found.ended_by_itself else '+'}" for _, found in done]
    counts = Counter(
        remark for run, found in done for remark in (*run.remarks(found), *_worse(run, found, made))
    )
    remarks = (
        remark if count == len(done) else f"{remark} (in {count} of {len(done)} runs)"
        for remark, count in counts.items()
    )
    return SystemRow(name, cells, ", ".join(rounds), tuple(remarks))


def _worse(run: Run, found: TuneReport, made: Collection[Path]) -> Iterator[str]:
    """Yield that a row stands below an earlier one whose features it has, if so."""
    parts = [each for each in run.parts if each.report in made]
    scores = {each.system.name: read_tune_report(each.report).reached for each in parts}
    name = max(scores, key=lambda name: scores[name], default=None)
    if name is not None and found.reached < scores[name]:
        yield f"on dev it is below {name}, whose features it has: {name}'s weights are better"


def _metric(text: TextSet) -> Bleu:
    references = [read_sentences(str(path)) for path in text.references]
    check_aligned(references)
    return Bleu([sentences.words for sentences in references])


def write_table(table: ExperimentTable, folder: Path) -> None:
    """Write ``table.txt``, ``table.toml`` and ``table.html``, each whole or not at all."""
    for name, text in zip(TABLE_FILES, (to_text, to_toml, to_html), strict=True):
        with open_output(str(folder / name)) as stream:
            stream.write(text(table).encode())


def to_text(table: ExperimentTable) -> str:
    """Return the table as text, a line a row."""
    rows = [
        [row.shown_name, *map(_cell_text, _cells(table, row)), row.rounds] for row in table.rows
    ]
    heads = ["", *table.texts, "rounds"]
    return "\n".join([*text_table([heads, *rows], "l"), "", *table.notes]) + "\n"


def _cells(table: ExperimentTable, row: SystemRow) -> Iterator[SystemScores | None]:
    return (row.cells.get(text) for text in table.texts)


def _cell_text(cell: SystemScores | None) -> str:
    if cell is None:
        return "-"
    text = f"{cell.mean:.2f}"
    if cell.deviation is not None:
        text += f" ± {cell.deviation:.2f}"
    if cell.difference is not None and cell.p_value is not None:
        text += f" ({cell.difference:+.2f}, {p_value_text(cell.p_value)})"
    return text


def to_toml(table: ExperimentTable) -> str:
    """Return the table as TOML: all figures, unrounded."""
    lines = [f"notes = {json.dumps(table.notes, ensure_ascii=False)}"]
    for row in table.rows:
        lines += ["", "[[row]]", f"name = {json.dumps(row.name, ensure_ascii=False)}"]
        if row.rounds:
            lines.append(f"rounds = {json.dumps(row.rounds.split(', '))}")
        if row.remarks:
            lines.append(f"remarks = {json.dumps(row.remarks, ensure_ascii=False)}")
        for text, cell in row.cells.items():
            figures = [f"bleu = {cell.mean!r}", f"replicas = {list(cell.scores)!r}"]
            if cell.deviation is not None:
                figures.append(f"deviation = {cell.deviation!r}")
            if cell.difference is not None:
                figures += [f"difference = {cell.difference!r}", f"p_value = {cell.p_value!r}"]
            lines.append(f'"{text}" = {{ {", ".join(figures)} }}')
    return "\n".join(lines) + "\n"


_STYLE = """\
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em }
table { border-collapse: collapse } th, td { padding: .3em 1em; text-align: left }
thead th { border-bottom: 2px solid } tbody tr { border-bottom: 1px solid #ccc }
.better { font-weight: bold } small { color: #666 } pre { overflow-x: auto }
"""


def to_html(table: ExperimentTable) -> str:
    """Return the table as one file that needs no other."""
    heads = "".join(f"<th>{html.escape(text)}</th>" for text in ("", *table.texts, "rounds"))
    rows = "\n".join(
        f"<tr><th>{html.escape(row.shown_name)}</th>"
        + "".join(map(_cell_html, _cells(table, row)))
        + f"<td>{html.escape(row.rounds)}</td></tr>"
        for row in table.rows
    )
    notes = "\n".join(f"<li>{html.escape(note)}</li>" for note in table.notes)
    steps = html.escape("\n".join(table.steps))
    return f"""\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>phrasescore experiment</title>
<style>
{_STYLE}</style></head><body>
<h1>BLEU</h1>
<table><thead><tr>{heads}</tr></thead><tbody>
{rows}
</tbody></table>
<p>Bold: better than the first row with p &lt; 0.05.</p>
<ul>
{notes}
</ul>
<details><summary>What was run</summary><pre>{steps}</pre></details>
</body></html>
"""


def _cell_html(cell: SystemScores | None) -> str:
    if cell is None:
        return "<td>-</td>"
    figure, _, rest = _cell_text(cell).partition(" (")
    is_better = (cell.difference or 0) > 0 and cell.p_value is not None and cell.p_value < 0.05
    shown = f'<span class="better">{figure}</span>' if is_better else figure
    return f"<td>{shown}{f' <small>({html.escape(rest)}</small>' if rest else ''}</td>"

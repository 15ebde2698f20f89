"""The table of an experiment: BLEU of each row, its spread, and what chance has to do with it."""

import html
import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from phrasescore.evaluation.sentences import check_aligned, read_sentences
from phrasescore.io.output import open_output
from phrasescore.workflows.experiment.config import TextSet
from phrasescore.workflows.experiment.runs import RowReport, Run, read_report
from tuning.bleu import Bleu
from tuning.metric import Statistics
from tuning.significance import randomization_p_value

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
    scores: list[float]
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
    cells: dict[str, SystemScores]
    # Of tuning, of each replica: "4", and "6+" where the number of rounds ended it.
    rounds: str = ""
    # What its reader has to know.
    remarks: tuple[str, ...] = ()

    @property
    def shown_name(self) -> str:
        """The name, with a mark where there are remarks."""
        return f"{self.name} *" if self.remarks else self.name


@dataclass(frozen=True, slots=True)
class ExperimentTable:
    """All rows."""

    texts: list[str]
    rows: list[SystemRow]
    notes: list[str]
    # Lines about what was run, for the HTML file.
    steps: list[str]


def measure(
    texts: Sequence[TextSet],
    runs: Sequence[Run],
    made: Collection[Path],
    notes: Sequence[str],
    steps: Sequence[str],
) -> ExperimentTable:
    """Return the table of what has been translated so far.

    :param made: the translations that are there.
    :raises DataError: if a translation has more or fewer lines than its references.
    """
    names = list(dict.fromkeys(run.system.name for run in runs))
    rows = [_row(name, [run for run in runs if run.system.name == name], made) for name in names]
    for text in texts:
        metric = None
        baseline: tuple[float, Statistics] | None = None
        for row in rows:
            outputs = [run.output(text) for run in runs if run.system.name == row.name]
            outputs = [path for path in outputs if path in made]
            if not outputs:
                continue
            metric = metric or _metric(text)
            systems = [read_sentences(str(path)) for path in outputs]
            check_aligned([read_sentences(str(text.references[0])), *systems])
            segments = range(metric.num_segments)
            stats = np.array([metric.statistics(system.words, segments) for system in systems])
            cell = SystemScores([100 * float(score) for score in metric.score(stats.sum(axis=1))])
            if row is rows[0]:
                baseline = cell.mean, stats
            elif baseline is not None:
                mean, before = baseline
                p_value = randomization_p_value(metric, before, stats, trials=TRIALS, seed=SEED)
                cell = SystemScores(cell.scores, cell.mean - mean, p_value)
            row.cells[text.name] = cell
    remarks = [f"* {row.name}: {remark}." for row in rows for remark in row.remarks]
    # A warning of tuning is one of the remarks already.
    others = [note for note in notes if not any(note.endswith(each) for each in _texts(rows))]
    about = [METRIC, TEST, ROUNDS, *remarks, *others]
    return ExperimentTable([text.name for text in texts], rows, about, list(steps))


def _texts(rows: Sequence[SystemRow]) -> Iterator[str]:
    return (f": {remark}." for row in rows for remark in row.remarks)


def _row(name: str, runs: Sequence[Run], made: Collection[Path]) -> SystemRow:
    """Return a row without figures, with what its tuning says."""
    done = [(run, read_report(run.report)) for run in runs if run.report in made]
    rounds = [f"{found.rounds}{'' if found.ended_by_itself else '+'}" for _, found in done]
    counts = Counter(
        remark
        for run, found in done
        for remark in (*found.remarks(run.added), *_worse(run, found, made))
    )
    remarks = (
        remark if count == len(done) else f"{remark} (in {count} of {len(done)} runs)"
        for remark, count in counts.items()
    )
    return SystemRow(name, {}, ", ".join(rounds), tuple(remarks))


def _worse(run: Run, found: RowReport, made: Collection[Path]) -> Iterator[str]:
    """Yield that a row stands below an earlier one whose features it has, if so."""
    parts = [each for each in run.parts if each.report in made]
    scores = {each.system.name: read_report(each.report).reached for each in parts}
    name = max(scores, key=lambda name: scores[name], default=None)
    if name is not None and found.reached < scores[name]:
        yield f"on dev it is below {name}, whose features it has: {name}'s weights are better"


def _metric(text: TextSet) -> Bleu:
    references = [read_sentences(str(path)) for path in text.references]
    check_aligned(references)
    return Bleu([sentences.words for sentences in references])


def write_table(table: ExperimentTable, folder: Path) -> None:
    """Write ``table.txt``, ``table.toml`` and ``table.html``, each whole or not at all."""
    for ending, text in (("txt", to_text), ("toml", to_toml), ("html", to_html)):
        with open_output(str(folder / f"table.{ending}")) as stream:
            stream.write(text(table).encode())


def to_text(table: ExperimentTable) -> str:
    """Return the table as text, a line a row."""
    heads = ["", *table.texts, "rounds"]
    lines = [heads]
    lines += [
        [row.shown_name, *map(_cell_text, _cells(table, row)), row.rounds] for row in table.rows
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    shown = [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([*shown, "", *table.notes]) + "\n"


def _cells(table: ExperimentTable, row: SystemRow) -> Iterator[SystemScores | None]:
    return (row.cells.get(text) for text in table.texts)


def _cell_text(cell: SystemScores | None) -> str:
    if cell is None:
        return "-"
    text = f"{cell.mean:.2f}"
    if cell.deviation is not None:
        text += f" ± {cell.deviation:.2f}"
    if cell.difference is not None and cell.p_value is not None:
        text += f" ({cell.difference:+.2f}, {_p_text(cell.p_value)})"
    return text


def _p_text(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


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
            figures = [f"bleu = {cell.mean!r}", f"replicas = {cell.scores!r}"]
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

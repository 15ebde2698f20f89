"""The results of systems: their table and differences, and groups of sentences."""

from collections.abc import Callable, Iterator
from itertools import compress

import numpy as np

from phrasescore.arguments import METRIC_TITLES
from phrasescore.evaluation.comparison import P_VALUES, SEED, Breakdown, Comparison
from phrasescore.evaluation.significance import SAMPLES
from phrasescore.evaluation.systems_table import SystemScore, SystemsTable, join_names
from phrasescore.report.blocks import Cell, Estimates, Intervals, Section, Table
from phrasescore.report.inputs import MadeSection, ReportInputs
from phrasescore.report.page import MINUS

_BLEU = "BLEU, from 0 to 100, as in multi-bleu.perl: on the words in the files, without smoothing."
_INTERVALS = (
    f"95% interval: the middle 95% of the differences on {SAMPLES:,} samples of the sentences "
    f"(paired bootstrap, seed {SEED})."
)

_LEAST_SENTENCES = 10  # in a group that is drawn

_GROUPS_LEAD = """\
Each group of sentences is scored as a separate corpus. The whiskers are 95% intervals over \
samples of a group's sentences. Both are unreliable for a few sentences."""


def results(inputs: ReportInputs) -> MadeSection:
    """Return the table of systems and their differences from the first one."""
    table = inputs.results
    assert table is not None
    differences = _differences(table)
    figures = () if differences is None else (differences,)
    notes = tuple(_table_notes(table))
    return MadeSection(Section("results", "Results", "", (_systems_table(table), *figures), notes))


def _systems_table(table: SystemsTable) -> Table:
    title = METRIC_TITLES[table.metric]
    texts = [*table.tests, *(text.name for text in table.texts if text.tuned)]
    texts = [text for text in dict.fromkeys(texts) if table.scores(text)]
    columns, formats, spans = ["system"], [""], [("", 1)]
    cells: list[list[Cell]] = [[f"{row.name} *" if row.remarks else row.name] for row in table.rows]
    strong = []
    for text in texts:
        scores = [row.scores.get(text) for row in table.rows]
        is_dev = text == table.dev
        if not is_dev:
            better = [index for index, score in enumerate(scores) if score and score.is_better]
            strong += [(index, len(columns)) for index in better]
        width = len(columns)
        for head, spec, value in _score_columns(title, is_dev=is_dev, has_ratio=len(texts) == 1):
            found = [None if score is None else value(score) for score in scores]
            if head == title or any(cell is not None for cell in found):
                columns.append(head if len(texts) == 1 else f"{text}: {head}")
                formats.append(spec)
                for row, cell in zip(cells, found, strict=True):
                    row.append(cell)
        spans.append((text, len(columns) - width))
    for name in table.others:
        scores = [row.others.get(name) for row in table.rows]
        columns.append(name)
        formats.append(f".{max(score.digits for score in scores if score)}f")
        spans.append(("", 1))
        for row, score in zip(cells, scores, strict=True):
            row.append(None if score is None else score.mean)
    if any(row.rounds for row in table.rows):
        columns.append("rounds")
        formats.append("")
        spans.append(("", 1))
        for row, system in zip(cells, table.rows, strict=True):
            row.append(", ".join(system.rounds) or None)
    return Table(
        "results",
        f"{title} on {join_names(table.tests) or 'no text yet'}",
        tuple(columns),
        tuple(map(tuple, cells)),
        "\n".join(_caption(table, has_bold=bool(strong))),
        tuple(formats),
        tuple(spans) if len(texts) > 1 else (),
        tuple(strong),
    )


def _caption(table: SystemsTable, *, has_bold: bool) -> Iterator[str]:
    if has_bold:
        yield "Bold: better than the first row, with p < 0.05."
    for row in table.rows:
        if row.features:
            yield f"{row.name}: {row.features}."
    for row in table.rows:
        for remark in row.remarks:
            yield f"* {row.name}: {remark}."


def _score_columns(
    title: str, *, is_dev: bool, has_ratio: bool
) -> Iterator[tuple[str, str, Callable[[SystemScore], Cell]]]:
    """Yield the heading of each column of a text, its format, and its value for a score."""
    yield title, ".2f", lambda score: score.mean
    yield "±", ".2f", lambda score: score.deviation
    if not is_dev:
        yield "difference", "+.2f", lambda score: score.difference
        yield "p", "p", lambda score: score.p_value
        yield "95% interval", "", _interval_text
    if has_ratio:
        yield "length ratio", ".3f", lambda score: score.length_ratio


def _interval_text(score: SystemScore) -> str | None:
    if score.interval is None:
        return None
    low, high = (f"{end:+.2f}".replace("-", MINUS) for end in score.interval)
    return f"{low} to {high}"


def _table_notes(table: SystemsTable) -> list[str]:
    # Remarks are in the table's caption.
    notes = [note for note in table.notes if not note.startswith("* ")]
    notes = notes or ([_BLEU] if table.metric == "bleu" else [])
    tests = [text for text in table.tests if text != table.dev]
    scores = [score for text in tests for score in table.scores(text).values()]
    if any(score.p_value is not None for score in scores):
        notes += [note for note in (P_VALUES, _INTERVALS) if note not in notes]
    return notes


def _differences(table: SystemsTable) -> Intervals | None:
    first, *others = table.rows
    series = []
    for text in table.tests:
        found = [row.scores.get(text) for row in others]
        ends = [None if score is None else score.interval for score in found]
        if any(ends) and text != table.dev:
            values = (None if score is None else score.difference for score in found)
            low, high = ([None if pair is None else pair[end] for pair in ends] for end in (0, 1))
            series.append(Estimates(text, tuple(values), tuple(low), tuple(high)))
    if not series:
        return None
    title = f"Difference from {first.name}" + (f" on {series[0].name}" if len(series) == 1 else "")
    return Intervals(
        "results-differences",
        title,
        f"difference of {table.metric_name()}",
        tuple(row.name for row in others),
        tuple(series),
        signed=True,
        caption=f"To the right of zero, a system is better than {first.name}; a whisker that "
        "reaches zero means that the difference may be chance. Whiskers are 95% intervals.",
    )


def groups(inputs: ReportInputs) -> MadeSection:
    """Return one figure per breakdown, with bootstrap intervals."""
    comparison = inputs.comparison
    blocks = tuple(
        group_intervals(comparison, comparison.by_length(side), f"groups-{number}")
        for number, side in enumerate(comparison.sides, start=1)
    )
    return MadeSection(Section("groups", "Groups of sentences", _GROUPS_LEAD, blocks))


def group_intervals(comparison: Comparison, breakdown: Breakdown, name: str) -> Intervals:
    """Return the BLEU scores for the groups of a breakdown, with bootstrap intervals."""
    groups = comparison.score_groups(breakdown).groups
    sizes = ", ".join(f"{group.label}: {group.sentences:,}" for group in groups)
    is_shown = [group.sentences >= _LEAST_SENTENCES for group in groups]
    if not any(is_shown):
        is_shown = [True] * len(groups)
    spreads_of_groups = compress(comparison.group_spreads(breakdown), is_shown)
    groups = tuple(compress(groups, is_shown))
    scores = np.array([group.bleu for group in groups]).T
    spreads = np.array(list(spreads_of_groups)).T
    ends = scores, np.maximum(scores - spreads, 0.0), scores + spreads  # no score is below 0
    series = tuple(
        Estimates(system.name, *(tuple(values.tolist()) for values in of_system))
        for system, *of_system in zip(comparison.systems, *ends, strict=True)
    )
    labels = tuple(group.label for group in groups)
    title = f"BLEU by {breakdown.title}"
    caption = f"The farther to the right, the better. Sentences in each group: {sizes}."
    if not all(is_shown):
        caption += f" Groups of fewer than {_LEAST_SENTENCES} are not drawn."
    return Intervals(name, title, "BLEU", labels, series, caption=caption)

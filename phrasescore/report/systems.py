"""The results of systems: a sentence, a table, the differences from the first one, and weights."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress

import numpy as np

from phrasescore.arguments import METRIC_TITLES, TableMetric
from phrasescore.evaluation.comparison import SEED, TRIALS, Breakdown, Comparison, SystemScore
from phrasescore.evaluation.significance import SAMPLES, p_value_text
from phrasescore.report.blocks import Cell, Estimates, Intervals, Points, Section, Table
from phrasescore.report.page import MINUS
from phrasescore.report.tuning import TuneReport

_SIGNIFICANT = 0.05  # the p-value below which a difference is called significant

_BLEU = "BLEU, from 0 to 100, as in multi-bleu.perl: on the words in the files, without smoothing."
P_VALUES = (
    "p: the probability of such a difference from the first row by chance, from approximate "
    f"randomization over sentences, {TRIALS:,} trials, seed {SEED}."
)
_INTERVALS = (
    f"95% interval: the middle 95% of the differences on {SAMPLES:,} samples of the sentences "
    f"(paired bootstrap, seed {SEED})."
)

_LEAST_SENTENCES = 10  # in a group that is drawn

_GROUPS_LEAD = """\
Each group of sentences is scored as a separate corpus. The whiskers are 95% intervals over \
samples of a group's sentences. Both are unreliable for a few sentences."""


@dataclass(frozen=True, slots=True)
class TextResults:
    """The scores of systems on a text; a system without translations is missing."""

    name: str
    scores: Mapping[str, SystemScore]
    is_dev: bool = False  # whether the systems were tuned on it


@dataclass(frozen=True, slots=True)
class Results:
    """The scores of systems on texts; all systems are compared with the first one."""

    systems: tuple[str, ...]
    texts: tuple[TextResults, ...]  # at least one
    metric: TableMetric = "bleu"
    rounds: Mapping[str, str] = field(default_factory=dict)  # rounds of tuning, by system
    remarks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: Sequence[str] = ()  # notes for readers of the table
    caption: Sequence[str] = ()  # lines below the table

    @property
    def dev(self) -> Mapping[str, SystemScore]:
        """The scores on the text of tuning; none if it is unknown or has no translations."""
        return next((text.scores for text in self.texts if text.is_dev), {})

    @property
    def best(self) -> str | None:
        """The system that is best on the text of tuning, the first one of equal ones."""
        return max(self.dev, key=lambda name: self.dev[name].mean, default=None)

    @property
    def choice(self) -> str:
        """The system to use, and whether it is shown to be better than the first one, in words."""
        if self.best in (None, self.systems[0]) or len(self.dev) < 2:
            return self.best or self.systems[0]
        unproven = [
            text.name
            for text in self.texts
            if not (text.is_dev or _is_better(text.scores.get(self.best)))
        ]
        doubt = f"but not shown to be better than {self.systems[0]} on {join_names(unproven)}"
        return f"{self.best}, best on dev {doubt if unproven else 'and better on test'}"

    @property
    def tests(self) -> list[TextResults]:
        """The texts with scores, without the text of tuning if there is another one."""
        measured = [text for text in self.texts if text.scores]
        return [text for text in measured if not text.is_dev] or measured

    def headline(self) -> str:
        """Return which system is best on the text of tuning, and what test texts show of it.

        Without a text of tuning, return the result on the first text.
        """
        if not self.tests:
            return "No system has translated a text yet."
        text = self.tests[0]
        if len(self.dev) > 1:
            sentence = self._verdict()
        else:
            sentence = _headline(list(text.scores.values()), text.name, _in_text(self.metric))
        if missing := len(self.systems) - len(text.scores):
            sentence += f" {missing} of {len(self.systems)} systems have no result yet."
        return sentence

    def _verdict(self) -> str:
        best, first, metric = self.best, self.systems[0], _in_text(self.metric)
        assert best is not None
        mean = self.dev[best].mean
        sentence = f"{best} is best on dev, with {mean:.2f} {metric}"
        if best == first or first not in self.dev:
            return f"{sentence}."
        sentences = [f"{sentence}, {_more(mean - self.dev[first].mean)} than {first}."]
        for text in self.texts:
            score = text.scores.get(best)
            if text.is_dev or score is None or score.difference is None:
                continue
            assert score.p_value is not None
            is_shown = score.p_value < _SIGNIFICANT and score.difference != 0
            shown = "better" if score.difference > 0 else "worse"
            sentences.append(
                f"On {text.name} it is {shown if is_shown else 'not shown to be better'}: "
                f"{_more(score.difference)} ({p_value_text(score.p_value)})."
            )
        return " ".join(sentences)


def _more(difference: float) -> str:
    return f"{abs(difference):.2f} {'more' if difference >= 0 else 'less'}"


def _headline(scores: Sequence[SystemScore], text: str, metric: str) -> str:
    """Return which system has the highest score on a text, and its difference from the first."""
    first = scores[0]
    best = max(scores, key=lambda score: score.mean)  # the first one of equal ones
    sentence = f"{best.name} has {best.mean:.2f} {metric} on {text}"
    if len(scores) == 1:
        return f"{sentence}."
    if best is first or best.difference is None or best.p_value is None:
        return f"{sentence}; no other system has more."
    chance = "" if _is_better(best) else ", which may be chance"
    return (
        f"{sentence}, the most: {_more(best.difference)} than {first.name} "
        f"({p_value_text(best.p_value)}){chance}."
    )


def _in_text(metric: TableMetric) -> str:
    return "BLEU" if metric == "bleu" else METRIC_TITLES[metric].lower()


def results_section(results: Results) -> Section:
    """Return the table of systems and their differences from the first one."""
    differences = _differences(results)
    figures = () if differences is None else (differences,)
    blocks = (_systems_table(results), *figures)
    return Section("results", "Results", "", blocks, tuple(_table_notes(results)))


def text_results(comparison: Comparison, name: str) -> Results:
    """Return the results of systems on one text, which gets a name."""
    scores = {score.name: score for score in comparison.scores}
    return Results(tuple(scores), (TextResults(name, scores),))


def _systems_table(results: Results) -> Table:
    title = METRIC_TITLES[results.metric]
    tests = results.tests
    texts = [*tests, *(text for text in results.texts if text.is_dev and text not in tests)]
    columns, formats, spans = ["system"], [""], [("", 1)]
    cells: list[list[Cell]] = [
        [f"{system} *" if results.remarks.get(system) else system] for system in results.systems
    ]
    strong = []
    for text in texts:
        scores = [text.scores.get(system) for system in results.systems]
        if not text.is_dev:
            better = [index for index, score in enumerate(scores) if _is_better(score)]
            strong += [(index, len(columns)) for index in better]
        width = len(columns)
        for head, spec, value in _score_columns(title, text, has_ratio=len(texts) == 1):
            found = [None if score is None else value(score) for score in scores]
            if head == title or any(cell is not None for cell in found):
                columns.append(head if len(texts) == 1 else f"{text.name}: {head}")
                formats.append(spec)
                for row, cell in zip(cells, found, strict=True):
                    row.append(cell)
        spans.append((text.name, len(columns) - width))
    if results.rounds:
        columns.append("rounds")
        formats.append("")
        spans.append(("", 1))
        for row, system in zip(cells, results.systems, strict=True):
            row.append(results.rounds.get(system) or None)
    remarks = [
        f"* {system}: {remark}." for system, own in results.remarks.items() for remark in own
    ]
    bold = ["Bold: better than the first row, with p < 0.05."] if strong else []
    return Table(
        "results",
        f"{title} on {join_names([text.name for text in tests]) or 'no text yet'}",
        tuple(columns),
        tuple(map(tuple, cells)),
        "\n".join([*bold, *results.caption, *remarks]),
        tuple(formats),
        tuple(spans) if len(texts) > 1 else (),
        tuple(strong),
    )


def _score_columns(
    title: str, text: TextResults, *, has_ratio: bool
) -> Iterator[tuple[str, str, Callable[[SystemScore], Cell]]]:
    """Yield the heading of each column of a text, its format, and its value for a score."""
    yield title, ".2f", lambda score: score.mean
    yield "±", ".2f", lambda score: score.deviation
    if not text.is_dev:
        yield "difference", "+.2f", lambda score: score.difference
        yield "p", "p", lambda score: score.p_value
        yield "95% interval", "", _interval_text
    if has_ratio:
        yield "length ratio", ".3f", lambda score: score.length_ratio or None


def _interval_text(score: SystemScore) -> str | None:
    if score.interval is None:
        return None
    low, high = (f"{end:+.2f}".replace("-", MINUS) for end in score.interval)
    return f"{low} to {high}"


def _is_better(score: SystemScore | None) -> bool:
    """Return whether a system is shown to be better than the first one."""
    return (
        score is not None
        and score.difference is not None
        and score.difference > 0
        and score.p_value is not None
        and score.p_value < _SIGNIFICANT
    )


def _table_notes(results: Results) -> list[str]:
    # Remarks are in the table's caption.
    notes = [note for note in results.notes if not note.startswith("* ")]
    notes = notes or ([_BLEU] if results.metric == "bleu" else [])
    texts = [text for text in results.tests if not text.is_dev]
    scores = [score for text in texts for score in text.scores.values()]
    if any(score.p_value is not None for score in scores):
        notes += [note for note in (P_VALUES, _INTERVALS) if note not in notes]
    return notes


def _differences(results: Results) -> Intervals | None:
    """Return the differences from the first system, with a row for each other system."""
    rows = results.systems[1:]
    series = []
    for text in results.tests:
        found = [text.scores.get(row) for row in rows]
        ends = [None if score is None else score.interval for score in found]
        if any(ends) and not text.is_dev:
            values = (None if score is None else score.difference for score in found)
            low, high = ([None if pair is None else pair[end] for pair in ends] for end in (0, 1))
            series.append(Estimates(text.name, tuple(values), tuple(low), tuple(high)))
    if not series:
        return None
    first = results.systems[0]
    title = f"Difference from {first}" + (f" on {series[0].name}" if len(series) == 1 else "")
    return Intervals(
        "results-differences",
        title,
        f"difference of {_in_text(results.metric)}",
        rows,
        tuple(series),
        signed=True,
        caption=f"To the right of zero, a system is better than {first}; a whisker that reaches "
        "zero means that the difference may be chance. Whiskers are 95% intervals.",
    )


def join_names(names: Sequence[str]) -> str:
    """Return names as text, such as "a, b and c"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def groups_section(comparison: Comparison, breakdowns: Sequence[Breakdown]) -> Section:
    """Return one figure per breakdown, with bootstrap intervals."""
    blocks = tuple(
        _group_intervals(comparison, breakdown, f"groups-{number}")
        for number, breakdown in enumerate(breakdowns, start=1)
    )
    return Section("groups", "Groups of sentences", _GROUPS_LEAD, blocks)


def _group_intervals(comparison: Comparison, breakdown: Breakdown, name: str) -> Intervals:
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


def weights_table(reports: Mapping[str, TuneReport]) -> Table:
    """Return the tuned weights of an experiment's rows, side by side."""
    columns, rows = ["feature"], dict[str, list[Cell]]()
    for system, report in reports.items():
        two_sets = any(row.search is not None for row in report.features)
        names = [f"{system} (search)", f"{system} (lists)"] if two_sets else [system]
        for row in report.features:
            cells = rows.setdefault(row.name, [])
            cells += [None] * (len(columns) - 1 - len(cells))
            cells += [row.search, row.weight] if two_sets else [row.weight]
        columns += names
    width = len(columns) - 1
    return Table(
        "weights",
        "Weights of each system",
        tuple(columns),
        tuple((name, *cells, *[None] * (width - len(cells))) for name, cells in rows.items()),
        "Of the first tuning run. A dash means that the system lacks the feature.",
        ("", *("#.4g",) * width),
    )


def reliability_figure(reports: Mapping[str, TuneReport]) -> Points:
    """Return how often translations of tuning sentences are right, by confidence."""
    metric = next(iter(reports.values())).metric
    errors = [f"{row} {report.calibration_error():.3f}" for row, report in reports.items()]
    bins = [(row, each) for row, report in reports.items() for each in report.reliability]
    return Points(
        "reliability",
        "Confidence of each system",
        "confidence (%)",
        "translations with no better one (%)",
        tuple(100 * each.confidence for _, each in bins),
        tuple(100 * each.right for _, each in bins),
        tuple(f"{each.sentences:,} sentences" for _, each in bins),
        tuple(row for row, _ in bins),
        caption="The sentences of the tuning set, in tenths by confidence: the mean confidence, "
        "and the share of translations with no better one in their lists by sentence "
        f"{metric}. The weights and the curve for each fifth of the sentences are tuned on the "
        "others. "
        f"Expected calibration error: {', '.join(errors)}.",
    )

"""The results of systems: a sentence, a table, the differences from the first one, and weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress

from phrasescore.arguments import METRIC_TITLES, TableMetric
from phrasescore.evaluation.comparison import SEED, TRIALS, Breakdown, Comparison, SystemScore
from phrasescore.evaluation.significance import SAMPLES, p_value_text
from phrasescore.report.blocks import (
    Block,
    Cell,
    Estimates,
    Intervals,
    Lines,
    Section,
    Series,
    Table,
)
from phrasescore.report.page import MINUS
from phrasescore.report.tuning import TuneReport

_SIGNIFICANT = 0.05  # the p-value below which a difference is called significant
_CLEAR = 0.95  # a difference from which one decimal is enough in a sentence

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
Each group of sentences is scored as a separate corpus. The bars are 95% intervals over samples of \
a group's sentences. Both are unreliable for a few sentences."""


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
    first, *others = scores
    if not others or others[0].p_value is None:
        best = max(scores, key=lambda score: score.mean)
        most = " at most" if others else ""
        return f"{best.name} has{most} {best.mean:.2f} {metric} on {text}."
    best = max(others, key=lambda score: score.mean)
    assert best.difference is not None
    assert best.p_value is not None
    digits = 1 if abs(best.difference) >= _CLEAR else 2
    distance = f"{abs(best.difference):.{digits}f}"
    test = [p_value_text(best.p_value)]
    if best.interval is not None:
        low, high = (_number(end, digits) for end in best.interval)
        test.insert(0, f"95% interval {low} to {high}")
    test_text = f"({', '.join(test)})"
    score, baseline = (f"{each.mean:.{digits}f}" for each in (best, first))
    if best.difference == 0:
        return f"No system has more than {baseline} {metric} on {text}, which {first.name} has."
    if best.difference < 0:
        return (
            f"No system translates {text} better than {first.name}, {baseline} {metric}; next is "
            f"{best.name}, {distance} less {test_text}."
        )
    if best.p_value >= _SIGNIFICANT:
        return (
            f"{best.name} has the highest {metric} on {text}, {score}, but its {distance} more "
            f"than {first.name} may be chance {test_text}."
        )
    return (
        f"{best.name} has the highest {metric} on {text}: {score}, {distance} more than "
        f"{first.name} {test_text}."
    )


def _in_text(metric: TableMetric) -> str:
    return "BLEU" if metric == "bleu" else METRIC_TITLES[metric].lower()


def _number(value: float, digits: int, sign: str = "") -> str:
    return f"{value:{sign}.{digits}f}".replace("-", MINUS)


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
        found = [text.scores.get(system) for system in results.systems]
        known = [score for score in found if score is not None]
        has_deviation = any(score.deviation is not None for score in known)
        is_compared = not text.is_dev and any(score.p_value is not None for score in known)
        has_ratio = len(texts) == 1 and any(score.length_ratio for score in known)
        added = [
            (title, ".2f"),
            *([("±", ".2f")] if has_deviation else []),
            *([("difference", "+.2f"), ("p", "p"), ("95% interval", "")] if is_compared else []),
            *([("length ratio", ".3f")] if has_ratio else []),
        ]
        for index, score in enumerate(found):
            if is_compared and _is_better(score):
                strong.append((index, len(columns)))
            cells[index] += _score_cells(score, has_deviation, is_compared, has_ratio)
        columns += [f"{text.name}: {head}" for head, _ in added]
        formats += [spec for _, spec in added]
        spans.append((text.name, len(added)))
    if results.rounds:
        columns.append("rounds")
        formats.append("")
        spans.append(("", 1))
        for row, system in zip(cells, results.systems, strict=True):
            row.append(results.rounds.get(system) or None)
    if len(texts) == 1:
        columns = [column.removeprefix(f"{texts[0].name}: ") for column in columns]
        spans = []
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
        tuple(spans),
        tuple(strong),
    )


def _score_cells(
    score: SystemScore | None, has_deviation: bool, is_compared: bool, has_ratio: bool
) -> list[Cell]:
    if score is None:
        return [None] * (1 + has_deviation + 3 * is_compared + has_ratio)
    interval = None
    if score.interval is not None:
        low, high = (_number(end, 2, "+") for end in score.interval)
        interval = f"{low} to {high}"
    return [
        score.mean,
        *([score.deviation] if has_deviation else []),
        *([score.difference, score.p_value, interval] if is_compared else []),
        *([score.length_ratio] if has_ratio else []),
    ]


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
        _group_lines(comparison, breakdown, f"groups-{number}")
        for number, breakdown in enumerate(breakdowns, start=1)
    )
    return Section("groups", "Groups of sentences", _GROUPS_LEAD, blocks)


def _group_lines(comparison: Comparison, breakdown: Breakdown, name: str) -> Lines:
    groups = comparison.score_groups(breakdown).groups
    sizes = ", ".join(f"{group.label}: {group.sentences:,}" for group in groups)
    is_shown = [group.sentences >= _LEAST_SENTENCES for group in groups]
    if not any(is_shown):
        is_shown = [True] * len(groups)
    spreads_of_groups = compress(comparison.group_spreads(breakdown), is_shown)
    groups = tuple(compress(groups, is_shown))
    labels = tuple(group.label for group in groups)
    scores = zip(*(group.bleu for group in groups), strict=True)
    spreads = zip(*spreads_of_groups, strict=True)
    series = tuple(
        Series(system.name, labels, *curve)
        for system, *curve in zip(comparison.systems, scores, spreads, strict=True)
    )
    title = f"BLEU by {breakdown.title}"
    caption = f"The higher a point, the better. Sentences in each group: {sizes}."
    if not all(is_shown):
        caption += f" Groups of fewer than {_LEAST_SENTENCES} are not drawn."
    return Lines(name, title, breakdown.title, "BLEU", series, caption=caption)


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


def reliability_table(reports: Mapping[str, TuneReport]) -> Table:
    """Return how often translations of tuning sentences are right, by confidence."""
    metric = next(iter(reports.values())).metric
    errors = [f"{row} {report.calibration_error():.3f}" for row, report in reports.items()]
    return Table(
        "reliability",
        "Confidence of each system",
        ("system", "sentences", "confidence (%)", "no better one (%)"),
        tuple(
            (row, each.sentences, 100 * each.confidence, 100 * each.right)
            for row, report in reports.items()
            for each in report.reliability
        ),
        "The sentences of the tuning set, in tenths by confidence: the mean confidence, and the "
        f"share of translations with no better one in their lists by sentence {metric}. The "
        "weights and the curve for each fifth of the sentences are tuned on the others. "
        f"Expected calibration error: {', '.join(errors)}.",
        ("", "", ".1f", ".1f"),
    )


def steps_section(steps: Sequence[tuple[str, float | None, str]]) -> Section:
    """Return an experiment's steps: their names, seconds and commands."""
    spent = sum(seconds or 0.0 for _, seconds, _ in steps)
    lead = f"The steps took {spent / 60:,.1f} minutes, one after the other."
    columns = ("step", "seconds", "command")
    block: Block = Table("steps", "Steps", columns, tuple(steps), "", ("", ",.1f", ""))
    return Section("steps", "Steps", lead, (block,), is_folded=True)

"""Results of other commands, read and shown: the report of ``tune``, an experiment's table."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

from phrasescore.report.blocks import Cell, Lines, Section, Series, Table
from phrasescore.report.tuning import TuneReport

# The figures of a system on a text, and the endings of their columns' headings.
_FIGURES = {"bleu": "", "deviation": " ±", "difference": ": difference", "p_value": ": p"}

_TUNING_LEAD = """\
A feature's contribution is its weight times the deviation of its values among the hypotheses of a \
sentence: how much it moves model scores. Its share is the part that this is of all features'. \
"Without it" is the score of the tuning set with this weight at 0 and the others as they are, not \
tuned again."""


def tuning_section(report: TuneReport) -> Section:
    """Return the weights, contributions and ablations of tuning, as far as they were measured."""
    blocks: list[Table | Lines] = [_weights(report)]
    if any(row.share is not None for row in report.features):
        blocks += _ablations(report)
    blocks += _rounds(report)
    lead = (
        f"{report.method}, seed {report.seed}: {report.metric} {report.start:.2f} with the weights "
        f"it began with, {report.reached:.2f} with those it found, on {report.sentences:,} "
        f"sentences and {report.hypotheses:,} hypotheses.\n\n{_TUNING_LEAD}"
    )
    return Section("tuning", "Weights", lead, tuple(blocks))


def _weights(report: TuneReport) -> Table:
    metric, reached = report.metric, report.reached
    two_sets = any(row.search is not None for row in report.features)
    columns = (
        *("feature", "weight before"),
        *(("search weight", "list weight") if two_sets else ("weight",)),
        *("contribution", "share (%)", f"{metric} without it", "difference"),
    )
    rows = tuple(
        (
            *(row.name, row.start),
            *((row.search,) if two_sets else ()),
            *(row.weight, row.contribution),
            None if row.share is None else round(100 * row.share, 2),
            None if row.left_out is None else round(row.left_out, 2),
            None if row.left_out is None else round(row.left_out - reached, 2),
        )
        for row in report.features
    )
    caption = f"{metric} {report.start:.2f} before, {reached:.2f} after."
    return Table("tuning-weights", "Weights", columns, rows, caption)


def _ablations(report: TuneReport) -> list[Lines]:
    """Return bars of each feature's share, and of the score without it where it was measured."""
    measured = [(row, row.share) for row in report.features if row.share is not None]
    names = tuple(row.name for row, _ in measured)
    shares = Series("share", names, tuple(100 * share for _, share in measured))
    title = "What each feature moves"
    bars = [Lines("tuning-shares", title, "feature", "share (%)", (shares,), bars=True)]
    losses = tuple(
        None if row.left_out is None else row.left_out - report.reached for row, _ in measured
    )
    if any(loss is not None for loss in losses):
        series = (Series("without it", names, losses),)
        title, y_label = f"{report.metric} without each feature", f"difference of {report.metric}"
        bars.append(Lines("tuning-ablations", title, "feature", y_label, series, bars=True))
    return bars


def _rounds(report: TuneReport) -> list[Table | Lines]:
    """Return the scores of rounds, seeds and methods, where the report has them."""
    found: list[Table | Lines] = []
    metric = report.metric
    if report.rounds:
        numbers = tuple(float(row.round) for row in report.rounds)
        series = (Series(metric, numbers, tuple(row.score for row in report.rounds)),)
        title = "Rounds of decoding and tuning"
        found.append(Lines("tuning-rounds", title, "round", metric, series))
    for rows, name, title, columns in (
        (report.replicas, "tuning-seeds", "Seeds", ("seed", metric)),
        (
            report.cross_validation,
            "tuning-methods",
            "Methods, by cross-validation",
            ("method", f"{metric} tuned on", "held out"),
        ),
    ):
        if rows:
            found.append(Table(name, title, columns, tuple(map(astuple, rows))))
    return found


def experiment_section(table: Mapping[str, Any]) -> Section:
    """Return BLEU of an experiment's systems on its texts, from its ``table.toml``.

    :raises KeyError: if there are no rows, or one has no name.
    :raises AttributeError, TypeError, ValueError: if a value is of another type than
        ``phrasescore experiment`` writes.
    """
    rows: list[Mapping[str, Any]] = list(table["row"])
    names = [f"{row['name']}{' *' if row.get('remarks') else ''}" for row in rows]
    texts = list(
        dict.fromkeys(key for row in rows for key, value in row.items() if isinstance(value, dict))
    )
    figures = [f"{text}{ending}" for text in texts for ending in _FIGURES.values()]
    cells = tuple(
        (
            name,
            *(_figure(row, text, figure) for text in texts for figure in _FIGURES),
            ", ".join(map(str, row.get("rounds", ()))),
        )
        for name, row in zip(names, rows, strict=True)
    )
    notes = " ".join(str(note) for note in table.get("notes", ()))
    columns = ("system", *figures, "rounds")
    blocks: list[Table | Lines] = [Table("experiment-table", "BLEU", columns, cells)]
    if texts:
        series = tuple(_series(text, names, rows) for text in texts)
        bars = Lines("experiment-bars", "BLEU", "system", "BLEU", series, bars=True)
        blocks.append(bars)
    return Section("experiment", "Experiment", notes, tuple(blocks))


def _figure(row: Mapping[str, Any], text: str, figure: str) -> Cell:
    value = row.get(text, {}).get(figure)
    if value is None:
        return None
    return round(float(value), 4 if figure == "p_value" else 2)


def _series(text: str, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Series:
    heights = tuple(_figure(row, text, "bleu") for row in rows)
    spread = tuple(float(row.get(text, {}).get("deviation") or 0.0) for row in rows)
    return Series(
        text,
        tuple(names),
        tuple(None if height is None else float(height) for height in heights),
        spread if any(spread) else (),
    )

"""Sections of what other commands wrote: the report of ``tune``, the table of ``experiment``."""

from collections.abc import Mapping, Sequence
from typing import Any

from phrasescore.report.blocks import Cell, Lines, Section, Series, Table

# The figures of a system on a text, and the endings of their columns' headings.
_FIGURES = {"bleu": "", "deviation": " ±", "difference": ": difference", "p_value": ": p"}

_TUNING_LEAD = """\
A feature's contribution is its weight times the deviation of its values among the hypotheses of a \
sentence: how much it moves model scores. Its share is the part that this is of all features'. \
"Without it" is the score of the tuning set with this weight at 0 and the others as they are, not \
tuned again."""


def tuning_section(report: Mapping[str, Any]) -> Section:
    """Return the weights, contributions and ablations that ``phrasescore tune --report`` wrote.

    :param report: the object of the JSON file; a missing key leaves its table or figure out.
    :raises KeyError: if a key is missing without which there is no section, such as ``features``.
    :raises TypeError, ValueError: if a value is of another type than the tuner writes.
    """
    metric = str(report["metric"])
    features = list(report["features"])
    start, reached = float(report["start"]), float(report["reached"])
    blocks: list[Table | Lines] = [_weights(features, metric, start, reached)]
    measured = [row for row in features if row.get("share") is not None]
    if measured:
        blocks += _ablations(measured, metric, reached)
    blocks += _rounds(report, metric)
    lead = (
        f"{report['method']}, seed {report['seed']}: {metric} {start:.2f} with the weights it "
        f"began with, {reached:.2f} with those it found, on {report['sentences']:,} sentences and "
        f"{report['hypotheses']:,} hypotheses.\n\n{_TUNING_LEAD}"
    )
    return Section("tuning", "Weights", lead, tuple(blocks))


def _weights(
    features: Sequence[Mapping[str, Any]], metric: str, start: float, reached: float
) -> Table:
    two_sets = any(row.get("search") is not None for row in features)
    columns = (
        *("feature", "weight before"),
        *(("search weight", "list weight") if two_sets else ("weight",)),
        *("contribution", "share (%)", f"{metric} without it", "difference"),
    )
    rows: list[tuple[Cell, ...]] = []
    for row in features:
        share, left_out = row.get("share"), row.get("left_out")
        rows.append(
            (
                str(row["name"]),
                float(row["start"]),
                *((row.get("search"),) if two_sets else ()),
                float(row["weight"]),
                row.get("contribution"),
                None if share is None else round(100 * share, 2),
                None if left_out is None else round(left_out, 2),
                None if left_out is None else round(left_out - reached, 2),
            )
        )
    caption = f"{metric} {start:.2f} before, {reached:.2f} after."
    return Table("tuning-weights", "Weights", columns, tuple(rows), caption)


def _ablations(features: Sequence[Mapping[str, Any]], metric: str, reached: float) -> list[Lines]:
    """Return bars of each feature's share, and of the score without it where it was measured."""
    names = tuple(str(row["name"]) for row in features)
    shares = Series("share", names, tuple(100 * float(row["share"]) for row in features))
    title = "What each feature moves"
    bars = [Lines("tuning-shares", title, "feature", "share (%)", (shares,), bars=True)]
    scores = [row.get("left_out") for row in features]
    if any(score is not None for score in scores):
        losses = tuple(None if score is None else float(score) - reached for score in scores)
        series = (Series("without it", names, losses),)
        title, y_label = f"{metric} without each feature", f"difference of {metric}"
        bars.append(Lines("tuning-ablations", title, "feature", y_label, series, bars=True))
    return bars


def _rounds(report: Mapping[str, Any], metric: str) -> list[Table | Lines]:
    """Return the scores of rounds, seeds and methods, where the report has them."""
    found: list[Table | Lines] = []
    if rounds := report.get("rounds"):
        numbers, scores = (tuple(float(row[key]) for row in rounds) for key in ("round", "score"))
        series = (Series(metric, numbers, scores),)
        title = "Rounds of decoding and tuning"
        found.append(Lines("tuning-rounds", title, "round", metric, series))
    for key, name, title, columns in (
        ("replicas", "tuning-seeds", "Seeds", {"seed": "seed", "score": metric}),
        (
            "cross_validation",
            "tuning-methods",
            "Methods, by cross-validation",
            {"method": "method", "tuned_on": f"{metric} tuned on", "held_out": "held out"},
        ),
    ):
        if report.get(key):
            rows = tuple(tuple(row[column] for column in columns) for row in report[key])
            found.append(Table(name, title, tuple(columns.values()), rows))
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

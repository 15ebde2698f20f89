"""Results of other commands: training records, the report of ``tune``, an experiment's table."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from phrasescore.models.checkpoint import Checkpoint
from phrasescore.report.blocks import Cell, Lines, Section, Series, Table
from phrasescore.report.tuning import TuneReport

# Higher perplexities, of runs that diverged or have just begun, are not drawn.
_HIGHEST = 1_000_000

_TRAINING_LEAD = """\
Perplexity is e to the mean of -ln p of a predicted word, the </s> of each phrase or sentence \
among them: as if the network chose among so many words at random. That of the held-out data is \
the one that counts; where it rises while the other falls, the network learns its data by heart. \
Models of different data or shortlists cannot be compared by it."""

# Values of a system on a text in table.toml, and the endings of their columns' headings.
_FIGURES = {"bleu": "", "deviation": " ±", "difference": ": difference", "p_value": ": p"}

_TUNING_LEAD = """\
A feature's contribution is its weight times the deviation of its values among the hypotheses of a \
sentence: how much it moves model scores. Its share is the part that this is of all features'. \
"Without it" is the score of the tuning set with this weight at 0 and the others as they are, not \
tuned again."""


def tuning_section(report: TuneReport) -> Section:
    """Return the weights of tuning, and the contributions and ablations that were measured."""
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
    """Return bar charts of each feature's share and, if measured, of the change without it."""
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
    """Return the scores of rounds, seeds and methods, as far as the report has them."""
    blocks: list[Table | Lines] = []
    metric = report.metric
    if report.rounds:
        numbers = tuple(float(row.round) for row in report.rounds)
        series = (Series(metric, numbers, tuple(row.score for row in report.rounds)),)
        title = "Rounds of decoding and tuning"
        blocks.append(Lines("tuning-rounds", title, "round", metric, series))
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
            blocks.append(Table(name, title, columns, tuple(map(astuple, rows))))
    return blocks


def experiment_section(table: Mapping[str, Any]) -> Section:
    """Return BLEU of an experiment's systems on its texts, from its ``table.toml``.

    :raises AttributeError, KeyError, TypeError, ValueError: if the table has another form.
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
        blocks.append(Lines("experiment-bars", "BLEU", "system", "BLEU", series, bars=True))
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


def training_section(models: Sequence[tuple[str, Checkpoint]]) -> Section:
    """Return the models' learning curves and a table of the models."""
    held_out = _curves(
        (name, [(one.update, one.validation_perplexity) for one in model.record.curve])
        for name, model in models
    )
    # exp of a diverged run's loss may overflow.
    seen = _curves(
        (
            name,
            [(one.update, math.exp(min(one.training_loss, 700.0))) for one in model.record.curve],
        )
        for name, model in models
        if model.record.fine_tuning is None  # its loss is not per word
    )
    blocks = [
        Lines(name, title, "updates", "perplexity", series, log_y=True, caption=caption)
        for name, title, (series, caption) in (
            ("training-held-out", "On held-out data", held_out),
            ("training-seen", "On the data of the updates", seen),
        )
        if series
    ]
    return Section("training", "Training", _TRAINING_LEAD, (*blocks, _models_table(models)))


def _curves(
    curves: Iterable[tuple[str, list[tuple[int, float | None]]]],
) -> tuple[tuple[Series, ...], str]:
    """Return one line per model that has points to draw, and a caption about omitted points."""
    series = []
    highest = 0.0
    for name, points in curves:
        known = [(float(x), y) for x, y in points if y is not None]
        drawn = [(x, y) for x, y in known if y <= _HIGHEST]
        highest = max([highest, *(y for _, y in known)])
        if drawn:
            series.append(Series(name, tuple(x for x, _ in drawn), tuple(y for _, y in drawn)))
    caption = f"Points above {_HIGHEST:,} are left out." if highest > _HIGHEST else ""
    return tuple(series), caption


def _models_table(models: Sequence[tuple[str, Checkpoint]]) -> Table:
    columns = (
        *("model", "kind", "predicts", "weights", "reads (words)", "predicts (words)"),
        *("pairs", "updates", "minutes", "best update", "held-out perplexity there", "fingerprint"),
    )
    rows = tuple(_model_row(name, model) for name, model in models)
    return Table("training-models", "The models", columns, rows)


def _model_row(name: str, checkpoint: Checkpoint) -> tuple[Cell, ...]:
    record = checkpoint.record
    best = next((one for one in record.curve if one.update == record.best_update), None)
    return (
        name,
        checkpoint.config.kind,
        ("source" if checkpoint.reverse else "target")
        + (", the last word first" if checkpoint.right_to_left else ""),
        checkpoint.num_parameters,
        len(checkpoint.source_vocabulary) - 2,
        len(checkpoint.target_vocabulary) - 2,
        record.training_pairs,
        record.updates,
        round(record.minutes, 1),
        record.best_update,
        None if best is None else best.validation_perplexity,
        checkpoint.fingerprint,
    )

"""Sections about tuning and training."""

import math
from collections.abc import Iterable, Sequence

from phrasescore.models.checkpoint import Checkpoint
from phrasescore.report.blocks import Cell, Estimates, Intervals, Lines, Section, Series, Table
from phrasescore.report.systems import reliability_table
from phrasescore.report.tuning import TuneReport

_HIGHEST = 1_000_000  # higher perplexities, from diverged or new runs, are not drawn

_TUNING_LEAD = """\
A feature's contribution is its weight times the standard deviation of its values among the \
hypotheses for a sentence: how much it affects model scores. Its share is this contribution \
divided by the sum of all contributions. "Without it" is the score on the tuning set with this \
weight set to 0 and the others unchanged, without tuning again."""

_TRAINING_LEAD = """\
Perplexity is exp of the mean of -ln p per predicted word; the </s> after each phrase or sentence \
counts as a word. A network with perplexity 100 is as uncertain as one that chooses among 100 \
words at random. The perplexity on held-out data is the one that matters. If it increases while \
the other decreases, the network is overfitting. Perplexities cannot be compared between models \
with different data or shortlists."""


def tuning_section(report: TuneReport) -> Section:
    """Return a section with the tuned weights, and with contributions and ablations if computed."""
    metric = report.metric
    blocks: list[Table | Lines | Intervals] = [_weights_table(report)]
    measured = [row for row in report.features if row.share is not None]
    measured.sort(key=lambda row: -(row.share or 0.0))
    names = tuple(row.name for row in measured)
    shares = tuple(None if row.share is None else 100 * row.share for row in measured)
    if measured:
        blocks.append(
            Intervals(
                "tuning-shares",
                "What each feature moves",
                "share of all contributions (%)",
                names,
                (Estimates("share", shares),),
                bars=True,
                caption="The longer a bar, the more the feature decides between hypotheses.",
            )
        )
    losses = tuple(
        None if row.left_out is None else row.left_out - report.reached for row in measured
    )
    if any(loss is not None for loss in losses):
        blocks.append(
            Intervals(
                "tuning-ablations",
                f"{metric} without each feature",
                f"difference of {metric}",
                names,
                (Estimates("without it", losses),),
                signed=True,
                caption="The further to the left, the more is lost without the feature. To the "
                "right of zero, the weights are better without it.",
            )
        )
    if report.rounds:
        numbers = tuple(row.round for row in report.rounds)
        series = (Series(metric, numbers, tuple(row.score for row in report.rounds)),)
        title = "Rounds of decoding and tuning"
        caption = "Tuning has converged where the line is level."
        blocks.append(Lines("tuning-rounds", title, "round", metric, series, caption=caption))
    if report.reliability:
        blocks.append(reliability_table("tuning-reliability", {report.method: report}))
    lead = (
        f"{report.method}, seed {report.seed}: {metric} {report.start:.2f} with the start weights, "
        f"{report.reached:.2f} with the new weights, on {report.sentences:,} sentences and "
        f"{report.hypotheses:,} hypotheses.\n\n{_TUNING_LEAD}"
    )
    return Section("tuning", "Weights", lead, tuple(blocks))


def _weights_table(report: TuneReport) -> Table:
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
            *(None if row.left_out is None else round(row.left_out - x, 2) for x in (0, reached)),
        )
        for row in report.features
    )
    caption = f"{metric} {report.start:.2f} before, {reached:.2f} after."
    weights = ("#.4g",) * (3 if two_sets else 2)
    formats = ("", *weights, "#.3g", ".1f", ".2f", "+.2f")
    return Table("tuning-weights", "Weights", columns, rows, caption, formats)


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
        Lines(name, title, "updates", "perplexity", series, log_y=True, caption=hint + omitted)
        for name, title, hint, (series, omitted) in (
            (
                "training-held-out",
                "On held-out data",
                "The lower, the better. A line that rises again shows overfitting.",
                held_out,
            ),
            (
                "training-seen",
                "On the data of the updates",
                "A line that still falls while the one on held-out data rises shows overfitting.",
                seen,
            ),
        )
        if series
    ]
    columns = (
        *("model", "kind", "predicts", "weights", "reads (words)", "predicts (words)"),
        *("pairs", "updates", "minutes", "best update", "held-out perplexity there", "fingerprint"),
    )
    rows = tuple(_model_row(name, model) for name, model in models)
    formats = ("",) * 8 + (".1f", "", ".2f", "")
    table = Table("training-models", "The models", columns, rows, formats=formats)
    return Section("training", "Training", _TRAINING_LEAD, (*blocks, table))


def _curves(
    curves: Iterable[tuple[str, list[tuple[int, float | None]]]],
) -> tuple[tuple[Series, ...], str]:
    """Return a series for each model that has points, and a caption about omitted points."""
    series = []
    caption = ""
    for name, points in curves:
        known = [(float(x), y) for x, y in points if y is not None]
        drawn = [(x, y) for x, y in known if y <= _HIGHEST]
        if len(drawn) < len(known):
            caption = f" Points above {_HIGHEST:,} are left out."
        if drawn:
            series.append(Series(name, *zip(*drawn, strict=True)))
    return tuple(series), caption


def _model_row(name: str, checkpoint: Checkpoint) -> tuple[Cell, ...]:
    record = checkpoint.record
    best = next((one for one in record.curve if one.update == record.best_update), None)
    order = ", the last word first" if checkpoint.right_to_left else ""
    return (
        name,
        checkpoint.config.kind,
        f"{'source' if checkpoint.reverse else 'target'}{order}",
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

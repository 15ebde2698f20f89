"""The section about training."""

import math
from collections.abc import Iterable, Sequence

from phrasescore.models.checkpoint import Checkpoint
from phrasescore.report.blocks import Cell, Lines, Section, Series, Table

_HIGHEST = 1_000_000  # higher perplexities, from diverged or new runs, are not drawn

_TRAINING_LEAD = """\
Perplexity is exp of the mean of -ln p per predicted word; the </s> after each phrase or sentence \
counts as a word. A network with perplexity 100 is as uncertain as one that chooses among 100 \
words at random. The perplexity on held-out data is the one that matters. If it increases while \
the other decreases, the network is overfitting. Perplexities cannot be compared between models \
with different data or shortlists."""


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

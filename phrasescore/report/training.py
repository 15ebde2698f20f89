"""The section about training."""

import math
from collections.abc import Iterator

from phrasescore.models.checkpoint import Checkpoint
from phrasescore.report.blocks import Cell, Lines, Section, Series, Table
from phrasescore.report.inputs import MadeSection, ReportInputs, needs

_HIGHEST = 1_000_000  # higher perplexities, from diverged or new runs, are not drawn

_TRAINING_LEAD = """\
Perplexity is exp of the mean of -ln p per predicted word; the </s> after each phrase or sentence \
counts as a word. A network with perplexity 100 is as uncertain as one that chooses among 100 \
words at random. The perplexity on held-out data is the one that matters. If it increases while \
the other decreases, the network is overfitting. Perplexities cannot be compared between models \
with different data or shortlists."""


@needs("a --model")
def training(inputs: ReportInputs) -> MadeSection:
    """Return the models' learning curves and a table of the models."""
    curves = [curve for name, model in inputs.models for curve in _curves(name, model)]
    drawn = [[(x, y) for x, y in points if y <= _HIGHEST] for _, points in curves]
    caption = "The lower, the better. A line that rises again shows overfitting."
    if any(len(some) < len(points) for some, (_, points) in zip(drawn, curves, strict=True)):
        caption += f" Points above {_HIGHEST:,} are left out."
    series = tuple(
        Series(name, *zip(*points, strict=True))
        for (name, _), points in zip(curves, drawn, strict=True)
        if points
    )
    figure = Lines("training-curves", "Learning curves", "updates", "perplexity", series, caption)
    columns = (
        *("model", "kind", "predicts", "weights", "reads (words)", "predicts (words)"),
        *("pairs", "updates", "minutes", "best update", "held-out perplexity there", "fingerprint"),
    )
    rows = tuple(_model_row(name, model) for name, model in inputs.models)
    formats = ("",) * 8 + (".1f", "", ".2f", "")
    table = Table("training-models", "The models", columns, rows, formats=formats)
    blocks = (figure, table) if series else (table,)
    return MadeSection(Section("training", "Training", _TRAINING_LEAD, blocks))


def _curves(name: str, model: Checkpoint) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    curve = model.record.curve
    known = [(each.update, each.validation_perplexity) for each in curve]
    yield f"{name}, held-out data", [(float(x), y) for x, y in known if y is not None]
    if model.record.fine_tuning is None:  # its loss is not per word
        # exp of a diverged run's loss may overflow.
        losses = [(float(each.update), min(each.training_loss, 700.0)) for each in curve]
        yield f"{name}, data of the updates", [(x, math.exp(loss)) for x, loss in losses]


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

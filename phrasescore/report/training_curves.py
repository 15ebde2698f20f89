"""Learning curves of models, and a table of their sizes, from the training records."""

import math
from collections.abc import Iterable, Sequence

from phrasescore.models.checkpoint import Checkpoint
from phrasescore.report.blocks import Cell, Lines, Section, Series, Table

# Higher perplexities belong to a run that diverged or has hardly begun; to show them would leave
# no room for the others.
_HIGHEST = 1_000_000

_LEAD = """\
Perplexity is e to the mean of -ln p of a predicted word, the </s> of each phrase or sentence \
among them: as if the network chose among so many words at random. That of the held-out data is \
the one that counts; where it rises while the other falls, the network learns its data by heart. \
Models of different data or shortlists cannot be compared by it."""


def training_section(models: Sequence[tuple[str, Checkpoint]]) -> Section | None:
    """Return the models' learning curves and a table of the models, None without a model."""
    if not models:
        return None
    blocks: list[Lines | Table] = [
        Lines(
            name=f"training-{name}",
            title=title,
            x_label="updates",
            y_label="perplexity",
            series=series,
            log_y=True,
            caption=f"Points above {_HIGHEST:,} are left out.",
        )
        for name, title, series in (
            ("held-out", "On held-out data", _held_out(models)),
            ("seen", "On the data of the updates", _seen(models)),
        )
        if series
    ]
    return Section("training", "Training", _LEAD, (*blocks, _table(models)))


def _held_out(models: Sequence[tuple[str, Checkpoint]]) -> tuple[Series, ...]:
    return _series(
        (name, [(one.update, one.validation_perplexity) for one in checkpoint.record.curve])
        for name, checkpoint in models
    )


def _seen(models: Sequence[tuple[str, Checkpoint]]) -> tuple[Series, ...]:
    # exp of a diverged run's loss may overflow.
    return _series(
        (name, [(one.update, math.exp(min(one.training_loss, 700.0))) for one in record.curve])
        for name, record in ((name, checkpoint.record) for name, checkpoint in models)
    )


def _series(curves: Iterable[tuple[str, list[tuple[int, float | None]]]]) -> tuple[Series, ...]:
    """Return one line per model that has points to draw."""
    found = []
    for name, points in curves:
        drawn = [(float(x), y) for x, y in points if y is not None and y <= _HIGHEST]
        if drawn:
            found.append(Series(name, tuple(x for x, _ in drawn), tuple(y for _, y in drawn)))
    return tuple(found)


def _table(models: Sequence[tuple[str, Checkpoint]]) -> Table:
    columns = (
        *("model", "kind", "predicts", "weights", "reads (words)", "predicts (words)"),
        *("pairs", "updates", "minutes", "best update", "held-out perplexity there", "fingerprint"),
    )
    rows = tuple(_row(name, model) for name, model in models)
    return Table("training-models", "The models", columns, rows)


def _row(name: str, checkpoint: Checkpoint) -> tuple[Cell, ...]:
    record = checkpoint.record
    best = next((one for one in record.curve if one.update == record.best_update), None)
    return (
        name,
        checkpoint.config.kind,
        "source" if checkpoint.reverse else "target",
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

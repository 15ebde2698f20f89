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


def training_section(models: Sequence[tuple[str, Checkpoint]]) -> Section:
    """Return the models' learning curves and a table of the models."""
    held_out = _series(
        (name, [(one.update, one.validation_perplexity) for one in model.record.curve])
        for name, model in models
    )
    # exp of a diverged run's loss may overflow.
    seen = _series(
        (
            name,
            [(one.update, math.exp(min(one.training_loss, 700.0))) for one in model.record.curve],
        )
        for name, model in models
        if model.record.fine_tuning is None  # the loss of lists is not that of words
    )
    blocks = [
        Lines(name, title, "updates", "perplexity", series, log_y=True, caption=caption)
        for name, title, (series, caption) in (
            ("training-held-out", "On held-out data", held_out),
            ("training-seen", "On the data of the updates", seen),
        )
        if series
    ]
    return Section("training", "Training", _LEAD, (*blocks, _table(models)))


def _series(
    curves: Iterable[tuple[str, list[tuple[int, float | None]]]],
) -> tuple[tuple[Series, ...], str]:
    """Return one line per model that has points to draw, and a caption of those left out."""
    found = []
    highest = 0.0
    for name, points in curves:
        known = [(float(x), y) for x, y in points if y is not None]
        drawn = [(x, y) for x, y in known if y <= _HIGHEST]
        highest = max([highest, *(y for _, y in known)])
        if drawn:
            found.append(Series(name, tuple(x for x, _ in drawn), tuple(y for _, y in drawn)))
    caption = f"Points above {_HIGHEST:,} are left out." if highest > _HIGHEST else ""
    return tuple(found), caption


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

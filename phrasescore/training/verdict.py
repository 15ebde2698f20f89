"""What the course of a network's training says about the next one."""

from phrasescore.models.checkpoint import TrainingRecord

# Relative changes of the perplexity between validations that are worth a message. The thresholds
# are arbitrary: ten more validations with a fall of 2 % each would make a fifth.
_FALLS, _RISES = 0.02, 0.05


def judge(record: TrainingRecord) -> str:
    """Return what the curve of the held-out perplexity shows, or ""."""
    curve = [
        (point.update, point.validation_perplexity)
        for point in record.curve
        if point.validation_perplexity is not None
    ]
    best = next((value for update, value in curve if update == record.best_update), None)
    if best is None or record.fine_tuning is not None:
        return ""
    (before_update, before), (update, last) = curve[-2:][0], curve[-1]
    if last > (1 + _RISES) * best:
        return (
            f"the network overfits: its perplexity rose from {best:.3g} to {last:.3g} after update "
            f"{record.best_update:,}, whose weights are kept; more text, more --set model.dropout "
            "or a smaller network may help"
        )
    if update == record.best_update and last < (1 - _FALLS) * before:
        return (
            f"the perplexity was still falling, by {1 - last / before:.0%} in the last "
            f"{update - before_update:,} updates: train longer"
        )
    return ""

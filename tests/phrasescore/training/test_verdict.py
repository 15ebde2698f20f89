"""What the curve of a network's perplexity shows."""

from phrasescore.models.checkpoint import CurvePoint, FineTuning, TrainingRecord
from phrasescore.training.verdict import judge


def _judge(*perplexities: float, best: int | None = None, **fields: object) -> str:
    curve = tuple(
        CurvePoint(100 * number, number, 1.0, perplexity)
        for number, perplexity in enumerate(perplexities, start=1)
    )
    update = 100 * (best or len(curve))
    return judge(TrainingRecord(curve=curve, best_update=update, **fields))  # type: ignore[arg-type]


def test_a_curve_that_falls_or_rises_at_its_end_is_named() -> None:
    falling = "the perplexity was still falling, by 10% in the last 100 updates: train longer"
    assert _judge(30.0, 27.0) == falling
    assert _judge(30.0, 20.0, 22.0, best=2) == (
        "the network overfits: its perplexity rose from 20 to 22 after update 200, whose weights "
        "are kept; more text, more --set model.dropout or a smaller network may help"
    )
    tuned = FineTuning("xbleu", "", 9, 1, "RNNsearch0", 0.1, 1.0, 0.0)
    for said in (_judge(), _judge(30.0, 29.9), _judge(30.0, 27.0, fine_tuning=tuned)):
        assert said == ""

"""What the perplexity of a network promises; the gains come from docs/results.md."""

import pytest

from phrasescore.models.checkpoint import REVERSE, CurvePoint, FineTuning, TrainingRecord
from phrasescore.training.verdict import Verdict, judge


def _record(*perplexities: float, best: int | None = None, **fields: object) -> TrainingRecord:
    curve = tuple(
        CurvePoint(100 * number, number, 1.0, perplexity)
        for number, perplexity in enumerate(perplexities, start=1)
    )
    update = 100 * (best or len(curve))
    return TrainingRecord(curve=curve, best_update=update, **fields)  # type: ignore[arg-type]


def _judge(kind: str, record: TrainingRecord, *, table: bool = False, pieces: bool = False) -> str:
    verdicts = judge(kind, record, is_of_table=table, has_pieces=pieces)
    return "; ".join(verdict.text for verdict in verdicts)


@pytest.mark.parametrize(
    ("perplexity", "beginning", "gains"),
    [
        (3.1, "what to expect: ", "one with 3.23 gained 4.5 BLEU"),
        (5.0, "what to expect: ", "one with 5.23 gained 1.7 BLEU"),
        (
            9.0,
            "perhaps too little to help: ",
            "one with 5.23 gained 1.7 BLEU and one with 20.1 lost 0.2 BLEU",
        ),
        (25.0, "too little to help: ", "one with 20.1 lost 0.2 BLEU"),
    ],
)
def test_rnnsearch_is_compared_with_networks_of_few_minutes(
    perplexity: float, beginning: str, gains: str
) -> None:
    (verdict,) = judge("rnnsearch", _record(perplexity), is_of_table=False, has_pieces=False)
    own = f"this rnnsearch network has a perplexity of {perplexity:g} on held-out pairs"
    assert verdict.text.startswith(f"{beginning}{own} (lower is better), and on image captions, ")
    assert verdict.text.removesuffix("; train longer").endswith(gains)
    assert verdict.is_bad == (perplexity > 20.1)


def test_a_column_is_compared_only_if_it_learned_a_table() -> None:
    text = _judge("encoder-decoder", _record(3.0), table=True)
    assert text == (
        "expect a smaller gain than this: this encoder-decoder network has a perplexity of 3 on "
        "held-out pairs (lower is better), and on image captions, English to French, one with 1.99 "
        "gained 0.2 BLEU; train longer"
    )
    assert _judge("encoder-decoder", _record(3.0)) == ""


@pytest.mark.parametrize(("perplexity", "is_bad"), [(7.9, False), (8.0, True)])
def test_a_network_far_from_all_that_gained_is_useless(perplexity: float, is_bad: bool) -> None:
    # Four times 1.99, the highest perplexity of a column that gained.
    (verdict,) = judge("encoder-decoder", _record(perplexity), is_of_table=True, has_pieces=False)
    assert verdict.is_bad == is_bad
    assert verdict.text.startswith("too little to help: ") == is_bad


def test_nothing_is_said_where_nothing_was_measured() -> None:
    assert _judge("cslm", _record(20.0)) == ""
    assert _judge("rnnsearch", _record(3.0), pieces=True) == ""
    assert _judge("rnnsearch", _record(3.0, direction=REVERSE)) == ""
    assert _judge("rnnsearch", _record()) == ""
    tuned = FineTuning("xbleu", "", 9, 1, "RNNsearch0", 0.1, 1.0, 0.0)
    assert _judge("rnnsearch", _record(3.0, fine_tuning=tuned)) == ""
    assert _judge("transformer", _record(3.0), pieces=True).startswith("what to expect: ")


def test_a_curve_that_falls_or_rises_at_its_end_is_named() -> None:
    falling = "the perplexity was still falling, by 10% in the last 100 updates: train longer"
    assert _judge("cslm", _record(30.0, 27.0)) == falling
    assert _judge("cslm", _record(30.0, 29.9)) == ""
    risen = list(
        judge("cslm", _record(30.0, 20.0, 22.0, best=2), is_of_table=False, has_pieces=False)
    )
    assert risen == [
        Verdict(
            "the network overfits: its perplexity rose from 20 to 22 after update 200, whose "
            "weights are kept; more text, more --set model.dropout or a smaller network may help"
        )
    ]

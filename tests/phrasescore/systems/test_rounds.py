"""The messages about rounds."""

from phrasescore.records import WeightPair
from phrasescore.systems.rounds import describe_round
from tuning.loop import LoopResult, Round


def _result(*scores: float) -> LoopResult:
    return LoopResult(
        tuple(
            Round(number, WeightPair({}, {}), score, score - 0.01, 3000, 1000 // number, 0.5, None)
            for number, score in enumerate(scores, start=1)
        )
    )


def test_each_round_is_compared_with_the_best_one() -> None:
    assert describe_round(_result(0.5), "BLEU", ()) == "round 1: BLEU 50.00, 1,000 new hypotheses"
    better = describe_round(_result(0.5, 0.512), "BLEU", ())
    assert better == "round 2: BLEU 51.20 (+1.20, best so far), 500 new hypotheses"
    worse = describe_round(_result(0.5, 0.512, 0.51), "BLEU", ())
    assert worse == "round 3: BLEU 51.00 (-0.20, round 2 is the best), 333 new hypotheses"
    # Equal to the best one: the earliest is kept.
    assert "(+0.00, round 1 is the best)" in describe_round(_result(0.5, 0.5), "BLEU", ())


def test_lists_with_added_features_have_both_scores() -> None:
    text = describe_round(_result(0.5), "BLEU", ["EncoderDecoder0"])
    assert text == "round 1: BLEU 50.00, 49.00 before reranking, 1,000 new hypotheses"

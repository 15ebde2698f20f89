"""What ``phrasescore tune --decoder`` says and writes of its rounds."""

from collections.abc import Sequence

from moses_integration.nbest import read_nbest
from moses_integration.reranking import WeightedSum
from moses_integration.weights import Weights
from phrasescore.io.output import open_output
from tuning.loop import ROUND_LOSS, TOO_FAR, LoopResult

# A gain on the lists, 0 to 1, that a user wants to know of where it does not come true.
NOTABLE_GAIN = 0.005


def describe(result: LoopResult, metric: str, added: Sequence[str]) -> str:
    """Return a line about the latest round."""
    done = result.rounds[-1]
    text = f"round {done.number}: {metric} {100 * done.score:.2f}"
    if added:
        text += f" reranked, {100 * done.decoded_score:.2f} as decoded"
    text += f", {done.new:,} new of {done.hypotheses:,} hypotheses"
    if done.found_score is not None:
        text += f", on all of them {100 * done.pool_score:.2f} -> {100 * done.found_score:.2f}"
    return text


def warnings_of(result: LoopResult, name: str, added: Sequence[str]) -> list[str]:
    """Return what is to be said of a run that has not gone as it should.

    :param name: of the metric.
    :param added: features that only its lists have.
    """
    best, promised = result.best, result.promised
    assert best is not None
    found = []
    for done in result.rounds:
        before = max((each.score for each in result.rounds[: done.number - 1]), default=0)
        if done.score < before - ROUND_LOSS:
            scores = f"{100 * done.score:.2f}, after {100 * before:.2f}"
            found.append(f"round {done.number} has {name} {scores}, and does not count")
    if result.reason == TOO_FAR:
        found.append(f"it ended after round {len(result.rounds)}: {TOO_FAR}")
    gain = 0.0 if promised is None else promised - best.decoded_score
    if not added and best.number == 1 and gain >= NOTABLE_GAIN:
        found.append(
            f"on the lists, weights were found that raise {name} from "
            f"{100 * best.decoded_score:.2f} to {100 * (best.decoded_score + gain):.2f}, but no "
            "round decoded with such weights is better than the first: the weights are those "
            "of the start (a larger --nbest-size or more --iterations may help)"
        )
    return found


def write_translations(path: str, nbest: str, weights: Weights | None) -> None:
    """Write what a user gets of lists: the best hypothesis of each, a line each.

    :param weights: that choose; None for the first hypotheses.
    """
    score = None
    if weights is not None:
        score = WeightedSum(weights, ignore_missing=True, ignore_unweighted=True)
    with open_output(path) as stream:
        for found in read_nbest(nbest):
            place = 0 if score is None else int(score(found).argmax())
            stream.write(found.hypotheses[place].strip(b" ") + b"\n")

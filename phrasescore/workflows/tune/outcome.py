"""How a run of the tuning loop went: its rounds, its problems, and its translations."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from moses_integration.nbest import read_nbest
from moses_integration.reranking import WeightedSum
from phrasescore.features import ColumnSpec
from phrasescore.io.output import open_output
from phrasescore.records import Weights
from phrasescore.workflows.tune.pooling import some_names
from tuning.loop import ROUND_LOSS, TOO_FAR, LoopResult

# A gain on the lists, 0 to 1, that a user wants to know of where it does not come true.
_NOTABLE_GAIN = 0.005


def describe_round(result: LoopResult, metric: str, added: Sequence[str]) -> str:
    """Return a line about the latest round.

    :param added: features that only its lists have.
    """
    done = result.rounds[-1]
    text = f"round {done.number}: {metric} {100 * done.score:.2f}"
    if added:
        text += f" reranked, {100 * done.decoded_score:.2f} as decoded"
    text += f", {done.new:,} new of {done.hypotheses:,} hypotheses"
    if done.found_score is not None:
        text += f", on all of them {100 * done.pool_score:.2f} -> {100 * done.found_score:.2f}"
    return text


def find_problems(result: LoopResult, metric: str, added: Sequence[str]) -> list[str]:
    """Return warnings about a run whose rounds have become worse, or no better.

    :param added: features that only its lists have.
    """
    best, promised = result.best, result.promised
    assert best is not None
    found = []
    for done in result.rounds:
        before = max((each.score for each in result.rounds[: done.number - 1]), default=0)
        if done.score < before - ROUND_LOSS:
            scores = f"{100 * done.score:.2f}, after {100 * before:.2f}"
            found.append(f"round {done.number} has {metric} {scores}, and does not count")
    if result.reason == TOO_FAR:
        found.append(f"it ended after round {len(result.rounds)}: {TOO_FAR}")
    gain = 0.0 if promised is None else promised - best.decoded_score
    if not added and best.number == 1 and gain >= _NOTABLE_GAIN:
        found.append(
            f"on the lists, weights were found that raise {metric} from "
            f"{100 * best.decoded_score:.2f} to {100 * (best.decoded_score + gain):.2f}, but no "
            "round decoded with such weights is better than the first: the weights are those "
            "of the start (a larger --nbest-size or more --iterations may help)"
        )
    return found


def column_options(columns: Sequence[ColumnSpec]) -> list[str]:
    """Return the options of ``phrasescore rescore`` for columns; models come first."""
    options = []
    for column in sorted(columns, key=lambda column: column.kind != "model"):
        place = "" if column.model is None else f"@{column.model}"
        options += [f"--{column.kind.replace('_', '-')}", f"{column.value}{place}"]
    return options


def explain_two_sets(
    added: Sequence[str], options: Sequence[str], output: str | None, ini: Path | None
) -> str:
    """Return the commands that translate with a set of weights for the search and one for lists.

    :param added: features that only the lists have.
    :param options: of ``phrasescore rescore``, which add these features.
    :param output: the file of the weights.
    :param ini: the moses.ini with the search's weights.
    """
    kept, file = ("stdout", "WEIGHTS") if output in ("-", None) else (output, output)
    moses = "" if ini is None else f", or Moses with {ini}"
    return (
        f"the decoder does not know {some_names(added)}: {kept} has two sets of weights, "
        "[search] to decode with and [lists] to rerank with. To translate: n-best lists by "
        f"phrasescore decode --weights {shlex.quote(str(file))}{moses}; phrasescore "
        f"rescore NBEST --source SOURCE {shlex.join(options)} -o RESCORED; phrasescore rerank "
        f"RESCORED --weights {shlex.quote(str(file))}"
    )


def write_translations(path: str, work: Path, number: int, lists: Weights | None) -> None:
    """Write the translations of a round: the best hypothesis of each of its lists, in order.

    :param work: the folder of the run.
    :param number: of the round.
    :param lists: the weights that choose from rescored lists; None for the first hypotheses.
    """
    score = None
    if lists is not None:
        score = WeightedSum(lists, ignore_missing=True, ignore_unweighted=True)
    nbest = work / f"run{number}.{'nbest' if lists is None else 'rescored.gz'}"
    with open_output(path) as stream:
        for found in read_nbest(str(nbest)):
            place = 0 if score is None else int(score(found).argmax())
            stream.write(found.hypotheses[place].strip(b" ") + b"\n")

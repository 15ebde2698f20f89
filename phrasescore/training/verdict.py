"""What a network's held-out perplexity promises, by the project's own measurements."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from phrasescore.arguments import StrPath
from phrasescore.models.checkpoint import CurvePoint, TrainingRecord
from phrasescore.settings.kinds import KINDS


@dataclass(frozen=True)
class Verdict:
    """A sentence about a network; ``is_bad`` if the network is likely to be useless."""

    text: str
    is_bad: bool = False


# Held-out perplexities of networks, and their gains in BLEU on the test set of docs/results.md, in
# ascending order of perplexity; per word, or per piece if the network predicts pieces of words.
# Kinds are absent whose networks were measured only together with others.
_GAINS: dict[tuple[str, str], tuple[tuple[float, float], ...]] = {
    # "n-best lists" (62.18 after 57.64, from 3.23) and "Networks of few minutes".
    ("rnnsearch", "word"): ((3.23, 4.5), (3.56, 3.1), (5.23, 1.7), (20.1, -0.2)),
    # "Table 1 of the paper", embedded search: +RNN, and the longer training below the table.
    ("encoder-decoder", "phrase word"): ((1.67, 0.7), (1.99, 0.2)),
    # "In the search": +joint.
    ("joint", "word"): ((3.14, 2.1),),
    # "Table 1 of the paper": +LSTM.
    ("lstm", "word"): ((9.0, 2.1),),
    # "n-best lists": 61.41 after 57.64.
    ("transformer", "piece"): ((3.24, 3.8),),
}
# Relative changes of the perplexity between validations that are worth a message. The thresholds
# are arbitrary: ten more validations with a fall of 2 % each would make a fifth.
_FALLS, _RISES = 0.02, 0.05
# A perplexity this many times the worst one that gained is taken for useless: the one of rnnsearch
# that lost is 3.8 times the one before it.
_HOPELESS = 4


def judge_model(
    kind: str, model: StrPath, record: TrainingRecord, num_inputs: int
) -> list[Verdict]:
    """Return what `judge` says of the network in a folder, given the number of its input files."""
    is_of_table = KINDS[kind].scores_phrases and num_inputs == 1
    has_pieces = os.path.exists(os.path.join(model, "target.spm"))
    return list(judge(kind, record, is_of_table=is_of_table, has_pieces=has_pieces))


def judge(
    kind: str, record: TrainingRecord, *, is_of_table: bool, has_pieces: bool
) -> Iterator[Verdict]:
    """Yield what the perplexity of a network promises, and what its curve shows."""
    points = [point for point in record.curve if point.validation_perplexity is not None]
    best = next((point for point in points if point.update == record.best_update), None)
    if best is None or record.fine_tuning is not None:
        return
    unit = "piece" if has_pieces else "phrase word" if is_of_table else "word"
    known = () if record.reverse else _GAINS.get((kind, unit), ())
    if known:
        yield _compare(kind, _value(best), known)
    last, before = points[-1], points[-2:][0]
    if _value(last) > (1 + _RISES) * _value(best):
        yield Verdict(
            f"the network overfits: its perplexity rose from {_value(best):.3g} to "
            f"{_value(last):.3g} after update {best.update:,}, whose weights are kept; more text, "
            "more --set model.dropout or a smaller network may help"
        )
    elif best is last and _value(last) < (1 - _FALLS) * _value(before):
        fall = 1 - _value(last) / _value(before)
        yield Verdict(
            f"the perplexity was still falling, by {fall:.0%} in the last "
            f"{last.update - before.update:,} updates: train longer"
        )


def _value(point: CurvePoint) -> float:
    assert point.validation_perplexity is not None
    return point.validation_perplexity


def _compare(kind: str, perplexity: float, known: Sequence[tuple[float, float]]) -> Verdict:
    """Compare a perplexity with the networks whose gains are known."""
    worse = [pair for pair in known if pair[0] >= perplexity]
    is_better = bool(worse) and worse[0][1] > 0
    shown = worse[:1] if is_better else known[-2:] if worse else known[-1:]
    gains = " and ".join(
        f"one with {other:g} {'gained' if gain > 0 else 'lost'} {abs(gain):g} BLEU"
        for other, gain in shown
    )
    example = (
        f"this {kind} network has a perplexity of {perplexity:.3g} on held-out pairs (lower is "
        f"better), and on image captions, English to French, {gains}"
    )
    if is_better:
        return Verdict(f"what to expect: {example}")
    if worse:
        return Verdict(f"perhaps too little to help: {example}; train longer")
    if known[-1][1] < 0 or perplexity > _HOPELESS * known[-1][0]:
        return Verdict(f"too little to help: {example}; train longer", is_bad=True)
    return Verdict(f"expect a smaller gain than this: {example}; train longer")

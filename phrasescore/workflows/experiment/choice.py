"""Choose the networks of an experiment by the amount of data, and divide the time among them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from phrasescore.settings.config import Config
from phrasescore.settings.kinds import get_kind
from phrasescore.workflows.experiment.systems import STANDARD, System

_USUAL_PAIRS = 29_000  # the sentence pairs for which `_NETWORKS` has minutes
# With more or less data a network needs more or less time, within these factors.
_LEAST_FACTOR, _MOST_FACTOR = 0.13, 10.0
_MOST_SCALE = 4.0  # a network gets at most this multiple of its usual time
# Fewer updates teach a network of text nothing: 12 epochs of 1,500 pairs are 280.
_LEAST_UPDATES = 3_000
_COLUMN_EPOCHS = 2.0  # of a table of few sentences; see `_SIZES`
_FEW_PAIRS = 15_000  # below, the epochs of the presets are enough, or `_LEAST_UPDATES`
# Limits of tuning rounds: as in docs/results.md, and for little time; 2 is the shipped example's.
ROUNDS = (6, 3, 2)
_HALVINGS = 24  # of the interval of scales: far below the 0.1 minutes of the file


@dataclass(frozen=True)
class NetworkChoice:
    """A network, the row that shows what it gains, and how it is trained."""

    model: str
    kind: str
    row: System
    use: str  # what the row is, for the file
    pairs: int  # number of sentence pairs from which it is worth its time
    minutes: float  # of training on one core
    least: float  # minutes below which it gains nothing
    keys: dict[str, Any] = field(default_factory=dict)  # further keys of its table in the file
    epochs: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict)  # "table.key" and its value
    why: str = ""  # the reason for the settings; empty for a preset
    problem: str = ""  # why the experiment does without it

    def at(self, scale: float) -> "NetworkChoice":
        """Return a copy with a multiple of the training time, rounded down to 0.1 minutes."""
        minutes = max(self.least, self.minutes * min(scale, _MOST_SCALE))
        return replace(self, minutes=max(0.1, math.floor(10 * minutes) / 10))


_FAST = {"unnormalized": True}  # several times as fast in the search (docs/performance.md)
_BACKWARD = {"kind": "attention", "right_to_left": True, "seed": 2}
# In the order in which networks get time. Each comment has the gain in BLEU on the test set of
# docs/results.md, with the minutes for its 29,000 sentence pairs.
_NETWORKS = (
    # +2.1 in 16 minutes, the most for its time.
    NetworkChoice("joint", "joint", STANDARD["+joint"], "A joint model in the search",
                  1_000, 16, 3, _FAST),
    # In place of a joint model, which needs a word alignment: +1.9 with the column.
    NetworkChoice("cslm", "cslm", System("+CSLM", (), ("cslm",)), "A language model in the search",
                  1_000, 10, 2, _FAST),
    # +3.1 to +4.5 in 30 minutes; +1.7 in 16 and nothing in 8, which were with the full softmax.
    NetworkChoice("attention", "attention", STANDARD["+RNNsearch"], "RNNsearch on n-best lists",
                  1_000, 30, 8),
    # +0.2 to +0.8 in 24 to 95 minutes: the least, but any Moses can use it.
    NetworkChoice("rnn", "encoder-decoder", STANDARD["+RNN"], "A score in the phrase table",
                  1_000, 24, 4),
    # +0.8 over the first one, more than by training that one longer.
    NetworkChoice("backward", "attention",
                  System("+RNNsearch both ways", rescore=("attention", "backward")),
                  "RNNsearch from left to right and from right to left", 15_000, 30, 12, _BACKWARD),
)  # fmt: skip


class _Sizes(NamedTuple):
    """Settings that replace those of presets, from a number of sentence pairs on."""

    pairs: int
    by_kind: dict[str, dict[str, Any]]
    why: str  # for the file


_SHORTLISTS = {"vocabulary.source_size": 30_000, "vocabulary.target_size": 30_000}
_ATTENTION = {
    "model.hidden_size": 128,
    "model.embedding_size": 96,
    "model.alignment_size": 128,
    "training.learning_rate": 3e-3,
}
_COLUMN = {"model.hidden_size": 128, "model.dropout": 0.2, "training.learning_rate": 8e-3}
_OFTEN = {
    "training.learning_rate": 2e-3,
    "training.batch_size": 32,
    "training.validation_updates": 100,
}
_SIZES = (
    # Rare words, which cost little time with a sampled softmax.
    _Sizes(300_000, dict.fromkeys(("joint", "cslm", "attention", "encoder-decoder"), _SHORTLISTS),
           "Larger shortlists than the preset's, which is for some ten thousand sentences."),
    # The small presets are made for this.
    _Sizes(_FEW_PAIRS, {}, ""),
    # The shipped example, 9,200 pairs. With more epochs, or without dropout, its column learns the
    # wrong pairs of the table by heart.
    _Sizes(4_000, {"attention": _ATTENTION, "encoder-decoder": _COLUMN},
           "Smaller than the preset, for few sentences."),
    # 1,500 pairs of Multi30k: 4 minutes, 1,300 updates, gained 1.5 BLEU (p = 0.02) on 300 sentences
    # of test. The preset's 12 epochs, 280 updates, learned nothing.
    _Sizes(0, {"attention": {**_ATTENTION, **_OFTEN}, "encoder-decoder": _COLUMN},
           "Smaller than the preset, in small batches, for very few sentences."),
)  # fmt: skip


def choose_networks(
    pairs: int, *, has_alignment: bool = True, characters: bool = False
) -> list[NetworkChoice]:
    """Return all networks for a number of sentence pairs, with their usual training times.

    Networks that the experiment does without have a ``problem``.

    :param has_alignment: whether there is a word alignment of the training text.
    :param characters: whether the system translates characters.
    """
    sizes = next(each for each in _SIZES if pairs >= each.pairs)
    factor = min(max(pairs / _USUAL_PAIRS, _LEAST_FACTOR), _MOST_FACTOR)
    choices = []
    for each in _NETWORKS:
        problem = ""
        if characters and each.kind != "attention":
            problem = "it reads words, and this system's tables have characters"
        elif each.model == "joint" and not has_alignment:
            problem = "it needs a word alignment of the training text: [data] alignments"
        elif each.model == "cslm" and has_alignment:
            problem = "the joint model gains more; +CSLM+joint+RNN has both"
        elif pairs < each.pairs:
            problem = f"it learns too little from {pairs:,} sentence pairs; it needs {each.pairs:,}"
        settings = dict(sizes.by_kind.get(each.kind, {}))
        why = sizes.why if settings else ""
        if each.kind == "cslm":
            settings.pop("vocabulary.source_size", None)
            settings["model.self_normalization"] = 0.1  # as in the presets of joint models
        if characters:
            settings["vocabulary.subwords"] = 1
            why = "Characters."
        preset = Config.preset(get_kind(each.kind).default_preset).training
        epochs = preset.epochs * (1.0 if pairs < _FEW_PAIRS else _MOST_SCALE)
        if each.kind != "encoder-decoder":
            size = settings.get("training.batch_size", preset.batch_size)
            epochs = max(epochs, math.ceil(_LEAST_UPDATES * size / pairs))
        elif pairs < _FEW_PAIRS:
            epochs = _COLUMN_EPOCHS
        choice = replace(each, settings=settings, why=why, epochs=epochs, problem=problem)
        choices.append(replace(choice, minutes=each.minutes * factor, least=each.least * factor))
    return choices


def divide_time(
    choices: Sequence[NetworkChoice],
    seconds_of: Callable[[Sequence[NetworkChoice], int], float],
    minutes: float | None,
) -> tuple[list[NetworkChoice], int]:
    """Return the networks with their training times, and the limit of tuning rounds.

    A network for which there is no time, beside the more useful ones, gets a ``problem``.

    :param seconds_of: returns how long an experiment with these networks and rounds takes.
    :param minutes: the time of the whole experiment; None for the usual training times.
    """
    if minutes is None:
        return [each.at(1.0) for each in choices], ROUNDS[0]

    def fits(scale: float, rounds: int) -> bool:
        return seconds_of([each.at(scale) for each in kept], rounds) <= 60 * minutes

    kept: list[NetworkChoice] = []
    for each in (each for each in choices if not each.problem):
        kept.append(each)
        has_all = each.row.models <= {other.model for other in kept}
        if not has_all or not fits(0.0, ROUNDS[-1]):
            kept.pop()
    rounds = next((rounds for rounds in ROUNDS if fits(0.0, rounds)), ROUNDS[-1])
    low, high = 0.0, _MOST_SCALE
    for _ in range(_HALVINGS):
        scale = (low + high) / 2
        low, high = (scale, high) if fits(scale, rounds) else (low, scale)
    problem = f"there is no time for it in {minutes:g} minutes"
    return [
        each.at(low) if each in kept else replace(each.at(1.0), problem=each.problem or problem)
        for each in choices
    ], rounds

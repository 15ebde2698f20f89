"""Settings and files of tuning."""

from collections.abc import Sequence
from dataclasses import dataclass

from phrasescore.settings.declaration import SEED, Settings, option, optional, switch
from tuning.settings import MethodName, MetricName


@dataclass(frozen=True, kw_only=True)
class TuningMethod(Settings, heading="Tuning"):
    """The tuning method and its metric."""

    method: MethodName = option(
        "mert",
        "The tuning method: mert for up to about twenty features; mira or xbleu for more.",
    )
    metric: MetricName = option("bleu", "The metric to maximise.")
    fixed: Sequence[str] = option(
        (),
        "Keep the weight of this feature; NAME_0 is its first value.",
        flags="--fix",
        metavar="NAME",
    )
    seed: int = option(1, SEED, ge=0)
    starts: int = option(
        20, "Number of random starts of mert, in addition to the start weights.", ge=0
    )


@dataclass(frozen=True, kw_only=True)
class ListTuning(TuningMethod):
    """Settings of `tune`, which finds weights on existing n-best lists."""

    allow_missing: bool = switch(
        "Use an empty translation for sentences without an n-best list.", heading="Input"
    )


@dataclass(frozen=True, kw_only=True)
class RoundTuning(TuningMethod, heading="Rounds of a system"):
    """Settings of `tune_system`, which tunes in rounds as mert-moses.pl does."""

    iterations: int = option(25, "Maximum number of rounds.", ge=1)
    patience: int = option(5, "Stop after this many rounds without a better translation.", ge=1)


@dataclass(frozen=True, kw_only=True)
class Reranking(Settings, heading="Order of the hypotheses"):
    """Settings of `rerank`, which reorders the hypotheses of n-best lists."""

    # A warning is shown if one of the two varies ten times as much within lists as the other.
    average: Sequence[str] = option(
        (),
        "Order by the mean of the decoder's total and this feature; if the option is repeated, "
        "the mean includes all these features.",
        metavar="NAME",
    )
    ignore_missing: bool = switch(
        "Use value 0 for weighted features that are missing from a list.", heading="Input"
    )
    ignore_unweighted: bool = switch(
        "Use weight 0 for features that have no weight.", heading="Input"
    )
    num_sentences: int | None = optional(
        "Number of sentences, to detect lists that are missing at the end.", ge=1, heading="Input"
    )
    allow_missing: bool = switch(
        "Write an empty line for sentences without an n-best list.", heading="Input"
    )

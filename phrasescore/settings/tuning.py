"""Settings and files of tuning."""

from collections.abc import Sequence
from dataclasses import dataclass

from phrasescore.settings.declaration import SEED, Settings, option, switch
from tuning.settings import MethodName, MetricName


@dataclass(frozen=True, kw_only=True)
class TuningMethod(Settings, heading="Tuning"):
    """The tuning method and its metric."""

    method: MethodName = option(
        "mert", "The tuning method: mert for up to about twenty features; mira or xbleu for more."
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

"""The names of tuning methods and metrics, and the settings for all methods."""

from dataclasses import dataclass
from typing import Literal, get_args

from phrasescore.records import FeatureLabel

# name -> module:function, a `tuning.methods.Search`. Modules are imported lazily.
MethodName = Literal["mert", "mira", "xbleu"]
METHODS: dict[str, str] = {
    "mert": "tuning.mert:search_mert",
    "mira": "tuning.mira:search_mira",
    "xbleu": "tuning.expected_bleu:search_expected_score",
}
MetricName = Literal["bleu", "word_accuracy", "cer"]
METRICS: tuple[MetricName, ...] = get_args(MetricName)


@dataclass(frozen=True)
class TuneSettings:
    """The settings for all methods; each comment begins with the methods that use a field."""

    fixed: tuple[FeatureLabel, ...] = ()  # all methods: features whose weights do not change
    threads: int = 1  # all methods: 1 or more; affects only the speed, not the result
    starts: int = 20  # mert: random starts in addition to the given weights (Moses: mert -n)
    # mert: number of starts near the best weights so far; 0 or more. They are drawn 4 to 40 times:
    # more often for small pools, and until they bring no improvement.
    near_starts: int = 6
    directions: int = 20  # mert: random directions from the best weights in the last rounds
    rounds: int = 100  # mert: limit of rounds for a start that does not converge; 1 or more
    # xbleu: the penalty for a squared distance of 1 from the start, in units of the metric (0 to
    # 1). Weights are in units of the features' standard deviations. 0 or more.
    penalty: float = 1e-5
    # mira: number of passes over the segments; at least 1 (Moses: kbmira -J). Pools with fewer than
    # about 30 segments get more.
    epochs: int = 60
    # mira: the maximum factor for a feature difference in an update; above 0. Features are in units
    # of their standard deviations (kbmira -C, which does not scale features).
    step_limit: float = 0.1

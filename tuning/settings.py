"""The names of tuning methods and metrics, and the settings of all methods."""

from dataclasses import dataclass
from typing import Literal, get_args

from phrasescore.records import FeatureLabel

# name -> module:function, a `tuning.methods.Search`. Modules are imported when needed.
MethodName = Literal["mert", "mira", "pro", "xbleu"]
METHODS: dict[str, str] = {
    "mert": "tuning.mert:search_mert",
    "mira": "tuning.mira:search_mira",
    "pro": "tuning.pro:search_pro",
    "xbleu": "tuning.expected_bleu:search_expected_score",
}
# Tuning maximises a weighted mean of metrics.
MetricName = Literal["bleu", "chrf"]
METRICS: tuple[MetricName, ...] = get_args(MetricName)
# The reference whose length BLEU uses if there are several; the shorter of two equally close ones.
ReferenceLength = Literal["closest", "shortest", "average"]


@dataclass(frozen=True)
class TuneSettings:
    """The settings of all methods; each comment begins with the methods that a field applies to."""

    # All methods: features whose weights stay.
    fixed: tuple[FeatureLabel, ...] = ()
    # All methods: threads, at least 1. They change the speed, never a bit of the result.
    threads: int = 1
    # mert: random starts in addition to the given weights; 0 or more (Moses: mert -n).
    starts: int = 20
    # mert: starts near the best weights so far, drawn 4 to 40 times: more often for small pools,
    # and until they find nothing better; 0 or more.
    near_starts: int = 6
    # mert: random directions from the best weights in each of the last rounds; 0 or more.
    directions: int = 20
    # mert: intervals on each side that smooth the metric of an interval (Cer et al., 2008).
    neighbours: int = 0
    # mert: the limit on rounds of a start, in case it does not converge; at least 1.
    rounds: int = 100
    # xbleu: the penalty for a squared distance of 1 from the start, as a value of the metric (0 to
    # 1), with weights in units of the features' deviations; 0 or more.
    penalty: float = 1e-5
    # mira: passes over the segments; at least 1 (Moses: kbmira -J). Pools of fewer than about 30
    # segments get more.
    epochs: int = 60
    # mira: the largest multiple of a feature difference in an update; above 0. Features are in
    # units of their deviations (kbmira -C, whose features are not scaled).
    step_limit: float = 0.1
    # pro: the number of pairs drawn in each segment, the number to learn from, and the least
    # difference of their sentence scores (Hopkins and May, 2011, section 3).
    candidates: int = 5000
    pairs: int = 50
    least_difference: float = 0.05
    # pro: the share of new weights in the result, the rest is the start; above 0 to 1. Hopkins and
    # May (section 5.4.3) take 0.1 in each round of a loop with a decoder.
    share: float = 1.0

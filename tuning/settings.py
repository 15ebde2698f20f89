"""The settings of tuning: one class for all methods, so that a run is described in one place."""

from dataclasses import dataclass
from typing import Literal, get_args

from phrasescore.records import FeatureLabel

# name -> module:function, a `tuning.methods.Search`. Modules are imported when they are asked for.
METHODS: dict[str, str] = {
    "mert": "tuning.mert:search_mert",
    "mira": "tuning.mira:search_mira",
    "pro": "tuning.pro:search_pro",
    "xbleu": "tuning.expected_bleu:search_expected_score",
}
# The names of metrics, of which a weighted mean may be raised.
MetricName = Literal["bleu", "chrf"]
METRICS: tuple[MetricName, ...] = get_args(MetricName)
# The reference whose length BLEU takes where there are several; of two that are equally close to
# the hypothesis, the shorter.
ReferenceLength = Literal["closest", "shortest", "average"]


@dataclass(frozen=True)
class TuneSettings:
    """The settings of all methods. Each field says whose it is."""

    # All methods: features whose weights stay as they are given.
    fixed: tuple[FeatureLabel, ...] = ()
    # All methods: threads; at least 1. They change speed, never a bit of the result.
    threads: int = 1
    # mert: random starts besides the weights given; 0 or more (Moses: mert -n).
    starts: int = 20
    # mert: starts near the best weights so far, drawn anew 4 to 40 times: the more, the smaller the
    # pool, and until they find nothing better; 0 or more.
    near_starts: int = 6
    # mert: random directions in each of the last rounds, from the best weights; 0 or more.
    directions: int = 20
    # mert: intervals on each side of one that smooth the metric (Cer et al., 2008).
    neighbours: int = 0
    # mert: rounds of a start at most, where it would not converge; at least 1.
    rounds: int = 100
    # xbleu: iterations of L-BFGS at each scale of the softmax; at least 1.
    iterations: int = 30
    # xbleu: the cost of a squared distance of 1 from the start, in parts of 1 of the metric, where
    # weights are in units of the features' deviations; 0 or more.
    penalty: float = 1e-5
    # mira: passes over the segments; at least 1 (Moses: kbmira -J). Pools of less than some 30
    # segments get more.
    epochs: int = 60
    # mira: the most that a step may add of a difference of features, which are in units of their
    # deviations; above 0 (kbmira -C, whose features are in no unit).
    step_limit: float = 0.1
    # mira: the part of the pseudo-corpus that is left after each segment; above 0 to 1 (kbmira -D).
    decay: float = 0.999
    # pro: pairs that are drawn in each segment, those of them that are learned from, and the
    # difference of sentence scores that a pair must have (Hopkins and May, 2011, section 3).
    candidates: int = 5000
    pairs: int = 50
    least_difference: float = 0.05
    # pro: the penalty of squared weights; 0 or more.
    prior: float = 1.0
    # pro: how much of the result is new, the rest is the start; above 0 to 1. In a loop over
    # decoders Hopkins and May (section 5.4.3) take 0.1 in each round.
    share: float = 1.0

"""The names of tuning methods and metrics, and the settings of tuning."""

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
    """The settings of tuning; each method has further constants, which nobody needs to change."""

    fixed: tuple[FeatureLabel, ...] = ()  # features whose weights do not change
    threads: int = 1  # 1 or more; affects only the speed, not the result
    starts: int = 20  # mert: random starts in addition to the given weights (Moses: mert -n)

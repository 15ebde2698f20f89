"""Settings and files of tuning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phrasescore.arguments import ReportFormat, StrPath
from phrasescore.settings.declaration import SEED, Settings, option, optional, switch
from tuning.settings import METRICS, MethodName


@dataclass(frozen=True, kw_only=True)
class TuningMethod(Settings, heading="Tuning"):
    """The tuning method and its metric."""

    method: MethodName = option(
        "mert",
        "The tuning method: mert for up to about twenty features; mira or xbleu for more.",
    )
    # The weight of each metric; None for BLEU only.
    metrics: Mapping[str, float] | None = optional(
        f"The metric to maximise: {', '.join(METRICS)}. Several metrics are combined "
        "as a weighted mean.",
        flags="--metric",
        metavar="NAME[=WEIGHT]",
    )
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

    @property
    def metric_weights(self) -> dict[str, float]:
        """The weight of each metric, by name; BLEU only by default."""
        return dict(self.metrics or {"bleu": 1.0})


@dataclass(frozen=True, kw_only=True)
class ListTuning(TuningMethod):
    """Settings of `tune`, which finds weights on existing n-best lists."""

    allow_missing: bool = switch(
        "Use an empty translation for sentences without an n-best list.", heading="Input"
    )


@dataclass(frozen=True, kw_only=True)
class RoundTuning(TuningMethod, heading="Rounds with a decoder"):
    """Settings of `tune_with_decoder`, which tunes in rounds as mert-moses.pl does."""

    iterations: int = option(25, "Maximum number of rounds.", ge=1)
    nbest_size: int = option(100, "Number of hypotheses per list.", ge=1)
    patience: int = option(5, "Stop after this many rounds without a better translation.", ge=1)


@dataclass(frozen=True, kw_only=True)
class TuningFiles(Settings, heading="Output"):
    """Optional input and output files of `tune`; all output is written at the end."""

    # Features without a start weight start at the weight in this file.
    moses_ini: StrPath | None = optional(
        "The moses.ini to change. Without --weights, its weights are the start weights.",
        flags="--moses-ini --config",
        heading="Input",
    )
    moses_ini_out: StrPath | None = optional(
        "Write a moses.ini with the new weights; features that are in no list keep their weights."
    )
    report: StrPath | None = optional(
        "Write each feature's weight and contribution, and the metric without the feature."
    )
    report_format: ReportFormat = option("text", "The format of the report.", flags="--format")


@dataclass(frozen=True, kw_only=True)
class RoundTuningFiles(TuningFiles):
    """Input and output files of `tune_with_decoder`."""

    translations: StrPath | None = optional("Write the best round's translations of --source.")


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

"""Settings and files of tuning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from phrasescore.arguments import ReportFormat, StrPath
from phrasescore.settings.declaration import Settings, option
from phrasescore.settings.generation import Seed
from phrasescore.settings.scoring import FeedForwardScoring
from tuning.settings import METRICS, MethodName, MetricName, ReferenceLength


@dataclass(frozen=True, kw_only=True)
class TuningMethod(Settings, heading="Method"):
    """The method and the metric of tuning."""

    method: Annotated[
        MethodName,
        option("mert is for up to about twenty features; pro, mira and xbleu are for many."),
    ] = "mert"
    # The weight of each metric; None for BLEU only.
    metrics: Annotated[
        Mapping[str, float] | None,
        option(
            f"The metric to raise: {', '.join(METRICS)}, or a metric of another package, which "
            "'phrasescore features' lists. Several metrics are combined as a weighted mean.",
            flags="--metric",
            metavar="NAME[=WEIGHT]",
        ),
    ] = None
    reference_length: Annotated[
        ReferenceLength, option("The reference length that BLEU uses for several references.")
    ] = "closest"
    fixed: Annotated[
        Sequence[str],
        option(
            "Keep the weight of this feature; NAME_0 is its first value.",
            flags="--fix",
            metavar="NAME",
        ),
    ] = ()
    seed: Seed = 1
    starts: Annotated[
        int,
        option(
            "Number of random starts in addition to the start weights.",
            ge=0,
            flags="--starts --random-restarts",
            heading="MERT",
        ),
    ] = 20
    plateau_smoothing: Annotated[
        int,
        option(
            "Value a weight by the worst score of its interval and N intervals on each side of it.",
            ge=0,
            heading="MERT",
        ),
    ] = 0

    @property
    def metric_weights(self) -> dict[str, float]:
        """The weight of each metric."""
        return dict(self.metrics or {"bleu": 1.0})


@dataclass(frozen=True, kw_only=True)
class ListTuning(TuningMethod):
    """Settings of `tune`, which finds weights on given n-best lists."""

    replicas: Annotated[
        int, option("Tune with N seeds, report the spread, and average the weights.", ge=1)
    ] = 1
    cross_validate: Annotated[
        int | None,
        option(
            "Compare all methods by cross-validation: tune on K-1 parts, measure on the other one.",
            ge=2,
            metavar="K",
        ),
    ] = None
    allow_missing: Annotated[
        bool, option("Use an empty translation for a sentence without a list.", heading="Input")
    ] = False


@dataclass(frozen=True, kw_only=True)
class RoundTuning(TuningMethod, FeedForwardScoring, heading="Rounds with a decoder"):
    """Settings of `tune_with_decoder`; the second names of options are mert-moses.pl's."""

    iterations: Annotated[
        int, option("Maximum number of rounds.", ge=1, flags="--iterations --maximum-iterations")
    ] = 25
    nbest_size: Annotated[
        int, option("Number of hypotheses per list.", ge=1, flags="--nbest-size --nbest")
    ] = 100
    patience: Annotated[
        int, option("Stop after this many rounds without a better translation.", ge=1)
    ] = 5


@dataclass(frozen=True, kw_only=True)
class TuningFiles(Settings, heading="Output"):
    """Further files of tuning; all output is written at the end."""

    # Features that the start weights do not name start at its weights.
    moses_ini: Annotated[
        StrPath | None,
        option(
            "The moses.ini to change. Without --weights, its weights are the start weights.",
            flags="--moses-ini --config",
            heading="Input",
        ),
    ] = None
    moses_ini_out: Annotated[
        StrPath | None,
        option(
            "Write a moses.ini with the new weights; features that no list has keep their weights."
        ),
    ] = None
    report: Annotated[
        StrPath | None,
        option("Write the weight and contribution of each feature, and the metric without it."),
    ] = None
    report_format: Annotated[
        ReportFormat, option("The format of the report.", flags="--format")
    ] = "text"


@dataclass(frozen=True, kw_only=True)
class ListTuningFiles(TuningFiles):
    """Files of `tune`."""

    features_out: Annotated[
        StrPath | None, option("Write the pooled lists for Moses' mert and kbmira (--ffile).")
    ] = None
    scores_out: Annotated[
        StrPath | None, option("Write the BLEU statistics of --features-out (--scfile).")
    ] = None
    ifile_out: Annotated[
        StrPath | None, option("Write the new weights for Moses' mert (--ifile).")
    ] = None


@dataclass(frozen=True, kw_only=True)
class RoundTuningFiles(TuningFiles):
    """Files of `tune_with_decoder`."""

    translations: Annotated[
        StrPath | None, option("Write the best round's translations of --source.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Reranking(Settings, heading="Method"):
    """Settings of `rerank`, which orders hypotheses."""

    # A warning is shown if one of the two varies ten times as much within lists as the other.
    average: Annotated[
        Sequence[str],
        option(
            "Order by the mean of the decoder's total and this feature; if the option is repeated, "
            "the mean includes all these features.",
            metavar="NAME",
        ),
    ] = ()
    mbr: Annotated[
        bool,
        option("Choose the hypothesis with the highest expected BLEU or chrF: minimum Bayes risk."),
    ] = False
    mbr_scale: Annotated[
        float | None,
        option(
            "For --mbr: the factor of the model scores before they become probabilities.",
            gt=0,
            shown="1",
        ),
    ] = None
    mbr_metric: Annotated[MetricName | None, option("The metric for --mbr.", shown="bleu")] = None
    as_lists: Annotated[
        bool,
        option(
            "Write complete n-best lists in the new order, with the new score as total.",
            flags="--nbest",
            heading="Output",
        ),
    ] = False
    ignore_missing: Annotated[
        bool, option("Use 0 for features with weights that a list lacks.", heading="Input")
    ] = False
    ignore_unweighted: Annotated[
        bool, option("Use weight 0 for features without weights.", heading="Input")
    ] = False
    num_sentences: Annotated[
        int | None,
        option(
            "Number of sentences, so that lists missing at the end are noticed.",
            ge=1,
            heading="Input",
        ),
    ] = None
    allow_missing: Annotated[
        bool, option("Write an empty line for a sentence without a list.", heading="Input")
    ] = False

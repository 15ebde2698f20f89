"""Settings and files of tuning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from phrasescore.arguments import ReportFormat, StrPath
from phrasescore.settings.declaration import Settings, option
from phrasescore.settings.scoring import FeedForwardScoring
from tuning.settings import METRICS, MethodName, MetricName, ReferenceLength


@dataclass(frozen=True, kw_only=True)
class TuningMethod(Settings, heading="Method"):
    """The method and the metric of tuning."""

    method: Annotated[
        MethodName,
        option("mert for up to some twenty features; pro, mira and xbleu for many."),
    ] = "mert"
    # The weight of each metric; None for BLEU only.
    metrics: Annotated[
        Mapping[str, float] | None,
        option(
            f"The metric to raise: {', '.join(METRICS)}, or another package's (phrasescore "
            "features lists them); of several metrics, their weighted mean.",
            flags="--metric",
            metavar="NAME[=WEIGHT]",
        ),
    ] = None
    reference_length: Annotated[
        ReferenceLength, option("The reference whose length BLEU takes, if there are several.")
    ] = "closest"
    fixed: Annotated[
        Sequence[str],
        option(
            "Keep the weight of this feature; NAME_0 for its first value.",
            flags="--fix",
            metavar="NAME",
        ),
    ] = ()
    seed: Annotated[
        int,
        option(
            "Start of every random choice: the same seed gives the same result on a machine.",
            ge=0,
        ),
    ] = 1
    starts: Annotated[
        int,
        option(
            "Random starts in addition to the given weights.",
            ge=0,
            flags="--starts --random-restarts",
            heading="MERT",
        ),
    ] = 20
    plateau_smoothing: Annotated[
        int,
        option(
            "A weight is worth no more than the worst of the N intervals of its line on each side.",
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
        int, option("Run with N seeds, report the spread, and average the weights.", ge=1)
    ] = 1
    cross_validate: Annotated[
        int | None,
        option(
            "Compare all methods on dev: each tuned on K-1 parts, measured on the other.",
            ge=2,
            metavar="K",
        ),
    ] = None
    allow_missing: Annotated[
        bool,
        option("Take an empty translation for a sentence without a list.", heading="Input"),
    ] = False


@dataclass(frozen=True, kw_only=True)
class RoundTuning(TuningMethod, FeedForwardScoring, heading="Rounds with a decoder"):
    """Settings of `tune_with_decoder`; second option names come from mert-moses.pl."""

    iterations: Annotated[
        int, option("Rounds at most.", ge=1, flags="--iterations --maximum-iterations")
    ] = 25
    nbest_size: Annotated[
        int, option("Hypotheses per list.", ge=1, flags="--nbest-size --nbest")
    ] = 100
    patience: Annotated[
        int, option("Rounds without a better translation after which the loop ends.", ge=1)
    ] = 5


@dataclass(frozen=True, kw_only=True)
class TuningFiles(Settings, heading="Output"):
    """Files of tuning besides the lists and the weights; output is written at the end."""

    # Its weights are the start of features that the start weights do not name.
    moses_ini: Annotated[
        StrPath | None,
        option(
            "The moses.ini to change; its weights are the start where --weights is not.",
            flags="--moses-ini --config",
            heading="Input",
        ),
    ] = None
    moses_ini_out: Annotated[
        StrPath | None,
        option("The moses.ini with the new weights; features that no list has keep theirs."),
    ] = None
    report: Annotated[
        StrPath | None,
        option("Write each feature's weight, its contribution, and the metric without it."),
    ] = None
    report_format: Annotated[
        ReportFormat, option("How the report is written.", flags="--format")
    ] = "text"


@dataclass(frozen=True, kw_only=True)
class ListTuningFiles(TuningFiles):
    """Files of `tune`."""

    features_out: Annotated[
        StrPath | None, option("Write the pooled lists for Moses' mert and kbmira (--ffile).")
    ] = None
    scores_out: Annotated[StrPath | None, option("Write their BLEU statistics (--scfile).")] = None
    ifile_out: Annotated[StrPath | None, option("Write the weights for Moses' mert (--ifile).")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class RoundTuningFiles(TuningFiles):
    """Files of `tune_with_decoder`."""

    translations: Annotated[
        StrPath | None,
        option("Write the best round's translations of --source: its lists, reranked."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Reranking(Settings, heading="Method"):
    """Settings of `rerank`, which orders hypotheses."""

    # There is a warning if one of both varies ten times as much within lists as the other.
    average: Annotated[
        Sequence[str],
        option(
            "Order by the mean of the decoder's total and this feature; of all, if given "
            "repeatedly.",
            metavar="NAME",
        ),
    ] = ()
    mbr: Annotated[
        bool,
        option("Take the hypothesis with the highest expected BLEU or chrF (minimum Bayes risk)."),
    ] = False
    mbr_scale: Annotated[
        float | None,
        option(
            "Factor of the model scores before they become probabilities, for --mbr.",
            gt=0,
            shown="1",
        ),
    ] = None
    mbr_metric: Annotated[MetricName | None, option("What --mbr expects.", shown="bleu")] = None
    as_lists: Annotated[
        bool,
        option(
            "Write all lines in their new order, with the new score as total, not the best text.",
            flags="--nbest",
            heading="Output",
        ),
    ] = False
    ignore_missing: Annotated[
        bool, option("Take 0 for a feature with weights that is not there.", heading="Input")
    ] = False
    ignore_unweighted: Annotated[
        bool, option("Take 0 for the weights of features that have none.", heading="Input")
    ] = False
    num_sentences: Annotated[
        int | None,
        option(
            "How many sentences there are: notices lists that are missing at the end.",
            ge=1,
            heading="Input",
        ),
    ] = None
    allow_missing: Annotated[
        bool, option("Write an empty line for a sentence without a list.", heading="Input")
    ] = False

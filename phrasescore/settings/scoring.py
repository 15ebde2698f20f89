"""Settings for scoring lists and text, for translating with networks only, and for segments."""

from collections.abc import Sequence
from dataclasses import dataclass

from phrasescore.arguments import AtLeastOne, ConfidenceName, Count, SegmentationName, StrPath
from phrasescore.settings.declaration import SEED, Settings, option, optional, switch

_SAMPLES = "Samples"


@dataclass(frozen=True, kw_only=True)
class TextScoring(Settings, heading="Networks and features"):
    """Settings of `score`, which scores parallel text."""

    # Right-to-left models are averaged among themselves; the column is then the mean of both
    # scores, weighted by the numbers of models.
    ensemble: bool = switch(
        "Add a column in which the models' probabilities are averaged at each word. If some models "
        "were trained with --right-to-left, it has the mean of the scores for both orders. The "
        "models should have the same shortlist: with a smaller shortlist, <unk> gets more "
        "probability than a rare word gets with a larger one."
    )
    cache: StrPath | None = optional(
        "Cache scores in this file, and reuse them in later runs.", heading="Devices and speed"
    )


@dataclass(frozen=True, kw_only=True)
class Rescoring(TextScoring):
    """Settings of `rescore`, which adds features to n-best lists."""

    allow_missing: bool = switch("Allow source sentences that have no hypotheses.", heading="Input")


@dataclass(frozen=True, kw_only=True)
class Generating(Settings, heading="Search"):
    """Settings of `generate`, which finds the best translation or draws random samples."""

    ensemble: Sequence[StrPath] = option(
        (),
        "Add a network to the ensemble, which averages the networks' probabilities at each word. "
        "All networks have the same shortlist.",
        metavar="MODEL",
        heading="Networks and features",
    )
    beam: AtLeastOne | None = optional(
        "Number of hypotheses in the beam, which shrinks with each hypothesis that ends.",
        shown="10, or more if --nbest needs more",
    )
    normalize: bool = switch(
        "Sort complete translations by log p / (words + 1), which does not favour short "
        "translations."
    )
    unknown: bool = option(True, "Never predict <unk>.", flags="--no-unknown")
    # For a model of subwords, the number of pieces.
    max_length: AtLeastOne | None = optional(
        "Maximum number of words. Longer translations are truncated and counted.",
        shown="twice the number of source words, plus 10",
    )
    sample: AtLeastOne | None = optional(
        "Draw N random translations of each line, and write the distinct ones, best first, as "
        "'source ||| target ||| log p ||| times'.",
        heading=_SAMPLES,
    )
    seed: Count = option(1, SEED, heading=_SAMPLES)


@dataclass(frozen=True, kw_only=True)
class Segmenting(Settings, heading="Segments"):
    """Settings of `segment`, which splits sentences and translates the segments."""

    confidence: ConfidenceName = option(
        "penalized",
        "The confidence of a segment. forward: log p(target | segment). both: the mean of this "
        "and log q(segment | target). penalized: both, divided by log(words), so that segments "
        "are not too short (equation 2). penalized-released: both, divided by log(words + 2), "
        "as in the authors' program.",
    )
    segmentation: SegmentationName = option(
        "best",
        "best: the most confident segments. none: whole sentences. random: the segments in "
        "--like, in random order. random-confidence: the best segments under random confidences.",
    )
    like: StrPath | None = optional(
        "For --segmentation random: the file that another run on the text wrote with --segments."
    )
    max_segment: AtLeastOne = option(20, "Maximum number of words in a segment.")
    beam: AtLeastOne = option(
        10,
        "Number of hypotheses in the beam, among which the most confident translation is chosen.",
        heading="Search",
    )
    unknown: bool = option(True, "Never predict <unk>.", flags="--no-unknown", heading="Search")

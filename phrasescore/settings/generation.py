"""Settings for translating with networks only, and for adding pairs to a phrase table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from phrasescore.arguments import ConfidenceName, SegmentationName, StrPath
from phrasescore.settings.declaration import SEED, Settings, option

_SAMPLES = "Samples"

Seed = Annotated[int, option(SEED, ge=0)]


@dataclass(frozen=True, kw_only=True)
class BeamSearch(Settings, heading="Search"):
    """Settings that `generate` and `augment` share."""

    ensemble: Annotated[
        Sequence[StrPath],
        option(
            "Add a network: the probabilities of all networks are averaged at each word. They "
            "should have the same shortlist.",
            metavar="MODEL",
            heading="Networks and features",
        ),
    ] = ()
    beam: Annotated[
        int | None,
        option(
            "Number of hypotheses in the beam, which shrinks with each hypothesis that ends.",
            ge=1,
            shown="10, or more if --nbest or --targets need more",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Generating(BeamSearch):
    """Settings of `generate`, which finds the best translation or draws random samples."""

    normalize: Annotated[
        bool,
        option(
            "Sort complete translations by log p / (words + 1), which does not favour short "
            "translations."
        ),
    ] = False
    unknown: Annotated[bool, option("Never predict <unk>.", flags="--no-unknown")] = True
    copy_unknown: Annotated[
        bool,
        option(
            "Replace each <unk> with the source word to which it is aligned most; needs a model of "
            "the kind attention."
        ),
    ] = False
    # For a model of subwords, the number of pieces.
    max_length: Annotated[
        int | None,
        option(
            "Maximum number of words. Longer translations are cut, and their number is reported.",
            ge=1,
            shown="twice the number of source words, plus 10",
        ),
    ] = None
    name: Annotated[
        str | None,
        option(
            "Name of the feature in --nbest whose value is log p.",
            metavar="NAME",
            heading="Output",
            shown="LSTM0, Attention0, RNN0, GrConv0 or Ensemble0",
        ),
    ] = None
    sample: Annotated[
        int | None,
        option(
            "Draw N random translations of each line, and write the distinct ones, best first, as "
            "'source ||| target ||| log p ||| times'.",
            ge=1,
            heading=_SAMPLES,
        ),
    ] = None
    temperature: Annotated[
        float, option("Draw words in proportion to p^(1/T).", gt=0, metavar="T", heading=_SAMPLES)
    ] = 1.0
    top: Annotated[
        int | None,
        option("Write only the K best samples of each line.", ge=1, metavar="K", heading=_SAMPLES),
    ] = None
    seed: Annotated[int, option(SEED, ge=0, heading=_SAMPLES)] = 1


@dataclass(frozen=True, kw_only=True)
class Augmenting(BeamSearch, heading="New phrase pairs"):
    """Settings of `augment`: the pairs added to a phrase table, and their scores."""

    num_targets: Annotated[
        int,
        option(
            "Maximum number of targets to generate per source; the table may have some of them.",
            ge=1,
            flags="--targets",
        ),
    ] = 3
    min_probability: Annotated[
        float, option("Minimum p(target | source) of a new pair.", ge=0, le=1, metavar="P")
    ] = 0.0
    min_count: Annotated[
        float | None,
        option("Use only sources that were extracted at least C times.", ge=0, metavar="C"),
    ] = None
    only_sources: Annotated[
        StrPath | None,
        option(
            "Use only these source phrases, one per line; the table may lack them.",
            flags="--sources",
        ),
    ] = None
    max_phrase_length: Annotated[int, option("Maximum number of words of a new target.", ge=1)] = 7
    reverse_model: Annotated[
        StrPath | None,
        option("A model trained with --reverse, for p(source | target).", metavar="MODEL"),
    ] = None
    lexicon: Annotated[StrPath | None, option("Moses' lex.f2e, for lex(target | source).")] = None
    reverse_lexicon: Annotated[
        StrPath | None, option("Moses' lex.e2f, for lex(source | target).")
    ] = None
    score_columns: Annotated[
        str | None,
        option(
            "The content of each column of a new pair: forward, reverse, lexicon, reverse-lexicon, "
            "or a probability, separated by commas. Required if the table lacks Moses' four "
            "columns.",
            flags="--scores",
            metavar="LIST",
        ),
    ] = None
    indicator: Annotated[
        bool,
        option(
            "Omit the column that is 1 for old pairs and e for new pairs.", flags="--no-indicator"
        ),
    ] = True


@dataclass(frozen=True, kw_only=True)
class Segmenting(Settings, heading="Method"):
    """Settings of `segment`, which cuts sentences and translates the segments."""

    swapped: Annotated[
        bool,
        option(
            "REVERSE was trained without --reverse, on the two texts in the opposite order.",
            heading="Networks and features",
        ),
    ] = False
    confidence: Annotated[
        ConfidenceName,
        option(
            "The confidence of a segment. forward: log p(target | segment). both: the mean of this "
            "and log q(segment | target). penalized: both, divided by log(words), so that segments "
            "are not too short (equation 2). penalized-released: both, divided by log(words + 2), "
            "as in the authors' program."
        ),
    ] = "penalized"
    segmentation: Annotated[
        SegmentationName,
        option(
            "best: the most confident segments. none: whole sentences. random: random segments, "
            "whose lengths have the mean and variance of the segments in --like. "
            "random-confidence: the best segments by random confidences."
        ),
    ] = "best"
    like: Annotated[
        StrPath | None, option("For --segmentation random: the file --segments of another run.")
    ] = None
    max_segment: Annotated[int, option("Maximum number of words of a segment.", ge=1)] = 20
    min_length: Annotated[int, option("Do not cut sentences with fewer words.", ge=1)] = 1
    seed: Seed = 1
    beam: Annotated[int, option("Number of hypotheses in the beam.", ge=1, heading="Search")] = 10
    candidates: Annotated[
        int | None,
        option(
            "Number of translations of a segment from which the most confident one is chosen.",
            ge=1,
            heading="Search",
            shown="--beam",
        ),
    ] = None
    unknown: Annotated[
        bool, option("Never predict <unk>.", flags="--no-unknown", heading="Search")
    ] = True

"""Settings for translating with networks only, and for adding pairs to a phrase table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from phrasescore.arguments import ConfidenceName, SegmentationName, StrPath
from phrasescore.settings.declaration import Settings, option

_SAMPLES = "Samples"

Seed = Annotated[
    int,
    option("Start of every random choice: the same seed gives the same result on a machine.", ge=0),
]


@dataclass(frozen=True, kw_only=True)
class BeamSearch(Settings, heading="Search"):
    """Settings that `generate` and `augment` share."""

    ensemble: Annotated[
        Sequence[StrPath],
        option(
            "One more network: the probabilities are averaged at each word. All should have one "
            "shortlist.",
            metavar="MODEL",
            heading="Networks and features",
        ),
    ] = ()
    beam: Annotated[
        int | None,
        option(
            "Hypotheses that are kept; the beam shrinks with each one that ends.",
            ge=1,
            shown="10, or as many as --nbest and --targets need",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Generating(BeamSearch):
    """Settings of `generate`, which finds the best translation or draws random samples."""

    normalize: Annotated[
        bool,
        option(
            "Sort complete translations by log p / (words + 1), which does not favour short ones."
        ),
    ] = False
    unknown: Annotated[bool, option("Never predict <unk>.", flags="--no-unknown")] = True
    copy_unknown: Annotated[
        bool,
        option(
            "For each <unk> write the word of the source that it is aligned with most; needs a "
            "model of the kind attention."
        ),
    ] = False
    # In pieces for a model of subwords.
    max_length: Annotated[
        int | None,
        option(
            "Maximum number of words. Translations without an end are cut, and reported.",
            ge=1,
            shown="twice the words of the source and 10",
        ),
    ] = None
    name: Annotated[
        str | None,
        option(
            "The name, in --nbest, of the feature whose value is log p.",
            metavar="NAME",
            heading="Output",
            shown="LSTM0, Attention0, RNN0, GrConv0 or Ensemble0",
        ),
    ] = None
    sample: Annotated[
        int | None,
        option(
            "Draw N random translations of each line, and write the distinct ones, best first: "
            "'source ||| target ||| log p ||| times'.",
            ge=1,
            heading=_SAMPLES,
        ),
    ] = None
    temperature: Annotated[
        float,
        option("Draw words in proportion to p^(1/T).", gt=0, metavar="T", heading=_SAMPLES),
    ] = 1.0
    top: Annotated[
        int | None,
        option("Write the K best samples of each line.", ge=1, metavar="K", heading=_SAMPLES),
    ] = None
    seed: Annotated[
        int,
        option(
            "Start of every random choice: the same seed gives the same result on a machine.",
            ge=0,
            heading=_SAMPLES,
        ),
    ] = 1


@dataclass(frozen=True, kw_only=True)
class Augmenting(BeamSearch, heading="New phrase pairs"):
    """Settings of `augment`: the pairs added to a phrase table, and their scores."""

    num_targets: Annotated[
        int,
        option(
            "Maximum number of targets that are generated per source; the table may have some.",
            ge=1,
            flags="--targets",
        ),
    ] = 3
    min_probability: Annotated[
        float,
        option("Minimum p(target | source) of a new pair.", ge=0, le=1, metavar="P"),
    ] = 0.0
    min_count: Annotated[
        float | None,
        option("Only sources that were extracted C times or more.", ge=0, metavar="C"),
    ] = None
    only_sources: Annotated[
        StrPath | None,
        option(
            "Only these source phrases, one per line; the table need not have them.",
            flags="--sources",
        ),
    ] = None
    max_phrase_length: Annotated[int, option("Maximum number of words of a new target.", ge=1)] = 7
    reverse_model: Annotated[
        StrPath | None,
        option(
            "A model trained with --reverse, for p(source | target).",
            metavar="MODEL",
        ),
    ] = None
    lexicon: Annotated[StrPath | None, option("Moses' lex.f2e, for lex(target | source).")] = None
    reverse_lexicon: Annotated[
        StrPath | None, option("Moses' lex.e2f, for lex(source | target).")
    ] = None
    score_columns: Annotated[
        str | None,
        option(
            "The content of each column of a new pair, separated by commas: forward, reverse, "
            "lexicon, reverse-lexicon, or a probability. Needed if the table lacks Moses' four "
            "columns.",
            flags="--scores",
            metavar="LIST",
        ),
    ] = None
    indicator: Annotated[
        bool,
        option(
            "Add no column that is 1 for the old pairs and e for the new ones.",
            flags="--no-indicator",
        ),
    ] = True


@dataclass(frozen=True, kw_only=True)
class Segmenting(Settings, heading="Method"):
    """Settings of `segment`, which cuts sentences and translates the segments."""

    swapped: Annotated[
        bool,
        option(
            "REVERSE was trained without --reverse, on the two texts in the other order.",
            heading="Networks and features",
        ),
    ] = False
    confidence: Annotated[
        ConfidenceName,
        option(
            "The summed value: log p(target | segment) (forward); the mean of it and log q(segment "
            "| target) (both); that divided by log(words), which keeps segments from being short "
            "(penalized: equation 2), or by log(words + 2), as in the authors' program."
        ),
    ] = "penalized"
    segmentation: Annotated[
        SegmentationName,
        option(
            "The most confident segments, or a control: sentences whole; random segments, as long "
            "on average and as varied as the segments of --like; the best by random confidences."
        ),
    ] = "best"
    like: Annotated[
        StrPath | None, option("For --segmentation random: the --segments of another run.")
    ] = None
    max_segment: Annotated[int, option("Words of the longest segment.", ge=1)] = 20
    min_length: Annotated[int, option("Leave sentences with fewer words whole.", ge=1)] = 1
    seed: Seed = 1
    beam: Annotated[
        int, option("Width of the search for translations.", ge=1, heading="Search")
    ] = 10
    candidates: Annotated[
        int | None,
        option(
            "Translations of a segment of which the one with the highest confidence is taken.",
            ge=1,
            heading="Search",
            shown="--beam",
        ),
    ] = None
    unknown: Annotated[
        bool, option("Never predict <unk>.", flags="--no-unknown", heading="Search")
    ] = True

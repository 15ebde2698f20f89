"""Settings for evaluating and selecting texts, and for reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from phrasescore.arguments import PairedTestName, SideName, StrPath, Tokenizer
from phrasescore.settings.declaration import Settings, option
from phrasescore.settings.generation import Seed

SectionName = Literal[
    "translations",
    "differences",
    "experiment",
    "tuning",
    "preferences",
    "samples",
    "scores",
    "words",
    "phrases",
    "sentences",
    "alignments",
    "parses",
    "training",
]
# The keys of a report's sections, in the order of the page.
SECTIONS: tuple[SectionName, ...] = get_args(SectionName)


@dataclass(frozen=True, kw_only=True)
class Evaluating(Settings, heading="Method"):
    """Settings of `evaluate`, which measures translations."""

    metrics: Annotated[
        Sequence[str],
        option(
            "multi-bleu is the papers' figure, of text as it is split; bleu, chrf, chrf++ and ter "
            "are sacrebleu's; phrasescore features lists the metrics of other packages.",
            flags="--metric",
            metavar="NAME",
        ),
    ] = ("multi-bleu", "bleu")
    tokenize: Annotated[
        Tokenizer,
        option("How the metric bleu splits text: none for tokenised text, 13a for plain text."),
    ] = "none"
    # Paired bootstrap (Koehn, 2004), or approximate randomization (Riezler and Maxwell, 2005).
    paired: Annotated[
        PairedTestName | None,
        option("Test each system against the first: bootstrap, or approximate randomization."),
    ] = None
    trials: Annotated[
        int | None,
        option(
            "Samples drawn for --paired.",
            ge=1,
            shown="1000 for bootstrap, 10000 for approximate",
        ),
    ] = None
    seed: Annotated[
        int, option("For --paired; the same seed gives the same p-values as in sacrebleu.", ge=1)
    ] = 12345
    allow_missing: Annotated[
        bool,
        option("Take an empty translation for a sentence without a list.", heading="Input"),
    ] = False
    by_length: Annotated[
        Sequence[SideName],
        option("Show BLEU by the number of words in the source, or in the first reference."),
    ] = ()
    width: Annotated[int, option("Number of lengths that share a group.", ge=1)] = 10
    by_unknown: Annotated[
        StrPath | None,
        option(
            "Show BLEU by the number of words that a model does not know, or that are not in a "
            "list.",
            metavar="MODEL|VOCAB",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Reporting(Settings, heading="Output"):
    """Settings of a report's content."""

    only: Annotated[
        Sequence[SectionName],
        option("Make this section, and no other one without an --only."),
    ] = ()
    sentences: Annotated[
        int | None,
        option("Number of sentences drawn for attention and soft parses.", ge=1, shown="5"),
    ] = None
    lines: Annotated[
        Sequence[int] | None,
        option("Show these lines of the source, from 1, instead of drawn ones.", ge=1),
    ] = None
    points: Annotated[int, option("Phrase pairs drawn for the plot of scores.", ge=1)] = 5000
    map_points: Annotated[
        int, option("Maximum number of words, phrases or sentences in a map.", ge=1)
    ] = 2000
    long: Annotated[
        int,
        option("Minimum number of words of a source phrase that is listed or mapped.", ge=1),
    ] = 4
    # p(target | source), or for reverse models p(source | target).
    table_score: Annotated[
        int | None,
        option(
            "Number, from 1, of the TABLE's score of the models' probability.",
            ge=1,
            shown="3; 1 for a reverse model",
        ),
    ] = None
    seed: Annotated[
        int,
        option("Start of every random choice: the same seed gives the same report.", ge=1),
    ] = 1


@dataclass(frozen=True, kw_only=True)
class Selecting(Settings, heading="Method"):
    """Settings of `select`; one of ``share``, ``lines`` and ``threshold`` is needed."""

    share: Annotated[
        float | None,
        option("Keep this part of the lines, the best ones: 0.5 for half of them.", gt=0, le=1),
    ] = None
    lines: Annotated[int | None, option("Keep this many lines, the best ones.", ge=1)] = None
    threshold: Annotated[
        float | None,
        option(
            "Keep lines with a difference below this, in nats per token; at 0 both models agree."
        ),
    ] = None
    at_random: Annotated[
        bool,
        option(
            "Keep as many lines drawn at random, as a baseline. Needs no models.", flags="--random"
        ),
    ] = False
    seed: Seed = 1
    processes: Annotated[
        int | None,
        option(
            "How many processes score at the same time.", ge=1, heading="Speed", shown="all cores"
        ),
    ] = None

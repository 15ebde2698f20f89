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
            "multi-bleu, the figure of the papers, does not split the text further; bleu, chrf, "
            "chrf++ and ter are sacrebleu's metrics; 'phrasescore features' lists the metrics of "
            "other packages.",
            flags="--metric",
            metavar="NAME",
        ),
    ] = ("multi-bleu", "bleu")
    tokenize: Annotated[
        Tokenizer,
        option("Tokenisation for the metric bleu: none for tokenised text, 13a for plain text."),
    ] = "none"
    # Paired bootstrap (Koehn, 2004), or approximate randomization (Riezler and Maxwell, 2005).
    paired: Annotated[
        PairedTestName | None,
        option("Test each system against the first one by bootstrap or approximate randomization."),
    ] = None
    trials: Annotated[
        int | None,
        option(
            "Number of samples for --paired.",
            ge=1,
            shown="1000 for bootstrap, 10000 for approximate",
        ),
    ] = None
    seed: Annotated[
        int, option("Seed for --paired; the same seed gives the same p-values as sacrebleu.", ge=1)
    ] = 12345
    allow_missing: Annotated[
        bool, option("Use an empty translation for a sentence without a list.", heading="Input")
    ] = False
    by_length: Annotated[
        Sequence[SideName],
        option("Report BLEU by the number of words in the source, or in the first reference."),
    ] = ()
    width: Annotated[int, option("Number of lengths per group, for --by-length.", ge=1)] = 10
    by_unknown: Annotated[
        StrPath | None,
        option(
            "Report BLEU by the number of source words that a model does not know, or that are not "
            "in a list of words.",
            metavar="MODEL|VOCAB",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Reporting(Settings, heading="Output"):
    """Settings of a report's content."""

    only: Annotated[Sequence[SectionName], option("Make only this section. May be repeated.")] = ()
    sentences: Annotated[
        int | None,
        option("Number of random sentences for attention and soft parses.", ge=1, shown="5"),
    ] = None
    lines: Annotated[
        Sequence[int] | None,
        option("Show these lines of the source, from 1, instead of random lines.", ge=1),
    ] = None
    points: Annotated[int, option("Number of random phrase pairs in the score plot.", ge=1)] = 5000
    map_points: Annotated[
        int, option("Maximum number of words, phrases or sentences in a map.", ge=1)
    ] = 2000
    long: Annotated[
        int, option("Minimum number of words of the source phrases in lists and maps.", ge=1)
    ] = 4
    # p(target | source), or for reverse models p(source | target).
    table_score: Annotated[
        int | None,
        option(
            "The number, from 1, of the score in TABLE that estimates the models' probability.",
            ge=1,
            shown="3; 1 for a reverse model",
        ),
    ] = None
    seed: Annotated[
        int, option("Seed of all random choices: the same seed gives the same report.", ge=1)
    ] = 1


@dataclass(frozen=True, kw_only=True)
class Selecting(Settings, heading="Method"):
    """Settings of `select`; one of ``share``, ``lines`` and ``threshold`` is required."""

    share: Annotated[
        float | None,
        option("Keep this share of the lines, the best ones; 0.5 is half of them.", gt=0, le=1),
    ] = None
    lines: Annotated[int | None, option("Keep this many lines, the best ones.", ge=1)] = None
    threshold: Annotated[
        float | None,
        option(
            "Keep lines whose difference is below this, in nats per token; at 0, both models agree."
        ),
    ] = None
    at_random: Annotated[
        bool,
        option(
            "Keep the same number of random lines, as a baseline; no models are needed.",
            flags="--random",
        ),
    ] = False
    seed: Seed = 1
    processes: Annotated[
        int | None,
        option("Number of processes that score.", ge=1, heading="Speed", shown="all cores"),
    ] = None

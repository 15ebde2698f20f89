"""Settings for evaluating and selecting texts, and for reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from msgspec import Meta

from phrasescore.arguments import (
    AtLeastOne,
    MetricName,
    PairedTestName,
    Positive,
    SideName,
    StrPath,
    Tokenizer,
)
from phrasescore.settings.declaration import Settings, option, optional, switch

SectionName = Literal[
    "results",
    "differences",
    "groups",
    "preferences",
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
class Evaluating(Settings, heading="Metrics and tests"):
    """Settings of `evaluate`, which measures translations."""

    metrics: Sequence[MetricName] = option(
        ("bleu", "chrf"),
        "The metric. bleu, chrf, chrf++ and ter are sacrebleu's; multi-bleu is BLEU as the papers "
        "print it, of words separated by spaces; word_accuracy is 1 minus the word error rate; cer "
        "is the character error rate.",
        flags="--metric",
        metavar="NAME",
    )
    commands: Sequence[str] = option(
        (),
        "A program as a metric: it reads lines with a source, a hypothesis and the references, "
        "separated by tabs, and writes a number for each. The score of a text is the mean.",
        flags="--command",
        metavar="COMMAND",
    )
    names: Sequence[str] = option(
        (),
        "The name of a program in the output; repeat it for each --command.",
        flags="--name",
        metavar="NAME",
        shown="Program0 and so on",
    )
    answer_timeout: Positive = option(
        600.0, "Seconds to wait for the next answer of a program.", metavar="SECONDS"
    )
    tokenize: Tokenizer = option(
        "none",
        "Tokenisation for the metric bleu: none for tokenised text, 13a for plain text; flores200 "
        "(spBLEU, for any language) downloads a model once.",
    )
    # Paired bootstrap (Koehn, 2004), or approximate randomization (Riezler and Maxwell, 2005).
    paired: PairedTestName | None = optional(
        "Test each system against the first one by bootstrap or approximate randomization."
    )
    allow_missing: bool = switch(
        "Use an empty translation for sentences without an n-best list.", heading="Input"
    )
    by_length: Sequence[SideName] = option(
        (), "Report BLEU by the number of words in the source, or in the first reference."
    )
    by_unknown: StrPath | None = optional(
        "Report BLEU by the number of source words that are unknown to a model, or missing from a "
        "word list.",
        metavar="MODEL|VOCAB",
    )


@dataclass(frozen=True, kw_only=True)
class Selecting(Settings, heading="Selection"):
    """Settings of `select`, which requires one of ``share``, ``lines`` and ``threshold``."""

    share: Annotated[float, Meta(gt=0, le=1)] | None = optional(
        "Keep this share of the lines, best first; 0.5 keeps half of them."
    )
    lines: AtLeastOne | None = optional("Keep this many lines, best first.")
    threshold: float | None = optional(
        "Keep lines with a cross-entropy difference below this, in nats per token; it is 0 where "
        "both models agree."
    )

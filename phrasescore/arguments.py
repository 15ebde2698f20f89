"""Argument types that several functions share, and checks for their values."""

import os
import re
from typing import Annotated, Literal, get_args

from msgspec import Meta

from phrasescore.errors import ArgumentError

StrPath = str | os.PathLike[str]
AtLeastOne = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0.0)]
Positive = Annotated[float, Meta(gt=0.0)]

PrecisionName = Literal["float32", "tf32", "bfloat16", "int8"]
PRECISIONS: tuple[PrecisionName, ...] = get_args(PrecisionName)
MetricName = Literal["multi-bleu", "bleu", "chrf", "chrf++", "ter", "word_accuracy", "cer"]
METRICS: tuple[MetricName, ...] = get_args(MetricName)
TableMetric = Literal["bleu", "word_accuracy"]  # of an experiment
METRIC_TITLES: dict[TableMetric, str] = {"bleu": "BLEU", "word_accuracy": "Word accuracy"}
PairedTestName = Literal["approximate", "bootstrap"]
ReportFormat = Literal["text", "json"]
SideName = Literal["source", "reference"]
# sacrebleu's tokenizers; the model of flores200 is downloaded.
Tokenizer = Literal["none", "13a", "intl", "char", "zh", "flores200"]
# The keys of phrasescore.generation.segmentation.CONFIDENCES, whose import takes seconds.
ConfidenceName = Literal["forward", "both", "penalized", "penalized-released"]
SegmentationName = Literal["best", "none", "random", "random-confidence"]


def flag(name: str) -> str:
    """Return a parameter's name for messages: its command-line option.

    >>> flag("allow_missing")
    '--allow-missing'
    """
    return f"--{name.replace('_', '-')}"


def language_code(text: str) -> str | None:
    """Return the code of a language, such as ``en`` for ``EN`` or ``en-GB``; None if it is none."""
    found = re.fullmatch("([a-z]{2,3})([-_][a-z0-9]+)*", text.lower())
    return found[1] if found else None


def checked_language(option: str, text: str) -> str:
    """Return the code of a language that an option has; see `language_code`."""
    code = language_code(text)
    if code is None:
        raise ArgumentError(f"{option}: expected the code of a language, such as en, got {text!r}")
    return code


def check_sequences(**values: object) -> None:
    """Raise an ArgumentError for the first value that is a single string or path."""
    for name, value in values.items():
        if isinstance(value, str | os.PathLike):
            raise ArgumentError(f"{name}: expected a sequence, got the string {str(value)!r}")

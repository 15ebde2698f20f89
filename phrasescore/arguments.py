"""Argument types that several functions share, and checks for their values."""

import os
import re
from collections.abc import Iterable, Sequence
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


def check_choice(choices: Iterable[str], /, **values: str | Sequence[str] | None) -> None:
    """Raise an ArgumentError for the first value, or sequence item, that is not a valid choice.

    None is accepted.

    >>> check_choice(("text", "json"), format="xml")
    Traceback (most recent call last):
    ...
    phrasescore.errors.ArgumentError: --format: expected one of text, json, got 'xml'
    """
    known = list(choices)
    for name, argument in values.items():
        for value in (argument,) if isinstance(argument, str) else argument or ():
            if value not in known:
                problem = f"{flag(name)}: expected one of {', '.join(known)}, got {value!r}"
                raise ArgumentError(problem)


def check_at_least(least: float, /, **values: float | None) -> None:
    """Raise an ArgumentError for the first value that is NaN or below ``least``; None is accepted.

    >>> check_at_least(1, beam=5, threads=0)
    Traceback (most recent call last):
    ...
    phrasescore.errors.ArgumentError: --threads: expected at least 1, got 0
    """
    for name, value in values.items():
        if value is not None and not value >= least:
            raise ArgumentError(f"{flag(name)}: expected at least {least:g}, got {value!r}")


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

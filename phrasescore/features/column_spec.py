"""The columns that a table or an n-best list gets, as a user asks for them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from phrasescore.errors import ArgumentError
from phrasescore.features import NOT_OF_PHRASES, OF_SHORTLISTS

ColumnKind = Literal["model", "feature", "lm", "lexicon", "reverse_lexicon"]

# How names of new features in n-best lists begin; a number from 0 follows, as in Moses' own names.
# Of networks, by the kind of the model.
NETWORK_NAMES = {
    "attention": "Attention",
    "cslm": "CSLM",
    "encoder-decoder": "RNN",
    "grconv": "GrConv",
    "lstm": "LSTM",
}
# Of scores that come from a file, by the kind of the column.
FILE_NAMES = {
    "lm": "KenLM",
    "lexicon": "Lexicon",
    "reverse_lexicon": "ReverseLexicon",
}
ENSEMBLE_NAME = "Ensemble"
# How the name of a score that is divided by length ends.
NORMALIZED = "Norm"


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A column that is wanted: of a network, of a feature, or of a file's scores."""

    kind: ColumnKind
    # A model's folder, a feature's name, or a file.
    value: str
    # Of a feature that depends on shortlists: the number of the one model that counts, from 1.
    model: int | None = None


def column_specs(columns: Iterable[ColumnSpec | str]) -> list[ColumnSpec]:
    """Return columns as specifications; a string among them is a model's folder.

    :raises ArgumentError: if there is one string in place of a sequence.
    """
    if isinstance(columns, str):
        raise ArgumentError(f"`columns`: expected a sequence, got the string {columns!r}")
    return [
        ColumnSpec("model", column) if isinstance(column, str) else column for column in columns
    ]


def check_columns(wanted: Sequence[ColumnSpec], *, of_phrases: bool) -> None:
    """Check what is asked for, before a file is read.

    :param of_phrases: whether the columns are a phrase table's.
    :raises ArgumentError: if there is nothing, a model is missing, or a feature says nothing of
        phrases.
    """
    models = sum(column.kind == "model" for column in wanted)
    if not wanted:
        raise ArgumentError("nothing to add: give a model, or another column")
    for column in wanted:
        if column.kind != "feature":
            continue
        if column.value in OF_SHORTLISTS and not models:
            problem = "at least one model is needed: it brings a shortlist"
            raise ArgumentError(f"feature {column.value}: {problem}")
        if column.model is not None and column.model > models:
            problem = f"there are {models} models" if models > 1 else "there is one model"
            raise ArgumentError(f"feature {column.value}@{column.model}: {problem}")
        if of_phrases and column.value in NOT_OF_PHRASES:
            reason = NOT_OF_PHRASES[column.value]
            raise ArgumentError(f"feature {column.value} is for rescore alone: {reason}")


def rescore_options(
    columns: Sequence[ColumnSpec], backoff_lm: str | None = None, *, unnormalized: bool = False
) -> list[str]:
    """Return the options of ``phrasescore rescore`` that add columns; models come first.

    >>> rescore_options([ColumnSpec("feature", "wp", 1), ColumnSpec("model", "rnn")])
    ['--model', 'rnn', '--feature', 'wp@1']
    """
    options = []
    for column in sorted(columns, key=lambda column: column.kind != "model"):
        place = "" if column.model is None else f"@{column.model}"
        options += [f"--{column.kind.replace('_', '-')}", f"{column.value}{place}"]
    options += [] if backoff_lm is None else ["--backoff-lm", backoff_lm]
    return [*options, "--unnormalized"] if unnormalized else options


def column_name(kind: str, value: str) -> str:
    """Return how the name of a column that is not a network's begins.

    :param kind: as of :class:`ColumnSpec`.
    :param value: the feature's name; a file's does not matter.

    >>> column_name("feature", "length_ratio")
    'LengthRatio'
    """
    return FILE_NAMES.get(kind) or value.title().replace("_", "")

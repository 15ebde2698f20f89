"""Features compute a value for each pair in a block; columns are the features a user requests.

A feature is a subclass of `Feature` in a file in this folder, with a line in :data:`FEATURES`.
Other packages provide features as classes with a method ``values(pairs)``, found by their entry
points: :mod:`phrasescore.features.packages`.
"""

import functools
import logging
import os
import pkgutil
import shlex
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from phrasescore.arguments import StrPath, check_sequences
from phrasescore.errors import ArgumentError
from phrasescore.foreign import ForeignText
from phrasescore.records import PhraseBlock, Tally
from phrasescore.settings.kinds import get_kind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from phrasescore.settings.config import Config

_logger = logging.getLogger(__name__)

BLOCK_SIZE = {"cpu": 16384, "cuda": 65536}  # pairs that one thread scores as a whole


@dataclass(frozen=True, slots=True)
class CountTally(Tally):
    """A number and a description of what it counts."""

    name: str
    total: int

    def __str__(self) -> str:
        return f"{self.total:,} {self.name}"


class BlockScores(NamedTuple):
    """The values for the pairs in a block."""

    # (columns, pairs): natural logarithms, or counts where the feature says so. A phrase table
    # holds exp() of either.
    values: "NDArray[np.float64]"
    tally: Tally
    # For each column and pair, log p of each predicted word in the order of the text, and then of
    # ``</s>``; None unless requested.
    words: "list[list[NDArray[np.float64]]] | None" = None


class Feature(ABC):
    """Computes the values for every pair in a block; several threads may score at the same time."""

    # For each column, everything that its values depend on besides the pairs: equal fingerprints
    # mean equal values.
    fingerprints: tuple[str, ...] = ("",)
    # The known source words and target words; None for a side that the feature does not use.
    known_words: "tuple[Container[str] | None, Container[str] | None]" = (None, None)
    # For each column, the highest value that a cache may hold; None if no cache is used.
    highest: tuple[float, ...] | None = None
    # Number of pairs from n-best lists or parallel text that are scored together, enough to fill a
    # processor or a GPU.
    group_size: "dict[str, int]" = {"cpu": 1024, "cuda": 1024}  # noqa: RUF012

    def stop(self) -> None:  # noqa: B027
        """End work in progress, because its result is not needed."""

    def prepare(self) -> None:  # noqa: B027
        """Load the data that the first block needs, before several threads or processes need it."""

    def computing(self) -> AbstractContextManager[None]:
        """Return a context manager that is active while this process computes."""
        return nullcontext()

    def cache_keys(self, block: PhraseBlock) -> list[list[bytes]]:
        """Return the cache keys by column and pair, for a feature that uses a cache."""
        raise NotImplementedError

    @abstractmethod
    def score(self, block: PhraseBlock) -> BlockScores:
        """Return the values for the pairs in a block, which may be empty."""


# The class of each feature; imported on request, because networks import torch.
FEATURES = {
    "ctranslate2": "phrasescore.features.foreign:ForeignScore",
    "language_model": "phrasescore.features.language_model:LanguageModelScore",
    "length_ratio": "phrasescore.features.word_counts:LengthRatio",
    "lexicon": "phrasescore.features.lexicon:LexicalScore",
    "neural": "phrasescore.features.neural:NeuralScore",
    "number_mismatch": "phrasescore.features.word_counts:NumberMismatch",
    "program": "phrasescore.features.program:ProgramScore",
    "punctuation_mismatch": "phrasescore.features.word_counts:PunctuationMismatch",
    "source_unknown_words": "phrasescore.features.word_counts:SourceUnknownWords",
    "target_length": "phrasescore.features.word_counts:TargetLength",
    "target_unknown_words": "phrasescore.features.word_counts:UnknownWords",
    "unknown_words": "phrasescore.features.word_counts:UnknownWords",
}

# Features with their own options; all others are selected by --feature.
FROM_FILES = {"ctranslate2", "language_model", "lexicon", "neural", "program"}
FEATURE_NAMES = sorted(FEATURES.keys() - FROM_FILES)

# Features made by ``from_checkpoints(checkpoints)``; every other --feature takes no argument.
OF_SHORTLISTS = {"source_unknown_words", "target_unknown_words", "unknown_words"}

# Features that are useless as a column of a phrase table, and the reason.
NOT_OF_PHRASES = {
    "length_ratio": "the ratios of phrases do not add up to a sentence's ratio",
    "target_length": "Moses already has it: WordPenalty is minus the number of words",
}


def load_feature(name: str) -> Any:
    """Return the class of a feature in :data:`FEATURES`, or what makes another package's one."""
    if name in FEATURES:
        return pkgutil.resolve_name(FEATURES[name])
    from phrasescore.features.packages import PackageFeature, find_class

    found = find_class(name)
    if found is None:
        raise _unknown_feature(name)
    return functools.partial(PackageFeature, found)


def feature_packages(names: Iterable[str]) -> list[str]:
    """Return the package, version and arguments of the named features from other packages."""
    from phrasescore.features.packages import find_class

    return [found.fingerprint for name in names if (found := find_class(name)) is not None]


def _unknown_feature(name: str) -> ArgumentError:
    from phrasescore.features.packages import find_classes

    others = (each.name for each in find_classes() if not each.problem)
    known = ", ".join([*FEATURE_NAMES, *others])
    return ArgumentError(f"feature {name!r}: expected one of {known}")


def _not_of_phrases(name: str) -> str | None:
    """Return why a feature cannot be a column of a phrase table, or None if it can."""
    from phrasescore.features.packages import find_class

    found = find_class(name)
    if name in FEATURE_NAMES:
        return NOT_OF_PHRASES.get(name)
    if found is None:
        raise _unknown_feature(name)
    reason: str | None = getattr(found.load(), "not_of_phrases", None)
    return reason


ColumnKind = Literal[
    "model",
    "feature",
    "lm",
    "lexicon",
    "reverse_lexicon",
    "scores",
    "ctranslate2",
    "scores_command",
]

# The names of features from files in n-best lists, by kind of column. A number from 0 is appended,
# as in Moses' own names. See `network_name` for networks.
FILE_NAMES = {
    "ctranslate2": "CT2",
    "lm": "KenLM",
    "lexicon": "Lexicon",
    "reverse_lexicon": "ReverseLexicon",
    "scores_command": "Program",
}
ENSEMBLE_NAME = "Ensemble"
NORMALIZED = "Norm"  # the suffix for a score that is divided by length


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A column of a phrase table or n-best list, from a network, a feature or a file."""

    kind: ColumnKind
    # A model's folder, a feature's name and arguments, a file, or a program's command.
    value: str
    model: int | None = None  # the 1-based number of the model whose shortlist a feature uses
    name: str | None = None  # for scores from a file: their name in n-best lists
    # How Moses' words are converted to pieces for a CTranslate2 model; None for the default.
    foreign: ForeignText | None = None


def column_specs(columns: Iterable[ColumnSpec | StrPath]) -> list[ColumnSpec]:
    """Return columns as specifications; a path stands for the model in this folder."""
    check_sequences(columns=columns)
    return [
        column if isinstance(column, ColumnSpec) else ColumnSpec("model", os.fspath(column))
        for column in columns
    ]


def column_files(columns: Iterable[ColumnSpec]) -> list[str]:
    """Return the files to read for the columns, except model folders."""
    columns = list(columns)
    texts = [column.foreign for column in columns if column.foreign is not None]
    spm = [path for text in texts for path in (text.source_spm, text.target_spm) if path]
    folders = ("model", "ctranslate2")
    return spm + [
        path for each in columns if each.kind not in folders for path in column_inputs(each)
    ]


def column_inputs(column: ColumnSpec) -> list[str]:
    """Return the files and folders that a column's values depend on.

    They include files among the words of a program's command, and among a plug-in's arguments.
    """
    values = [column.value]
    if column.kind == "scores_command":
        values = command_words(column.value)
    elif column.kind == "feature":
        from phrasescore.features.packages import parse_arguments

        values = list(parse_arguments(column.value)[1].values())
    else:
        return values
    return [value for value in values if os.path.isfile(value)]


def command_words(command: str) -> list[str]:
    """Split a command into words as a shell does; no shell runs it."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ArgumentError(f"--scores-command {command!r}: {error}") from error
    if not words:
        raise ArgumentError(f"--scores-command: expected a program, got {command!r}")
    return words


def check_columns(wanted: Sequence[ColumnSpec], *, of_phrases: bool) -> None:
    """Check the columns before a file is read.

    :param of_phrases: whether the columns are added to a phrase table.
    :raises ArgumentError: if there is no column, or a column that cannot be added.
    """
    models = sum(column.kind == "model" for column in wanted)
    if not wanted:
        raise ArgumentError("nothing to add: give a model, or another column")
    for column in wanted:
        if column.kind in ("ctranslate2", "scores_command") and of_phrases:
            scorer = "a CTranslate2 model" if column.kind == "ctranslate2" else "a program"
            raise ArgumentError(f"{scorer} scores sentences: use it for n-best lists")
        if column.kind == "scores" and column.name is None and not of_phrases:
            raise ArgumentError(f"scores {column.value}: a name is required for n-best lists")
        if column.kind != "feature":
            continue
        reason = _not_of_phrases(column.value)
        if column.model is not None and column.value not in OF_SHORTLISTS:
            raise ArgumentError(f"feature {column.value} does not depend on a model: remove '@'")
        if column.value in OF_SHORTLISTS and not models:
            problem = f"feature {column.value} requires at least one model, whose shortlist it uses"
            raise ArgumentError(problem)
        if column.model is not None and column.model > models:
            problem = f"there are {models} models" if models > 1 else "there is one model"
            raise ArgumentError(f"feature {column.value}@{column.model}: {problem}")
        if of_phrases and reason is not None:
            raise ArgumentError(f"feature {column.value} is only for rescore: {reason}")


def rescore_options(
    columns: Sequence[ColumnSpec], backoff_lm: str | None = None, *, unnormalized: bool = False
) -> list[str]:
    """Return the options with which ``phrasescore rescore`` adds columns; models come first.

    >>> rescore_options([ColumnSpec("feature", "wp", 1), ColumnSpec("model", "rnn")])
    ['--model', 'rnn', '--feature', 'wp@1']
    """
    options = []
    texts = [column.foreign for column in columns if column.foreign is not None]
    for column in sorted(columns, key=lambda column: column.kind != "model"):
        place = "" if column.model is None else f"@{column.model}"
        options += [f"--{column.kind.replace('_', '-')}", f"{column.value}{place}"]
    options += [word for text in texts[:1] for word in text.options()]
    options += [] if backoff_lm is None else ["--backoff-lm", backoff_lm]
    return [*options, "--unnormalized"] if unnormalized else options


def network_name(kind: str, *, reverse: bool, right_to_left: bool) -> str:
    """Return the name of a network's feature, without its number.

    >>> network_name("lstm", reverse=False, right_to_left=True)
    'RightToLeftLSTM'
    """
    return "Reverse" * reverse + "RightToLeft" * right_to_left + get_kind(kind).feature


def column_name(kind: str, value: str) -> str:
    """Return the name of a column that no network computes, without its number.

    >>> column_name("feature", "length_ratio")
    'LengthRatio'
    """
    return FILE_NAMES.get(kind) or value.partition(":")[0].title().replace("_", "")


def number_names(prefixes: Iterable[str]) -> list[str]:
    """Return each prefix with a number from 0 that distinguishes equal prefixes, as in Moses.

    >>> number_names(["LSTM", "CSLM", "LSTM"])
    ['LSTM0', 'CSLM0', 'LSTM1']
    """
    given = list(prefixes)
    return [f"{prefix}{given[:place].count(prefix)}" for place, prefix in enumerate(given)]


def check_feed_forward(
    configs: "Sequence[Config]", backoff_lm: str | None, *, unnormalized: bool
) -> None:
    """Check the arguments for models of the kinds cslm and joint, before the models are loaded."""
    if backoff_lm is not None and unnormalized:
        raise ArgumentError("--backoff-lm cannot be used with --unnormalized")
    models = [config for config in configs if config.network.is_feed_forward]
    if backoff_lm is not None and all(config.network.reads_source for config in models):
        raise ArgumentError("--backoff-lm requires a model of the kind cslm")
    if unnormalized and not models:
        raise ArgumentError("--unnormalized requires a model of the kind cslm or joint")
    for config in models if unnormalized else ():
        if not config.model.self_normalization:
            _logger.warning(
                "unnormalized scores: a %s was trained without self_normalization: its scores "
                "without log Z mean little",
                config.kind,
            )

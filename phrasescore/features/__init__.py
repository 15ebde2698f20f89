"""Features give each pair of a block a number; columns are the features that a user asks for.

A feature is a subclass of `Feature`, one file here, and a line in :data:`FEATURES`. Other packages
bring features as classes with ``values(pairs)``, found by their entry points:
:mod:`phrasescore.features.plugin_feature`.
"""

import functools
import logging
import os
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from phrasescore.arguments import StrPath, check_sequences
from phrasescore.errors import ArgumentError
from phrasescore.foreign import ForeignText
from phrasescore.plugins import find_plugin, find_plugins
from phrasescore.records import PhraseBlock, Tally
from phrasescore.settings.kinds import get_kind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from phrasescore.settings.config import Config

_logger = logging.getLogger(__name__)

# Pairs of a block, which one thread scores as a whole.
BLOCK_SIZE = {"cpu": 16384, "cuda": 65536}


@dataclass(frozen=True, slots=True)
class CountTally(Tally):
    """A number and the name of what it counts."""

    name: str
    total: int

    def __str__(self) -> str:
        return f"{self.total:,} {self.name}"


class BlockScores(NamedTuple):
    """The values of a block's pairs."""

    # (columns, pairs): natural logarithms, or counts where the feature says so. A phrase table
    # holds exp() of either.
    values: "NDArray[np.float64]"
    tally: Tally
    # For each column and pair, log p of each predicted word in the order of the text, ``</s>``
    # last; None unless requested.
    words: "list[list[NDArray[np.float64]]] | None" = None


class Feature(ABC):
    """Gives every pair of a block its values, one per column.

    A value depends only on its pair. Several threads may score blocks at the same time.
    """

    # For each column, everything that its values depend on besides the pairs: equal fingerprints
    # mean equal values.
    fingerprints: tuple[str, ...] = ("",)
    # The known source words and target words; None for a side that the feature does not use.
    known_words: "tuple[Container[str] | None, Container[str] | None]" = (None, None)
    # For each column, the highest value that a cache may hold; None if no cache is used.
    highest: tuple[float, ...] | None = None
    # Pairs of n-best lists or parallel text that are scored together to fill a processor or a GPU.
    group_size: "dict[str, int]" = {"cpu": 1024, "cuda": 1024}  # noqa: RUF012

    def prepare(self) -> None:  # noqa: B027
        """Load the data that the first block needs, before several threads or processes need it."""

    def computing(self) -> AbstractContextManager[None]:
        """Return the context in which this process computes."""
        return nullcontext()

    def cache_keys(self, block: PhraseBlock) -> list[list[bytes]]:
        """Return the keys of the values by column and pair, for a feature that uses a cache."""
        raise NotImplementedError

    @abstractmethod
    def score(self, block: PhraseBlock) -> BlockScores:
        """Return the values of the pairs of a block, which may be empty."""


# The class of each feature; imported on request, because networks import torch.
FEATURES = {
    "ctranslate2": "phrasescore.features.foreign:ForeignScore",
    "language_model": "phrasescore.features.language_model:LanguageModelScore",
    "length_ratio": "phrasescore.features.word_counts:LengthRatio",
    "lexicon": "phrasescore.features.lexicon:LexicalScore",
    "neural": "phrasescore.features.neural:NeuralScore",
    "number_mismatch": "phrasescore.features.word_counts:NumberMismatch",
    "punctuation_mismatch": "phrasescore.features.word_counts:PunctuationMismatch",
    "source_unknown_words": "phrasescore.features.word_counts:SourceUnknownWords",
    "target_length": "phrasescore.features.word_counts:TargetLength",
    "target_unknown_words": "phrasescore.features.word_counts:UnknownWords",
    "unknown_words": "phrasescore.features.word_counts:UnknownWords",
}

# Features with their own options, which read a file; all others are selected by --feature.
FROM_FILES = {"ctranslate2", "language_model", "lexicon", "neural"}
FEATURE_NAMES = sorted(FEATURES.keys() - FROM_FILES)

# Features made by ``from_checkpoints(checkpoints)``; every other --feature takes no argument.
OF_SHORTLISTS = {"source_unknown_words", "target_unknown_words", "unknown_words"}

# Features that are of no use as a column of a phrase table, and the reason.
NOT_OF_PHRASES = {
    "length_ratio": "the ratios of phrases do not add up to a sentence's ratio",
    "target_length": "Moses has it: WordPenalty is minus the number of words",
}


def load_feature(name: str) -> Any:
    """Return the class of a feature in :data:`FEATURES`, or the factory of a plug-in's feature."""
    if name in FEATURES:
        return pkgutil.resolve_name(FEATURES[name])
    from phrasescore.features.plugin_feature import PluginFeature

    plugin = find_plugin("feature", name, FEATURES)
    if plugin is None:
        raise _unknown_feature(name)
    return functools.partial(PluginFeature, plugin)


def feature_packages(names: Iterable[str]) -> list[str]:
    """Return the packages, with their versions, that the plug-ins among some features are from."""
    plugins = (find_plugin("feature", name, FEATURES) for name in names)
    return [plugin.package for plugin in plugins if plugin is not None]


def _unknown_feature(name: str) -> ArgumentError:
    others = (plugin.name for plugin in find_plugins("feature", FEATURES) if not plugin.problem)
    known = ", ".join([*FEATURE_NAMES, *others])
    return ArgumentError(f"feature {name!r}: expected one of {known}")


def _not_of_phrases(name: str) -> str | None:
    """Return why a feature cannot be a column of a phrase table, or None if it can."""
    plugin = find_plugin("feature", name, FEATURES)
    if name in FEATURE_NAMES:
        return NOT_OF_PHRASES.get(name)
    if plugin is None:
        raise _unknown_feature(name)
    reason: str | None = getattr(plugin.load(), "not_of_phrases", None)
    return reason


ColumnKind = Literal[
    "model", "feature", "lm", "lexicon", "reverse_lexicon", "scores", "ctranslate2"
]

# The names in n-best lists of features from files, by kind of column, without the number from 0
# that follows as in Moses' own names. See `network_name` for networks.
FILE_NAMES = {
    "ctranslate2": "CT2",
    "lm": "KenLM",
    "lexicon": "Lexicon",
    "reverse_lexicon": "ReverseLexicon",
}
ENSEMBLE_NAME = "Ensemble"
# The suffix of a score that is divided by length.
NORMALIZED = "Norm"


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A column of a phrase table or n-best list, from a network, a feature, or a file."""

    kind: ColumnKind
    # A model's folder, a feature's name, or a file.
    value: str
    # The number from 1 of the model that a feature takes its shortlist from.
    model: int | None = None
    # The name in n-best lists of scores from a file, which has one number per line.
    name: str | None = None
    # How Moses' words become the pieces of a CTranslate2 model; None for the default.
    foreign: ForeignText | None = None


def column_specs(columns: Iterable[ColumnSpec | StrPath]) -> list[ColumnSpec]:
    """Return columns as specifications; a path among them is a model's folder."""
    check_sequences(columns=columns)
    return [
        column if isinstance(column, ColumnSpec) else ColumnSpec("model", os.fspath(column))
        for column in columns
    ]


def column_files(columns: Iterable[ColumnSpec]) -> list[str]:
    """Return the files that columns are read from, except model folders."""
    columns = list(columns)
    texts = [column.foreign for column in columns if column.foreign is not None]
    spm = [path for text in texts for path in (text.source_spm, text.target_spm) if path]
    folders = ("model", "feature", "ctranslate2")
    return spm + [column.value for column in columns if column.kind not in folders]


def check_columns(wanted: Sequence[ColumnSpec], *, of_phrases: bool) -> None:
    """Check the columns before a file is read.

    :param of_phrases: whether the columns are a phrase table's.
    :raises ArgumentError: if there is no column, or a column that cannot be added.
    """
    models = sum(column.kind == "model" for column in wanted)
    if not wanted:
        raise ArgumentError("nothing to add: give a model, or another column")
    for column in wanted:
        if column.kind == "ctranslate2" and of_phrases:
            raise ArgumentError("a CTranslate2 model scores sentences: use it for n-best lists")
        if column.kind == "scores" and column.name is None and not of_phrases:
            raise ArgumentError(f"scores {column.value}: a feature of n-best lists needs a name")
        if column.kind != "feature":
            continue
        reason = _not_of_phrases(column.value)
        if column.model is not None and column.value not in OF_SHORTLISTS:
            raise ArgumentError(f"feature {column.value} does not depend on a model: no '@'")
        if column.value in OF_SHORTLISTS and not models:
            raise ArgumentError(
                f"feature {column.value}: at least one model is needed: it brings a shortlist"
            )
        if column.model is not None and column.model > models:
            problem = f"there are {models} models" if models > 1 else "there is one model"
            raise ArgumentError(f"feature {column.value}@{column.model}: {problem}")
        if of_phrases and reason is not None:
            raise ArgumentError(f"feature {column.value} is only for rescore: {reason}")


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


def network_name(kind: str, *, reverse: bool, right_to_left: bool) -> str:
    """Return the prefix of the name of a network's feature.

    >>> network_name("lstm", reverse=False, right_to_left=True)
    'RightToLeftLSTM'
    """
    return "Reverse" * reverse + "RightToLeft" * right_to_left + get_kind(kind).feature


def column_name(kind: str, value: str) -> str:
    """Return the prefix of the name of a column that is not a network's.


    >>> column_name("feature", "length_ratio")
    'LengthRatio'
    """
    return FILE_NAMES.get(kind) or value.title().replace("_", "")


def check_feed_forward(
    configs: "Sequence[Config]", backoff_lm: str | None, *, unnormalized: bool
) -> None:
    """Check the arguments for models of the kinds cslm and joint, before the models are loaded."""
    if backoff_lm is not None and unnormalized:
        raise ArgumentError("--backoff-lm divides probabilities: do not use --unnormalized with it")
    models = [config for config in configs if config.network.is_feed_forward]
    if backoff_lm is not None and all(config.network.reads_source for config in models):
        raise ArgumentError("--backoff-lm is for a model of the kind cslm, and there is none")
    if unnormalized and not models:
        raise ArgumentError(
            "--unnormalized is for a model of the kind cslm or joint, and there is none"
        )
    for config in models if unnormalized else ():
        if not config.model.self_normalization:
            _logger.warning(
                "unnormalized scores: a %s was trained without self_normalization: its scores "
                "without log Z mean little",
                config.kind,
            )

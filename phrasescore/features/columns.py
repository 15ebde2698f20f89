"""Columns: what a user asks to score, and how the request is written.

A column is a value: a kind, its argument, its options and a name. ``--model joint`` is a column on
the command line, and ``--column 'model = "joint", unnormalized = true'`` one with an option; the
text is what stands between the braces in a TOML file. Python has `Network("joint",
unnormalized=True)`.

Each kind is a subclass of `Column` in a file of this folder, with a line in :data:`COLUMN_KINDS`.
"""

import dataclasses
import importlib
import os
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from phrasescore.arguments import StrPath, check_sequences
from phrasescore.errors import ArgumentError, ConfigError
from phrasescore.settings.declaration import Setting, Settings
from phrasescore.settings.toml_file import TomlTable, to_toml, unknown

if TYPE_CHECKING:
    from phrasescore.features.feature import Feature
    from phrasescore.features.request import ScoringRequest


class Kind(NamedTuple):
    """What the help of the command line says of a kind of column, and where its class is."""

    home: str  # imported on request, because networks import torch
    metavar: str
    help: str
    not_of_phrases: str | None = None  # why a phrase table cannot have such columns


COLUMN_KINDS = {
    "model": Kind(
        "phrasescore.features.model:Network",
        "MODEL",
        "Add the score of a trained model: log p(target | source), or log p(source | target) if it "
        "was trained with --reverse.",
    ),
    "ctranslate2": Kind(
        "phrasescore.features.foreign:CTranslate2Model",
        "FOLDER",
        "Add log p(hypothesis | source) under a translation model converted for CTranslate2.",
        "a CTranslate2 model scores sentences: use it for n-best lists",
    ),
    "command": Kind(
        "phrasescore.features.program:Command",
        "COMMAND",
        "Add the scores of a program, which reads lines with a source, a tab and a hypothesis, and "
        "writes a number for each. It must answer before it waits for more lines.",
        "a program scores sentences: use it for n-best lists",
    ),
    "feature": Kind(
        "phrasescore.features.named:NamedFeature",
        "NAME",
        "Add a feature, such as unknown_words or length_ratio, or one of another package; "
        "'phrasescore show' lists them.",
    ),
    "lm": Kind(
        "phrasescore.features.language_model:LanguageModel",
        "FILE",
        "Add log p(hypothesis) under an n-gram model: an ARPA file (also .gz) or a KenLM binary.",
        "a language model can only be used with rescore: Moses scores with it during the search if "
        "moses.ini has a line 'KENLM ...'",
    ),
    "lexicon": Kind(
        "phrasescore.features.lexicon:Lexicon",
        "FILE",
        "Add log p(target | source) under IBM Model 1, from Moses' lex.f2e.",
    ),
    "reverse_lexicon": Kind(
        "phrasescore.features.lexicon:ReverseLexicon",
        "FILE",
        "Add log p(source | target) under IBM Model 1, from Moses' lex.e2f.",
    ),
    "scores": Kind(
        "phrasescore.features.given_scores:GivenScores",
        "FILE",
        "Add the scores in this file: one number per line of the table or the lists.",
    ),
}


def load_kind(kind: str) -> type["Column"]:
    """Return the class of a kind of column."""
    module, _, name = COLUMN_KINDS[kind].home.partition(":")
    found: type[Column] = getattr(importlib.import_module(module), name)
    return found


@dataclass(frozen=True)
class Column(Settings, ABC):
    """A column of a phrase table, of n-best lists, or of the scores of a text.

    The first field of a subclass is its argument, and has the name of the kind. The other fields
    are options, whose types and limits are checked.

    :raises ArgumentError: if the value of a field has a wrong type or is out of range.
    """

    # The name in n-best lists, to which a number is appended; see `label`.
    feature: ClassVar[str] = ""
    # The fields that name files or folders.
    paths: ClassVar[tuple[str, ...]] = ()
    # Whether the device for networks computes it.
    is_on_device: ClassVar[bool] = False

    # The whole name in n-best lists; None for `label` with a number from 0.
    name: str | None = field(default=None, kw_only=True)

    @classmethod
    def kind(cls) -> str:
        """Return the name of the kind, which is the name of the field of the argument."""
        return next(each.name for each in fields(cls) if not each.kw_only)

    @classmethod
    def of(cls, argument: str, name: str | None = None) -> Self:
        """Return a column without options of its kind."""
        return cls(argument, name=name)  # type: ignore[misc]

    @property
    def argument(self) -> str:
        """The value of the first field: the name of a folder, a file or a feature, or a command."""
        argument: str = getattr(self, self.kind())
        return argument

    @property
    def label(self) -> str:
        """The name in n-best lists without a number."""
        return self.feature

    def to_toml(self) -> str:
        """Return the column as a table of TOML, without the braces around it.

        >>> from phrasescore.features.program import Command
        >>> Command("python qe.py", timeout=60).to_toml()
        'command = "python qe.py", timeout = 60.0'
        """
        return ", ".join(f"{key} = {to_toml(value)}" for key, value in self.changed().items())

    def changed(self) -> dict[str, Any]:
        """Return the argument, and the options that differ from their defaults."""
        return {self.kind(): self.argument, **super().changed()}

    def inputs(self) -> list[str]:
        """Return the files and folders on which the values depend."""
        named = (getattr(self, name) for name in self.paths)
        return [path for path in named if path is not None]

    def with_paths(self, rename: Callable[[str], str]) -> Self:
        """Return a copy with other names for the files and folders in its fields."""
        named = {name: getattr(self, name) for name in self.paths}
        return replace(self, **{name: rename(path) for name, path in named.items() if path})

    def resolved(self, table: TomlTable) -> Self:
        """Return a copy in which relative names start in the folder of a TOML file."""
        return self.with_paths(table.absolute)

    def not_of_phrases(self) -> str | None:
        """Return why the column cannot be added to a phrase table, or None if it can."""
        return COLUMN_KINDS[self.kind()].not_of_phrases

    def check(self, columns: "Sequence[Column]", *, of_phrases: bool) -> None:  # noqa: ARG002
        """Check this column among all columns; see `check_columns`."""
        if of_phrases and (reason := self.not_of_phrases()) is not None:
            raise ArgumentError(reason)
        if of_phrases and self.name is not None:
            raise self.error("name: a column of a phrase table has no name")

    def wrong(self, setting: Setting, problem: str) -> ArgumentError:
        """Return the error for the value of an option."""
        return self.error(f"{setting.name}: {problem}")

    def error(self, problem: str) -> ArgumentError:
        """Return an error about this column."""
        return ArgumentError(f"{self.kind()} {self.argument!r}: {problem}")

    @abstractmethod
    def load(self, request: "ScoringRequest", /) -> "Feature":
        """Load files and models, and return the feature that computes the values."""


def as_columns(columns: Iterable[Column | StrPath]) -> tuple[Column, ...]:
    """Return columns, in which a path stands for the model in this folder."""
    from phrasescore.features.model import Network

    check_sequences(columns=columns)
    return tuple(each if isinstance(each, Column) else Network(os.fspath(each)) for each in columns)


def read_column(table: TomlTable) -> Column:
    """Return the column in a table, whose relative names start in the folder of the file.

    :raises ConfigError: if the table has no kind, or a key that the kind lacks, or a wrong value.
    """
    try:
        return _read(table).resolved(table)
    except ArgumentError as error:
        raise table.error("", str(error)) from error


def parse_column(text: str) -> Column:
    """Return the column for the value of ``--column``; it may have braces around it.

    >>> parse_column('model = "joint", unnormalized = true')
    Network(model='joint', unnormalized=True)
    """
    title = f"--column {text!r}"
    inner = text.strip()
    try:
        values = tomllib.loads(f"column = {inner if inner.startswith('{') else f'{{{inner}}}'}")
        if values.keys() != {"column"}:
            raise ArgumentError("expected one column")
        return _read(TomlTable(title, "", values["column"]))
    except tomllib.TOMLDecodeError as error:
        problem = "expected TOML such as 'model = \"joint\", unnormalized = true'"
        raise ArgumentError(f"{title}: {problem}: {error}") from error
    except ConfigError as error:
        raise ArgumentError(str(error)) from error
    except ArgumentError as error:
        raise ArgumentError(f"{title}: {error}") from error


def _read(table: TomlTable) -> Column:
    keys = [*table.values()]
    given = [key for key in keys if key in COLUMN_KINDS]
    # An option of a kind may have the name of another kind: the model of a feature.
    kinds = [key for key in given if len(given) == 1 or {*given} <= _keys(key)]
    if len(kinds) != 1:
        for key in keys if not given else ():
            raise table.error("", unknown(f"kind of column '{key}'", key, COLUMN_KINDS))
        found = f"found {' and '.join(given) or 'none'}"
        raise table.error("", f"expected one of {', '.join(COLUMN_KINDS)}; {found}")
    return table.read(load_kind(kinds[0]))


def _keys(kind: str) -> set[str]:
    return {each.name for each in dataclasses.fields(load_kind(kind))}


def check_columns(columns: Sequence[Column], *, of_phrases: bool) -> None:
    """Check the columns before a file is read.

    :param of_phrases: whether the columns are added to a phrase table.
    :raises ArgumentError: if there is no column, or a column that cannot be added.
    """
    if not columns:
        raise ArgumentError("nothing to add: give a model, or another column")
    for column in columns:
        column.check(columns, of_phrases=of_phrases)


def input_files(columns: Iterable[Column]) -> list[str]:
    """Return the files on which the values of columns depend, except folders of models."""
    inputs = (path for column in columns for path in column.inputs())
    return [path for path in inputs if not os.path.isdir(path)]


def rename_file(word: str, rename: Callable[[str], str]) -> str:
    """Return a word, such as ``KEY=VALUE``, with another name for an absolute path in it."""
    start = word.find("=/") + 1
    return f"{word[:start]}{rename(word[start:])}" if word.startswith("/", start) else word


def number_names(prefixes: Iterable[str]) -> list[str]:
    """Return each prefix with a number from 0 that distinguishes equal prefixes, as in Moses.

    >>> number_names(["LSTM", "CSLM", "LSTM"])
    ['LSTM0', 'CSLM0', 'LSTM1']
    """
    given = list(prefixes)
    return [f"{prefix}{given[:place].count(prefix)}" for place, prefix in enumerate(given)]

"""Options that add columns to phrase tables, n-best lists and parallel text."""

import functools
from dataclasses import replace
from typing import Any

import click

from phrasescore.cli import options
from phrasescore.features import FEATURE_NAMES, ColumnKind, ColumnSpec
from phrasescore.foreign import ForeignText

_ORDER = "phrasescore.columns"
_SUBJECT: options.Subject = "Networks and features"
_files = functools.partial(options.files, subject=_SUBJECT)

# Parameters of commands, and the kind of column that each adds.
_KINDS: dict[str, ColumnKind] = {
    "models": "model",
    "features": "feature",
    "language_models": "lm",
    "lexicons": "lexicon",
    "reverse_lexicons": "reverse_lexicon",
    "line_scores": "scores",
    "named_scores": "scores",
    "foreign_models": "ctranslate2",
    "commands": "command",
}

# Check only the form of names; the library checks whether they exist.
check_features = options.matching(
    "[^@:]+(@[1-9][0-9]{0,8})?|[^@:]+:.*", "the number of a --model after '@', from 1"
)
models = _files(
    "--model models",
    "Add the score of a trained model: log p(target | source), or log p(source | target) if it was "
    "trained with --reverse.",
    "MODEL",
)
features = options.option(
    "--feature features",
    f"Add a feature: {', '.join(FEATURE_NAMES)}, or a feature of another package, which "
    "'phrasescore show' lists and which may take arguments. unknown_words counts the target "
    "words outside the shortlist of at least one model; with @N, of the N-th --model.",
    multiple=True,
    metavar="NAME[@N]|NAME:KEY=VALUE,...",
    callback=check_features,
    subject=_SUBJECT,
)
language_models = _files(
    "--lm language_models",
    "Add log p(hypothesis) under an n-gram model: an ARPA file (also .gz) or a KenLM binary.",
)
lexicons = options.together(
    _files(
        "--lexicon lexicons", "Add log p(target | source) under IBM Model 1, from Moses' lex.f2e."
    ),
    _files(
        "--reverse-lexicon reverse_lexicons",
        "Add log p(source | target) under IBM Model 1, from Moses' lex.e2f.",
    ),
)
line_scores = _files(
    "--scores line_scores",
    "Add the scores in this file: one natural logarithm per line of the table.",
)
named_scores = _files(
    "--scores named_scores",
    "Add the scores in FILE, one number per line of the lists, as the feature NAME.",
    "FILE=NAME",
    callback=options.matching(".+=.+", "FILE=NAME"),
)
# The conversion from Moses' words to a foreign model's pieces.
foreign_text = options.of(
    ForeignText, source_spm={"type": options.FILE_NAME}, target_spm={"type": options.FILE_NAME}
)
foreign_models = options.together(
    _files(
        "--ctranslate2 foreign_models",
        "Add log p(hypothesis | source) under a translation model converted for CTranslate2.",
        "FOLDER",
    ),
    foreign_text,
)
commands = options.option(
    "--command commands",
    "Add the scores of a program, which reads lines with a source, a tab and a hypothesis, and "
    "writes a number for each. It must answer before it waits for more lines.",
    multiple=True,
    metavar="COMMAND",
    subject=_SUBJECT,
)
word_scores = options.file(
    "--word-scores", "Write the log-probability of each predicted word.", subject="Output"
)


class OrderedColumns(options.Verb):
    """A command that records the order of the options that add columns."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Record the order of the options, which their values do not show."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_ORDER] = [param.name for param in order if param.name in _KINDS]
        return super().parse_args(ctx, args)


def take_columns(ctx: click.Context, given: dict[str, Any]) -> list[ColumnSpec]:
    """Remove the columns from a command's parameters; return them in command-line order."""
    values = {name: iter(given.pop(name)) for name in _KINDS if name in given}
    return [column_spec(name, next(values[name])) for name in ctx.meta[_ORDER]]


def take_foreign_columns(ctx: click.Context, given: dict[str, Any]) -> list[ColumnSpec]:
    """Return the columns as `take_columns` does, for a command that has `foreign_models`."""
    text = options.take(ForeignText, given)
    return with_foreign_text(ctx, take_columns(ctx, given), text)


def with_foreign_text(
    ctx: click.Context, columns: list[ColumnSpec], text: ForeignText
) -> list[ColumnSpec]:
    """Return the columns with the settings of `foreign_text`, which need a foreign model."""
    if all(column.kind != "ctranslate2" for column in columns):
        refuse_foreign_text(ctx)
    return [
        replace(column, foreign=text) if column.kind == "ctranslate2" else column
        for column in columns
    ]


def column_spec(param: str, value: str) -> ColumnSpec:
    """Return the column for a value of a parameter, such as ``features``."""
    if param == "named_scores":
        path, _, name = value.rpartition("=")
        return ColumnSpec("scores", path, name=name)
    has_number = param == "features" and ":" not in value
    name, _, number = value.partition("@") if has_number else (value, "", "")
    return ColumnSpec(_KINDS[param], name, int(number) if number else None)


def refuse_foreign_text(ctx: click.Context) -> None:
    """Reject the options of `foreign_text` without a foreign model."""
    allowed = ctx.params.keys() - options.names_of(ForeignText)
    options.refuse_others(ctx, allowed, "can only be used with --ctranslate2")

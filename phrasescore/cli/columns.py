"""Options that add columns to phrase tables, n-best lists and parallel text."""

from collections.abc import Collection
from typing import Any

import click

from phrasescore.cli import options
from phrasescore.features.columns import COLUMN_KINDS, Column, load_kind, parse_column

_ORDER = "phrasescore.columns"
_SUBJECT: options.Subject = "Networks and features"
# The option for columns with options, and for scores with a name.
_GENERAL, _NAMED_SCORES = "column", "named_scores"

_NAMES = (_GENERAL, _NAMED_SCORES, *COLUMN_KINDS)

named_scores = options.files(
    "--scores named_scores_columns",
    "Add the scores in FILE, one number per line of the lists, as the feature NAME.",
    "FILE=NAME",
    callback=options.matching(".+=.+", "FILE=NAME"),
    subject=_SUBJECT,
)


def kinds(names: Collection[str]) -> options.Decorator:
    """Return an option for each kind of column, and ``--column`` for all kinds."""
    lines = {name: COLUMN_KINDS[name] for name in names}
    of_kinds = [
        options.option(
            f"--{name.replace('_', '-')} {_param(name)}",
            line.help,
            type=options.FILE_NAME if line.metavar in ("MODEL", "FOLDER", "FILE") else str,
            multiple=True,
            metavar=line.metavar,
            subject=_SUBJECT,
        )
        for name, line in lines.items()
    ]
    general = options.option(
        f"--{_GENERAL} {_param(_GENERAL)}",
        "Add a column with options, as in 'model = \"joint\", unnormalized = true'. Every kind of "
        "column has the option name, its name in n-best lists.",
        multiple=True,
        metavar="COLUMN",
        subject=_SUBJECT,
    )
    return options.together(*of_kinds, general)


def _param(name: str) -> str:
    return f"{name}_columns"


of_tables = kinds([name for name, kind in COLUMN_KINDS.items() if not kind.not_of_phrases])
of_lists = kinds([name for name in COLUMN_KINDS if name != "scores"])
of_text = kinds(["model", "ctranslate2", "command", "feature", "lm"])


class OrderedColumns(options.Verb):
    """A command that records the order of the options that add columns."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Record the order of the options, which their values do not show."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        names = {_param(name): name for name in _NAMES}
        ctx.meta[_ORDER] = [names[param.name] for param in order if param.name in names]
        return super().parse_args(ctx, args)


def take_columns(ctx: click.Context, given: dict[str, Any]) -> list[Column]:
    """Remove the columns from a command's parameters; return them in command-line order."""
    names = [name for name in _NAMES if _param(name) in given]
    values = {name: iter(given.pop(_param(name))) for name in names}
    return [_column(name, next(values[name])) for name in ctx.meta[_ORDER]]


def _column(name: str, value: str) -> Column:
    if name == _GENERAL:
        return parse_column(value)
    if name == _NAMED_SCORES:
        path, _, name = value.rpartition("=")
        return load_kind("scores").of(path, name)
    return load_kind(name).of(value)

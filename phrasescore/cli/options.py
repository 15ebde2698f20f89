"""The kinds of options, and the options that several verbs share. Imports nothing heavy."""

import inspect
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import click
from click.core import ParameterSource

from phrasescore.arguments import ReportFormat
from phrasescore.cli import from_settings
from phrasescore.cli.subjects import Decorator, FileName, SubjectOption, Verb, heading
from phrasescore.features import FEATURE_NAMES, ColumnKind, ColumnSpec
from phrasescore.foreign import ForeignText

# The loggers of the packages whose messages are said.
LOGGERS = ("phrasescore", "moses_integration", "tuning")

_ORDER = "phrasescore.columns"

# The kind of column by the parameter of a command.
_KINDS: dict[str, ColumnKind] = {
    "models": "model",
    "features": "feature",
    "language_models": "lm",
    "lexicons": "lexicon",
    "reverse_lexicons": "reverse_lexicon",
    "line_scores": "scores",
    "named_scores": "scores",
    "foreign_models": "ctranslate2",
}


def option(flags: str, text: str, **settings: Any) -> Decorator:
    """Return an option that shows its default.

    :param flags: separated by spaces; the parameter's name comes last if it differs.
    """
    kind = {"cls": SubjectOption, "show_default": True}
    return click.option(*flags.split(), help=text, **{**kind, **settings})


def argument(name: str, metavar: str, **settings: Any) -> Decorator:
    """Return an argument whose value is the name of a file or a folder."""
    return click.argument(name, metavar=metavar, **{"type": FileName(), **settings})


def flag(flags: str, text: str, **settings: Any) -> Decorator:
    """Return an option without a value."""
    return option(flags, text, is_flag=True, **settings)


def off(flags: str, text: str) -> Decorator:
    """Return an option without a value; the command gets False with it, True without."""
    return flag(flags, text, callback=lambda _ctx, _param, value: not value)


def file(flags: str, text: str, metavar: str = "FILE", **settings: Any) -> Decorator:
    """Return an option whose value is the name of a file, a folder or a program."""
    return option(flags, text, metavar=metavar, **{"type": FileName(), **settings})


def files(flags: str, text: str, metavar: str = "FILE", **settings: Any) -> Decorator:
    """Return an option like a `file` that may be repeated; the command gets a tuple."""
    return file(flags, text, metavar, multiple=True, **settings)


def count(
    flags: str, text: str, *, least: int = 1, metavar: str = "N", **settings: Any
) -> Decorator:
    """Return an option whose value is a whole number."""
    return option(flags, text, type=click.IntRange(min=least), metavar=metavar, **settings)


def choice(flags: str, text: str, values: Sequence[str], **settings: Any) -> Decorator:
    """Return an option whose value is one of some words."""
    return option(flags, text, type=click.Choice(values), **settings)


def together(*options: Decorator) -> Decorator:
    """Return the decorator that adds all these options, in their order."""

    def add(command: Any) -> Any:
        for each in reversed(options):
            command = each(command)
        return command

    return add


def arguments_of(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the command's parameters that the library function has as well."""
    return {name: given[name] for name in inspect.signature(function).parameters if name in given}


def given_flags(ctx: click.Context) -> dict[str, str]:
    """Return the flags (or metavars) of what the command line has, by parameter."""
    return {
        param.name or "": next(
            (each for each in param.opts if each.startswith("--")),
            (param.metavar or "").strip("[]."),
        )
        for param in ctx.command.params
        if param.name in ctx.params
        and ctx.get_parameter_source(param.name) != ParameterSource.DEFAULT
        and ctx.params[param.name] != ()
    }


def refuse_others(ctx: click.Context, allowed: Collection[str], reason: str) -> None:
    """Refuse parameters on the command line that have no effect, for a reason.

    :param reason: such as "only with --decoder".
    """
    others = [shown for name, shown in given_flags(ctx).items() if name not in allowed]
    if others:
        raise click.UsageError(f"{', '.join(others)}: {reason}")


class OrderedColumns(Verb):
    """A command that knows in which order the options that make columns were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Record the order of the options, which their values do not show."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_ORDER] = [param.name for param in order if param.name in _KINDS]
        return super().parse_args(ctx, args)


def take_columns(ctx: click.Context, given: dict[str, Any]) -> list[ColumnSpec]:
    """Remove the columns from what a command got, and return them in the command line's order."""
    values = {name: iter(given.pop(name)) for name in _KINDS if name in given}
    return [column_spec(name, next(values[name])) for name in ctx.meta[_ORDER]]


def column_spec(param: str, value: str) -> ColumnSpec:
    """Return the column that the value of a parameter, such as ``features``, asks for."""
    if param == "named_scores":
        path, _, name = value.rpartition("=")
        return ColumnSpec("scores", path, name=name)
    name, _, number = value.partition("@") if param == "features" else (value, "", "")
    return ColumnSpec(_KINDS[param], name, int(number) if number else None)


def check_features(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Check the form of values NAME[@N]; the library checks the names."""
    for value in values:
        if re.fullmatch("[^@]+(@[1-9][0-9]{0,8})?", value) is None:
            raise click.BadParameter(
                f"expected the number of a --model after '@', from 1, got {value!r}", ctx, param
            )
    return values


def check_named_scores(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Check the form of values FILE=NAME; the library checks the names."""
    for value in values:
        if re.fullmatch(".+=.+", value) is None:
            raise click.BadParameter(f"expected FILE=NAME, got {value!r}", ctx, param)
    return values


def _set_level(_ctx: click.Context, param: click.Parameter, value: bool) -> None:
    level = logging.DEBUG if param.name == "verbose" else logging.WARNING
    for name in LOGGERS if value else ():
        logging.getLogger(name).setLevel(level)


# Columns of a table or of n-best lists: a parameter of `_KINDS` each, a tuple.
models = files(
    "--model models",
    "A trained model: adds log p(target | source), or the reverse if it was trained so.",
    "MODEL",
)
features = option(
    "--feature features",
    f"One of: {', '.join(FEATURE_NAMES)}, and those of other packages, which phrasescore features "
    "lists. unknown_words: target words outside the shortlist of at least one model, or with @N of "
    "the N-th --model.",
    multiple=True,
    metavar="NAME[@N]",
    callback=check_features,
)
language_models = files(
    "--lm language_models",
    "An n-gram model, ARPA (.gz, too) or a KenLM binary: adds log p(hypothesis).",
)
lexicons = together(
    files("--lexicon lexicons", "Moses' lex.f2e: adds log p(target | source) of IBM Model 1."),
    files(
        "--reverse-lexicon reverse_lexicons",
        "Moses' lex.e2f: adds log p(source | target) of IBM Model 1.",
    ),
)
line_scores = files(
    "--scores line_scores",
    "Scores from elsewhere, as natural logarithms: a number per line of the table.",
)
named_scores = files(
    "--scores named_scores",
    "Scores from elsewhere: a number per line of the lists, and the name of the new feature.",
    "FILE=NAME",
    callback=check_named_scores,
)
word_scores = file("--word-scores", "Write the log-probability of each predicted word.")
seed = count(
    "--seed",
    "Start of every random choice: the same seed gives the same result on a machine.",
    least=0,
    default=1,
)
output = file(
    "-o --output",
    "Where the result goes, whole or not at all; compressed where the name ends in .gz.",
    default="-",
    show_default="stdout",
)
report_format = choice(
    "--format report_format", "How the report is written.", get_args(ReportFormat), default="text"
)
# They set how much goes to stderr and are not passed to the command. Both the group and a verb have
# them: ``phrasescore -q annotate`` and ``phrasescore annotate -q`` are the same.
verbosity = together(
    heading("Messages and help"),
    flag("-v --verbose", "Say more on stderr.", expose_value=False, callback=_set_level),
    flag(
        "-q --quiet",
        "Say nothing but warnings and errors.",
        expose_value=False,
        callback=_set_level,
    ),
)


# Models that CTranslate2 has converted, and their texts

# How the words of Moses become the pieces of a foreign model.
foreign_text = from_settings.of(
    ForeignText, source_spm={"type": FileName()}, target_spm={"type": FileName()}
)
foreign_models = together(
    files(
        "--ctranslate2 foreign_models",
        "A translation model that CTranslate2 has converted: adds log p(hypothesis | source).",
        "FOLDER",
    ),
    foreign_text,
)


def take_foreign_columns(ctx: click.Context, given: dict[str, Any]) -> list[ColumnSpec]:
    """Return the columns of a command that has `foreign_models`; see `take_columns`.

    :raises click.UsageError: if there are options of a foreign model, but no model.
    """
    text = from_settings.take(ForeignText, given)
    columns = take_columns(ctx, given)
    if all(column.kind != "ctranslate2" for column in columns):
        refuse_foreign_text(ctx)
    return [
        replace(column, foreign=text) if column.kind == "ctranslate2" else column
        for column in columns
    ]


def refuse_foreign_text(ctx: click.Context, *more: str) -> None:
    """Refuse the options of `foreign_text`, and more, if no foreign model uses them."""
    allowed = ctx.params.keys() - {*from_settings.names_of(ForeignText), *more}
    refuse_others(ctx, allowed, "only with --ctranslate2")

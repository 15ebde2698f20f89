"""Options that several verbs share, each defined once. Imports nothing heavy."""

import logging
import re
from collections.abc import Callable
from typing import Any, TypeVar, get_args

import click

from phrasescore.arguments import PRECISIONS, ReportFormat
from phrasescore.features import FEATURES, FROM_FILES, OF_SHORTLISTS
from phrasescore.features.column_spec import ColumnKind, ColumnSpec
from phrasescore.workflows.warnings import LOGGERS

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

_ORDER = "phrasescore.columns"


# The kind of column by the parameter of a command.
_KINDS: dict[str, ColumnKind] = {
    "models": "model",
    "features": "feature",
    "language_models": "lm",
    "lexicons": "lexicon",
    "reverse_lexicons": "reverse_lexicon",
}


class OrderedColumns(click.Command):
    """A command that knows in which order the options that make columns were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note the order, which the values of several options do not tell."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_ORDER] = [param.name for param in order if param.name in _KINDS]
        return super().parse_args(ctx, args)


def column_order(ctx: click.Context, **values: tuple[str, ...]) -> list[ColumnSpec]:
    """Return the columns in the order of the command line.

    :param values: by parameter, what the command got.
    """
    remaining = {option: iter(given) for option, given in values.items()}
    return [column_spec(option, next(remaining[option])) for option in ctx.meta[_ORDER]]


def column_spec(option: str, value: str) -> ColumnSpec:
    """Return a column as the value of an option asks for it.

    :param option: the parameter, such as ``features``.
    """
    name, _, number = value.partition("@") if option == "features" else (value, "", "")
    return ColumnSpec(_KINDS[option], name, int(number) if number else None)


def add_choices_to_error(
    error: click.BadOptionUsage, verb: click.Command | None
) -> click.BadOptionUsage:
    """Return the error about an option without a value, with the values there are."""
    for param in () if verb is None else verb.params:
        if error.option_name in param.opts and error.message.endswith("requires an argument."):
            kind = param.type
            values = " or ".join(kind.choices) if isinstance(kind, click.Choice) else param.metavar
            if values:
                message = f"{error.message.removesuffix('.')}: {values}"
                return click.BadOptionUsage(error.option_name, message, error.ctx)
    return error


def models(command: _Decorated) -> _Decorated:
    """Add ``--model``, one for each column; the command gets ``models: tuple[str, ...]``."""
    return click.option(
        "--model",
        "models",
        multiple=True,
        metavar="MODEL",
        help="A trained model: adds log p(target | source), or the reverse if it was trained so.",
    )(command)


def features(command: _Decorated) -> _Decorated:
    """Add ``--feature``, one for each column; the command gets ``features: tuple[str, ...]``."""
    return click.option(
        "--feature",
        "features",
        multiple=True,
        metavar="NAME[@N]",
        callback=check_features,
        help="One of: "
        + ", ".join(FEATURE_NAMES)
        + ". unknown_words: target words outside the shortlist of at least one model, or with @N "
        "of the N-th --model.",
    )(command)


FEATURE_NAMES = sorted(FEATURES.keys() - FROM_FILES)


def check_features(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Check the values of a ``--feature NAME[@N]``.

    :raises click.BadParameter: at the first that names no feature.
    """
    for value in values:
        name, at, number = value.partition("@")
        if name not in FEATURE_NAMES:
            known = ", ".join(FEATURE_NAMES)
            raise click.BadParameter(f"expected one of {known}, got {value!r}", ctx, param)
        if at and name not in OF_SHORTLISTS:
            raise click.BadParameter(f"{name} does not depend on a model: no '@'", ctx, param)
        if at and re.fullmatch("[1-9][0-9]{0,8}", number) is None:
            problem = f"expected the number of a --model after '@', from 1, got {value!r}"
            raise click.BadParameter(problem, ctx, param)
    return values


def language_models(command: _Decorated) -> _Decorated:
    """Add ``--lm``; the command gets ``language_models: tuple[str, ...]``."""
    return click.option(
        "--lm",
        "language_models",
        multiple=True,
        metavar="FILE",
        help="An n-gram model, ARPA (.gz, too) or a KenLM binary: adds log p(hypothesis).",
    )(command)


def lexicons(command: _Decorated) -> _Decorated:
    """Add ``--lexicon`` and ``--reverse-lexicon``.

    The command gets ``lexicons`` and ``reverse_lexicons``, both ``tuple[str, ...]``.
    """
    for flag, name, text in (
        ("--reverse-lexicon", "reverse_lexicons", "lex.e2f: adds log p(source | target)"),
        ("--lexicon", "lexicons", "lex.f2e: adds log p(target | source)"),
    ):
        command = click.option(
            flag, name, multiple=True, metavar="FILE", help=f"Moses' {text} of IBM Model 1."
        )(command)
    return command


def cslm(command: _Decorated) -> _Decorated:
    """Add ``--backoff-lm`` and ``--unnormalized``, of the models of the kind cslm.

    The command gets ``backoff_lm: str | None`` and ``unnormalized: bool``.
    """
    command = click.option(
        "--unnormalized",
        is_flag=True,
        help="Leave log Z out of a cslm's scores; for one trained with self_normalization.",
    )(command)
    return click.option(
        "--backoff-lm",
        metavar="FILE",
        help="An n-gram model, ARPA or a KenLM binary, for the words outside a cslm's shortlist, "
        "which are <unk> without it.",
    )(command)


def precision(command: _Decorated) -> _Decorated:
    """Add ``--precision``; the command gets ``precision: str``."""
    return click.option(
        "--precision",
        type=click.Choice(PRECISIONS),
        default="float32",
        show_default=True,
        help="Of the matrix products; less is faster where the processor has instructions for it "
        "(int8: CPUs with VNNI or AMX). docs/performance.md has the errors.",
    )(command)


def device(command: _Decorated) -> _Decorated:
    """Add ``--device``; the command gets ``device: str``: what torch takes, or ``auto``."""
    return click.option(
        "--device",
        metavar="auto|cpu|cuda[:N]",
        callback=_check_device,
        default="auto",
        show_default=True,
        help="Where the network runs; auto takes a CUDA device where there is one.",
    )(command)


def _check_device(ctx: click.Context, param: click.Parameter, value: str) -> str:
    # Whether the device is there is for the command to see: that needs torch.
    if re.fullmatch(r"auto|cpu|cuda(:[0-9]+)?", value) is None:
        raise click.BadParameter(f"expected auto, cpu, cuda or cuda:N, got {value!r}", ctx, param)
    return value


def threads(command: _Decorated) -> _Decorated:
    """Add ``--threads``; the command gets ``threads: int | None``, None for all cores."""
    return click.option(
        "--threads",
        type=click.IntRange(min=1),
        show_default="all cores",
        help="CPU threads that the network may use.",
    )(command)


def seed(command: _Decorated) -> _Decorated:
    """Add ``--seed``; the command gets ``seed: int``."""
    return click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=1,
        show_default=True,
        help="Start of every random choice: the same seed gives the same result on a machine.",
    )(command)


def turned_off(flag: str, name: str, text: str) -> Callable[[_Decorated], _Decorated]:
    """Return a decorator that adds a flag; the command gets ``name: bool``, False with the flag."""
    return click.option(flag, name, is_flag=True, callback=lambda *args: not args[2], help=text)


def output(command: _Decorated) -> _Decorated:
    """Add ``-o/--output``; the command gets ``output: str``, ``-`` for stdout."""
    return click.option(
        "-o",
        "--output",
        metavar="FILE",
        default="-",
        show_default="stdout",
        help="Where the result goes, whole or not at all; compressed where the name ends in .gz.",
    )(command)


def report_format(command: _Decorated) -> _Decorated:
    """Add ``--format text|json``; the command gets ``report_format: str``."""
    return click.option(
        "--format",
        "report_format",
        type=click.Choice(get_args(ReportFormat)),
        default="text",
        show_default=True,
        help="How the report is written.",
    )(command)


def verbosity(command: _Decorated) -> _Decorated:
    """Add ``-v/--verbose`` and ``-q/--quiet``, which set how much goes to stderr.

    They change the logging level and are not passed to the command. Both the group and a verb
    may have them: ``phrasescore -q annotate`` and ``phrasescore annotate -q`` are the same.
    """
    for flags, level, text in (
        (("-q", "--quiet"), logging.WARNING, "Say nothing but warnings and errors."),
        (("-v", "--verbose"), logging.DEBUG, "Say more on stderr."),
    ):
        command = click.option(
            *flags, is_flag=True, expose_value=False, callback=_set_level(level), help=text
        )(command)
    return command


def _set_level(level: int) -> Callable[[click.Context, click.Parameter, bool], None]:
    def callback(_ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        if value:
            for name in LOGGERS:
                logging.getLogger(name).setLevel(level)

    return callback

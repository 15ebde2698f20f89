"""Kinds of options, options made from settings, and help that groups them by subject."""

import logging
import os
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, get_args

import click
from click.core import ParameterSource

from phrasescore.arguments import ReportFormat
from phrasescore.cli.progress import show_progress
from phrasescore.settings.declaration import Setting, Settings, settings_of

LOGGERS = ("phrasescore", "moses_integration", "tuning")  # the packages whose messages are shown

Subject = Literal[
    "Input",
    "Training",
    "Training for BLEU",
    "Alignment and phrases",
    "N-grams",
    "Time",
    "Order of the hypotheses",
    "Metrics and tests",
    "Selection",
    "Segments",
    "Tuning",
    "Rounds of a system",
    "Search",
    "Networks and features",
    "Samples",
    "Content of the page",
    "Output",
    "Server",
    "Devices and speed",
    "Long runs",
    "Messages and help",
]
SUBJECTS: tuple[Subject, ...] = get_args(Subject)  # in the order of every help text

Decorator = Callable[[Any], Any]  # a decorator for a command's function

# A file or folder name that the shell can complete; the library checks whether it exists.
FILE_NAME = click.Path(readable=False)

# In a context's meta: whether the help shows all options; the parameters in command-line order.
ALL_OPTIONS, ORDER = "phrasescore.all_options", "phrasescore.order"
_LONGEST = 60  # characters of all choices of an option, which stand in one line of the help
_METAVARS: dict[Any, str] = {int: "N", float: "NUMBER", os.PathLike: "FILE"}


class SubjectOption(click.Option):
    """An option that is listed under a heading in the help."""

    def __init__(self, *args: Any, subject: Subject | None = None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.subject = subject
        if isinstance(self.type, click.Choice) and len("|".join(self.type.choices)) > _LONGEST:
            self.metavar = "NAME"
            *names, last = self.type.choices
            self.help = f"{self.help} NAME is {', '.join(names)} or {last}."

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Return the default in plain words, without click's notation for a range."""
        extra = super().get_help_extra(ctx)
        if isinstance(self.show_default, str):
            extra["default"] = self.show_default
        extra.pop("range", None)
        return extra


class Verb(click.Command):
    """A command whose help has a section for each subject, in the order of `SUBJECTS`.

    :ivar example: a command line at the end of the help, without ``phrasescore``.
    :ivar main_options: the options that most people need. ``--help`` shows only these, and
        ``--help-all`` shows all options. If it is empty, ``--help`` shows all of them.
    """

    def __init__(self, *args: Any, example: str = "", main: str = "", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.example, self.main_options = example, main.split()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Record the order of the options, which their values do not show."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[ORDER] = [param.name for param in order]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; without bars if it writes data to the terminal."""
        to_terminal = sys.stdout is not None and sys.stdout.isatty()
        show_progress.no_bars = to_terminal and ctx.params.get("output") == "-"
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section per subject; click's own ``--help`` is in the last one."""
        if self.main_options and ALL_OPTIONS not in ctx.meta:
            self._format_main_options(ctx, formatter)
            return
        sections: dict[Subject, list[tuple[str, str]]] = {subject: [] for subject in SUBJECTS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                subject = param.subject if isinstance(param, SubjectOption) else None
                section = sections[subject or SUBJECTS[-1]]
                section.insert(0 if param.name == "output" else len(section), record)
        for subject, records in sections.items():
            if records:
                with formatter.section(subject):
                    formatter.write_dl(records)

    def _format_main_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        by_flag = {flag: param for param in self.params for flag in param.opts}
        records = [by_flag[flag].get_help_record(ctx) for flag in self.main_options]
        records.append(("--help-all", f"Show all {len(self.params)} arguments and options."))
        with formatter.section("Main options"):
            formatter.write_dl([record for record in records if record is not None], col_max=22)

    def format_epilog(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the example, in lines that the shell joins."""
        if self.example:
            # A line does not end between an option and its value.
            parts = re.split(" (?=-)", f"phrasescore {self.example}")
            text = " ".join(part.replace(" ", "\xa0") for part in parts)
            lines = textwrap.wrap(text, formatter.width - 6, break_on_hyphens=False)
            with formatter.section("Example"):
                formatter.write_text("\b\n" + " \\\n  ".join(lines).replace("\xa0", " "))


def verb(short_help: str, example: str, *, main: str = "") -> Decorator:
    """Return a decorator that makes a function a command, with the options of every command.

    :param short_help: the description in the list of all commands, at most 60 characters.
    :param example: a command line, without ``phrasescore``.
    :param main: the options for ``--help``, separated by spaces, if all of them are too many.
    """
    command = click.command(cls=Verb, short_help=short_help, example=example, main=main)
    return lambda function: command(verbosity(_help_all(function)))


def heading(subject: Subject) -> Decorator:
    """Return a decorator that lists the options below it, up to the next heading, under a subject.

    ::

        @heading("Input")
        @options.file("--source", "The source sentences.")
        @heading("Output")
        @options.output
    """

    def label(command: Any) -> Any:
        # Decorators run bottom-up, so options below the next heading already have a subject.
        for param in getattr(command, "__click_params__", ()):
            if isinstance(param, SubjectOption) and param.subject is None:
                param.subject = subject
        return command

    return label


def option(flags: str, text: str, **settings: Any) -> Decorator:
    """Return an option that shows its default.

    :param flags: option names separated by spaces; the parameter's name comes last if it differs.
    """
    kind = {"cls": SubjectOption, "show_default": True}
    return click.option(*flags.split(), help=text, **{**kind, **settings})


def argument(name: str, metavar: str, **settings: Any) -> Decorator:
    """Return an argument for the name of a file or a folder."""
    return click.argument(name, metavar=metavar, **{"type": FILE_NAME, **settings})


def flag(flags: str, text: str, **settings: Any) -> Decorator:
    """Return a flag, an option without a value."""
    return option(flags, text, is_flag=True, **settings)


def file(flags: str, text: str, metavar: str = "FILE", **settings: Any) -> Decorator:
    """Return an option for the name of a file, a folder or a program."""
    return option(flags, text, metavar=metavar, **{"type": FILE_NAME, **settings})


def files(flags: str, text: str, metavar: str = "FILE", **settings: Any) -> Decorator:
    """Return a repeatable `file` option; the command gets a tuple."""
    return file(flags, text, metavar, multiple=True, **settings)


def references(**settings: Any) -> Decorator:
    """Return the option for reference translations."""
    text = "Reference translations, one per line; NAME may stand for NAME0, NAME1, ..."
    return files(
        "--references", f"{text} Repeat the option for another set of references.", **settings
    )


def choice(flags: str, text: str, values: Sequence[str], **settings: Any) -> Decorator:
    """Return an option that accepts one of several words."""
    return option(flags, text, type=click.Choice(values), **settings)


def together(*options: Decorator) -> Decorator:
    """Return one decorator that adds several options, in the given order."""

    def add(command: Any) -> Any:
        for decorator in reversed(options):
            command = decorator(command)
        return command

    return add


def of(
    kind: type[Settings],
    *,
    only: Collection[str] = (),
    without: Collection[str] = (),
    **changes: dict[str, Any],
) -> Decorator:
    """Return a decorator that adds an option for each field of a settings class.

    :param changes: arguments for `click.option` that override a field's own, by field name.
    """
    return together(
        *(
            _option_of(setting, changes.get(setting.name, {}))
            for setting in settings_of(kind)
            if setting.name not in without and (not only or setting.name in only)
        )
    )


def only(given: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the parameters with these names, those that a mode of a command has."""
    return {name: value for name, value in given.items() if name in names}


def names_of(*kinds: type[Settings]) -> set[str]:
    """Return the parameter names of the options for settings classes."""
    return {setting.name for kind in kinds for setting in settings_of(kind)}


def _option_of(setting: Setting, changes: dict[str, Any]) -> Decorator:
    settings: dict[str, Any] = {"metavar": setting.extra.get("metavar")}
    if setting.kind is bool:
        settings = {"is_flag": True}
        if setting.default:  # the option turns the setting off
            settings["callback"] = lambda _ctx, _param, value: not value
    else:
        settings["type"] = _type_of(setting)
        settings["default"] = setting.default
        settings["multiple"] = setting.is_sequence
        settings["metavar"] = settings["metavar"] or _METAVARS.get(setting.kind)
    shown: Any = setting.extra.get("shown", True)
    if setting.range is not None and (shown is not True or setting.default is not None):
        shown = f"{setting.default if shown is True else shown}; {setting.range}"
    return click.option(
        *setting.flags,
        setting.name,
        cls=SubjectOption,
        subject=setting.heading,
        help=setting.description,
        **{"show_default": shown, **settings, **changes},
    )


def _type_of(setting: Setting) -> Any:
    if setting.choices:
        return click.Choice(setting.choices)
    if setting.kind is os.PathLike:
        return FILE_NAME
    return setting.kind if setting.kind in (int, float) else str


def refuse_others(ctx: click.Context, allowed: Collection[str], reason: str) -> None:
    """Reject parameters on the command line that have no effect; ``reason`` ends the message."""
    others = [
        next(
            (flag for flag in param.opts if flag.startswith("--")),
            (param.metavar or "").strip("[]."),
        )
        for param in ctx.command.params
        if param.name in ctx.params.keys() - allowed
        and ctx.get_parameter_source(param.name) != ParameterSource.DEFAULT
        and ctx.params[param.name] != ()
    ]
    if others:
        raise click.UsageError(f"{', '.join(others)} {reason}")


def matching(pattern: str, expected: str) -> Callable[..., Any]:
    """Return a callback for an option whose values must match a pattern."""

    def check(ctx: click.Context, param: click.Parameter, given: Any) -> Any:
        for value in given if isinstance(given, tuple) else (given,):
            if value is not None and re.fullmatch(pattern, value) is None:
                raise click.BadParameter(f"expected {expected}, got {value!r}", ctx, param)
        return given

    return check


def _set_level(_ctx: click.Context, param: click.Parameter, value: bool) -> None:
    level = logging.DEBUG if param.name == "verbose" else logging.WARNING
    for name in LOGGERS if value else ():
        logging.getLogger(name).setLevel(level)


def _show_all(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[ALL_OPTIONS] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


output = file(
    "-o --output",
    "The file to write. It appears when it is complete, and is compressed if its name ends in .gz.",
    default="-",
    show_default="stdout",
    subject="Output",
)
report_format = choice(
    "--format report_format",
    "The format of the report.",
    get_args(ReportFormat),
    default="text",
    subject="Output",
)
resume = flag("--resume", "Continue a run of this command that was killed.", subject="Long runs")
# These options set the log level and are not passed to the command. The group has them as well:
# ``phrasescore -q annotate`` and ``phrasescore annotate -q`` are the same.
verbosity = together(
    heading("Messages and help"),
    flag("-v --verbose", "Show more messages.", expose_value=False, callback=_set_level),
    flag("-q --quiet", "Show only warnings and errors.", expose_value=False, callback=_set_level),
)
_help_all = flag(
    "--help-all",
    "Show all options and exit.",
    expose_value=False,
    is_eager=True,
    callback=_show_all,
    subject="Messages and help",
)

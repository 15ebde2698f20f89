"""Commands whose help groups options by subject, and whose files a shell can complete."""

from collections.abc import Callable
from typing import Any, Literal, get_args

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

Subject = Literal[
    "Input",
    "Networks and features",
    "Training",
    "Training for BLEU",
    "Search",
    "Samples",
    "New phrase pairs",
    "Method",
    "Rounds with a decoder",
    "Output",
    "Long runs",
    "Speed",
    "Messages and help",
]
# In the order of every help text.
SUBJECTS: tuple[Subject, ...] = get_args(Subject)


# Takes and returns a command's function.
Decorator = Callable[[Any], Any]


class SubjectOption(click.Option):
    """An option under a heading of the help."""

    def __init__(self, *args: Any, subject: Subject | None = None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.subject = subject


class Verb(click.Command):
    """A command whose help has a section per subject, in the order of `SUBJECTS`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections; click's own ``--help`` is in the last one."""
        sections: dict[Subject, list[tuple[str, str]]] = {subject: [] for subject in SUBJECTS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                subject = param.subject if isinstance(param, SubjectOption) else None
                sections[subject or SUBJECTS[-1]].append(record)
        for subject, records in sections.items():
            if records:
                with formatter.section(subject):
                    formatter.write_dl(records)


class FileName(StringParamType):
    """The name of a file or a folder, which a shell completes."""

    def shell_complete(
        self, _ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return what tells the shell to look for files itself."""
        return [CompletionItem(incomplete, type="file")]


def heading(subject: Subject) -> Decorator:
    """Return a decorator that puts the options below it, up to the next heading, under a subject.

    ::

        @heading("Input")
        @options.file("--source", "What was translated.")
        @heading("Output")
        @options.output
    """

    def label(command: Any) -> Any:
        # Decorators run from the last to the first: what is below the next heading has its subject.
        for param in getattr(command, "__click_params__", ()):
            if isinstance(param, SubjectOption) and param.subject is None:
                param.subject = subject
        return command

    return label

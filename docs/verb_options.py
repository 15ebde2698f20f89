"""A Markdown extension for the site: the page of a verb ends with the options of the verb.

They come from the command itself, in the groups of its ``--help-all``. Each option is a heading, so
that the search finds it and a link can lead to it.
"""

import functools
import re
from typing import Any

import click

from phrasescore.cli import VERBS, main
from phrasescore.cli.options import ALL_OPTIONS


class _MarkdownFormatter(click.HelpFormatter):
    def write_heading(self, heading: str) -> None:
        self.write(f"### {heading}\n\n")

    def write_text(self, text: str) -> None:
        lines = "\n".join(text.splitlines()[1:])  # after the mark of a text that is not wrapped
        self.write(f"```console\n$ {lines}\n```\n\n")

    def write_dl(self, rows: Any, *_limits: int) -> None:
        for flags, text in rows:
            name = re.search(r"--[\w-]+", flags)
            anchor = f" {{ #{name[0]} }}" if name else ""
            help_text, _, needs = text.removesuffix("]").partition("  [")
            kind = " .required" if needs == "required" else ""
            badge = f" `{needs}`{{ .badge{kind} }}" if needs else ""
            self.write(f"#### `{flags}`{anchor}\n\n{_escape(help_text)}{badge}\n\n")


def _escape(text: str) -> str:
    for mark in r"\`*_{}[]|":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("<", "&lt;")


@functools.cache
def options_of(verb: str) -> str:
    """Return the section on the options of a verb, in Markdown."""
    group = click.Context(main, info_name="phrasescore", **main.context_settings)
    command = main.get_command(group, verb)
    assert command is not None
    context = click.Context(command, parent=group, info_name=verb)
    context.meta[ALL_OPTIONS] = True
    formatter = _MarkdownFormatter()
    command.format_options(context, formatter)
    command.format_epilog(context, formatter)  # an example
    usage = command.get_usage(context).removeprefix("Usage: ")
    return f"## Options\n\n```text\n{usage}\n```\n\n{formatter.getvalue()}"


class _Pages:
    """The preprocessor: it adds the options to a page whose title is a verb."""

    def run(self, lines: list[str]) -> list[str]:
        # Docstrings mark code by "::", of which Markdown has no need.
        lines = [re.sub(r"^::$|(?<=\w:):$", "", line) for line in lines]
        title = lines[0].removeprefix("# ") if lines else ""
        if title in VERBS:
            return [*lines, "", *options_of(title).splitlines()]
        if title == "Changelog":  # It is outside docs/, and its links start there.
            return [line.replace("](docs/", "](") for line in lines]
        return lines


def makeExtension(**settings: Any) -> Any:  # noqa: N802 - the name that Markdown looks for
    """Return the extension."""
    # The tests use this module without Markdown, which only the extra "docs" installs.
    from markdown.extensions import Extension
    from markdown.inlinepatterns import SimpleTextInlineProcessor

    class OptionsOfVerbs(Extension):
        def extendMarkdown(self, md: Any) -> None:  # noqa: N802
            # After the pages that others include (32), before code in fences (25).
            md.preprocessors.register(_Pages(), "options-of-verbs", 28)
            words = SimpleTextInlineProcessor("(</?(?:s|unk)>)")  # otherwise HTML
            md.inlinePatterns.register(words, "words", 95)

    return OptionsOfVerbs(**settings)

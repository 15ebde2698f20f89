"""The errors for verbs, options and values of earlier versions: they name what took their place."""

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path

import click

# Verbs as keys; options as keys of the table of their verb, also with a value: "--method pro".
_FILE = Path(__file__).with_name("successors.toml")


@functools.cache
def successors() -> Mapping[tuple[str, ...], str]:
    """Return the successor of each word that is gone.

    The keys are a verb; a verb and an option; or a verb, an option and a value.
    """
    found: dict[tuple[str, ...], str] = {}
    for verb, named in tomllib.loads(_FILE.read_text(encoding="utf-8")).items():
        options = {"": named} if isinstance(named, str) else named
        found |= {(verb, *words.split()): successor for words, successor in options.items()}
    return found


def verb_problem(verb: str) -> str | None:
    """Return the error for a verb of an earlier version, or None for any other word."""
    return _problem(verb) if (verb,) in successors() else None


def option_problem(verb: str, error: click.UsageError) -> str | None:
    """Return the error for an option or a value of an earlier version, or None for others."""
    words: list[tuple[str, ...]] = []
    if isinstance(error, click.NoSuchOption):
        words = [(error.option_name,)]
    elif isinstance(error, click.BadParameter) and error.param is not None:
        # click's message for a choice begins with the value in quotation marks.
        value = error.message.partition("'")[2].partition("'")[0]
        words = [(option, value) for option in error.param.opts]
    return next((_problem(verb, *each) for each in words if (verb, *each) in successors()), None)


def _problem(*words: str) -> str:
    return f"{' '.join(words[1:] or words)} is gone: {successors()[words]}"

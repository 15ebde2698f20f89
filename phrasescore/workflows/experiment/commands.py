"""The command of a step: a verb of ``phrasescore`` and its options, as a user could type them.

The step's process sends messages to the experiment.
"""

import shlex
from collections.abc import Iterable, Iterator

import msgspec

from phrasescore.arguments import flag
from phrasescore.workflows.search_settings import SearchSettings


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of JSON on the stdout of a step's process: a warning, or the step's progress."""

    warning: str = ""
    news: str = ""


def shown(words: Iterable[str]) -> str:
    """Return a command as one line for users."""
    return shlex.join(["phrasescore", *words])


def options(**values: object) -> Iterator[str]:
    """Yield options and their values.

    A sequence repeats its option, and True stands for an option without a value. None and False are
    omitted.

    >>> list(options(moses_ini="in", scores=("a", "b"), reverse=True, seed=None))
    ['--moses-ini', 'in', '--scores', 'a', '--scores', 'b', '--reverse']
    """
    for name, value in values.items():
        option = "-o" if name == "output" else flag(name)
        if value is True:
            yield option
        elif value is not None and value is not False:
            for each in value if isinstance(value, list | tuple) else (value,):
                yield from (option, str(each))


def limit_options(search: SearchSettings) -> Iterator[str]:
    """Yield a search's limits as options for ``phrasescore decode``."""
    usual = SearchSettings().buffer_size
    size = None if search.buffer_size == usual else search.buffer_size
    return options(**search.limits(), buffer_size=size)

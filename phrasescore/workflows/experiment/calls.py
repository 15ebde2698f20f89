"""The call that a step makes, as data: a library function and its arguments.

It is sent as JSON to the step's process, which replies with messages, and is shown to the user as
the equivalent command.
"""

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, get_args, get_type_hints

import msgspec

import phrasescore
from phrasescore.arguments import flag
from phrasescore.progress import ProgressCallback
from phrasescore.settings.compute import Compute
from phrasescore.settings.declaration import grouped, settings_of, settings_parameters
from phrasescore.workflows.search_settings import SearchSettings

# Verbs whose functions have other names, and options that are always given.
_VERBS = {"fine_tune": ("train", "--objective", "xbleu"), "tune_with_decoder": ("tune",)}
# Positional arguments of the commands, which have no option.
_POSITIONAL = {
    "train": ("kind", "inputs"),
    "fine_tune": ("kind",),
    "annotate": ("table",),
    "export": ("model",),
    "decode": ("source",),
    "rescore": ("nbest",),
    "rerank": ("nbest",),
}
# Options whose names differ from the parameters' names.
_OPTIONS = {
    "fine_tune": {"model": "--from"},
    "export": {"model_format": "--format"},
    "tune_with_decoder": {"start": "--weights", "folder": "--working-dir", "moses_ini": "--config"},
}


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of JSON on the stdout of a step's process: a warning, or the step's progress."""

    warning: str = ""
    news: str = ""


@dataclass(frozen=True)
class Call:
    """A function of `phrasescore`, by name, and its arguments.

    Arguments are numbers, strings, paths, sequences of these, and dataclasses. A field of the
    function's settings may be a separate argument.
    """

    function: str
    arguments: Mapping[str, Any]

    @classmethod
    def of(cls, function: str, **arguments: Any) -> "Call":
        """Return a call, omitting arguments that are None, False or empty."""
        given = {
            name: value
            for name, value in arguments.items()
            if value is not None and value is not False and value != ()
        }
        return cls(function, given)

    @property
    def verb(self) -> str:
        """The verb of the equivalent command."""
        return _VERBS.get(self.function, (self.function,))[0]

    def to_json(self) -> str:
        """Return the call as ASCII-only JSON, for any bytes in file names."""
        return json.dumps([self.function, dict(self.arguments)], default=_plain)

    @classmethod
    def from_json(cls, text: str) -> "Call":
        """Return the call that :meth:`to_json` wrote."""
        function, arguments = json.loads(text)
        hints = get_type_hints(getattr(phrasescore, function))
        typed = {name: _typed(value, hints.get(name)) for name, value in arguments.items()}
        return cls(function, typed)

    def run(self, progress: ProgressCallback) -> object:
        """Call the function; ``progress`` is passed on if the function accepts it."""
        function = getattr(phrasescore, self.function)
        further = {"progress": progress} if "progress" in get_type_hints(function) else {}
        return function(**grouped(function, self.arguments), **further)

    def resumed(self) -> "Call":
        """Return the call that resumes a run that was stopped."""
        return Call(self.function, {**self.arguments, "resume": True})

    def shown(self) -> str:
        """Return the equivalent command as one line."""
        return shlex.join(self.words())

    def words(self) -> list[str]:
        """Return the words of the equivalent command, as a user could type them."""
        verb, *words = _VERBS.get(self.function, (self.function,))
        positional = _POSITIONAL.get(self.function, ())
        first = [word for name in positional for word in _texts(self.arguments.get(name))]
        for name, value in self.arguments.items():
            if name not in positional:
                words += self._option(name, value)
        return ["phrasescore", verb, *first, *words]

    def _option(self, name: str, value: Any) -> Iterator[str]:
        if name == "columns":
            start = "--rescore" if self.verb == "tune" else ""
            for column in value:
                kind = "" if start and column.kind == "model" else flag(column.kind)
                yield from (f"{start}{kind[1:] if start else kind}", column.value)
        elif name == "nbest":
            path, size, is_distinct, *_ = value
            yield from ("--nbest", str(path), str(size), *(["--distinct"] if is_distinct else []))
        elif name == "decoder" and isinstance(value, SearchSettings):
            yield from ("--decoder", "embedded")
            if words := list(_search_words(value)):
                yield from ("--decoder-flags", shlex.join(words))
        elif isinstance(value, SearchSettings):
            yield from _search_words(value)
        elif is_dataclass(value) and not isinstance(value, type):
            for key, setting in _changed(value).items():
                yield from _option_words(flag(key), setting)
        else:
            usual = "-o" if name == "output" else self._flag(name)
            yield from _option_words(_OPTIONS.get(self.function, {}).get(name, usual), value)

    def _flag(self, name: str) -> str:
        """Return the command-line option for an argument or for a settings field."""
        for default in settings_parameters(getattr(phrasescore, self.function)).values():
            for setting in settings_of(type(default)):
                if setting.name == name:
                    return setting.flag
        return flag(name)


def compute_of(threads: int | None) -> Compute | None:
    """Return engine settings with this number of threads, or None for the defaults."""
    return None if threads is None else Compute(threads=threads)


def _option_words(option: str, value: Any) -> Iterator[str]:
    """Yield an option and its value: nothing for None or False, only the option for True."""
    if value is True:
        yield option
    elif value is not False:
        for word in _texts(value):
            yield from (option, word)


def _search_words(search: SearchSettings) -> Iterator[str]:
    for feature, model in zip(search.features, search.models, strict=True):
        yield from ("--feature", feature, "--model", model)
    changed = _changed(search)
    for name in ("backoff_lm", "unnormalized", "threads", "processes"):
        yield from _option_words(flag(name), changed.get(name))
    yield from limit_words(search)


def limit_words(search: SearchSettings) -> Iterator[str]:
    """Yield a search's limits as options for ``phrasescore decode``."""
    for name, value in search.limits().items():
        yield from _option_words(flag(name), value)
    yield from _option_words("--buffer-size", _changed(search).get("buffer_size"))


def _texts(value: Any) -> list[str]:
    if value is None:
        return []
    return list(map(str, value)) if isinstance(value, list | tuple) else [str(value)]


def _changed(value: Any) -> dict[str, Any]:
    values = {field.name: getattr(value, field.name) for field in fields(value)}
    defaults = {field.name: field.default for field in fields(value)}
    return {name: each for name, each in values.items() if each != defaults[name]}


def _plain(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else _changed(value)


def _typed(value: Any, hint: Any) -> Any:
    """Convert a JSON value to a parameter's type: objects become dataclasses."""
    if isinstance(value, list):
        return tuple(_typed(each, hint) for each in value)
    if isinstance(value, dict):
        kind: Any = next(filter(is_dataclass, _kinds(hint)))
        return kind(**{name: _typed(each, Any) for name, each in value.items()})
    return value


def _kinds(hint: Any) -> Iterator[Any]:
    yield hint
    for inner in get_args(hint):
        yield from _kinds(inner)

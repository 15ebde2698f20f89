"""Declare each setting once, for Python, TOML files and the command line.

A class of settings is a frozen dataclass. A field has its type, default, description and range;
values are checked when an object is created::

    @dataclass(frozen=True, kw_only=True)
    class Search(Settings, heading="Search"):
        stack: AtLeastOne = option(200, "Number of hypotheses per stack.")

`phrasescore.cli.options.of` turns a class into command-line options; `TomlTable.read` reads an
instance from a file.
"""

import dataclasses
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from phrasescore.arguments import flag
from phrasescore.errors import ArgumentError

# The names of types in messages.
_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}

SEED = "Seed of all random choices: the same seed gives the same result on one machine."


def option(default: Any, description: str, **extra: str) -> Any:
    """Return the dataclass field that declares a setting.

    :param description: the text for the command line's help.
    :param extra: ``flags``: option names, separated by spaces; by default the field's name.
        ``heading``: the heading in the help. ``metavar``: the name of the value in the help.
        ``shown``: the default in the help, if it is not the field's default.
    """
    return dataclasses.field(default=default, metadata={"description": description, "extra": extra})


# Declare settings whose default is None, or False.
optional = partial(option, None)
switch = partial(option, False)


class Settings:
    """The base class for settings; numbers, such as numpy's, become Python's.

    :cvar heading: the heading of the options in the help.
    :raises ArgumentError: at the first field whose value has a wrong type or is out of range.
    """

    heading: ClassVar[str] = ""

    def __init_subclass__(cls, heading: str = "") -> None:
        cls.heading = heading or cls.heading
        cls.__repr__ = Settings.__repr__  # type: ignore[method-assign]  # or dataclass makes one

    def __post_init__(self) -> None:
        for setting in settings_of(type(self)):
            try:
                value = setting.checked(getattr(self, setting.name))
            except ValueError as error:
                raise self.wrong(setting, str(error)) from error
            object.__setattr__(self, setting.name, value)

    def __repr__(self) -> str:
        """Return the class with the fields that differ from their defaults."""
        changed = [f"{name}={value!r}" for name, value in self.changed().items()]
        return f"{type(self).__name__}({', '.join(changed)})"

    def wrong(self, setting: "Setting", problem: str) -> ArgumentError:
        """Return the error for the value of a setting."""
        return ArgumentError(f"{setting.flag}: {problem}")

    def changed(self) -> dict[str, Any]:
        """Return the values that differ from their defaults, by the names of their fields."""
        values = ((each, getattr(self, each.name)) for each in settings_of(type(self)))
        return {each.name: value for each, value in values if value != each.default}

    def check_only(self, *names: str) -> None:
        """Reject settings other than ``names``, which are those that a function uses."""
        for name in self.changed():
            if name not in names:
                raise ArgumentError(f"{flag(name)}: has no effect here")


@dataclass(frozen=True)
class Setting:
    """The declaration of one setting: its type, range, default and description."""

    name: str
    annotation: Any  # of the value, or of an item if it is a sequence
    kind: Any  # bool, int, float or str; os.PathLike for the name of a file
    choices: tuple[Any, ...]  # allowed values; empty if any value is allowed
    is_sequence: bool
    is_optional: bool
    default: Any
    heading: str
    extra: dict[str, str]
    description: str = ""

    @property
    def range(self) -> str | None:
        """The range of a number in words, if it has an upper end."""
        meta = get_args(self.annotation)[1] if get_origin(self.annotation) is Annotated else Meta()
        return None if meta.le is None else _range(meta).removeprefix("a number ")

    @property
    def flags(self) -> list[str]:
        """The option's long and short names."""
        names = self.extra.get("flags", "").split()
        return [name for name in names if name.startswith("-")] or [flag(self.name)]

    @property
    def flag(self) -> str:
        """The option that stands for the setting in messages."""
        return next(name for name in self.flags if name.startswith("--"))

    def checked(self, value: Any) -> Any:
        """Return a valid value; sequences become tuples.

        :raises ValueError: if its type is wrong, or it is out of range.
        """
        if value is None and not self.is_optional:
            raise ValueError("expected a value, got None")
        if value is None or not self.is_sequence:
            return self._checked(value)
        if isinstance(value, str | os.PathLike):
            raise ValueError(f"expected a sequence, got the string {str(value)!r}")
        return tuple(map(self._checked, value))

    def _checked(self, value: Any) -> Any:
        if value is None or self.kind is os.PathLike:
            return value
        return converted(_plain(value), self.annotation)


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def converted(value: Any, annotation: Any) -> Any:
    """Return a value as an annotation wants it: a number may be in the range of a `msgspec.Meta`.

    :raises ValueError: if its type is wrong, or it is out of range.
    """
    if NoneType in get_args(annotation):
        annotation = next(kind for kind in get_args(annotation) if kind is not NoneType)
    if type(value) is int and _base(annotation) is float:
        # A whole number may be too large for a float.
        value = float(value) if abs(value) < 1 << 1000 else math.inf
    if _base(annotation) is float and type(value) is float and not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {value!r}")
    try:
        return msgspec.convert(value, annotation)
    except msgspec.ValidationError as error:
        wanted = expected(annotation)
        if type(value) is _base(annotation) and get_origin(annotation) is Annotated:
            wanted = _range(get_args(annotation)[1])
        raise ValueError(f"expected {wanted}, got {value!r}") from error


def check(annotation: Any, /, **values: Any) -> None:
    """Raise an ArgumentError for the first value that is not as an annotation wants it, or None.

    >>> check(Literal["text", "json"], format="xml")
    Traceback (most recent call last):
    ...
    phrasescore.errors.ArgumentError: --format: expected one of text, json, got 'xml'
    """
    for name, value in values.items():
        try:
            if value is not None:
                converted(_plain(value), annotation)
        except ValueError as error:
            raise ArgumentError(f"{flag(name)}: {error}") from error


def _base(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def expected(annotation: Any) -> str:
    """Return what an annotation wants, for a message."""
    if get_origin(annotation) is Literal:
        return f"one of {', '.join(get_args(annotation))}"
    if get_origin(annotation) is tuple:
        return "a path, or several" if get_args(annotation)[0] is Path else "strings"
    if get_origin(annotation) is UnionType:
        return "a setting"
    return _TYPE_NAMES.get(_base(annotation), "a path" if annotation is Path else "a table")


def _range(limits: Meta) -> str:
    if limits.gt is not None:
        most = "" if limits.le is None else f" and at most {limits.le:g}"
        return f"a number above {limits.gt:g}{most}"
    if limits.le is None:
        return f"at least {limits.ge:g}"
    return f"a number from {limits.ge} to {limits.le}"


_declared: dict[type[Any], tuple[Setting, ...]] = {}


def settings_of(kind: type[Any]) -> tuple[Setting, ...]:
    """Return the declaration of each field in a settings class, in order."""
    if kind in _declared:
        return _declared[kind]
    hints = get_type_hints(kind, include_extras=True)
    # A field has the heading of the class that declares it, not of a subclass.
    headings = {
        name: str(base.__dict__["heading"])
        for base in reversed(kind.__mro__)
        if "heading" in base.__dict__
        for name in inspect.get_annotations(base)
    }
    _declared[kind] = tuple(
        _setting(field, hints[field.name], headings.get(field.name, ""))
        for field in dataclasses.fields(kind)
    )
    return _declared[kind]


def _setting(field: "dataclasses.Field[Any]", hint: Any, heading: str) -> Setting:
    kinds = [hint]
    is_optional = is_sequence = False
    while len(kinds) == 1 and get_origin(kinds[0]) not in (None, Literal, Annotated):
        inner = get_args(kinds[0])
        if get_origin(kinds[0]) in (Sequence, tuple):
            is_sequence, inner = True, inner[:1]
        is_optional = is_optional or NoneType in inner
        kinds = [kind for kind in inner if kind is not NoneType]
    metadata = {"extra": {}, **field.metadata}
    return Setting(
        name=field.name,
        annotation=kinds[0],
        kind=os.PathLike if len(kinds) > 1 else _base(kinds[0]),
        choices=get_args(kinds[0]) if get_origin(kinds[0]) is Literal else (),
        is_sequence=is_sequence,
        is_optional=is_optional,
        default=field.default,
        heading=metadata["extra"].get("heading", heading),
        **metadata,
    )


def grouped(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments for a function, with options grouped into its settings."""
    arguments = dict(options)
    for name, parameter in inspect.signature(function).parameters.items():
        if isinstance(settings := parameter.default, Settings):
            names = [each.name for each in settings_of(type(settings)) if each.name in arguments]
            own = {each: arguments.pop(each) for each in names}
            if own:
                arguments[name] = type(settings)(**{**vars(settings), **own})
    return arguments

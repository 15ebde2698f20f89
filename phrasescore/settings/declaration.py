"""Declare each setting once, for Python, TOML files and the command line.

A class of settings is a frozen dataclass. A field has its type, default, description and range;
values are checked when an object is created::

    @dataclass(frozen=True, kw_only=True)
    class Search(Settings, heading="Search"):
        stack: int = option(200, "Number of hypotheses per stack.", ge=1)

`phrasescore.cli.options.of` turns a class into command-line options; `TomlTable.read` reads an
instance from a file.
"""

import dataclasses
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from types import NoneType
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from phrasescore.arguments import flag
from phrasescore.errors import ArgumentError

# The names of types in messages.
TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}

SEED = "Seed of all random choices: the same seed gives the same result on one machine."


def option(
    default: Any,
    description: str,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    **extra: str,
) -> Any:
    """Return the dataclass field that declares a setting.

    :param description: the text for the command line's help.
    :param extra: ``flags``: option names, separated by spaces; by default the field's name.
        ``heading``: the heading in the help. ``metavar``: the name of the value in the help.
        ``shown``: the default in the help, if it is not the field's default.
    """
    metadata = {"description": description, "ge": ge, "gt": gt, "le": le, "extra": extra}
    return dataclasses.field(default=default, metadata=metadata)


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
            value = getattr(self, setting.name)
            problem = setting.problem(value)
            if problem is not None:
                raise ArgumentError(f"{setting.flag}: {problem}")
            if value is not None and setting.kind in (int, float):
                own = tuple(map(_plain, value)) if setting.is_sequence else _plain(value)
                object.__setattr__(self, setting.name, own)

    def __repr__(self) -> str:
        """Return the class with the fields that differ from their defaults."""
        changed = [f"{each.name}={getattr(self, each.name)!r}" for each in self.changed()]
        return f"{type(self).__name__}({', '.join(changed)})"

    def changed(self) -> "list[Setting]":
        """Return the settings that differ from their defaults."""
        known = settings_of(type(self))
        return [each for each in known if getattr(self, each.name) != each.default]

    def check_only(self, *names: str) -> None:
        """Reject settings other than ``names``, which are those that a function uses."""
        for setting in self.changed():
            if setting.name not in names:
                raise ArgumentError(f"{setting.flag}: has no effect here")


@dataclass(frozen=True)
class Setting:
    """The declaration of one setting: its type, range, default and description."""

    name: str
    kind: Any  # bool, int, float or str; os.PathLike for the name of a file
    choices: tuple[Any, ...]  # allowed values; empty if any value is allowed
    is_sequence: bool
    is_optional: bool
    ge: float | None
    gt: float | None
    le: float | None
    default: Any
    description: str
    heading: str
    extra: dict[str, str]

    @property
    def flags(self) -> list[str]:
        """The option's long and short names."""
        names = self.extra.get("flags", "").split()
        return [name for name in names if name.startswith("-")] or [flag(self.name)]

    @property
    def flag(self) -> str:
        """The option that stands for the setting in messages."""
        return next(name for name in self.flags if name.startswith("--"))

    def problem(self, value: Any) -> str | None:
        """Return the problem with a value, or None if it is valid."""
        if value is None:
            return None if self.is_optional else "expected a value, got None"
        if not self.is_sequence:
            return self._problem(value)
        if isinstance(value, str | os.PathLike):
            return f"expected a sequence, got the string {str(value)!r}"
        return next((found for item in value if (found := self._problem(item))), None)

    def _problem(self, value: Any) -> str | None:
        kinds = {int: Integral, float: Real}
        if self.choices and value not in self.choices:
            return f"expected one of {', '.join(self.choices)}, got {value!r}"
        if self.kind in kinds and not isinstance(value, kinds[self.kind]):
            return f"expected {TYPE_NAMES[self.kind]}, got {value!r}"
        if self.ge is not None and not value >= self.ge:
            return f"expected at least {self.ge:g}, got {value!r}"
        if self.gt is not None and not value > self.gt:
            return f"expected a number above {self.gt:g}, got {value!r}"
        if self.le is not None and not value <= self.le:
            return f"expected at most {self.le:g}, got {value!r}"
        return None


def _plain(number: Any) -> Any:
    if isinstance(number, int | float):
        return number
    return int(number) if isinstance(number, Integral) else float(number)


_declared: dict[type[Any], tuple[Setting, ...]] = {}


def settings_of(kind: type[Any]) -> tuple[Setting, ...]:
    """Return the declaration of each field in a settings class, in order."""
    if kind in _declared:
        return _declared[kind]
    hints = get_type_hints(kind)
    # A field has the heading of the class that declares it, not of a subclass.
    headings = {
        name: str(base.__dict__["heading"])
        for base in reversed(kind.__mro__)
        if "heading" in base.__dict__
        for name in inspect.get_annotations(base)
    }
    _declared[kind] = tuple(
        _setting(field, hints[field.name], headings[field.name])
        for field in dataclasses.fields(kind)
    )
    return _declared[kind]


def _setting(field: "dataclasses.Field[Any]", hint: Any, heading: str) -> Setting:
    kinds = [hint]
    is_optional = is_sequence = False
    while len(kinds) == 1 and get_origin(kinds[0]) not in (None, Literal):
        inner = get_args(kinds[0])
        if get_origin(kinds[0]) in (Sequence, tuple):
            is_sequence, inner = True, inner[:1]
        is_optional = is_optional or NoneType in inner
        kinds = [kind for kind in inner if kind is not NoneType]
    return Setting(
        name=field.name,
        kind=os.PathLike if len(kinds) > 1 else kinds[0],
        choices=get_args(kinds[0]) if get_origin(kinds[0]) is Literal else (),
        is_sequence=is_sequence,
        is_optional=is_optional,
        default=field.default,
        heading=field.metadata["extra"].get("heading", heading),
        **field.metadata,
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

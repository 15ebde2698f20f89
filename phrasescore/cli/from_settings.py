"""Options that are made from the fields of settings, and settings made from their values."""

import os
from collections.abc import Collection
from typing import Any, TypeVar

import click

from phrasescore.cli.subjects import Decorator, FileName, SubjectOption
from phrasescore.settings.declaration import Setting, Settings, settings_of

_Kind = TypeVar("_Kind", bound=Settings)

_METAVARS: dict[Any, str] = {int: "N", float: "NUMBER", os.PathLike: "FILE"}


def of(
    kind: type[Settings],
    *,
    only: Collection[str] = (),
    without: Collection[str] = (),
    **changes: dict[str, Any],
) -> Decorator:
    """Return a decorator that adds an option for each field of a class of settings.

    :param only: the fields that get an option; by default all of them.
    :param without: fields that get none.
    :param changes: for each field, the arguments of `click.option` that differ.
    """

    def add(command: Any) -> Any:
        for setting in reversed(settings_of(kind)):
            if setting.name not in without and (not only or setting.name in only):
                command = _option(setting, changes.get(setting.name, {}))(command)
        return command

    return add


def take(kind: type[_Kind], given: dict[str, Any], **fields: Any) -> _Kind:
    """Remove the values of settings from a command's parameters, and return the settings.

    :param fields: values of other fields.
    """
    names = [setting.name for setting in settings_of(kind) if setting.name in given]
    return kind(**{name: given.pop(name) for name in names}, **fields)


def names_of(*kinds: type[Settings]) -> set[str]:
    """Return the parameters of a command that has the options of these settings."""
    return {setting.name for kind in kinds for setting in settings_of(kind)}


def _option(setting: Setting, changes: dict[str, Any]) -> Decorator:
    options: dict[str, Any] = {"metavar": setting.extra.get("metavar")}
    if setting.kind is bool:
        # An option that turns a setting off has the opposite value.
        options = {"is_flag": True}
        if setting.default:
            options["callback"] = lambda _ctx, _param, value: not value
    else:
        options["type"] = _type_of(setting)
        options["default"] = setting.default
        options["multiple"] = setting.is_sequence
        options["metavar"] = options["metavar"] or _METAVARS.get(setting.kind)
    return click.option(
        *setting.flags,
        setting.name,
        cls=SubjectOption,
        subject=setting.heading,
        help=setting.description,
        **{"show_default": setting.extra.get("shown", True), **options, **changes},
    )


def _type_of(setting: Setting) -> Any:
    if setting.choices:
        return click.Choice(setting.choices)
    if setting.kind is os.PathLike:
        return FileName()
    if setting.kind not in (int, float):
        return str
    ranged: Any = click.IntRange if setting.kind is int else click.FloatRange
    least = setting.ge if setting.gt is None else setting.gt
    if least is None and setting.le is None:
        return setting.kind
    return ranged(min=least, max=setting.le, min_open=setting.gt is not None)

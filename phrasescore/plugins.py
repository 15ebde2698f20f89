"""Find features and metrics from other packages by their entry points.

An installed package names its classes in its metadata, from its ``pyproject.toml``::

    [project.entry-points."phrasescore.features"]
    copied_words = "outside_feature:CopiedWords"

The search reads only package metadata; a class is imported when a user names it or lists all
classes. The current folder, which ``python -m`` puts on the path, contains data and is not
searched.
"""

import hashlib
import os
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from phrasescore.errors import ArgumentError, PluginError
from phrasescore.version import __version__

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PluginKind = Literal["feature", "metric"]

GROUPS: dict[PluginKind, str] = {
    "feature": "phrasescore.features",
    "metric": "phrasescore.metrics",
}

# The form of a name after "@" on a command line, and of a feature's name in n-best lists.
_NAME = re.compile("[a-z][a-z0-9_]*")
_SHOWN = 200  # maximum length, in a message, of an error from another package


@dataclass(frozen=True, slots=True)
class Plugin:
    """A class from another package."""

    kind: PluginKind
    name: str
    package: str  # the name and version of the package; another version may compute other values
    entry_point: "EntryPoint"
    problem: str | None = None  # the reason why the class is unusable, if it is
    arguments: tuple[tuple[str, str], ...] = ()  # keyword arguments of the class

    @property
    def title(self) -> str:
        """The package, the kind and the name, for messages."""
        return f"{self.package}: {self.kind} {self.name}"

    @property
    def text(self) -> str:
        """The name with the arguments, as on the command line."""
        arguments = ",".join(map("=".join, self.arguments))
        return f"{self.name}:{arguments}" if arguments else self.name

    @property
    def fingerprint(self) -> str:
        """The package and its version, the arguments, and digests of files among them."""
        parts = [self.package]
        for name, value in self.arguments:
            parts.append(f"{name}={value}")
            if os.path.isfile(value):
                with open(value, "rb") as stream:
                    parts.append(hashlib.file_digest(stream, "sha256").hexdigest())
        return " ".join(parts)

    def create(self, *arguments: Any, **extra: Any) -> Any:
        """Return an object of the class, created with its arguments after the given ones."""
        return self.load()(*arguments, **dict(self.arguments), **extra)

    def load(self) -> Any:
        """Import and return the class; a PluginError gives the reason if it is unusable."""
        if self.problem is not None:
            raise PluginError(self.title, self.problem)
        try:
            loaded = self.entry_point.load()
        except (Exception, SystemExit) as error:
            raise PluginError(self.title, f"its import failed: {shown_error(error)}") from error
        if not callable(loaded):
            problem = f"expected a class at {self.entry_point.value}, found {loaded!r}"
            raise PluginError(self.title, problem)
        return loaded


def find_plugins(kind: PluginKind, ours: Collection[str]) -> list[Plugin]:
    """Return the classes of all installed packages, sorted by name, without importing them."""
    plugins = sorted(_installed(kind), key=lambda plugin: (plugin.name, plugin.package))
    names = [plugin.name for plugin in plugins]
    return [
        replace(plugin, problem=_problem(plugin, plugins, ours, names.count(plugin.name)))
        for plugin in plugins
    ]


def parse_arguments(text: str) -> tuple[str, dict[str, str]]:
    """Split a plug-in's name from its arguments.

    >>> parse_arguments("qe:model=comet,batch=8")
    ('qe', {'model': 'comet', 'batch': '8'})
    """
    name, colon, rest = text.partition(":")
    arguments: dict[str, str] = {}
    for item in rest.split(",") if colon else ():
        key, equals, value = item.partition("=")
        if not (key.isidentifier() and equals) or key in arguments:
            problem = "expected NAME:KEY=VALUE,KEY=VALUE, each key once,"
            raise ArgumentError(f"{name}: {problem} got {text!r}")
        arguments[key] = value
    return name, arguments


def find_plugin(kind: PluginKind, text: str, ours: Collection[str]) -> Plugin | None:
    """Return the class with this name and arguments, or None.

    :raises PluginError: if the name is not unique, or reserved.
    """
    name, arguments = parse_arguments(text)
    plugin = next((plugin for plugin in find_plugins(kind, ours) if plugin.name == name), None)
    if plugin is not None and plugin.problem is not None:
        raise PluginError(plugin.title, plugin.problem)
    return None if plugin is None else replace(plugin, arguments=tuple(arguments.items()))


def _installed(kind: PluginKind) -> Iterator[Plugin]:
    from importlib.metadata import distributions  # slow, and needed by few commands

    here = os.path.realpath(os.curdir)
    seen: set[str] = set()
    for package in distributions(path=[x for x in sys.path if os.path.realpath(x) != here]):
        entry_points = package.entry_points.select(group=GROUPS[kind])
        if not entry_points:  # other metadata is slow to read
            continue
        name: str | None = package.metadata["Name"]
        key = re.sub("[-_.]+", "-", name or "").lower()
        if not key or key in seen:  # Python also imports the first one on the path
            continue
        seen.add(key)
        for entry_point in entry_points:
            yield Plugin(kind, entry_point.name, f"{name} {package.version}", entry_point)


def _problem(
    plugin: Plugin, plugins: Collection[Plugin], ours: Collection[str], count: int
) -> str | None:
    if _NAME.fullmatch(plugin.name) is None:
        return "expected a name of a-z, 0-9 and '_' that begins with a letter"
    if plugin.name in ours:
        return f"phrasescore {__version__} has a {plugin.kind} of this name itself"
    if count > 1:
        packages = dict.fromkeys(other.package for other in plugins if other.name == plugin.name)
        return f"installed {count} times under this name, by {' and '.join(packages)}"
    return None


def shown_error(error: BaseException) -> str:
    """Return the type of another package's error and the beginning of its text, for a message.

    >>> shown_error(KeyError("x"))
    "KeyError: 'x'"
    """
    text = " ".join(str(error).split())
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return f"{type(error).__name__}: {shown}" if shown else type(error).__name__

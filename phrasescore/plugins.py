"""Features and metrics of other packages, which are found by their entry points.

An installed package names its classes in its metadata, as its ``pyproject.toml`` says::

    [project.entry-points."phrasescore.features"]
    copied_words = "outside_feature:CopiedWords"

To find them is to read the metadata of packages and nothing else; a class is imported when a user
asks for it by name, or for the list of all. The current folder is never searched, for data lies
there, though ``python -m phrasescore`` has it on Python's path.
"""

import os
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from phrasescore.errors import PluginError
from phrasescore.version import __version__

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PluginKind = Literal["feature", "metric"]

GROUPS: dict[PluginKind, str] = {
    "feature": "phrasescore.features",
    "metric": "phrasescore.metrics",
}

# What stands between "@" and "=" on a command line, and in the names of features in n-best lists.
_NAME = re.compile("[a-z][a-z0-9_]*")
# Characters of another package's error that a message shows.
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Plugin:
    """A class of another package."""

    kind: PluginKind
    name: str
    # The package's name and version: values may be others in another version.
    package: str
    entry_point: "EntryPoint"
    # Why it may not be used, as far as its name tells; None where it may.
    problem: str | None = None

    @property
    def title(self) -> str:
        """The package, the kind and the name: the beginning of messages."""
        return f"{self.package}: {self.kind} {self.name}"

    def load(self) -> Any:
        """Import the class and return it.

        :raises PluginError: if the name is not its own, the import fails, or it is no class.
        """
        if self.problem is not None:
            raise PluginError(self.title, self.problem)
        try:
            found = self.entry_point.load()
        except (Exception, SystemExit) as error:
            raise PluginError(self.title, f"its import failed: {shown_error(error)}") from error
        if not callable(found):
            problem = f"expected a class at {self.entry_point.value}, found {found!r}"
            raise PluginError(self.title, problem)
        return found


def find_plugins(kind: PluginKind, ours: Collection[str]) -> list[Plugin]:
    """Return the classes of all installed packages, by name; none is imported.

    :param ours: the names of phrasescore's own features or metrics, which no other may have.
    """
    found = sorted(_installed(kind), key=lambda plugin: (plugin.name, plugin.package))
    names = [plugin.name for plugin in found]
    return [
        replace(plugin, problem=_problem(plugin, found, ours, names.count(plugin.name)))
        for plugin in found
    ]


def find_plugin(kind: PluginKind, name: str, ours: Collection[str]) -> Plugin | None:
    """Return the class of that name, None where no package has one.

    :raises PluginError: if it has the name of another one, or of one of ours.
    """
    found = next((plugin for plugin in find_plugins(kind, ours) if plugin.name == name), None)
    if found is not None and found.problem is not None:
        raise PluginError(found.title, found.problem)
    return found


def _installed(kind: PluginKind) -> Iterator[Plugin]:
    from importlib.metadata import distributions  # takes a while, and few commands need it

    here = os.path.realpath(os.curdir)
    seen: set[str] = set()
    for package in distributions(path=[x for x in sys.path if os.path.realpath(x) != here]):
        entry_points = package.entry_points.select(group=GROUPS[kind])
        if not entry_points:  # the rest of the metadata takes long to read
            continue
        name: str | None = package.metadata["Name"]
        key = re.sub("[-_.]+", "-", name or "").lower()
        if not key or key in seen:  # of two on the path, Python imports the first as well
            continue
        seen.add(key)
        for entry_point in entry_points:
            yield Plugin(kind, entry_point.name, f"{name} {package.version}", entry_point)


def _problem(
    plugin: Plugin, found: Collection[Plugin], ours: Collection[str], count: int
) -> str | None:
    if _NAME.fullmatch(plugin.name) is None:
        return "expected a name of a-z, 0-9 and '_', with a letter first"
    if plugin.name in ours:
        return f"phrasescore {__version__} has a {plugin.kind} of this name itself"
    if count > 1:
        all_of_them = (other.package for other in found if other.name == plugin.name)
        packages = " and ".join(dict.fromkeys(all_of_them))
        return f"installed {count} times under this name, by {packages}"
    return None


def shown_error(error: BaseException) -> str:
    """Return another package's error for a message: its type, and some of its text.

    >>> shown_error(KeyError("x"))
    "KeyError: 'x'"
    """
    text = " ".join(str(error).split())
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return f"{type(error).__name__}: {shown}" if shown else type(error).__name__

"""Features from other packages: classes with a method ``values(pairs)``, found by entry points.

An installed package names its classes in its metadata, from its ``pyproject.toml``::

    [project.entry-points."phrasescore.features"]
    copied_words = "outside_feature:CopiedWords"

The search reads only metadata; a class is imported when a user names it or lists all features.
The current folder, which ``python -m`` puts on the path, contains data and is not searched.
"""

import copy
import math
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from phrasescore.errors import PluginError
from phrasescore.features.feature import BlockScores, Feature, ScoreRow, ValueTally
from phrasescore.features.named import FEATURES
from phrasescore.io.text import shorten
from phrasescore.records import PhraseBlock, PhrasePair
from phrasescore.version import __version__

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# The form of a name after "@" on a command line, and of a feature's name in n-best lists.
_NAME = re.compile("[a-z][a-z0-9_]*")
_SHOWN = 200  # maximum length, in a message, of an error from another package


@dataclass(frozen=True, slots=True)
class PackageClass:
    """The class of a feature in another package."""

    name: str
    package: str  # its name and version; another version may compute other values
    entry_point: "EntryPoint"
    problem: str | None = None  # the reason why the class is unusable, if it is

    @property
    def title(self) -> str:
        """The package and the name, for messages."""
        return f"{self.package}: feature {self.name}"

    def load(self) -> Any:
        """Import and return the class; a PluginError gives the reason if it is unusable."""
        if self.problem is not None:
            raise PluginError(self.title, self.problem)
        try:
            loaded = self.entry_point.load()
        except (Exception, SystemExit) as error:
            raise PluginError(self.title, f"its import failed: {_shown_error(error)}") from error
        if not callable(loaded):
            problem = f"expected a class at {self.entry_point.value}, found {loaded!r}"
            raise PluginError(self.title, problem)
        return loaded


def find_class(name: str) -> PackageClass | None:
    """Return the class with this name, or None.

    :raises PluginError: if the name is not unique, or reserved.
    """
    found = next((each for each in find_classes() if each.name == name), None)
    if found is not None and found.problem is not None:
        raise PluginError(found.title, found.problem)
    return found


def find_classes() -> list[PackageClass]:
    """Return the classes of all installed packages, sorted by name, without importing them."""
    from importlib.metadata import distributions  # slow, and needed by few commands

    here = os.path.realpath(os.curdir)
    by_package: dict[str, list[PackageClass]] = {}
    for package in distributions(path=[x for x in sys.path if os.path.realpath(x) != here]):
        if entry_points := package.entry_points.select(group="phrasescore.features"):
            title = f"{package.name} {package.version}"  # slow to read
            made = [PackageClass(each.name, title, each) for each in entry_points]
            # Python also imports the first package of a name on the path.
            by_package.setdefault(re.sub("[-_.]+", "-", package.name).lower(), made)
    found = sorted(chain(*by_package.values()), key=lambda each: (each.name, each.package))
    return [replace(each, problem=_problem(each, found)) for each in found]


def _problem(one: PackageClass, found: Sequence[PackageClass]) -> str | None:
    if _NAME.fullmatch(one.name) is None:
        return "expected a name of a-z, 0-9 and '_' that begins with a letter"
    if one.name in FEATURES:
        return f"phrasescore {__version__} has a feature of this name itself"
    packages = [each.package for each in found if each.name == one.name]
    if len(packages) > 1:
        names = " and ".join(dict.fromkeys(packages))
        return f"installed {len(packages)} times under this name, by {names}"
    return None


class PackageFeature(Feature):
    """A feature from another package: an object of its class.

    Every block is scored by a copy of the object, so that blocks do not affect each other.
    """

    # Error messages count the values of one list.
    group_size = {"cpu": 1, "cuda": 1}  # noqa: RUF012

    def __init__(self, source: PackageClass) -> None:
        self._title, self.rows = source.title, (ScoreRow(source.package),)
        made = source.load()
        try:
            self._feature = made()
        except (Exception, SystemExit) as error:
            problem = f"it cannot be created: {_shown_error(error)}"
            raise PluginError(self._title, problem) from error
        if not callable(getattr(self._feature, "values", None)):
            raise PluginError(self._title, "expected a class with a method values(pairs)")

    def score(self, block: PhraseBlock) -> BlockScores:
        if not len(block.places):
            return BlockScores(np.empty((1, 0)), ValueTally())
        values = np.array(self._values(list(block.pairs())), np.float64)
        return BlockScores(values[None], ValueTally(len(values), float(values.sum())))

    def _values(self, pairs: list[PhrasePair]) -> list[float]:
        values: list[float] = []
        try:
            found = copy.copy(self._feature).values(iter(pairs))
            values.extend(islice(found, len(pairs) + 1))
        except (Exception, SystemExit) as error:
            problem = f"value {len(values) + 1:,}: it raised {_shown_error(error)}"
            raise PluginError(self._title, problem) from error
        for value, pair in zip(values, pairs, strict=False):
            if not isinstance(value, float) or not math.isfinite(value):
                shown = shorten(f"{' '.join(pair.source)} ||| {' '.join(pair.target)}")
                problem = f"expected a finite float, got {value!r} for the pair {shown}"
                raise PluginError(self._title, problem)
        if len(values) != len(pairs):
            found = "more" if len(values) > len(pairs) else f"only {len(values):,}"
            problem = f"expected {len(pairs):,} values, one per pair, got {found}"
            raise PluginError(self._title, problem)
        return values


def _shown_error(error: BaseException) -> str:
    """Return the type of another package's error and the beginning of its text, for a message.

    >>> _shown_error(KeyError("x"))
    "KeyError: 'x'"
    """
    text = " ".join(str(error).split())
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return f"{type(error).__name__}: {shown}" if shown else type(error).__name__

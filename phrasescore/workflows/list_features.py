"""List the features and metrics that options accept by name, including plug-ins."""

import inspect
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass

from phrasescore.errors import PluginError
from phrasescore.evaluation.plugin_metric import OURS
from phrasescore.features import (
    FEATURE_NAMES,
    FEATURES,
    NOT_OF_PHRASES,
    load_feature,
)
from phrasescore.io.text_table import text_table
from phrasescore.plugins import PluginKind, find_plugins
from phrasescore.version import __version__
from tuning.settings import METRICS

_OUR_PACKAGE = f"phrasescore {__version__}"


@dataclass(frozen=True, slots=True)
class ListedName:
    """A feature or a metric, with the name that options accept."""

    kind: PluginKind
    name: str
    # Its package, with the version.
    package: str
    # For a feature: lists, tables or both; for a metric: its verbs.
    used_for: tuple[str, ...] = ()
    # The first line of the docstring of its class.
    about: str = ""
    # The reason why it is refused; None if it can be used.
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class FeatureList:
    """All features, then all metrics; phrasescore's own come first."""

    names: tuple[ListedName, ...]

    def to_json(self) -> str:
        """Return a JSON list of objects."""
        return json.dumps([asdict(each) for each in self.names], indent=2, ensure_ascii=False)

    def to_text(self) -> str:
        """Return a table of features, a table of metrics, and a line for each refused name."""
        parts = [self._table(kind) for kind in ("feature", "metric")]
        refused = [each for each in self.names if each.problem is not None]
        parts.append([f"refused: {each.package}: {each.kind} {each.name}: {each.problem}"
                      for each in refused])  # fmt: skip
        return "\n\n".join("\n".join(lines) for lines in parts if lines)

    def _table(self, kind: PluginKind) -> list[str]:
        rows = [[kind, "for", "from", ""]]
        for each in self.names:
            if each.kind == kind and each.problem is None:
                rows.append([each.name, ", ".join(each.used_for), each.package, each.about])
        return text_table(rows, "l", indent="  ")


def list_features() -> FeatureList:
    """Return the features and metrics that options accept by name, and the refused ones.

    Classes of other packages are imported, but not called: whether they keep their contract is
    checked when they are used.
    """
    found = [_our_feature(name) for name in FEATURE_NAMES]
    found += _of_packages("feature", FEATURES, _places)
    for name in OURS:
        verbs = ("tune", "evaluate") if name in METRICS else ("evaluate",)
        found.append(ListedName("metric", name, _OUR_PACKAGE, verbs))
    found += _of_packages("metric", OURS, lambda _: ("tune", "evaluate"))
    return FeatureList(tuple(found))


def _our_feature(name: str) -> ListedName:
    places = ("lists",) if name in NOT_OF_PHRASES else ("lists", "tables")
    return ListedName("feature", name, _OUR_PACKAGE, places, _about(load_feature(name)))


def _places(made: object) -> tuple[str, ...]:
    reason = getattr(made, "not_of_phrases", None)
    return ("lists", "tables") if reason is None else ("lists",)


def _of_packages(
    kind: PluginKind, ours: Collection[str], used_for: Callable[[object], tuple[str, ...]]
) -> Iterator[ListedName]:
    for plugin in find_plugins(kind, ours):
        try:
            made = plugin.load()
        except PluginError as error:
            yield ListedName(kind, plugin.name, plugin.package, problem=error.problem)
            continue
        yield ListedName(kind, plugin.name, plugin.package, used_for(made), _about(made))


def _about(made: object) -> str:
    return (inspect.getdoc(made) or "").partition("\n")[0]

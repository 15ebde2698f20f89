"""Features from other packages; every value is checked."""

import copy
import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from phrasescore.errors import PhrasescoreError, PluginError
from phrasescore.features import BlockScores, Feature
from phrasescore.io.text import shorten
from phrasescore.plugins import Plugin, shown_error
from phrasescore.records import PhraseBlock, PhrasePair, Tally


@dataclass(frozen=True, slots=True)
class ValueTally(Tally):
    """The number of values, and their sum."""

    values: int = 0
    total: float = 0.0

    def __str__(self) -> str:
        mean = self.total / self.values if self.values else math.nan
        return f"{self.values:,} values, {mean:.4g} on average"


class PluginFeature(Feature):
    """A feature from another package: an object of its class, created with the given arguments.

    Every block is scored by a copy of the object, so that blocks do not affect each other.
    """

    # Error messages count the values of one list.
    group_size = {"cpu": 1, "cuda": 1}  # noqa: RUF012

    def __init__(self, plugin: Plugin) -> None:
        self._title, self.fingerprints = plugin.title, (plugin.fingerprint,)
        try:
            self._feature = plugin.create()
        except PluginError:  # its import failed
            raise
        except (Exception, SystemExit) as error:
            raise PluginError(self._title, f"it cannot be created: {shown_error(error)}") from error
        if not callable(getattr(self._feature, "values", None)):
            raise PluginError(self._title, "expected a class with a method values(pairs)")

    def score(self, block: PhraseBlock) -> BlockScores:
        if not len(block.places):
            return BlockScores(np.empty((1, 0)), ValueTally())
        feature = copied(self._feature, self._title)
        values = np.array([*checked_values(feature, block.pairs(), self._title)], np.float64)
        return BlockScores(values[None], ValueTally(len(values), float(values.sum())))


def copied(feature: Any, title: str) -> Any:
    """Return a copy of another package's object, by ``copy.copy``."""
    try:
        return copy.copy(feature)
    except Exception as error:
        raise PluginError(title, f"it cannot be copied: {shown_error(error)}") from error


def checked_values(feature: Any, pairs: Iterable[PhrasePair], title: str) -> Iterator[float]:
    """Yield the values from any object with ``values(pairs)``, after checking each value.

    An error from the iterator of pairs, such as a file's error, is propagated unchanged.

    :param title: the object's name in messages.
    :raises PluginError: if there are more or fewer values than pairs, a value is not a finite
        float, or the object raises an error.
    """
    waiting: deque[PhrasePair] = deque()  # pairs that were read and have no value yet

    def note_pairs() -> Iterator[PhrasePair]:
        for pair in pairs:
            waiting.append(pair)
            yield pair

    source = note_pairs()
    number = 0
    values: Iterator[Any] | None = None
    while True:
        try:
            if values is None:
                values = iter(feature.values(source))
            value = next(values)
        except StopIteration:
            break
        except PhrasescoreError:  # from the iterator of pairs
            raise
        except (Exception, SystemExit) as error:
            problem = f"value {number + 1:,}: it raised {shown_error(error)}"
            raise PluginError(title, problem) from error
        number += 1
        if not waiting:
            raise PluginError(title, f"expected {number - 1:,} values, one per pair, got more")
        pair = waiting.popleft()
        if not isinstance(value, float) or not math.isfinite(value):
            shown = shorten(f"{' '.join(pair.source)} ||| {' '.join(pair.target)}")
            problem = f"expected a finite float, got {_shown(value)} for the pair {shown}"
            raise PluginError(title, problem)
        yield float(value)
    if waiting or next(islice(source, 1), None) is not None:
        raise PluginError(title, f"expected one value per pair, got only {number:,} in all")


def _shown(value: Any) -> str:
    """Return a value for a message, with its type if the type is the problem.

    >>> _shown(float("nan")), _shown(3)
    ('nan', '3 (int)')
    """
    if isinstance(value, float):
        return repr(float(value))
    return f"{repr(value)[:60]} ({type(value).__name__})"

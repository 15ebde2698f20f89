"""Promises of features.packages: each block has its own copy, and every value is checked."""

import itertools
import sys
import types
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from phrasescore.errors import PluginError
from phrasescore.features.feature import ScoreRow, ValueTally
from phrasescore.features.packages import PackageClass, PackageFeature
from phrasescore.records import PhraseBlock, PhrasePair
from tests.feature_values import scored, values_of

PAIR = PhrasePair(("la",), ("the", "house"))


class CountingFeature:
    """Yields the number of values so far, of this object and its copies."""

    def __init__(self) -> None:
        self.number = 0

    def values(self, pairs: Iterable[PhrasePair]) -> Iterator[float]:
        for _ in pairs:
            self.number += 1
            yield float(self.number)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("counts")
    module.CountingFeature = CountingFeature  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "counts", module)


def made() -> PackageFeature:
    entry_point = EntryPoint("counting", "counts:CountingFeature", "phrasescore.features")
    return PackageFeature(PackageClass("counting", "counts 2.5", entry_point))


def test_each_block_is_scored_by_a_copy_of_the_object() -> None:
    feature = made()
    assert values_of(feature, [PAIR] * 3) == [1, 2, 3]
    assert values_of(feature, [PAIR]) == [1]
    assert feature.rows == (ScoreRow("counts 2.5"),)


def test_a_tally_has_the_mean_and_adds_up() -> None:
    assert scored(made(), [])[1] == "0 values, nan on average"
    parts = [made().score(PhraseBlock.of([PAIR] * count)).tally for count in (3, 1)]
    assert parts[0] + parts[1] == ValueTally(4, 7.0)
    assert str(parts[0] + parts[1]) == "4 values, 1.75 on average"


class Endless:
    def values(self, _: object) -> Iterator[float]:
        return itertools.repeat(0.0)


class Nothing:
    def values(self, _: object) -> Iterator[float]:
        return iter(())


class Single(CountingFeature):
    def __copy__(self) -> None:
        raise TypeError("there is only one")


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (Endless(), "expected 2 values, one per pair, got more"),
        (Nothing(), "expected 2 values, one per pair, got only 0"),
        (Single(), "value 1: it raised TypeError: there is only one"),
    ],
)
def test_a_feature_that_breaks_its_contract_is_named(broken: Any, problem: str) -> None:
    feature = made()
    feature._feature = broken
    with pytest.raises(PluginError) as caught:
        values_of(feature, [PAIR] * 2)
    assert str(caught.value) == f"counts 2.5: feature counting: {problem}"

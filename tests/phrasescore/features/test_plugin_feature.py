"""Promises of features.plugin_feature: values are checked as they come, and otherwise stay."""

import itertools
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint

import pytest

from phrasescore.errors import DataError, PluginError
from phrasescore.features.plugin_feature import PluginFeature, ValueTally, checked_values
from phrasescore.plugins import GROUPS, Plugin
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


def made(value: str = f"{__name__}:CountingFeature") -> PluginFeature:
    entry_point = EntryPoint("counting", value, GROUPS["feature"])
    return PluginFeature(Plugin("feature", "counting", "counts 2.5", entry_point))


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or _this())


def _this() -> object:
    import types

    module = types.ModuleType(__name__)
    module.__dict__.update(globals())
    return module


def test_each_block_is_scored_by_a_copy_of_the_object() -> None:
    feature = made()
    assert values_of(feature, [PAIR] * 3) == [1, 2, 3]
    assert values_of(feature, [PAIR]) == [1]
    assert feature.fingerprints == ("counts 2.5",)


def test_a_tally_has_the_mean_and_adds_up() -> None:
    assert scored(made(), [])[1] == "0 values, nan on average"
    parts = [made().score(PhraseBlock.of([PAIR] * count)).tally for count in (3, 1)]
    assert parts[0] + parts[1] == ValueTally(4, 7.0)
    assert str(parts[0] + parts[1]) == "4 values, 1.75 on average"


def test_an_error_of_the_pairs_is_not_the_feature_s() -> None:
    def pairs() -> Iterator[PhrasePair]:
        yield PAIR
        raise DataError("table", 2, "expected another line")

    values = checked_values(CountingFeature(), pairs(), "x")
    assert next(values) == 1
    with pytest.raises(DataError, match=r"^table:2: expected another line$"):
        next(values)


def test_a_value_before_its_pair_is_one_too_many() -> None:
    class Endless:
        def values(self, _: object) -> Iterator[float]:
            return itertools.repeat(0.0)

    with pytest.raises(PluginError, match=r"^x: expected 0 values, one per pair, got more$"):
        next(checked_values(Endless(), [PAIR], "x"))


@pytest.mark.parametrize("pairs", [[], [PAIR] * 2])
def test_pairs_that_are_not_read_are_found(pairs: list[PhrasePair]) -> None:
    class Nothing:
        def values(self, _: object) -> Iterator[float]:
            return iter(())

    if not pairs:
        assert list(checked_values(Nothing(), pairs, "x")) == []
    else:
        with pytest.raises(PluginError, match=r"^x: expected one value per pair, got only 0"):
            list(checked_values(Nothing(), pairs, "x"))


def test_an_object_that_cannot_be_copied_is_named() -> None:
    class Single(CountingFeature):
        def __copy__(self) -> None:
            raise TypeError("there is only one")

    feature = made()
    feature._feature = Single()
    with pytest.raises(PluginError, match=r"it cannot be copied: TypeError: there is only one$"):
        values_of(feature, [PAIR])

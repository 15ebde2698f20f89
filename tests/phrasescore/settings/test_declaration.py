"""Tests of settings that are declared once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import numpy as np
import pytest
from msgspec import Meta

from phrasescore.arguments import Count, Positive, StrPath
from phrasescore.errors import ArgumentError
from phrasescore.settings.building import Estimating
from phrasescore.settings.declaration import Settings, option, settings_of
from tuning.settings import METHODS, MethodName


@dataclass(frozen=True, kw_only=True)
class Kitchen(Settings, heading="Kitchen"):
    """Settings of every type."""

    pots: Annotated[int, Meta(ge=1, le=9)] = option(2, "Pots.")
    heat: Positive | None = option(None, "Heat.", heading="Stove")
    names: Sequence[str] = option((), "A name.", flags="--name -n")
    kind: Literal["gas", "wood"] = option("gas", "Fuel.")
    book: StrPath | None = option(None, "Recipes.", metavar="BOOK")


@dataclass(frozen=True, kw_only=True)
class Restaurant(Kitchen, heading="Restaurant"):
    """Settings with those of a base class."""

    tables: Count = option(0, "Tables.")


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"pots": 0}, "--pots: expected a number from 1 to 9, got 0"),
        ({"pots": 10}, "--pots: expected a number from 1 to 9, got 10"),
        ({"pots": 1.5}, "--pots: expected a whole number, got 1.5"),
        ({"pots": None}, "--pots: expected a value, got None"),
        ({"heat": 0.0}, "--heat: expected a number above 0, got 0.0"),
        ({"heat": float("nan")}, "--heat: expected a finite number, got nan"),
        ({"heat": "hot"}, "--heat: expected a number, got 'hot'"),
        ({"names": "pan"}, "--name: expected a sequence, got the string 'pan'"),
        ({"kind": "coal"}, "--kind: expected one of gas, wood, got 'coal'"),
    ],
)
def test_a_value_out_of_range_is_refused_when_the_object_is_made(
    values: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        Restaurant(**values)
    assert str(caught.value) == problem


def test_values_in_range_pass() -> None:
    made = Restaurant(pots=9, heat=0.1, names=["a"], kind="wood", book="b")
    assert (made.pots, made.tables) == (9, 0)


def test_numbers_of_numpy_become_numbers_of_python() -> None:
    values: dict[str, Any] = {"pots": np.int64(3), "heat": np.float32(0.5)}
    found = Kitchen(**values)
    assert found == Kitchen(pots=3, heat=0.5)
    assert repr(found) == "Kitchen(pots=3, heat=0.5)"
    values = {"prune": np.array([0, 1])}
    pruned = Estimating(**values).prune
    assert pruned == (0, 1)
    assert {*map(type, pruned)} == {int}
    with pytest.raises(ArgumentError, match=r"--pots: expected a whole number, got 3\.0"):
        Kitchen(pots=np.float64(3))  # type: ignore[arg-type]


def test_settings_print_what_differs_from_the_defaults_as_code() -> None:
    made = Restaurant(heat=0.5, pots=2, names=["a"])
    assert repr(made) == "Restaurant(heat=0.5, names=('a',))"
    assert repr(Kitchen()) == "Kitchen()"


def test_a_declaration_has_all_that_the_annotation_says() -> None:
    found = {setting.name: setting for setting in settings_of(Restaurant)}
    pots = found["pots"]
    assert (pots.kind, pots.range, pots.default) == (int, "from 1 to 9", 2)
    assert (found["names"].flags, found["names"].flag) == (["--name", "-n"], "--name")
    assert found["names"].is_sequence
    assert found["book"].extra == {"metavar": "BOOK"}
    assert found["heat"].is_optional
    headings = [setting.heading for setting in found.values()]
    assert headings == ["Kitchen", "Stove", *["Kitchen"] * 3, "Restaurant"]


def test_every_method_of_tuning_may_be_chosen() -> None:
    assert get_args(MethodName) == tuple(METHODS)

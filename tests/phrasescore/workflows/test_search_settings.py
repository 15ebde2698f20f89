"""Promises of workflows.search_settings: values are checked once, whoever gives them."""

from typing import Any

import pytest

from phrasescore import SearchSettings
from phrasescore.errors import ArgumentError
from phrasescore.workflows.search_settings import moses_limits


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"algorithm": "foo"}, "--search-algorithm: expected one of normal, cube, got 'foo'"),
        ({"stack_size": -3}, "--stack: expected at least 0, got -3"),
        ({"stack_size": 2.5}, "--stack: expected a whole number, got 2.5"),
        ({"distortion_limit": -2}, "--distortion-limit: expected at least -1, got -2"),
        ({"pop_limit": 0}, "--cube-pruning-pop-limit: expected at least 1, got 0"),
        ({"beam_threshold": 1.5}, "--beam-threshold: expected at most 1, got 1.5"),
        ({"buffer_size": 0}, "--buffer-size: expected at least 1, got 0"),
        ({"processes": 0}, "--processes: expected at least 1, got 0"),
        ({"features": ("rnn",), "models": ("m",)}, "--feature: expected cslm or joint, got 'rnn'"),
    ],
)
def test_a_value_that_a_setting_may_not_have_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        SearchSettings(**given)
    assert str(caught.value) == problem


def test_limits_have_the_names_and_numbers_of_moses() -> None:
    settings = SearchSettings(stack_size=50, algorithm="cube", beam_threshold=0.0)
    found = {"stack": "50", "search-algorithm": "1", "beam-threshold": "0.0"}
    assert moses_limits(settings) == found
    assert SearchSettings(distortion_limit=-1).limits() == {"distortion-limit": -1}

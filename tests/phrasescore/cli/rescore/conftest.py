"""Models and lists that the tests of ``phrasescore rescore`` share."""

from pathlib import Path

import pytest

from tests.doubles import RandomModel
from tests.random_lists import SOURCE_WORDS, TARGET_WORDS, Lists


@pytest.fixture
def model(tmp_path: Path) -> RandomModel:
    return RandomModel(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS)


@pytest.fixture
def reverse(tmp_path: Path) -> RandomModel:
    return RandomModel(tmp_path / "back", ["the"], ["la", "maison"], seed=1, reverse=True)


@pytest.fixture
def lists(tmp_path: Path) -> Lists:
    return Lists(tmp_path)

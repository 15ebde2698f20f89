"""Choosing training text: differences worked by hand, and which lines they keep."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasescore.language_models.ngram_scorer import CrossEntropyDifference
from phrasescore.workflows.select import choose_best


def unigrams(path: Path, words: Mapping[str, float]) -> str:
    """Write a model of single words, given the base-10 logarithms of their probabilities.

    ``</s>`` has -1, ``<unk>`` -4. KenLM insists on one pair of words, which changes nothing.
    """
    lines = ["\\data\\", f"ngram 1={len(words) + 3}", "ngram 2=1", "", "\\1-grams:", "-4\t<unk>"]
    lines += ["-99\t<s>\t0", "-1\t</s>", *(f"{value}\t{word}\t0" for word, value in words.items())]
    path.write_text("\n".join([*lines, "", "\\2-grams:", "-1\t<s> </s>", "", "\\end\\", ""]))
    return str(path)


@pytest.fixture
def difference(tmp_path: Path) -> CrossEntropyDifference:
    in_domain = unigrams(tmp_path / "in", {"dog": -0.5, "snow": -1})
    return CrossEntropyDifference(in_domain, unigrams(tmp_path / "all", {"dog": -1.5, "law": -2}))


def test_a_difference_is_of_cross_entropies_in_nats_a_token_with_the_end(
    difference: CrossEntropyDifference,
) -> None:
    found = difference.differences([("dog", "dog"), ("dog", "law"), ("snow",), ()])
    # -log10 p under the wanted model and under the general one, the end included.
    expected = [
        ((0.5 + 0.5 + 1) - (1.5 + 1.5 + 1)) / 3,
        ((0.5 + 4 + 1) - (1.5 + 2 + 1)) / 3,
        ((1 + 1) - (4 + 1)) / 2,
        0.0,
    ]
    assert found == pytest.approx(np.array(expected) * math.log(10), rel=1e-6)


def test_a_literal_unk_and_white_space_in_a_text_are_unknown_words(
    difference: CrossEntropyDifference,
) -> None:
    texts = [("dog\tsnow",), ("<unk>",), ("sea",)]
    values = difference.differences(texts)
    assert values.tolist() == [values[2]] * 3


@given(st.lists(st.integers(-3, 3)), st.data())
def test_the_best_are_the_lowest_and_of_equal_ones_the_earlier(
    numbers: list[int], data: st.DataObject
) -> None:
    count = data.draw(st.integers(0, len(numbers)))
    ranks = sorted(range(len(numbers)), key=lambda place: (numbers[place], place))
    expected = [place in ranks[:count] for place in range(len(numbers))]
    assert choose_best(np.array(numbers, dtype=float), count).tolist() == expected

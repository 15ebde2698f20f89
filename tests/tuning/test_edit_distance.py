"""Word accuracy and character error rate: the figures of a slow implementation, and by hand."""

import random
from collections.abc import Sequence
from functools import cache

import pytest

from tuning.edit_distance import CharacterAccuracy, WordAccuracy

Words = Sequence[str]


def slow_distance(first: Words, second: Words) -> int:
    """Levenshtein's recursion on prefixes."""

    @cache
    def between(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        changed = between(i - 1, j - 1) + (first[i - 1] != second[j - 1])
        return min(changed, between(i - 1, j) + 1, between(i, j - 1) + 1)

    return between(len(first), len(second))


def random_sentences(numbers: random.Random, how_many: int) -> list[list[str]]:
    """Few words and characters, so that they match; some sentences are empty."""
    words = ["a", "ab", "ba", "abba", "été", "中文"]
    return [numbers.choices(words, k=numbers.choice([0, 1, 1, 2, 3, 5])) for _ in range(how_many)]


@pytest.mark.parametrize("num_references", [1, 3])
@pytest.mark.parametrize("kind", [WordAccuracy, CharacterAccuracy])
def test_the_statistics_are_those_of_the_nearest_reference(
    kind: type[WordAccuracy], num_references: int
) -> None:
    numbers = random.Random(num_references)
    references = [random_sentences(numbers, 20) for _ in range(num_references)]
    hypotheses = [[*words, "new"] for words in random_sentences(numbers, 300)]
    segments = [numbers.randrange(20) for _ in hypotheses]
    found = kind(references).statistics(hypotheses, segments)
    for words, segment, statistics in zip(hypotheses, segments, found, strict=True):
        texts = [words, *(reference[segment] for reference in references)]
        ours, *theirs = [" ".join(text) if kind is CharacterAccuracy else text for text in texts]
        rows = [[slow_distance(ours, text), len(text)] for text in theirs]
        assert statistics.tolist() == min(rows, key=lambda row: row[0] / max(row[1], 1))


def test_with_one_word_per_line_the_score_is_the_share_of_right_words() -> None:
    metric = WordAccuracy([[["sind"], ["seid"], ["doch"], ["das"]]])
    sums = metric.statistics([["sind"], ["seind"], ["doch"], []], range(4)).sum(axis=0)
    assert sums.tolist() == [2, 4]
    assert float(metric.score(sums)) == 0.5


def test_spaces_between_words_are_characters() -> None:
    metric = CharacterAccuracy([[["zu", "dem"]]])
    statistics = metric.statistics([["zudem"], ["zu", "dem"]], [0, 0])
    assert statistics.tolist() == [[1, 6], [0, 6]]
    assert metric.score(statistics).tolist() == pytest.approx([5 / 6, 1])


def test_empty_references_have_errors_but_no_words() -> None:
    metric = WordAccuracy([[[]]])
    statistics = metric.statistics([[], ["a"]], [0, 0])
    assert statistics.tolist() == [[0, 0], [1, 0]]
    assert metric.score(statistics).tolist() == [1, 0]


def test_no_hypothesis_has_no_statistics() -> None:
    assert WordAccuracy([[["a"]]]).statistics([], []).shape == (0, 2)

"""What is chosen of tables, made by hand, and drawn as fairly as chance allows."""

from collections import Counter
from collections.abc import Iterator

import pytest

from phrasescore.records import PhrasePair
from phrasescore.report.phrases import Reservoir, TablePair, choose_from_table

EVERYTHING = {"num_pairs": 100, "num_phrases": 100, "num_sources": 100, "long": 4}


def line(source: str, target: str, times: float = 1.0) -> TablePair:
    return TablePair(PhrasePair(tuple(source.split()), tuple(target.split())), (0.5,), times)


def lines(source: str, *times: float) -> Iterator[TablePair]:
    """Return a target for each of how often it was extracted."""
    return (line(source, f"t{number}", count) for number, count in enumerate(times))


def sources(found: list) -> list[str]:
    return [" ".join(phrase.source) for phrase in found]


def test_frequent_sources_are_long_have_three_targets_and_come_by_their_counts() -> None:
    table = [
        *lines("a b c", 900, 9, 9),  # short
        *lines("a b c d", 5, 5, 5),
        *lines("e f g h", 100, 100),  # two targets
        *lines("i j k l", 20, 1, 1),
        *lines("m n o p", 1, 1, 15),
    ]
    choice = choose_from_table(table, **EVERYTHING, seed=1)
    assert sources(choice.frequent) == ["i j k l", "m n o p", "a b c d"]
    assert [phrase.times for phrase in choice.frequent] == [22, 17, 15]
    assert (choice.num_pairs, choice.num_long) == (14, 4)
    assert [len(phrase.targets) for phrase in choice.frequent] == [3, 3, 3]


def test_of_sources_that_hold_one_another_the_most_frequent_is_shown() -> None:
    table = [
        *lines("a b c d", 5, 5, 5),
        *lines("a b c d e", 5, 5, 5),
        *lines("x a b c d e f", 5, 5, 6),
        *lines("xa b c d", 1, 2, 1),  # holds none: its first word is another one
    ]
    assert sources(choose_from_table(table, **EVERYTHING, seed=1).frequent) == [
        "x a b c d e f",
        "xa b c d",
    ]
    assert sources(choose_from_table(table[:6], **EVERYTHING, seed=1).frequent) == ["a b c d"]


def test_rare_sources_are_those_whose_pairs_were_all_extracted_once() -> None:
    table = [*lines("a b c d", 1, 1, 1), *lines("e f g h", 1, 1, 2), *lines("i j k l", 1, 1)]
    assert sources(choose_from_table(table, **EVERYTHING, seed=1).rare) == ["a b c d"]


def test_no_more_than_the_limits_are_chosen_and_a_seed_repeats_the_choice() -> None:
    table = [each for number in range(60) for each in lines(f"a{number} b c d", 1, 1, 1)]
    limits = {"num_pairs": 7, "num_phrases": 5, "num_sources": 3, "long": 4}
    choice = choose_from_table(table, **limits, seed=1)
    sizes = [len(part) for part in (choice.pairs, choice.phrases, choice.frequent, choice.rare)]
    assert sizes == [7, 5, 3, 3]
    assert choose_from_table(table, **limits, seed=1) == choice
    assert choose_from_table(table, **limits, seed=2).pairs != choice.pairs


def test_more_of_one_thing_leaves_what_else_is_drawn_as_it_was() -> None:
    table = [each for number in range(60) for each in lines(f"a{number} b c d", 1, 1, 1)]
    limits = {"num_pairs": 7, "num_phrases": 5, "num_sources": 3, "long": 4}
    more = choose_from_table(table, **{**limits, "num_pairs": 9}, seed=1)
    assert more.phrases == choose_from_table(table, **limits, seed=1).phrases


def test_a_table_without_long_phrases_has_pairs_alone() -> None:
    choice = choose_from_table([*lines("a b", 5, 5, 5)], **EVERYTHING, seed=1)
    assert (len(choice.pairs), choice.phrases, choice.frequent, choice.rare) == (3, [], [], [])


def test_every_item_of_a_stream_is_kept_as_often() -> None:
    times: Counter[int] = Counter()
    trials = 3000
    for trial in range(trials):
        reservoir: Reservoir[int] = Reservoir(3, str(trial))
        for item in range(10):
            reservoir.add(item)
        found = reservoir.items()
        assert found == sorted(found)
        times.update(found)
    # 0.3 each; 5 standard deviations of a binomial share are 0.042.
    assert [times[item] / trials for item in range(10)] == pytest.approx([0.3] * 10, abs=0.042)


@pytest.mark.parametrize("size", [0, 3, 4])
def test_a_short_stream_is_kept_whole(size: int) -> None:
    reservoir: Reservoir[str] = Reservoir(size, "1")
    for item in "abc":
        reservoir.add(item)
    assert reservoir.items() == list("abc")[:size]
    assert reservoir.seen == 3

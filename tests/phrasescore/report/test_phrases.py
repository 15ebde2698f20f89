"""Which phrases a report shows, and what it says of them."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from phrasescore.generation.generator import Generated
from phrasescore.generation.sampling import CountedSample
from phrasescore.records import PhrasePair
from phrasescore.report import inputs, phrases
from phrasescore.report.blocks import Points, Section
from phrasescore.report.inputs import (
    MadeSection,
    NamedModel,
    ReportInputs,
    Reservoir,
    SourcePhrase,
    TableChoice,
    TablePair,
    choose_from_table,
)
from phrasescore.settings.config import Config
from tests.phrasescore.report.report_blocks import blocks_of, pair, section_of, table_of

Make = Callable[..., Section]
CHECKPOINT: Any = SimpleNamespace(reverse=False, config=Config(kind="encoder-decoder"))


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return a function that makes a section of what was chosen, and of what networks say of it."""

    def section(
        plan: Callable[[ReportInputs], MadeSection],
        choice: TableChoice,
        scores: dict[str, list[float]],
        drawn: dict[str, list[list[CountedSample]]] | None = None,
    ) -> Section:
        monkeypatch.setattr(ReportInputs, "table_choice", choice)
        monkeypatch.setattr(NamedModel, "column", 0)
        monkeypatch.setattr(phrases, "_score", lambda _inputs, model, _pairs: scores[model.name])
        samples = drawn or {name: [[] for _ in range(9)] for name in scores}
        monkeypatch.setattr(phrases, "_draw", lambda _inputs, model, _: samples[model.name])
        return section_of(plan, models=[NamedModel(name, CHECKPOINT) for name in scores])

    return section


PAIRS = [
    pair("<b>", "a &amp; b", 0.5, 12.0),
    pair("b", "b", 1.0, 2.0),
    pair("c", "c", 0.0, 1.0),
    pair("d", "d", 0.25, 1.0),
]


def test_each_pair_is_a_point_with_both_scores_and_both_phrases(make: Make) -> None:
    choice = TableChoice(PAIRS, [], [], [], num_pairs=1000)
    points = blocks_of(make(phrases.scores, choice, {"rnn": [-1.0, -3.0, -2.0, -5.0]}))["scores-1"]
    assert isinstance(points, Points)
    # A probability of 0 is where Moses has it.
    assert points.x == pytest.approx([math.log(0.5), 0.0, -100.0, math.log(0.25)])
    assert points.y == (-1.0, -3.0, -2.0, -5.0)
    assert points.labels[:2] == ("<b> → a & b", "b → b")
    assert points.groups == (
        "extracted 10 times or more",
        "extracted 2 to 9 times",
        "extracted once",
        "extracted once",
    )
    assert not points.is_map
    assert points.caption.endswith(" 4 of 1,000 pairs.")


# The table's best are c, a, d (b and e behind); the network's are b, a, d.
PHRASE = SourcePhrase(
    ("la", "maison", "est", "bleue"),
    [
        pair("la maison est bleue", name, probability, 2.0)
        for name, probability in (("a", 0.3), ("b", 0.05), ("c", 0.4), ("d", 0.2), ("e", 0.05))
    ],
)
NETWORK = [math.log(probability) for probability in (0.25, 0.5, 0.01, 0.125, 0.02)]


def chosen(frequent: list[SourcePhrase], rare: list[SourcePhrase]) -> TableChoice:
    return TableChoice([], [], frequent, rare, num_pairs=0)


def test_preferences_are_the_three_best_of_the_table_and_of_the_network(make: Make) -> None:
    section = make(phrases.preferences, chosen([PHRASE], []), {"rnn": NETWORK})
    found = table_of(section, "preferences-frequent")
    assert found.columns == (
        *("source phrase", "times extracted", "targets", "the table prefers", "rnn prefers"),
        "rnn draws",
    )
    by_table, by_network = "c (0.400)\na (0.300)\nd (0.200)", "b (0.500)\na (0.250)\nd (0.125)"
    assert found.rows == (("la maison est bleue", 10, 5, by_table, by_network, ""),)
    assert set(blocks_of(section)) == {"preferences-frequent"}


def test_several_networks_have_columns_of_their_own(make: Make) -> None:
    models = {"one": NETWORK, "two": [-10.0 - value for value in NETWORK]}
    section = make(phrases.preferences, chosen([], [PHRASE]), models)
    found = table_of(section, "preferences-rare")
    assert found.columns[4:] == ("one prefers", "two prefers", "one draws", "two draws")
    # exp(-10) / 0.01 is 0.0045, exp(-10) / 0.02 half of that, exp(-10) / 0.125 0.0004.
    assert found.rows[0][5] == "c (0.005)\ne (0.002)\nd (< 0.001)"


def counted(text: str, times: int, log_prob: float) -> CountedSample:
    return CountedSample(Generated(tuple(text.split()), log_prob), times)


def test_samples_are_the_five_best_with_their_counts(make: Make) -> None:
    drawn = [counted(name, 10 - at, -1.0 - at) for at, name in enumerate("bxacyz")]
    models, choice = {"m": NETWORK}, chosen([PHRASE], [])
    found = table_of(
        make(phrases.preferences, choice, models, {"m": [drawn]}), "preferences-frequent"
    )
    ((source, *_, lines),) = found.rows
    assert source == "la maison est bleue"
    assert str(lines).split("\n") == [
        "b (× 10, -1.00)",
        "x (× 9, -2.00, new)",
        "a (× 8, -3.00)",
        "c (× 7, -4.00)",
        "y (× 6, -5.00, new)",
    ]


def test_samples_of_rare_phrases_come_after_those_of_frequent_ones(make: Make) -> None:
    choice = chosen([PHRASE], [SourcePhrase(("x",), [pair("x", "y", 1.0, 1.0)])])
    models = {name: [*NETWORK, -1.0] for name in "mn"}
    drawn = {name: [[counted("a", 1, -1)], [counted("q", 2, -2)]] for name in "mn"}
    found = table_of(make(phrases.preferences, choice, models, drawn), "preferences-rare")
    assert [row[-2:] for row in found.rows] == [("q (× 2, -2.00, new)", "q (× 2, -2.00, new)")]


def line(source: str, target: str, times: float = 1.0) -> TablePair:
    return TablePair(PhrasePair(tuple(source.split()), tuple(target.split())), (0.5,), times)


def lines(source: str, *times: float) -> Iterator[TablePair]:
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
    choice = choose_from_table(table)
    assert sources(choice.frequent) == ["i j k l", "m n o p", "a b c d"]
    assert [phrase.times for phrase in choice.frequent] == [22, 17, 15]
    assert choice.num_pairs == 14
    assert [len(phrase.targets) for phrase in choice.frequent] == [3, 3, 3]


def test_of_sources_that_hold_one_another_the_most_frequent_is_shown() -> None:
    table = [
        *lines("a b c d", 5, 5, 5),
        *lines("a b c d e", 5, 5, 5),
        *lines("x a b c d e f", 5, 5, 6),
        *lines("xa b c d", 1, 2, 1),  # holds none: its first word is another one
    ]
    assert sources(choose_from_table(table).frequent) == ["x a b c d e f", "xa b c d"]
    assert sources(choose_from_table(table[:6]).frequent) == ["a b c d"]


def test_rare_sources_are_those_whose_pairs_were_all_extracted_once() -> None:
    table = [*lines("a b c d", 1, 1, 1), *lines("e f g h", 1, 1, 2), *lines("i j k l", 1, 1)]
    assert sources(choose_from_table(table).rare) == ["a b c d"]


def test_no_more_than_the_limits_are_chosen_and_the_choice_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = [each for number in range(60) for each in lines(f"a{number} b c d", 1, 1, 1)]
    for name, size in (("POINTS", 7), ("MAP_POINTS", 5), ("SOURCES", 3)):
        monkeypatch.setattr(inputs, name, size)
    choice = choose_from_table(table)
    sizes = [len(part) for part in (choice.pairs, choice.phrases, choice.frequent, choice.rare)]
    assert sizes == [7, 5, 3, 3]
    assert choose_from_table(table) == choice
    monkeypatch.setattr(inputs, "POINTS", 9)  # more of one thing leaves the others as they were
    assert choose_from_table(table).phrases == choice.phrases


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

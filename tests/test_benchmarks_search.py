"""The benchmark of the search computes what it says; not how fast anything is."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from moses_integration.decoder.search import StackDecoder, Translation
from tests.benchmarks.commands import Cost
from tests.benchmarks.run import main
from tests.benchmarks.search import SearchOptions, read_task
from tests.benchmarks.search_engines import (
    Output,
    Runs,
    Task,
    compare,
    compare_runs,
    cut,
    score_bleu,
)
from tests.benchmarks.search_variants import (
    Model,
    Variant,
    measure_networks,
    take_turns,
)
from tests.command_line import succeeded
from tests.moses_integration.decoder.small_decoder import LastWords, SmallDecoder


def values(rows: Sequence[Any]) -> dict[str, list[float]]:
    return {row.label: list(row.values) for row in rows}


def test_slices_cover_the_text_and_have_two_sentences_each() -> None:
    assert cut(10, 3) == [range(3), range(3, 6), range(6, 10)]
    assert cut(5, 3) == [range(2), range(2, 5)]
    assert cut(1, 3) == [range(1)]


def test_a_speed_is_without_loading_and_without_the_first_sentence() -> None:
    loading = Cost(3.0, 2.0, 1e8)
    ours = Runs([Cost(23.0, 7.0, 2e8), Cost(13.0, 12.0, 2e8)], [loading, loading])
    theirs = Runs([Cost(13.0, 4.5, 8e8), Cost(13.0, 7.0, 4e8)], [loading, loading])
    shown = values(ours.rows("ours", [11, 21]))
    assert shown["ours: search, processor"] == [10 / 5, 20 / 10]
    assert shown["ours: search, wall"] == [10 / 20, 20 / 10]
    assert shown["ours: loading, processor"] == [2.0, 2.0]
    assert shown["ours: peak memory"] == [200, 200]
    for runs in (ours, theirs):
        runs.outputs = [Output(("a",), -1.0), Output(("b", "c"), -2.0)]
    ratios = values(compare_runs(ours, theirs))
    assert ratios["times Moses' speed, search, processor (target 0.1)"] == [2.5 / 5, 5 / 10]
    assert ratios["  the same, wall"] == [0.5, 1.0]
    assert ratios["  with loading, processor"] == [4.5 / 7, 7 / 12]
    assert ratios["Moses' memory / ours"] == [3.0]
    assert ratios["our total is not lower (target 98)"] == [100]


def test_outputs_are_compared_sentence_by_sentence() -> None:
    ours = [("a", -1.0), ("b", -2.00001), ("c", -1.5), ("d", -30.0)]
    theirs = [("a", -1.0), ("b", -2.0), ("x", -2.5), ("y", -29.0)]
    found = compare(*([Output((w,), s) for w, s in side] for side in (ours, theirs)))
    # b is lower by less than what printing loses; d is lower by 1.
    assert (found.identical, found.not_lower, found.higher) == (2 / 4, 3 / 4, 1 / 4)
    assert found.worst == 1.0
    with pytest.raises(ValueError, match="zip"):
        compare([], [Output(("a",), -1.0)])


def test_bleu_of_the_references_is_100() -> None:
    reference = ("a", "b", "c", "d", "e")
    assert score_bleu([reference], [reference]) == pytest.approx(100)
    # Four of five words, three of four bigrams, two of three and one of two: 0.2 ** 0.25.
    assert score_bleu([(*reference[:4], "x")], [reference]) == pytest.approx(100 * 0.2**0.25)


class Echo:
    """In place of a decoder: it gives sentences back, and takes the seconds that it is told."""

    def __init__(self, name: str, seconds: float, log: list[str], clock: list[float]) -> None:
        self._told = (name, seconds)
        self._log, self._clock = log, clock

    def translate(self, words: tuple[str, ...]) -> Translation:
        self._log.append(self._told[0])
        self._clock[0] += self._told[1]
        return Translation(words, -1.0, (), ((0.5,),))


def test_variants_take_turns_and_are_timed_sentence_by_sentence() -> None:
    log: list[str] = []
    clock = [0.0]
    one, two = (
        Variant(name, cast(StackDecoder, Echo(name, seconds, log, clock)), step)
        for name, seconds, step in (("one", 0.5, 1), ("two", 2.0, 2))
    )
    take_turns([one, two], [("a",)] * 5, lambda: clock[0])
    assert log == ["one", "two", "one", "one", "two", "one", "one", "two"]
    assert one.rates(range(5)) == [2.0, 2.0]
    assert two.rates([0, 2, 4]) == [0.5]


@pytest.fixture(name="task")
def small_task(tmp_path: Path) -> Task:
    configuration = SmallDecoder(tmp_path, 3).configuration(stack=20)
    sentences = [tuple("abcdef"), ("b", "d"), tuple("fdcab"), ("c",), tuple("eeba")]
    return Task(Path(configuration.path), sentences, [tuple("pqrs")] * 5)


def test_each_network_stands_beside_no_network_and_no_buffer(task: Task) -> None:
    networks, single = {"one": LastWords(), "two": LastWords()}, LastWords()
    shown = values(measure_networks(Model.read(task), task.sentences, networks, single))
    rates = [shown[f"{label}: search, processor"] for label in ("no network", "one", "two")]
    assert shown["two: times the time without a network"] == [
        plain / with_network for plain, with_network in zip(rates[0], rates[2], strict=True)
    ]
    # Both were asked about every sentence, beside the one that warms up.
    assert networks["one"].sizes == networks["two"].sizes != []
    assert set(single.sizes) == {1}


def test_empty_lines_are_left_out_with_their_references(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("a b\n\nc\nd\n")
    (tmp_path / "reference").write_text("A B\nX\nC\nD\n")
    ini, source, reference = (str(tmp_path / name) for name in ("moses.ini", "source", "reference"))
    task = read_task(SearchOptions(ini, source, reference, 2, 1, moses=None, cslm=None))
    assert task.sentences == [("a", "b"), ("c",)]
    assert task.references == [("A", "B"), ("C",)]


def run_search(repository: Path, tmp_path: Path, *options: str) -> dict[str, Any]:
    folder = repository / "examples" / "english-french"
    files = [str(folder / name) for name in ("moses.ini", "test.en", "test.fr")]
    arguments = ["search", "--translate", *files, "--json", str(tmp_path / "found.json")]
    arguments += ["--sentences", "4", "--cslm-sentences", "2", *options]
    succeeded(CliRunner().invoke(main, arguments, catch_exceptions=False))
    (report,) = json.loads((tmp_path / "found.json").read_text())["reports"]
    figures: dict[str, Any] = report["figures"]
    return figures


@pytest.mark.slow
def test_the_part_runs_without_moses_and_without_a_network(
    repository: Path, tmp_path: Path
) -> None:
    figures = run_search(repository, tmp_path, "--no-moses")
    assert figures["embedded: peak memory"]["min"] > 50
    # The command and the search in this process are one and the same.
    assert figures["embedded: BLEU"]["values"] == figures["normal search: BLEU"]["values"]


@pytest.mark.moses
def test_the_part_agrees_with_moses_on_the_example(repository: Path, tmp_path: Path) -> None:
    figures = run_search(repository, tmp_path)
    assert figures["identical translations"]["min"] == 100
    assert figures["our total is not lower (target 98)"]["min"] == 100
    assert len(figures["  with loading, processor"]["values"]) == 2

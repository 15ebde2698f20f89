"""The sections of reports that are made of a table, texts and models."""

import sys
from typing import Any

import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.evaluation.systems_table import SystemScore, SystemsTable, TableRow, TableText
from phrasescore.generation.generator import Generated
from phrasescore.report.make_report import PLANS
from phrasescore.settings.evaluation import SECTIONS
from tests.doubles import RandomModel
from tests.phrasescore.report.report_folder import (
    BASELINE,
    SOURCE,
    TARGET_WORDS,
    WORDS,
    Folder,
    block,
    keys,
    left_out,
)

pytestmark = pytest.mark.usefixtures("one_thread")

TEXTS: dict[str, Any] = {"source": "src", "references": ["ref"]}


def test_every_section_has_a_plan() -> None:
    assert tuple(PLANS) == SECTIONS


# Phrases of the table


def test_a_table_and_its_model_make_the_papers_tables_and_figures(folder: Folder) -> None:
    report = folder.make("table", models="rnn")
    assert keys(report) == ["preferences", "scores", "words", "phrases", "training"]
    assert len(block(report, "phrases-1")["x"]) == 12
    told = left_out(report)
    assert told["alignments"] == (
        "needs --source, --references or --translation and a --model of the "
        "kind rnnsearch or transformer"
    )
    assert told["parses"] == "needs --source and a --model of the kind grconv"
    frequent, rare = (block(report, f"preferences-{name}") for name in ("frequent", "rare"))
    assert [row[1] for row in frequent["rows"]] == [9] * 6 + [3] * 4
    assert [row[1] for row in rare["rows"]] == [3] * 6


def test_network_scores_are_those_of_the_slow_network_and_table_scores_the_third(
    folder: Folder,
) -> None:
    model = RandomModel(folder.path / "rnn", WORDS, TARGET_WORDS)
    points = block(folder.make("table", models="rnn", only=["scores"]), "scores-1")
    for label, score in zip(points["labels"], points["y"], strict=True):
        source, target = (side.split() for side in label.split(" → "))
        assert score == pytest.approx(model.log_prob(source, target), abs=1e-4)
    assert {round(2.718281828**x, 6) for x in points["x"]} == {0.5, 0.375, 0.125}
    assert len(points["x"]) == 36


def test_a_reverse_model_is_set_against_the_first_score_and_has_no_preferences(
    folder: Folder,
) -> None:
    report = folder.make("table", models="reverse-rnn")
    assert keys(report) == ["scores", "words", "training"]
    assert {round(2.718281828**x, 6) for x in block(report, "scores-1")["x"]} == {0.25}
    told = left_out(report)
    assert "every --model is a reverse model" in told["preferences"]
    assert "every --model is a reverse model" in told["phrases"]


def test_samples_without_an_end_are_left_out(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = Generated(("the", "street"), -9.0, finished=False)
    whole = Generated(("the",), -1.0)
    monkeypatch.setattr(
        "phrasescore.generation.sampling.sample_targets",
        lambda _generator, sources, *_, **__: [[cut, whole, whole] for _ in sources],
    )
    report = folder.make("table", models="rnn", only=["preferences"])
    rows = block(report, "preferences-frequent")["rows"]
    assert {row[5] for row in rows} == {"the (× 2, -1.00, new)"}


# Figures of sentences


def test_attention_and_soft_parses_are_of_the_same_sentences(folder: Folder) -> None:
    report = folder.make(models="att gr", **TEXTS)
    assert keys(report) == ["words", "alignments", "parses", "training"]
    names = [found["name"] for s in report["sections"][1:3] for found in s["blocks"]]
    assert names == [
        f"{name}-1-{number}" for name in ("alignment", "parse") for number in (1, 2, 3)
    ]
    assert block(report, "alignment-1-2")["row_labels"] == ["the", "street", "is", "big", "</s>"]
    assert block(report, "parse-1-1")["words"] == ["la", "maison", "est", "bleue"]
    # Three sentences make no map.
    assert left_out(report)["sentences"].endswith("a map needs 4 points, found 3")


def test_a_reverse_model_parses_the_references(folder: Folder) -> None:
    arguments: dict[str, Any] = {"source": "src", "only": ["parses"]}
    report = folder.make(models="reverse-gr gr", **arguments, references=["ref"])
    assert block(report, "parse-1-3")["words"] == ["the", "house"]
    report = folder.make(models="reverse-gr gr", **arguments)
    assert block(report, "parse-1-3")["words"] == ["la", "maison"]
    problem = "reverse-gr reads the target side: needs --references"
    assert left_out(report)["parses"] == problem


# Maps


def test_sentences_are_mapped_by_what_an_lstm_makes_of_them(folder: Folder) -> None:
    folder.write("src", "".join(f"{word} {other}\n" for word in WORDS for other in WORDS[:2]))
    report = folder.make(models="deep", source="src", only=["sentences"])
    points = block(report, "sentences-1")
    assert len(points["x"]) == 12
    assert points["labels"][0] == "la la"
    assert points["is_map"]


def test_a_reverse_model_maps_the_references(folder: Folder) -> None:
    text = "".join(f"{word} {other}\n" for word in TARGET_WORDS for other in TARGET_WORDS[:1])
    folder.write("ref", text)
    folder.write("src", "la\n" * 6)
    arguments: dict[str, Any] = {"source": "src", "only": ["sentences", "training"]}
    report = folder.make(models="reverse-deep", **arguments, references=["ref"])
    assert block(report, "sentences-1")["labels"][1] == "house the"
    report = folder.make(models="reverse-deep", **arguments)
    problem = "reverse-deep reads the target side: needs --references"
    assert left_out(report)["sentences"] == problem


def test_a_language_model_has_words_and_a_curve(folder: Folder) -> None:
    assert keys(folder.make(models="lm")) == ["words", "training"]


# Translations and results


def test_systems_are_measured_and_set_against_the_first(folder: Folder) -> None:
    lines = BASELINE.splitlines()
    folder.write("first", "".join(f"{line}\n" for line in lines))
    translations = [("first", "first"), ("better", "ref")]
    report = folder.make(models="rnn", **TEXTS, translations=translations)
    assert keys(report)[:3] == ["results", "differences", "groups"]
    assert report["title"] == "Translation of src"
    rows = block(report, "results")["rows"]
    assert [row[0] for row in rows] == ["first", "better"]
    assert rows[1][1] == 100.0
    # multi-bleu.perl's figure, by hand: of n = 1 to 4, 8 of 8, 4 of 5, 2 of 3 and 1 of 1 match; 8
    # words for 10.
    expected = 100 * 2.718281828459045 ** (1 - 10 / 8) * (1 * 4 / 5 * 2 / 3 * 1) ** 0.25
    assert rows[0][1] == pytest.approx(expected, abs=0.005)
    assert rows[0][4] is None
    assert 0 < rows[1][3] <= 1
    titles = [found["title"] for found in report["sections"][2]["blocks"]]
    assert titles == ["BLEU by words in the source", "BLEU by words in the reference"]


def test_equal_systems_have_no_differences_and_who_asks_is_told(folder: Folder) -> None:
    both = [("base", "base"), ("again", "base")]
    report = folder.make(translations=both, references=["ref"])
    assert keys(report) == ["results", "groups"]
    assert "differences" not in left_out(report)
    with pytest.raises(PhrasescoreError, match="differences: all systems have the same matches"):
        folder.make(translations=both, references=["ref"], only=["differences"])


def test_a_group_of_one_sentence_has_no_spread(folder: Folder) -> None:
    folder.write("src", SOURCE.replace("la maison\n", "la maison " * 6 + "\n"))
    report = folder.make(**TEXTS, translations=[("base", "base")])
    (series,) = block(report, "groups-1")["series"]
    assert block(report, "groups-1")["rows"] == ["1-10", "11-20"]
    assert series["low"][0] < series["values"][0] < series["high"][0]
    assert series["low"][1] == series["values"][1] == series["high"][1]


def test_an_experiment_without_translations_has_its_results(folder: Folder) -> None:
    (folder.path / "exp").mkdir()
    rows = (TableRow("base", scores={"dev": SystemScore((30.0,))}),)
    table = SystemsTable("bleu", texts=(TableText("dev", tuned=True),), rows=rows)
    folder.write("exp/table.toml", table.to_toml())
    report = folder.make(experiment="exp")
    assert keys(report) == ["results"]
    assert report["lead"] == "base has the most BLEU on dev: 30.00."


def test_of_many_rows_the_first_and_the_best_translations_are_compared(folder: Folder) -> None:
    (folder.path / "exp").mkdir()
    rows = tuple(
        TableRow(f"row{n}", outputs={"news": ("../base",)}, scores={"news": SystemScore((n,))})
        for n in map(float, range(12))
    )
    text = TableText("news", "../src", ("../ref",))
    table = SystemsTable("bleu", texts=(text,), rows=rows)
    folder.write("exp/table.toml", table.to_toml())
    report = folder.make(experiment="exp")
    names = [series["name"] for series in block(report, "groups-1")["series"]]
    assert names == ["row0.0", *(f"row{n}.0" for n in range(3, 12))]
    (folder.path / "ref").unlink()
    assert keys(folder.make(experiment="exp")) == ["results"]


def test_without_the_packages_for_maps_the_rest_is_there(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    report = folder.make(models="rnn", **TEXTS, translations=[("a", "base"), ("b", "ref")])
    assert keys(report)[0] == "results"
    kinds = {found["kind"] for section in report["sections"] for found in section["blocks"]}
    assert not {"points", "lines", "intervals"} & kinds
    told = left_out(report)
    assert told["words"] == "needs pip install 'phrasescore[report]'"
    with pytest.raises(PhrasescoreError, match="pip install 'phrasescore\\[report\\]'"):
        folder.make(models="rnn", only=["words"])

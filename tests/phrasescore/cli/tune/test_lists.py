"""``phrasescore tune --lists``, as a user meets it: what it finds and writes."""

import json
import re

import pytest

from moses_integration.moses_ini import load_weights
from tests.command_line import run, succeeded, tuned_scores
from tests.phrasescore.cli.tune.tune_folder import NBEST, WEIGHTS, TuneFolder
from tuning.settings import METHODS


@pytest.mark.parametrize("method", METHODS)
def test_the_weights_found_choose_what_is_right(lists: TuneFolder, method: str) -> None:
    result = succeeded(lists.run("--method", method, "-o", "out"))
    assert tuned_scores(result) == "BLEU 66.87 -> 100.00"
    assert result.stdout == ""
    weights = load_weights("out").lists
    assert list(weights) == ["LM0", "TM0", "EncoderDecoder0"]
    # 4 times EncoderDecoder0 is more than 1, 2 or 3 times LM0; TM0 is constant and keeps its
    # weights.
    assert all(4 * weights["EncoderDecoder0"][0] > times * weights["LM0"][0] for times in (2, 1, 3))
    assert weights["TM0"] == (0.5, 0.5)


def test_the_dev_score_reached_is_the_one_that_evaluate_measures(lists: TuneFolder) -> None:
    (lists.path / "weights").write_text("LM0= 1\nTM0= 1\nTM0= 1\nEncoderDecoder0= 0\n")
    # Only EncoderDecoder0 can choose otherwise, and it may not.
    result = lists.run("--fix", "EncoderDecoder0", "--fix", "LM0", "-o", "out")
    assert tuned_scores(result) == "BLEU 66.87 -> 66.87"
    run("-q", "rerank", "nbest", "--weights", "out", "-o", "best")
    options = ["--references", "reference", "--metric", "multi-bleu"]
    measured = run("evaluate", "best", *options)
    assert measured.stdout.startswith("BLEU = 66.87, ")


def test_fixed_weights_stay_and_may_be_single_values(lists: TuneFolder) -> None:
    varied = NBEST.replace("e  ||| LM0= -3 TM0= -1", "e  ||| LM0= -3 TM0= -4")
    (lists.path / "nbest").write_text(varied)
    assert lists.run("--fix", "LM0", "--fix", "TM0_0", "-o", "out").exit_code == 0
    weights = load_weights("out").lists
    assert (weights["LM0"], weights["TM0"][0]) == ((1.0,), 0.5)
    assert lists.refusal("--fix", "TM1").startswith("--fix TM1: expected one of the features")


def test_several_lists_are_pooled(lists: TuneFolder) -> None:
    lines = NBEST.splitlines(keepends=True)
    (lists.path / "one").write_text(lines[0] + lines[2] + lines[4])
    (lists.path / "two").write_text(lines[1] + lines[3] + lines[6])
    result = succeeded(lists.run("-o", "out", nbest=("one", "two")))
    assert "phrasescore: 3 sentences, 6 hypotheses, 4 weights\n" in result.stderr
    assert tuned_scores(result).endswith("-> 100.00")


def test_start_weights_may_be_those_of_a_moses_ini_or_a_system(lists: TuneFolder) -> None:
    (lists.path / "system.toml").write_text('moses_ini = "moses.ini"\n')
    for start in ("moses.ini", "."):
        result = succeeded(lists.run("--weights", start, "-o", "out"))
        assert tuned_scores(result) == "BLEU 66.87 -> 100.00"
        missing = "features without a weight in"
        assert f"{missing} {start} start at 0: EncoderDecoder0" in result.stderr
        assert re.search(r"\n  EncoderDecoder0 .*\(new\)\n", result.stderr)


def test_weights_of_no_feature_are_named_and_left_out(lists: TuneFolder) -> None:
    (lists.path / "weights").write_text(WEIGHTS + "Gone0= 1\n")
    result = lists.run("-o", "out")
    assert "warning: the lists lack these features of weights: Gone0" in result.stderr
    assert "Gone0" not in load_weights("out").lists


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("metric", "name"), [("word_accuracy", "word accuracy"), ("cer", "1 - CER")]
)
def test_every_method_maximises_accuracies(
    lists: TuneFolder, method: str, metric: str, name: str
) -> None:
    result = lists.run("--metric", metric, "--method", method, "-o", "out")
    found = tuned_scores(result)
    assert re.fullmatch(rf"{name} \d\d\.\d\d -> 100\.00", found)


def test_the_report_says_of_each_feature_what_it_has_and_gives(lists: TuneFolder) -> None:
    assert lists.run("-o", "out", "--report", "report.json").exit_code == 0
    report = json.loads((lists.path / "report.json").read_text())
    assert (report["method"], report["metric"], report["seed"]) == ("mert", "BLEU", 1)
    assert (report["sentences"], report["hypotheses"]) == (3, 6)
    assert report["start"] == pytest.approx(66.874, abs=1e-3)
    assert report["reached"] == pytest.approx(100)
    rows = {row["name"]: row for row in report["features"]}
    assert list(rows) == ["LM0_0", "TM0_0", "TM0_1", "EncoderDecoder0_0"]
    weights = load_weights("out").lists
    assert rows["EncoderDecoder0_0"]["weight"] == weights["EncoderDecoder0"][0]
    assert rows["LM0_0"]["start"] == 1
    assert rows["TM0_0"]["left_out"] == pytest.approx(100)
    assert rows["TM0_0"]["contribution"] == 0
    assert rows["EncoderDecoder0_0"]["contribution"] > 0
    assert sum(row["share"] for row in report["features"]) == pytest.approx(1)
    assert lists.run("-o", "out", "--report", "report").exit_code == 0
    text = (lists.path / "report").read_text()
    assert text.startswith("mert, seed 1: BLEU 66.87 -> 100.00\n3 sentences, 6 hypotheses\n")
    assert "BLEU without" in text


def test_references_may_be_numbered_as_for_mert_moses(lists: TuneFolder) -> None:
    (lists.path / "reference").rename("reference0")
    (lists.path / "reference1").write_text("z z z z x\n" * 3)
    result = lists.run("--references", "nothing", "-o", "out")
    assert result.exit_code == 1
    assert tuned_scores(lists.run("-o", "out")).endswith("-> 100.00")


def test_few_sentences_are_warned_of(lists: TuneFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasescore.systems.tuning.FEW_SENTENCES", 20)
    assert (
        "warning: 3 sentences are few to tune 4 weights on: with fewer than 20 per weight, part of "
        "the gain is overfitting; use 80 or more, "
    ) in lists.run("-o", "out").stderr
    monkeypatch.setattr("phrasescore.systems.tuning.FEW_SENTENCES", 0.75)  # 3 of 4
    assert "warning" not in lists.run("-o", "out").stderr


def test_the_new_weights_are_a_table(lists: TuneFolder) -> None:
    result = succeeded(lists.run("-o", "out"))
    weights = load_weights("out").lists
    lines = result.stderr.partition("phrasescore: new weights:\n")[2].splitlines()[:3]
    rows = [line.split() for line in lines]
    assert [row[0] for row in rows] == list(weights) == ["LM0", "TM0", "EncoderDecoder0"]
    for name, *cells in rows:
        shown = [float(cell) for cell in cells if cell != "(new)"]
        assert shown == pytest.approx(list(weights[name]), rel=1e-3)
    assert ["(new)" in row for row in rows] == [False, False, True]

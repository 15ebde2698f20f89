"""Lists in memory are rescored and reranked as the same lists in files."""

from pathlib import Path
from typing import Any

import pytest

import phrasescore
from phrasescore import Hypothesis
from phrasescore.errors import ArgumentError, DataError, ModelError
from phrasescore.models.checkpoint import save_checkpoint
from tests.doubles import RandomJoint
from tests.random_networks import RandomNetwork

SOURCES = ["la maison", "la rue rare", ""]
LINES = """\
0 ||| the house  ||| LM0= -1 TM0= -0.5 -2 ||| -3.5 ||| 0-0 1-1
0 ||| house the  ||| LM0= -2 TM0= -0.25 -1 ||| -3.25 ||| 0-1 1-0
0 ||| the house  ||| LM0= -1 TM0= -0.5 -3 ||| -4.5 ||| 0-0 1-1
1 ||| the street  ||| LM0= -3 TM0= -1 0 sparse_a= 1 ||| -4 ||| 0-0 1-1
1 ||| a rare street  ||| LM0= -4 TM0= -0.1234567 0 ||| -4 ||| 0-0 2-1 1-2
2 |||   ||| LM0= 0 TM0= 0 0 ||| 0 ||| \n"""
pytestmark = pytest.mark.usefixtures("folder")
ONE = phrasescore.Compute(device="cpu", threads=1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sides = ["la", "maison", "rue"], ["the", "house", "street"]
    save_checkpoint("rnnsearch", RandomNetwork("rnnsearch", *sides, seed=3).checkpoint)
    RandomJoint(*sides, path=tmp_path / "joint")
    (tmp_path / "lists").write_text(LINES)
    (tmp_path / "source").write_text("".join(f"{text}\n" for text in SOURCES))


def test_lists_are_read_as_hypotheses_by_sentence() -> None:
    first, second, third = phrasescore.read_lists("lists")
    features = {"LM0": (-1.0,), "TM0": (-0.5, -2.0)}
    assert first[0] == Hypothesis(("the", "house"), features, -3.5, "0-0 1-1")
    assert [str(each) for each in first] == ["the house", "house the", "the house"]
    assert second[0].features["sparse_a"] == (1.0,)
    assert third == [Hypothesis((), {"LM0": (0.0,), "TM0": (0.0, 0.0)}, 0.0)]


@pytest.mark.parametrize("model", ["rnnsearch", "joint"])
def test_features_are_added_as_in_files(model: str) -> None:
    columns: list[Any] = [model, phrasescore.NamedFeature("target_length")]
    phrasescore.rescore("lists", "source", columns, "rescored", compute=ONE)
    lists = phrasescore.read_lists("lists")
    found = phrasescore.rescore_lists(lists, SOURCES, columns, compute=ONE)
    assert found == phrasescore.read_lists("rescored")
    assert [*found[0][0].features] == ["LM0", "TM0", *found[0][0].features][-4:]
    assert found[0][0].features["TargetLength0"] == (2.0,)
    with pytest.raises(DataError, match="the lists:1: already has the feature"):
        phrasescore.rescore_lists(found, SOURCES, columns, compute=ONE)


def test_sentences_are_hypotheses_and_get_the_model_s_scores() -> None:
    texts: Any = [["the house", ("house", "the")], ["street"], [""]]
    found = phrasescore.rescore_lists(texts, SOURCES, ["rnnsearch"], compute=ONE)
    model = phrasescore.load_model("rnnsearch", compute=ONE)
    scores = model.score(["la maison"] * 2, ["the house", "house the"])
    values = [each.features["RNNsearch0"][0] for each in found[0]]
    assert values == pytest.approx(scores.tolist(), rel=1e-6)
    assert [each.words for each in found[0]] == [("the", "house"), ("house", "the")]
    assert phrasescore.rescore_lists([], [], ["rnnsearch"], compute=ONE) == []


@pytest.mark.parametrize(
    "weights",
    [{"LM0": (1.0,), "TM0": (0.5, -1.0), "sparse_a": (-3.0,)}, {"LM0": (1.0,), "TM0": (0.5, -1.0)}],
)
def test_hypotheses_are_reordered_as_in_files(weights: Any) -> None:
    phrasescore.rerank("lists", "best", lists="ranked", weights=weights)
    lists = phrasescore.read_lists("lists")
    found = phrasescore.rerank_lists(lists, weights=weights)
    assert found == phrasescore.read_lists("ranked") != lists
    assert phrasescore.rerank_lists([], weights=weights) == []
    scores = [each.score for each in found[0]]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("lists", "error", "message"),
    [
        ("la", ArgumentError, "lists: expected a sequence, got the string 'la'"),
        (["la", "b", "c"], ArgumentError, r"lists\[0\]: expected a list of hypotheses, got 'la'"),
        ([["la"]], ArgumentError, "lists and sources: expected equal numbers, got 1 and 3"),
        ([["la"], [], ["la"]], ArgumentError, r"lists\[1\]: expected a list of .*, got \[\]"),
        ([["la"], ["a", 5], ["b"]], TypeError, r"lists\[1\]\[1\]: expected words"),
        ([["a"], ["a ||| b"], ["b"]], DataError, "the lists:2: "),
        ([[Hypothesis(("a",), {"a b": (1.0,)}, 0.0)], ["a"], ["b"]], DataError, "the lists:1: "),
        (
            [[Hypothesis(("a",), {"LM0": (float("nan"),)}, 0.0)], ["a"], ["b"]],
            *(ModelError, "expected a finite value for an n-best list, found nan"),
        ),
    ],
)
def test_wrong_lists_are_named(lists: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{message}"):
        phrasescore.rescore_lists(lists, SOURCES, ["rnnsearch"], compute=ONE)


def test_what_makes_no_sense_in_memory_is_refused() -> None:
    lists = phrasescore.read_lists("lists")
    scores = phrasescore.GivenScores("numbers", name="N0")
    with pytest.raises(ArgumentError, match="columns of the kind scores are only for files"):
        phrasescore.rescore_lists(lists, SOURCES, [scores])

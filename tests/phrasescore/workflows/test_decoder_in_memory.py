"""A decoder in memory translates as the commands do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phrasescore
from phrasescore.errors import ArgumentError, ConfigError, DataError
from phrasescore.models.checkpoint import save_checkpoint
from phrasescore.records import WeightPair
from tests.doubles import RandomCslm
from tests.phrasescore.cli.test_decode import INI, LM, TABLE
from tests.phrasescore.cli.test_translate import TEXT, WEIGHTS
from tests.random_networks import RandomNetwork

SENTENCES = TEXT.splitlines()
OWN = "WordPenalty0= -0.5\nTM0= 1 0.25\nDistortion0= 1\nLM0= 0.5\n"
pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {"table": TABLE, "lm.arpa": LM, "moses.ini": INI, "source": TEXT}
    for name, text in (texts | {"weights": WEIGHTS, "own": OWN}).items():
        (tmp_path / name).write_text(text)
    RandomCslm(["the", "house", "home"], order=3, path=tmp_path / "cslm")
    network = RandomNetwork("rnnsearch", ["la", "maison"], ["the", "house", "home"])
    save_checkpoint(tmp_path / "rnnsearch", network.checkpoint)


@pytest.mark.parametrize("weights", [None, "own"])
def test_translations_and_lists_are_those_of_decode(weights: str | None) -> None:
    decoder = phrasescore.Decoder("moses.ini", weights=weights)
    search = phrasescore.SearchSettings(processes=1)
    request: Any = ("lists", 100, True)
    phrasescore.decode(
        *("source", "moses.ini", "decoded"), weights=weights, nbest=request, search=search
    )
    found = list(decoder.translate(SENTENCES, nbest=100))
    assert [str(each) for each in found] == Path("decoded").read_text().splitlines()
    assert [each.to_list() for each in found] == phrasescore.read_lists("lists")
    words: list[Any] = [sentence.split() for sentence in SENTENCES]
    assert [each.text for each in decoder.translate(words)] == [each.text for each in found]
    lines = [f"{sentence}\n" for sentence in SENTENCES]
    assert [each.text for each in decoder.translate(lines)] == [each.text for each in found]
    assert list(decoder.translate([])) == []
    assert next(decoder.translate(["la maison"])).to_list() == []
    assert repr(decoder) == "Decoder('moses.ini'): WordPenalty0, TM0, Distortion0, LM0"


def test_numbers_of_numpy_and_single_numbers_are_taken() -> None:
    decoder = phrasescore.Decoder("moses.ini", nbest_size=np.int64(9))  # type: ignore[arg-type]
    expected = list(decoder.translate(SENTENCES, nbest=2))
    assert list(decoder.translate(SENTENCES, nbest=np.argmax([0, 0, 1]))) == expected  # type: ignore[arg-type]
    for wrong in (True, 2.0, "2", -1, np.int64(-1)):
        with pytest.raises(ArgumentError, match="nbest: expected a whole number from 0, got "):
            list(decoder.translate(SENTENCES, nbest=wrong))  # type: ignore[arg-type]
    vectors = {"LM0": (0.7,), "TM0": (0.2, 0.1)}
    numbers: list[Any] = [
        {"LM0": 0.7, "TM0": [0.2, 0.1]},
        {"LM0": np.float64(0.7), "TM0": np.array([0.2, 0.1])},
        WeightPair({"LM0": 0.7, "TM0": (0.2, 0.1)}, {}),  # type: ignore[dict-item]
    ]
    (wanted, *found) = (
        [each.text for each in phrasescore.Decoder("moses.ini", weights=each).translate(SENTENCES)]
        for each in (vectors, *numbers)
    )
    assert found == [wanted] * 3
    for nothing in (None, "much", [[0.7]]):
        with pytest.raises(ArgumentError, match="weights: LM0: expected a number, or a sequence"):
            phrasescore.Decoder("moses.ini", weights={"LM0": nothing})  # type: ignore[dict-item]


def test_a_byte_order_mark_is_left_out_and_what_is_no_text_is_named() -> None:
    decoder = phrasescore.Decoder("moses.ini")
    (plain,) = decoder.translate(["la maison"])
    for marked in ("\ufeffla maison", ["\ufeffla", "maison"], "\ufeffla\tmaison\r\n"):
        (found,) = decoder.translate([marked])
        assert (found.text, found.source) == (plain.text, ("la", "maison"))
    with pytest.raises(DataError, match=r"^the text:2: expected UTF-8, found byte 0xe9$"):
        list(decoder.translate(["la maison", "\udce9t\udce9"]))


def test_networks_and_features_of_lists_give_what_three_commands_give() -> None:
    search = phrasescore.SearchSettings(
        features=["cslm"], models=["cslm"], stack_size=30, processes=1
    )
    columns: list[Any] = ["rnnsearch", phrasescore.NamedFeature("unknown_words")]
    one = phrasescore.Compute(device="cpu", threads=1)
    request: Any = ("lists", 9, True)
    phrasescore.decode(
        *("source", "moses.ini", "decoded"), weights="weights", nbest=request, search=search
    )
    phrasescore.rescore("lists", "source", columns, "rescored", compute=one)
    phrasescore.rerank("rescored", "reranked", weights="weights")
    expected = Path("reranked").read_text().splitlines()
    decoder = phrasescore.Decoder(
        "moses.ini", weights="weights", search=search, columns=columns, nbest_size=9
    )
    found = list(decoder.translate(SENTENCES, nbest=9))
    assert [each.text for each in found] == expected
    assert repr(decoder).endswith(" LM0, CSLM0, rnnsearch, unknown_words")
    # The same in memory, step by step.
    lists = phrasescore.read_lists("lists")
    lists = phrasescore.rescore_lists(lists, SENTENCES, columns, compute=one)
    lists = phrasescore.rerank_lists(lists, weights="weights")
    assert [each.to_list() for each in found] == lists


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda d: d.translate("la"), TypeError, "expected a list of sentences, got the string"),
        (lambda d: d.translate(["la\nla"]), TypeError, "expected single words, or one sentence"),
        (lambda d: d.translate(["la", 5]), TypeError, "expected words, or a sentence as a string"),
        (lambda d: d.translate(["la|N"]), DataError, "the text:1: expected words without factors"),
        (lambda _: [phrasescore.Decoder("nothing.ini")], DataError, "nothing.ini: cannot open"),
        (
            lambda _: [phrasescore.Decoder("moses.ini", columns=["rnnsearch"])],
            *(ConfigError, "moses.ini: weights: no weight for RNNsearch0"),
        ),
        (
            lambda _: [phrasescore.Decoder("moses.ini", weights={"LM0": (1.0, 2.0)})],
            *(ConfigError, "moses.ini: weights: expected 1 weights for LM0, found 2"),
        ),
        (
            lambda _: [phrasescore.Decoder("moses.ini", columns="rnnsearch")],
            *(ArgumentError, "columns: expected a sequence, got the string 'rnnsearch'"),
        ),
    ],
)
def test_wrong_arguments_are_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{message}"):
        list(call(phrasescore.Decoder("moses.ini")))

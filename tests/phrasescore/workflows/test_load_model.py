"""A model scores pairs and lists from Python as the reference network does."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import phrasescore
from moses_integration.nbest_lines import format_value
from phrasescore.errors import ArgumentError, ModelError
from phrasescore.features.request import ScoringRequest
from phrasescore.models.checkpoint import CurvePoint, save_checkpoint
from phrasescore.records import HypothesisList
from phrasescore.settings.compute import Compute
from phrasescore.vocabulary import Vocabulary
from tests import reference_grconv, reference_lstm, reference_rnnsearch
from tests.doubles import RandomCslm, RandomModel
from tests.random_networks import RandomNetwork
from tests.reference_cslm import word_log_probs

PAIRS = [
    phrasescore.PhrasePair(("la", "maison"), ("the", "house")),
    phrasescore.PhrasePair((), ("rare",)),
    phrasescore.PhrasePair(("la",), ()),
]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("right_to_left", [False, True])
def test_pairs_and_lists_have_the_reference_s_scores_in_their_order(
    tmp_path: Path, reverse: bool, right_to_left: bool
) -> None:
    words = ["la", "maison"], ["the", "house"]
    random = RandomModel(tmp_path / "model", *words, reverse=reverse, right_to_left=right_to_left)
    model = phrasescore.load_model(random.path, compute=Compute(device="cpu", threads=1))
    assert (model.kind, model.reverse) == ("encoder-decoder", reverse)
    assert model.right_to_left == right_to_left
    expected = [random.log_prob(pair.source, pair.target) for pair in PAIRS]
    found = model.score(*map(list, zip(*PAIRS, strict=True)))
    assert found.tolist() == pytest.approx(expected, abs=1e-4)
    lists = (HypothesisList(pair.source, [pair.target, pair.target]) for pair in PAIRS)
    for scores, score in zip(model.score_lists(lists), expected, strict=True):
        assert scores == pytest.approx([score, score], abs=1e-4)
    assert list(model.score_lists([])) == []


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("kind", "log_prob"),
    [
        ("rnnsearch", reference_rnnsearch.log_prob),
        ("grconv", reference_grconv.log_prob),
        ("lstm", reference_lstm.log_prob),
    ],
)
def test_a_right_to_left_network_gives_a_sentence_what_the_reference_gives_it_turned_round(
    tmp_path: Path, kind: str, log_prob: Callable[..., float], reverse: bool
) -> None:
    words = ["la", "maison", "rue"], ["the", "house", "street"]
    sides = words[::-1] if reverse else words
    network = RandomNetwork(kind, *sides, reverse=reverse, right_to_left=True)
    save_checkpoint(tmp_path / "model", network.checkpoint)
    model = phrasescore.load_model(tmp_path / "model", compute=Compute(device="cpu", threads=1))
    source = ("la", "rue", "rare", "maison")
    hypotheses = [("the", "house"), ("a", "street", "house"), (), ("house", "the"), ("the",)]
    found = next(model.score_lists([HypothesisList(source, hypotheses)]))
    expected = []
    for target in hypotheses:
        read, predicted = (target, source) if reverse else (source, target)
        # What is read keeps its order.
        ids = network.checkpoint.source_vocabulary.ids(read)
        turned = network.checkpoint.target_vocabulary.ids(predicted[::-1])
        expected.append(log_prob(network.parameters, ids, turned))
    assert found == pytest.approx(expected, abs=1e-4)


def test_strings_and_lists_score_as_tuples_of_words_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, usual = [], ScoringRequest.load

    def load(loader: ScoringRequest) -> Any:
        loaded.append(loader)
        return usual(loader)

    monkeypatch.setattr(ScoringRequest, "load", load)
    random = RandomModel(tmp_path / "model", ["la", "maison"], ["the", "house"])
    model = phrasescore.load_model(random.path, compute=Compute(device="cpu", threads=1))
    expected = random.log_prob(("la", "maison"), ("the", "house"))
    scores = model.score(["la maison", ["la", "maison"]], ["the house", ["the", "house"]])
    assert scores.tolist() == pytest.approx([expected, expected], abs=1e-4)
    lists = [
        HypothesisList("la maison", ["the house", ["the", "house"]]),
        HypothesisList(["la", "maison"], [("the", "house"), "the  house"]),
    ]
    plain = [("la maison", ["the house", ("the", "house")])]
    for of_list in [*model.score_lists(lists), *model.score_lists(plain)]:
        assert of_list == pytest.approx([expected, expected], abs=1e-4)
    assert len(loaded) == 1  # whatever is scored


def test_a_word_of_an_old_vocabulary_that_two_words_are_today_is_scored(tmp_path: Path) -> None:
    random = RandomModel(tmp_path / "model", ["la"], ["the", "big\0house"])
    model = phrasescore.load_model(random.path, compute=Compute(device="cpu", threads=1))
    words = ("la",), ("the", "big\0house")
    (found,) = model.score_lists([HypothesisList._make((words[0], [words[1]], None))])
    assert found == pytest.approx([random.log_prob(*words)], abs=1e-4)


@pytest.mark.parametrize("kind", ["encoder-decoder", "rnnsearch"])
def test_a_model_warns_once_of_words_that_it_does_not_know(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    words = ["la", "maison"], ["the", "house"]
    if kind == "rnnsearch":
        save_checkpoint(tmp_path / "model", RandomNetwork(kind, *words).checkpoint)
    else:
        RandomModel(tmp_path / "model", *words)
    model = phrasescore.load_model(tmp_path / "model", compute=Compute(device="cpu", threads=1))
    model.score(["la maison rare"], ["the house"])
    assert not caplog.messages
    for _ in range(2):
        model.score(["la maison"], ["the|D house|N mouse|N"])
    (message,) = caplog.messages
    assert message.startswith(f"the targets: 3 of 5 counted words are unknown to {tmp_path}/model")


def _load(
    folder: Path, kind: str, *, reverse: bool = False, right_to_left: bool = False
) -> phrasescore.ScoringModel:
    sides = ["la", "maison", "rue"], ["the", "house", "street"]
    words = sides[::-1] if reverse else sides
    network = RandomNetwork(kind, *words, seed=3, reverse=reverse, right_to_left=right_to_left)
    save_checkpoint(folder, network.checkpoint)
    return phrasescore.load_model(folder, compute=Compute(device="cpu", threads=2))


SOURCES = ["la maison", "", "la rue rare la", "maison"]
TARGETS = ["the house", "rare", "", "house street"]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("right_to_left", [False, True])
@pytest.mark.parametrize("kind", ["rnnsearch", "lstm"])
def test_scores_equal_the_command_s(
    tmp_path: Path, kind: str, reverse: bool, right_to_left: bool
) -> None:
    model = _load(tmp_path / "model", kind, reverse=reverse, right_to_left=right_to_left)
    for name, texts in (("source", SOURCES), ("target", TARGETS)):
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
    phrasescore.score(
        *(tmp_path / "source", tmp_path / "target", [tmp_path / "model"], tmp_path / "scores"),
        compute=Compute(device="cpu", threads=1),
    )
    scores = model.score(SOURCES, [tuple(text.split()) for text in TARGETS])
    assert (str(scores.dtype), scores.shape) == ("float64", (4,))
    written = (tmp_path / "scores").read_bytes()
    assert b"".join(format_value(score) + b"\n" for score in scores.tolist()) == written
    assert model.score([], []).shape == (0,)


@pytest.mark.parametrize("reverse", [False, True])
def test_translations_equal_the_command_s(tmp_path: Path, reverse: bool) -> None:
    model = _load(tmp_path / "model", "rnnsearch", reverse=reverse)
    texts = TARGETS if reverse else SOURCES
    (tmp_path / "text").write_text("".join(f"{text}\n" for text in texts))
    settings = phrasescore.Generating(beam=3, max_length=4)
    phrasescore.generate(
        *(tmp_path / "text", tmp_path / "model", tmp_path / "out"),
        settings=settings,
        nbest=(tmp_path / "nbest", 2),
        compute=Compute(device="cpu", threads=1),
    )
    found = list(model.translate(map(str.split, texts), settings=settings, num_best=2))
    best = [str(each[0]) for each in found]
    assert "".join(f"{text}\n" for text in best) == (tmp_path / "out").read_text()
    values = [format_value(each.log_prob).decode() for targets in found for each in targets]
    lists = (tmp_path / "nbest").read_text().splitlines()
    assert values == [line.split(" ||| ")[3] for line in lists]
    # The best of a search for one translation, which ends earlier.
    (best_of_one,), (of_none,) = model.translate([texts[0], ""], settings=settings)
    assert best_of_one == found[0][0]
    assert of_none.words == ()


def test_a_language_model_scores_targets_and_translates_nothing(tmp_path: Path) -> None:
    random = RandomCslm(["the", "house"], path=tmp_path / "model")
    model = phrasescore.load_model(tmp_path / "model", compute=Compute(device="cpu", threads=1))
    scores = model.score(["", "x"], ["the house", "house"])
    ids = [random.vocabulary.ids(words) for words in (("the", "house"), ("house",))]
    expected = [sum(word_log_probs(random.parameters, 4, each)) for each in ids]
    assert scores.tolist() == pytest.approx(expected, abs=1e-4)
    with pytest.raises(ModelError, match="a model of the kind cslm reads no source"):
        model.translate(["the house"])


def test_a_model_prints_what_it_is(tmp_path: Path) -> None:
    sides = Vocabulary(["la", "maison"]), Vocabulary(["the", "house", "street"])
    checkpoint = RandomNetwork("rnnsearch", *sides).checkpoint
    points = (CurvePoint(10, 0.5, 2.0, 9.0), CurvePoint(20, 1.0, 1.5, 7.25))
    record = replace(checkpoint.record, curve=points, best_update=20, stopped_by="updates")
    save_checkpoint(tmp_path / "model", replace(checkpoint, record=record))
    model = phrasescore.load_model(tmp_path / "model", compute=Compute(device="cpu", threads=1))
    lines = repr(model).splitlines()
    assert lines[0] == "ScoringModel"
    shown = dict(line.split(None, 1) for line in lines[1:])
    assert shown["kind"] == "rnnsearch, p(target | source) (direction target-given-source)"
    assert shown["sizes"].startswith("hidden_size=7, ")
    assert "shortlist of 2 words" in shown["reads"]
    assert "shortlist of 3 words" in shown["predicts"]
    assert (
        shown["quality"] == "limit of updates reached; validation perplexity 7.250 after update 20"
    )
    assert model.record.curve == points
    assert "CurvePoint" not in repr(model.record)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.score("la", ["the"]), ArgumentError, "sources: expected a sequence, got"),
        (lambda m: m.score(["la"], "the"), ArgumentError, "targets: expected a sequence, got"),
        (lambda m: m.score(["la"], []), ArgumentError, "sources and targets: .* got 1 and 0"),
        (lambda m: m.score(["la", 5], ["the"] * 2), TypeError, r"sources\[1\]: expected words"),
        (lambda m: m.score([["a b"]], ["the"]), TypeError, r"sources\[0\]: expected single words"),
        (lambda m: list(m.translate([None])), TypeError, "expected words, or a sentence as a"),
        (lambda m: m.translate("la"), ArgumentError, "sentences: expected a sequence, got"),
        (lambda m: m.translate([], num_best=0), ArgumentError, "--num-best: expected at least"),
        (
            lambda m: m.translate(["la"], settings=phrasescore.Generating(sample=2)),
            *(ArgumentError, "--sample: has no effect here"),
        ),
    ],
)
def test_wrong_arguments_are_named(
    tmp_path: Path, call: Callable[[Any], object], error: type[Exception], message: str
) -> None:
    model = _load(tmp_path / "model", "lstm")
    with pytest.raises(error, match=message):
        call(model)

"""A model scores pairs and lists from Python as the reference network does."""

from collections.abc import Callable
from pathlib import Path

import pytest

import phrasescore
from phrasescore.models.checkpoint import save_checkpoint
from phrasescore.records import HypothesisList
from phrasescore.settings.compute import Compute
from tests import reference_attention, reference_grconv, reference_lstm
from tests.doubles import RandomModel
from tests.random_networks import RandomNetwork

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
    assert list(model.score_pairs(iter(PAIRS))) == pytest.approx(expected, abs=1e-4)
    lists = (HypothesisList(pair.source, [pair.target, pair.target]) for pair in PAIRS)
    for scores, score in zip(model.score_lists(lists), expected, strict=True):
        assert scores == pytest.approx([score, score], abs=1e-4)
    assert list(model.score_pairs([])) == []
    assert list(model.score_lists([])) == []


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("kind", "log_prob"),
    [
        ("attention", reference_attention.log_prob),
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


def test_strings_and_lists_score_as_tuples_of_words_do(tmp_path: Path) -> None:
    random = RandomModel(tmp_path / "model", ["la", "maison"], ["the", "house"])
    model = phrasescore.load_model(random.path, compute=Compute(device="cpu", threads=1))
    expected = random.log_prob(("la", "maison"), ("the", "house"))
    pairs = [("la maison", "the house"), (["la", "maison"], ["the", "house"])]
    assert list(model.score_pairs(pairs)) == pytest.approx([expected, expected], abs=1e-4)
    lists = [
        HypothesisList("la maison", ["the house", ["the", "house"]]),
        HypothesisList(["la", "maison"], [("the", "house"), "the  house"]),
    ]
    plain = [("la maison", ["the house", ("the", "house")])]
    for scores in [*model.score_lists(lists), *model.score_lists(plain)]:
        assert scores == pytest.approx([expected, expected], abs=1e-4)
    with pytest.raises(TypeError, match="expected a list of pairs, got the pair"):
        list(model.score_pairs(phrasescore.PhrasePair("la maison", "the house")))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["encoder-decoder", "attention"])
def test_a_model_warns_once_of_words_that_it_does_not_know(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    words = ["la", "maison"], ["the", "house"]
    if kind == "attention":
        save_checkpoint(tmp_path / "model", RandomNetwork(kind, *words).checkpoint)
    else:
        RandomModel(tmp_path / "model", *words)
    model = phrasescore.load_model(tmp_path / "model", compute=Compute(device="cpu", threads=1))
    list(model.score_pairs([("la maison rare", "the house")]))
    assert not caplog.messages
    for _ in range(2):
        list(model.score_pairs([("la maison", "the|D house|N mouse|N")]))
    (message,) = caplog.messages
    assert message.startswith(f"the targets: 3 of 5 counted words are unknown to {tmp_path}/model")

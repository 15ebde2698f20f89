"""A model scores pairs and lists from Python as the reference network does."""

from pathlib import Path

import pytest

import phrasescore
from phrasescore.records import HypothesisList
from tests.doubles import RandomModel

PAIRS = [
    phrasescore.PhrasePair(("la", "maison"), ("the", "house")),
    phrasescore.PhrasePair((), ("rare",)),
    phrasescore.PhrasePair(("la",), ()),
]


@pytest.mark.parametrize("reverse", [False, True])
def test_pairs_and_lists_have_the_reference_s_scores_in_their_order(
    tmp_path: Path, reverse: bool
) -> None:
    random = RandomModel(tmp_path / "model", ["la", "maison"], ["the", "house"], reverse=reverse)
    model = phrasescore.load_model(random.path, device="cpu", threads=1)
    assert (model.kind, model.reverse) == ("encoder-decoder", reverse)
    expected = [random.log_prob(pair.source, pair.target) for pair in PAIRS]
    assert list(model.score_pairs(iter(PAIRS))) == pytest.approx(expected, abs=1e-4)
    lists = (HypothesisList(pair.source, [pair.target, pair.target]) for pair in PAIRS)
    for scores, score in zip(model.score_lists(lists), expected, strict=True):
        assert scores == pytest.approx([score, score], abs=1e-4)
    assert list(model.score_pairs([])) == []
    assert list(model.score_lists([])) == []

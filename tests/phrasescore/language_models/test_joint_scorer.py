"""Values of a joint model depend on their word and its context alone, each computed once."""

import random

import numpy as np
import pytest
import torch

from phrasescore.kernels.phrases import join_blocks
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.word_scorer import JointScorer, score_aligned
from phrasescore.records import HypothesisList, PhraseBlock
from phrasescore.scoring.prefix_tree import HypothesisTexts
from tests.counted_contexts import count_contexts
from tests.doubles import RandomJoint

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")


def random_lists(count: int) -> list[HypothesisList]:
    draw = random.Random(5)
    lists = []
    for _ in range(count):
        source = tuple(draw.choices("xyz", k=draw.randrange(4)))
        hypotheses = [tuple(draw.choices("abcd", k=draw.randrange(6))) for _ in range(20)]
        affiliations = [
            tuple(draw.randrange(len(source) + 1) for _ in words) for words in hypotheses
        ]
        lists.append(HypothesisList(source, hypotheses, affiliations))
    return lists


@pytest.mark.parametrize(("upper_size", "order"), [(6, 3), (0, 2)])
def test_scores_are_those_of_the_reference_and_beside_others_the_same_bits(
    upper_size: int, order: int
) -> None:
    model = RandomJoint("xy", "abc", upper_size=upper_size, order=order)
    scorer = JointScorer(model.checkpoint, CPU, Precision("float32", CPU))
    lists = random_lists(6)
    block = join_blocks([PhraseBlock.of_source(*item) for item in lists])
    together = score_aligned(scorer, HypothesisTexts(block)).totals().tolist()
    expected = [
        model.log_prob(item.source, words, places)
        for item in lists
        for words, places in zip(item.hypotheses, item.affiliations or [], strict=True)
    ]
    assert together == pytest.approx(expected, rel=1e-5)
    alone = [
        score_aligned(scorer, HypothesisTexts(block.select(np.array([pair])))).totals()[0]
        for pair in range(len(together))
    ]
    assert alone == together


def test_a_context_is_computed_once_with_a_memory_and_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = count_contexts(monkeypatch)
    model = RandomJoint("xy", "abc")
    scorer = JointScorer(model.checkpoint, CPU, Precision("float32", CPU), normalized=False)
    generator = np.random.default_rng(2)
    # T = 5, S = 4: five source words and two target words.
    drawn = np.hstack([generator.integers(5, 10, (99, 5)), generator.integers(0, 5, (99, 2))])
    contexts = np.concatenate([drawn, drawn]).astype(np.int32)
    words = generator.integers(0, 5, len(contexts)).astype(np.int32)
    distinct = len(np.unique(contexts, axis=0))
    expected = scorer.log_probs_of_ids(contexts, words)
    assert sum(counts) == distinct
    memo = scorer.new_memo()
    for _ in range(2):
        assert np.array_equal(scorer.log_probs_of_ids(contexts, words, memo), expected)
    assert sum(counts) == 2 * distinct

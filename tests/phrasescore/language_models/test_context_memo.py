"""Contexts that were computed are found again, and no others."""

import numpy as np
import pytest
import torch
from torch import Tensor

from phrasescore.kernels.precision import Precision
from phrasescore.language_models.context_scorer import ContextMemo
from phrasescore.language_models.word_scorer import WordScorer
from tests.counted_contexts import count_contexts
from tests.doubles import RandomCslm

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")


class Layers:
    """Layers that tell of which context they are, and a list of what was asked."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def __call__(self, contexts: np.ndarray) -> tuple[Tensor, Tensor]:
        self.asked += contexts.tolist()
        return torch.from_numpy(contexts).float(), torch.from_numpy(contexts.sum(1)).double()


def check(memo: ContextMemo, contexts: np.ndarray, layers: Layers) -> None:
    rows, normalizers, places = memo.find(contexts, layers)
    assert np.array_equal(rows.numpy()[places], contexts)
    assert np.array_equal(normalizers.numpy()[places], contexts.sum(1))


def test_each_context_is_computed_once() -> None:
    generator = np.random.default_rng(1)
    memo, layers = ContextMemo(3, 3, CPU, capacity=1000), Layers()
    seen = []
    for count in (1, 0, 200, 300):
        seen.append(generator.integers(0, 7, (count, 3)).astype(np.int32))
        check(memo, seen[-1], layers)
    distinct = np.unique(np.concatenate(seen), axis=0)
    assert len(distinct) < 501
    assert sorted(layers.asked) == distinct.tolist()


def test_a_full_one_forgets_and_goes_on() -> None:
    memo, layers = ContextMemo(2, 2, CPU, capacity=5), Layers()
    one, two = (np.array(rows, np.int32) for rows in ([[1, 2], [3, 4]], [[5, 6], [7, 8], [5, 6]]))
    for contexts in (one, two, one, two):
        check(memo, contexts, layers)
    # The first four fit; then three could be new, and there is room for one.
    assert layers.asked == [[1, 2], [3, 4], [5, 6], [7, 8], [1, 2], [3, 4], [5, 6], [7, 8]]


def test_what_could_not_be_computed_is_not_known() -> None:
    memo, layers = ContextMemo(2, 2, CPU, capacity=5), Layers()
    contexts = np.array([[1, 2]], np.int32)

    def fail(_: np.ndarray) -> tuple[Tensor, Tensor]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memo.find(contexts, fail)
    check(memo, contexts, layers)
    assert layers.asked == [[1, 2]]


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("capacity", [1, 7, 1000])
def test_values_have_the_same_bits_as_without_it(
    normalized: bool, capacity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = count_contexts(monkeypatch)
    model = RandomCslm(["a", "b", "c", "d"], order=4)
    generator = np.random.default_rng(2)
    contexts = generator.integers(0, 6, (300, 3)).astype(np.int32)
    words = generator.integers(0, 6, 300).astype(np.int32)
    scorer = WordScorer(model.checkpoint, CPU, Precision("float32", CPU), normalized=normalized)
    expected = scorer.log_probs_of_ids(contexts, words)
    assert sum(counts) == len(np.unique(contexts, axis=0))
    # 6 is the upper layer's size.
    memo = ContextMemo(3, 6, CPU, capacity)
    for _ in range(2):
        assert np.array_equal(scorer.log_probs_of_ids(contexts, words, memo), expected)
    if capacity == 1000:
        scored = sum(counts)
        scorer.log_probs_of_ids(contexts, words, memo)
        assert sum(counts) == scored

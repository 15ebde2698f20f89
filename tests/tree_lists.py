"""Lists of word ids whose targets begin alike, scored over their tree."""

import random
from itertools import chain

import numpy as np
import pytest
import torch
from torch import nn

from phrasescore.arguments import PrecisionName
from phrasescore.io.ragged import RaggedArray
from phrasescore.kernels.precision import Precision
from phrasescore.models.batches import batch_pairs
from phrasescore.scoring.prefix_tree import build_prefix_tree
from phrasescore.scoring.products import Products
from phrasescore.scoring.tree_scorer import TreeScorer

SOURCE_SIZE, TARGET_SIZE = 30, 25
CPU = torch.device("cpu")

Lists = list[tuple[list[int], list[list[int]]]]


def make_lists(seed: int, count: int = 12, longest: int = 12) -> Lists:
    """Return sources, each with targets that begin alike; some of either are empty."""
    generator = random.Random(seed)

    def words(size: int, most: int) -> list[int]:
        return [generator.randrange(1, size) for _ in range(generator.randrange(most + 1))]

    lists: Lists = [([], [[], [2]]), ([1, 1], [[]])]
    for _ in range(count):
        whole = words(TARGET_SIZE, longest)
        targets = [
            whole[: generator.randrange(len(whole) + 1)] + words(TARGET_SIZE, 3)
            for _ in range(generator.randrange(1, 9))
        ]
        lists.append((words(SOURCE_SIZE, longest), targets))
    return lists


def score(scorer: TreeScorer, lists: Lists) -> list[list[np.ndarray]]:
    targets = [target for _, row in lists for target in row]
    roots = np.array([place for place, (_, row) in enumerate(lists) for _ in row])
    tree = build_prefix_tree(RaggedArray.from_rows(targets), roots, len(lists))
    sources = RaggedArray.from_rows([source for source, _ in lists])
    words = iter(scorer.score(sources, tree).words())
    return [[next(words) for _ in row] for _, row in lists]


def make_scorer(kind: str, network: nn.Module, precision: PrecisionName = "float32") -> TreeScorer:
    return TreeScorer(kind, network, Products(Precision(precision, CPU), CPU))


def assert_close(first: list[list[np.ndarray]], second: list[list[np.ndarray]]) -> None:
    for values, others in zip(chain(*first), chain(*second), strict=True):
        np.testing.assert_allclose(values, others, rtol=0, atol=2e-5)


def assert_scores_are_the_network_s(kind: str, network: nn.Module) -> None:
    lists = make_lists(7)
    pairs = [(source, target) for source, targets in lists for target in targets]
    with torch.inference_mode():
        expected = network(batch_pairs(pairs)).tolist()
    scored = [values.sum() for row in score(make_scorer(kind, network), lists) for values in row]
    assert scored == pytest.approx(expected, abs=1e-4)


def assert_bits_are_the_same_alone_and_among_others(scorer: TreeScorer) -> None:
    # Enough sources and targets for several blocks of rows.
    lists = make_lists(3, count=90)
    together = score(scorer, lists)
    backwards = score(scorer, lists[::-1])[::-1]
    for place, (source, targets) in enumerate(lists):
        assert all(map(np.array_equal, together[place], backwards[place]))
        if place % 9 == 0:
            for number, target in enumerate(targets):
                alone = score(scorer, [(source, [target])])[0][0]
                assert np.array_equal(alone, together[place][number])

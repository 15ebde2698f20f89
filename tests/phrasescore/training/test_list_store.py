"""Promises of phrasescore.training.stores."""

import numpy as np
import torch

from phrasescore.training.stores import ListStoreBuilder

# Pairs by their place: sources and targets.
SOURCES: list[list[int]] = [[2], [3, 4], [], [5]]
TARGETS: list[list[int]] = [[7, 8, 9], [6], [7], []]
# Of each list the model scores and the pairs of its hypotheses, and the pairs that are taught.
LISTS = [([-1.0, -2.0], [[0, 1], [1, 1, 3]], [1]), ([-3.0], [[2]], [2]), ([-4.0], [[3, 0]], [1, 3])]


def test_a_batch_has_each_pair_once_and_what_is_known_of_the_hypotheses() -> None:
    builder = ListStoreBuilder()
    places = [builder.add_pair(*pair) for pair in zip(SOURCES, TARGETS, strict=True)]
    assert places == [0, 1, 2, 3]
    for known in LISTS:
        builder.add_list(*known)
    store = builder.build([0.5, 0.25, 1.0, 0.0], {})
    assert (len(store), len(store.gains)) == (3, 4)
    assert [sizes.tolist() for sizes in store.lengths(np.array([2, 0]))] == [[1, 2], [1, 2]]
    batch = store.batch(np.array([2, 0]))
    # Pairs 0, 1 and 3: words and </s>, which is 0.
    assert batch.pairs.source.ids.tolist() == [2, 0, 3, 4, 0, 5, 0]
    assert batch.pairs.target.ids.tolist() == [7, 8, 9, 0, 6, 0, 0]
    assert batch.pairs.target.lengths.tolist() == [3, 1, 0]
    assert batch.taught.source.ids.tolist() == [3, 4, 0, 5, 0]
    assert batch.scores.model_scores.tolist() == [-4.0, -1.0, -2.0]
    assert batch.scores.gains.tolist() == [0.0, 0.5, 0.25]
    assert (batch.scores.lists.tolist(), batch.scores.num_lists) == ([0, 1, 1], 2)
    # Sums by hand: pairs 3 and 0; 0 and 1; 1 twice and 3.
    values = batch.values(torch.tensor([-1.0, -10.0, -100.0]))
    assert values.tolist() == [-101.0, -11.0, -120.0]
    moved = batch.to(torch.device("cpu"))
    assert moved.values(torch.tensor([-1.0, -10.0, -100.0])).tolist() == values.tolist()

"""The plan of a scoring run against what a dictionary of tuples says."""

import random
from collections.abc import Sequence
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasescore.io.ragged import RaggedArray
from phrasescore.scoring.prefix_tree import Level, build_prefix_tree, plan_pairs

Words = tuple[int, ...]
phrases = st.lists(st.integers(0, 3), max_size=5).map(tuple)


def spell(levels: list[Level], roots: Sequence[object]) -> list[list[tuple[object, Words]]]:
    """Return the (root, words) of each node, by following parents."""
    spelled: list[list[tuple[object, Words]]] = []
    above: list[tuple[object, Words]] = [(root, ()) for root in roots]
    for level in levels:
        above = [
            (above[parent][0], (*above[parent][1], word))
            for parent, word in zip(level.parents.tolist(), level.words.tolist(), strict=True)
        ]
        spelled.append(above)
    return spelled


@given(st.lists(st.tuples(st.integers(0, 2), phrases), max_size=30))
def test_a_tree_has_each_prefix_once_and_each_sequence_at_its_own_node(
    sequences: list[tuple[int, Words]],
) -> None:
    roots = np.array([root for root, _ in sequences], dtype=np.int64)
    tree = build_prefix_tree(RaggedArray.from_rows([words for _, words in sequences]), roots, 3)
    spelled = spell(tree.levels, [0, 1, 2])
    nodes = [node for level in spelled for node in level]
    expected = {
        (root, words[:end]) for root, words in sequences for end in range(1, len(words) + 1)
    }
    assert len(nodes) == tree.num_nodes == len(expected)
    assert set(nodes) == expected
    found = dict(
        zip(tree.empty.tolist(), [(r, ()) for r in tree.empty_roots.tolist()], strict=True)
    )
    for level, names in zip(tree.levels, spelled, strict=True):
        for sequence, node in zip(level.ends.tolist(), level.end_nodes.tolist(), strict=True):
            found[sequence] = names[node]
    assert found == dict(enumerate(sequences))


# How many words the number holds that sequences are sorted by first: all, one, none.
@pytest.mark.parametrize("gap", [1, 2**40, 2**61])
@given(st.lists(st.tuples(st.integers(0, 2), phrases), max_size=30))
def test_nodes_come_in_the_order_of_parents_and_words_and_ends_in_that_of_sequences(
    gap: int, sequences: list[tuple[int, Words]]
) -> None:
    roots = np.array([root for root, _ in sequences], dtype=np.int64)
    words = [tuple(word * gap for word in words) for _, words in sequences]
    levels = build_prefix_tree(RaggedArray.from_rows(words), roots, 3).levels
    above = {(root,): root for root in range(3)}
    for depth, level in enumerate(levels, start=1):
        prefixes = [(root, *phrase) for root, phrase in zip(roots.tolist(), words, strict=True)]
        here = sorted({prefix[: depth + 1] for prefix in prefixes if len(prefix) > depth})
        assert level.parents.tolist() == [above[prefix[:-1]] for prefix in here]
        assert level.words.tolist() == [prefix[-1] for prefix in here]
        assert level.parents.tolist() == sorted(level.parents.tolist())
        ending = [place for place, prefix in enumerate(prefixes) if len(prefix) == depth + 1]
        assert level.ends.tolist() == ending
        assert level.end_nodes.tolist() == [here.index(prefixes[place]) for place in ending]
        above = {prefix: node for node, prefix in enumerate(here)}


def test_a_tree_of_many_sequences_that_differ_late() -> None:
    generator = random.Random(1)
    begin = tuple(generator.randrange(20_000) for _ in range(12))
    phrases = [(*begin, *(generator.randrange(3) for _ in range(6))) for _ in range(2_000)]
    roots = np.zeros(len(phrases), dtype=np.int64)
    tree = build_prefix_tree(RaggedArray.from_rows(phrases), roots, 1)
    assert tree.num_nodes == len({phrase[:end] for phrase in phrases for end in range(1, 19)})
    (names,) = spell(tree.levels, [None])[-1:]
    for sequence, node in zip(tree.levels[-1].ends, tree.levels[-1].end_nodes, strict=True):
        assert names[node][1] == phrases[sequence]


@pytest.mark.parametrize("piece_size", [1, 2, 7, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_a_plan_has_every_pair_once_with_its_own_source(seed: int, piece_size: int) -> None:
    generator = random.Random(seed)

    def phrase() -> Words:
        return tuple(generator.randrange(3) for _ in range(generator.randrange(4)))

    pairs = [(phrase(), phrase()) for _ in range(60)]
    distinct, _, pieces = plan_pairs(
        RaggedArray.from_rows([source for source, _ in pairs]),
        RaggedArray.from_rows([target for _, target in pairs]),
        piece_size,
    )
    words = iter(distinct.values.tolist())
    sources = [tuple(islice(words, length)) for length in distinct.lengths.tolist()]
    assert sorted(sources) == sorted({source for source, _ in pairs})
    found = {}
    for piece in pieces:
        assert len(piece.pairs) <= piece_size
        roots = [sources[number] for number in piece.sources.tolist()]
        tree = piece.targets
        here = dict(
            zip(tree.empty.tolist(), [(roots[r], ()) for r in tree.empty_roots], strict=True)
        )
        for level, names in zip(tree.levels, spell(tree.levels, roots), strict=True):
            for sequence, node in zip(level.ends.tolist(), level.end_nodes.tolist(), strict=True):
                here[sequence] = names[node]
        for sequence, pair in here.items():
            assert int(piece.pairs[sequence]) not in found
            found[int(piece.pairs[sequence])] = pair
    assert found == dict(enumerate(pairs))


def test_equal_sources_are_one_wherever_they_stand() -> None:
    sources = [(1, 2), (1,), (1, 2), (), (1, 2, 3), ()]
    targets = RaggedArray.from_rows([(5,)] * 6)
    _, num_nodes, (piece,) = plan_pairs(RaggedArray.from_rows(sources), targets, 100)
    # Prefixes: 1, 1 2, 1 2 3; distinct sources: 4; under each, the one target prefix 5.
    assert (num_nodes, len(piece.sources), piece.targets.num_nodes) == (3, 4, 4)

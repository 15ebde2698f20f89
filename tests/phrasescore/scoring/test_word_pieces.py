"""Promises of the tree of words' pieces, against sequences one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasescore.io.ragged import RaggedArray
from phrasescore.scoring.prefix_tree import build_prefix_tree
from phrasescore.scoring.tree_scorer import PieceTree, TreeLogProbs
from tests.sentence_scores import words_of

# Of six words, the pieces of some of which begin alike.
PIECES = [[3], [3, 4], [3, 4, 5], [6, 3], [6], [7, 7, 7]]


def value(root: int, prefix: list[int]) -> float:
    return -(hash((root, *prefix)) % 1000 + 1) / 8


sentences = st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=7)


@given(sentences, st.integers(1, 3))
def test_a_word_has_the_sum_of_its_pieces_after_those_before_it(
    rows: list[list[int]], num_roots: int
) -> None:
    roots = np.arange(len(rows)) % num_roots
    words = build_prefix_tree(RaggedArray.from_rows(rows), roots, num_roots)
    split = PieceTree.of(words, RaggedArray.from_rows(PIECES))
    running = [[piece for word in row for piece in PIECES[word]] for row in rows]
    assert split.pieces.num_nodes == len(
        {
            (root, *row[: end + 1])
            for root, row in zip(roots.tolist(), running, strict=True)
            for end in range(len(row))
        }
    )
    # Each node's value tells its whole prefix; that of </s> likewise.
    paths, of_paths = split.pieces.paths()
    assert of_paths.tolist() == roots.tolist()
    values = np.full(split.pieces.num_nodes, np.nan)
    ends = np.empty(len(rows))
    for place, (root, row) in enumerate(zip(roots.tolist(), running, strict=True)):
        start = int(paths.starts[place])
        for depth in range(len(row)):
            values[paths.values[start + depth]] = value(root, row[: depth + 1])
        ends[place] = value(root, [*row, 0])
    parts, first = [ends[split.pieces.empty]], 0
    for level in split.pieces.levels:
        last = first + len(level.words)
        parts += [values[first:last], ends[level.ends]]
        first = last
    scored = split.sum_words(np.concatenate(parts))
    assert isinstance(scored, TreeLogProbs)
    for place, (root, row) in enumerate(zip(roots.tolist(), rows, strict=True)):
        wanted: list[float] = []
        before: list[int] = []
        for word in row:
            wanted.append(
                sum(
                    value(root, [*before, *PIECES[word][: end + 1]])
                    for end in range(len(PIECES[word]))
                )
            )
            before += PIECES[word]
        wanted.append(value(root, [*before, 0]))
        assert words_of(scored)[place].tolist() == wanted
        assert scored.totals()[place] == pytest.approx(sum(wanted), abs=1e-12)


def test_sequences_of_pieces_keep_their_order_and_empty_ones() -> None:
    found = RaggedArray.from_rows([[2, 0], [], [5]]).expand(RaggedArray.from_rows(PIECES))
    assert found.values.tolist() == [3, 4, 5, 3, 7, 7, 7]
    assert found.lengths.tolist() == [4, 0, 3]
    none = RaggedArray.from_rows([]).expand(RaggedArray.from_rows(PIECES))
    assert (none.values.tolist(), none.lengths.tolist()) == ([], [])

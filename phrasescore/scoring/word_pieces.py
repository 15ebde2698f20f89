"""Words that a network has in pieces: a tree of their pieces is scored, and each word has its sum.

log p of a word is the sum of those of its pieces, each after those before it.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasescore.scoring.prefix_tree import Ids, PrefixTree, Sequences, build_prefix_tree
from phrasescore.scoring.tree_scorer import Floats, TreeLogProbs
from phrasescore.vocabulary import Vocabulary


def split_words(vocabulary: Vocabulary, words: Sequence[str]) -> Sequences:
    """Return the ids of the pieces of each word, one at least; of a shortlist's the word's id."""
    split = vocabulary.split(words)
    return join_pieces(vocabulary.ids_of_pieces(list(chain.from_iterable(split))), split)


def join_pieces(ids: Sequence[int], split: Sequence[Sequence[str]]) -> Sequences:
    """Return the pieces of words as sequences of numbers.

    :param ids: of all pieces, one after another.
    """
    lengths = np.fromiter(map(len, split), np.int64, len(split))
    return Sequences(np.array(ids, np.int64), lengths)


def count_words_with(number: int, pieces: Sequences, words: Iterable[Ids]) -> int:
    """Return how many words have a piece of this number.

    :param pieces: of each word.
    :param words: places in these.
    """
    has = np.zeros(len(pieces.lengths), bool)
    has[np.repeat(np.arange(len(has)), pieces.lengths)[pieces.ids == number]] = True
    return sum(int(has[some].sum()) for some in words)


def sum_parts(values: NDArray[Any], lengths: Ids) -> Floats:
    """Return the sum of each part of an array.

    :param lengths: of the parts, which follow one another.
    """
    owners = np.repeat(np.arange(len(lengths)), lengths)
    # One value after another: a sum has the same bits whatever parts are beside it.
    return np.asarray(np.bincount(owners, values, len(lengths)), np.float64)


class PieceTree(NamedTuple):
    """The tree of the pieces of the words of a tree; both have the same sequences and roots."""

    words: PrefixTree
    pieces: PrefixTree
    # The nodes of the pieces of each node of the words' tree, both numbered level after level.
    nodes: Sequences

    @classmethod
    def of(cls, words: PrefixTree, pieces: Sequences) -> "PieceTree":
        """Return the tree of the pieces of a tree's words.

        :param pieces: of each number that a word may have, in the order of prediction.
        """
        paths, roots = words.paths()
        numbers = np.concatenate([np.empty(0, np.int64), *(level.words for level in words.levels)])
        running = Sequences(numbers[paths.ids], paths.lengths)
        tree = build_prefix_tree(running.expand(pieces), roots, words.num_roots)
        # All sequences through a node have the same pieces there.
        through = np.empty(words.num_nodes, np.int64)
        through[paths.ids] = np.arange(len(paths.ids))
        nodes = Sequences(tree.paths()[0].ids, pieces.lengths[running.ids]).select(through)
        return cls(words, tree, nodes)

    def sum_words(self, values: Floats) -> TreeLogProbs:
        """Return log p of each word of the tree, given that of each piece.

        :param values: as :class:`TreeLogProbs` has those of the pieces' tree.
        """
        of_nodes, of_ends = TreeLogProbs(self.pieces, values).split()
        values = np.concatenate([np.empty(0), *of_nodes])
        sums = sum_parts(values[self.nodes.ids], self.nodes.lengths)
        parts, first = [of_ends[self.words.empty]], 0
        for level in self.words.levels:
            last = first + len(level.words)
            parts += [sums[first:last], of_ends[level.ends]]
            first = last
        return TreeLogProbs(self.words, np.concatenate(parts))

"""Plan a scoring run: distinct prefixes of sequences, each of which is computed once.

A :class:`PrefixTree` has a node for each distinct prefix of its sequences, level by level: level t
contains the prefixes of t + 1 words. The targets of different sources have different roots.
"""

from collections import defaultdict
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.devices import move
from phrasescore.errors import ModelError
from phrasescore.io.ragged import RaggedArray
from phrasescore.kernels.phrases import grow, pack_keys
from phrasescore.records import PhraseBlock
from phrasescore.vocabulary import Vocabulary

Ids = NDArray[np.int64]

# Number of bits, without the sign, in the sort key of a sequence.
_KEY_BITS = 63


class Level(NamedTuple):
    """The nodes at one depth, in the order of their parents."""

    parents: Ids  # (nodes,) position of the parent in the level above, or the root's number
    words: Ids  # (nodes,) the last word of each prefix
    ends: Ids  # (ending,) sequences that end at this depth
    end_nodes: Ids  # (ending,) the node at which each one ends


class Prefixes(NamedTuple):
    """The prefixes in a tree: the empty one of each root, and then level by level."""

    parents: Ids  # the prefix without its last word; -1 for an empty one
    words: Ids  # the last words
    roots: Ids
    lengths: Ids

    def last_words(self, count: int) -> NDArray[np.int32]:
        """Return the last words of each prefix, the oldest first, ``(prefixes, count)``.

        The words before a sequence are the word of its empty prefix.
        """
        words = np.empty((len(self.words), count), np.int32)
        prefixes = np.arange(len(self.words))
        for column in reversed(range(count)):
            words[:, column] = self.words[prefixes]
            prefixes = np.where(self.lengths[prefixes], self.parents[prefixes], prefixes)
        return words


class PrefixTree(NamedTuple):
    """All distinct prefixes of a collection of sequences."""

    num_roots: int
    empty: Ids  # sequences without words
    empty_roots: Ids  # the root of each empty sequence
    levels: list[Level]

    @property
    def num_nodes(self) -> int:
        """The number of distinct non-empty prefixes."""
        return sum(len(level.words) for level in self.levels)

    def prefixes(self, start: int) -> Prefixes:
        """Return all prefixes; the last word of an empty one is ``start``."""
        count = self.num_roots
        parents, words = [np.full(count, -1)], [np.full(count, start)]
        roots, lengths = [np.arange(count)], [np.zeros(count, np.int64)]
        first = 0
        for length, level in enumerate(self.levels, start=1):
            parents.append(first + level.parents)
            first += len(roots[-1])
            words.append(level.words)
            roots.append(roots[-1][level.parents])
            lengths.append(np.full(len(level.words), length))
        return Prefixes(*map(np.concatenate, (parents, words, roots, lengths)))

    def predictions(self, end: int = Vocabulary.END) -> tuple[Ids, Ids]:
        """Return the index of the prefix before each word and ``</s>`` of the tree, and that word.

        The predictions are in the order of `phrasescore.scoring.tree_scorer.TreeLogProbs`.

        :param end: the number of ``</s>``.
        """
        places = [self.empty_roots]
        words = [np.full(len(self.empty), end)]
        first, size = 0, self.num_roots
        for level in self.levels:
            places += [first + level.parents, first + size + level.end_nodes]
            words += [level.words, np.full(len(level.ends), end)]
            first, size = first + size, len(level.words)
        return np.concatenate(places), np.concatenate(words)

    def renumber(self, ids: Ids) -> "PrefixTree":
        """Return the tree with each word w replaced by ``ids[w]``."""
        levels = [level._replace(words=ids[level.words]) for level in self.levels]
        return self._replace(levels=levels)

    def ends(self) -> Ids:
        """Return the index of each whole sequence among the prefixes."""
        ends = np.empty(len(self.empty) + sum(len(level.ends) for level in self.levels), np.int64)
        ends[self.empty] = self.empty_roots
        first = self.num_roots
        for level in self.levels:
            ends[level.ends] = first + level.end_nodes
            first += len(level.words)
        return ends

    def paths(self) -> tuple[RaggedArray, Ids]:
        """Return each sequence's nodes, numbered level by level, and its root."""
        prefixes, nodes = self.prefixes(start=0), self.ends()
        lengths, roots = prefixes.lengths[nodes], prefixes.roots[nodes]
        paths = RaggedArray.from_lengths(np.empty(lengths.sum(), np.int64), lengths)
        for depth in reversed(range(len(self.levels))):
            active = np.flatnonzero(lengths > depth)
            paths.values[paths.starts[active] + depth] = nodes[active] - self.num_roots
            nodes[active] = prefixes.parents[nodes[active]]
        return paths, roots

    def find_distinct(self) -> tuple[Ids, Ids]:
        """Group equal sequences; return each group's first sequence, and each sequence's group.

        Sequences with different roots are not equal. Groups are sorted by length and node.
        """
        _, firsts, groups = np.unique(self.ends(), return_index=True, return_inverse=True)
        return firsts, groups


def on_device(positions: Ids, device: torch.device) -> Tensor:
    """Copy positions to a tensor on ``device``, without waiting for the copy."""
    return move(device, torch.from_numpy(np.ascontiguousarray(positions)))[0]


def build_prefix_tree(sequences: RaggedArray, roots: Ids, num_roots: int) -> PrefixTree:
    """Build the prefix tree of sequences; ``roots``, ``(sequences,)``, are their roots."""
    empty = np.flatnonzero(sequences.lengths == 0)
    # Sorted by a number that holds the root and the first words, and then by all words.
    word_bits = (int(sequences.values.max(initial=-1)) + 1).bit_length()
    num_words = (_KEY_BITS - num_roots.bit_length()) // max(1, word_bits)
    arrays = (sequences.values, sequences.starts[:-1], sequences.lengths, roots)
    keys = pack_keys(*arrays, word_bits, num_words)
    starts, parents, words, end_starts, ends, end_nodes = grow(*arrays, keys, np.argsort(keys))
    levels = [
        Level(parents[begin:end], words[begin:end], ends[first:last], end_nodes[first:last])
        for (begin, end), (first, last) in zip(
            pairwise(starts.tolist()), pairwise(end_starts.tolist()), strict=True
        )
    ]
    return PrefixTree(num_roots, empty, roots[empty], levels)


class TargetPiece(NamedTuple):
    """The target prefixes of a group of pairs, with a root per distinct source."""

    pairs: Ids  # (pairs,) positions in the input
    sources: Ids  # (roots,) indices among the distinct sources
    targets: PrefixTree  # sequence i is pair pairs[i]; root j is source sources[j]


def plan_pairs(
    sources: RaggedArray, targets: RaggedArray, piece_size: int
) -> tuple[RaggedArray, int, list[TargetPiece]]:
    """Return the distinct sources, their number of distinct non-empty prefixes, and the pieces.

    A piece has ``piece_size`` pairs, which bounds the memory.
    """
    roots = np.zeros(len(sources), np.int64)
    source_tree = build_prefix_tree(sources, roots, num_roots=1)
    firsts, source_of_pair = source_tree.find_distinct()
    # The pairs of a source are adjacent, and sources are in the order of their tree, so that the
    # states of a piece are adjacent in memory. Within a source, pairs are sorted by first word.
    first_words = np.full(len(targets), -1)
    spoken = targets.lengths > 0
    first_words[spoken] = targets.values[targets.starts[:-1][spoken]]
    order = np.lexsort((first_words, source_of_pair))
    pieces = []
    for start in range(0, len(order), piece_size):
        pairs = order[start : start + piece_size]
        used, roots = np.unique(source_of_pair[pairs], return_inverse=True)
        tree = build_prefix_tree(targets.take(pairs), roots, len(used))
        pieces.append(TargetPiece(pairs, used, tree))
    return sources.take(firsts), source_tree.num_nodes, pieces


class HypothesisTexts:
    """The sentences and translations in a block, as numbers of their distinct words."""

    def __init__(self, block: PhraseBlock) -> None:
        # Each sentence once for all of its adjacent translations.
        self.sources: list[tuple[str, ...]] = []
        hypotheses, source_of = [], []
        for source, hypothesis in block.pairs():
            if not self.sources or source is not self.sources[-1]:
                self.sources.append(source)
            source_of.append(len(self.sources) - 1)
            hypotheses.append(hypothesis)
        # A new word's number is the number of known words.
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__
        self._sources, self._hypotheses = (
            RaggedArray.from_rows([[numbers[word] for word in words] for words in sentences])
            for sentences in (self.sources, hypotheses)
        )
        self._source_of = np.array(source_of, np.int64)
        self._affiliations = block.affiliations
        aligned = block.affiliations or [()] * len(hypotheses)
        self.num_distinct = len(set(zip(source_of, hypotheses, aligned, strict=True)))
        self.words = list(numbers)
        # By `right_to_left`.
        self._trees: dict[bool, PrefixTree] = {}

    def plan(self, *, reverse: bool, right_to_left: bool = False) -> tuple[PrefixTree, RaggedArray]:
        """Return the tree of predicted sides, with a sequence per hypothesis, and the read sides.

        A reverse model reads each distinct hypothesis and predicts the source. A right-to-left
        model predicts the last word first.
        """
        if not reverse:
            return self._hypothesis_tree(right_to_left=right_to_left), self._sources
        firsts, inverse = self._hypothesis_tree(right_to_left=False).find_distinct()
        sources = self._sources.reversed() if right_to_left else self._sources
        predicted = build_prefix_tree(sources.take(self._source_of), inverse, len(firsts))
        return predicted, self._hypotheses.take(firsts)

    def _hypothesis_tree(self, *, right_to_left: bool) -> PrefixTree:
        if right_to_left not in self._trees:
            hypotheses = self._hypotheses.reversed() if right_to_left else self._hypotheses
            self._trees[right_to_left] = build_prefix_tree(
                hypotheses, self._source_of, len(self._sources)
            )
        return self._trees[right_to_left]

    def plan_aligned(self) -> tuple[PrefixTree, int]:
        """Return the tree of the hypotheses as aligned words, and the factor n in their numbers.

        A word w with the affiliation a has the number w * n + a.
        """
        if self._affiliations is None:
            raise ModelError("a joint model needs word alignments, and these hypotheses have none")
        affiliations = np.array(list(chain.from_iterable(self._affiliations)), np.int64)
        factor = int(self._sources.lengths.max(initial=0)) + 1
        ids = self._hypotheses.values * factor + affiliations
        sequences = RaggedArray(ids, self._hypotheses.starts)
        return build_prefix_tree(sequences, self._source_of, len(self.sources)), factor

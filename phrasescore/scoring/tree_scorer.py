"""Compute log-probabilities of many targets for each source, over prefix trees.

A network's decoder runs level by level over the distinct prefixes of several sources' targets; the
distribution after a prefix gives the log-probabilities of all words that follow it. Nothing is
padded or computed twice.
"""

import pkgutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from phrasescore.io.ragged import RaggedArray
from phrasescore.kernels.gates import TreeStep
from phrasescore.records import Tally
from phrasescore.scoring.prefix_tree import (
    Ids,
    PrefixTree,
    build_prefix_tree,
    on_device,
    plan_pairs,
)
from phrasescore.scoring.products import Products
from phrasescore.scoring.word_probabilities import WordProbabilities
from phrasescore.settings.kinds import KINDS
from phrasescore.vocabulary import Vocabulary

Floats = NDArray[np.float64]


class TreeDecoder(Protocol):
    """A network that predicts a target word by word, with its weights laid out for scoring.

    A kind of network names its decoder (:mod:`phrasescore.settings.kinds`), a subclass that is
    created with the network and a `Products` object. All matrix products are computed with this
    object, so that to the last bit, a node's result depends only on its source and its prefix.
    Results may be in buffers, which are valid until the same thread calls the same method again.
    """

    # Weight (words, width) and bias (words,) of the softmax over the shortlist.
    output: tuple[Tensor, Tensor]

    def encode(self, sources: RaggedArray) -> Any:
        """Return the encodings of sources, given as word ids without ``</s>``."""

    def start(self, encoded: Any, sources: Tensor) -> tuple[Any, Tensor]:
        """Return the state of the empty prefixes, and the softmax inputs, ``(roots, width)``.

        :param sources: the index of each root's source, ``(roots,)``.
        """

    def advance(self, state: Any, step: TreeStep) -> tuple[Any, Tensor]:
        """Return the state of the nodes in a level, and the softmax inputs, ``(nodes, width)``.

        :param state: the state of the level above, which is not used again.
        """

    def walk(
        self, encoded: Any, sources: Tensor, tree: PrefixTree
    ) -> Iterator[tuple[Tensor, Ids, Ids]]:
        """Yield softmax inputs, the row before each word to predict, and these words.

        The words of all parts are in the order of :class:`TreeLogProbs`. A decoder that computes
        several levels together replaces this method, which goes from level to level.
        """
        state, rows = self.start(encoded, sources)
        roots, nodes = np.arange(tree.num_roots), tree.empty_roots
        for level in tree.levels:
            ends = np.full(len(nodes), Vocabulary.END)
            words = np.concatenate([ends, level.words])
            yield rows, np.concatenate([nodes, level.parents]), words
            roots, nodes = roots[level.parents], level.end_nodes
            step = TreeStep.of(level.parents, level.words, roots, sources.device)
            state, rows = self.advance(state, step)
        yield rows, nodes, np.full(len(nodes), Vocabulary.END)


def build_decoder(kind: str, network: nn.Module, products: Products) -> TreeDecoder:
    """Build the decoder for a network of the given kind, on the device of ``products``."""
    name = KINDS[kind].decoder
    assert name is not None
    decoder: TreeDecoder = pkgutil.resolve_name(name)(network, products)
    return decoder


class TreeLogProbs(NamedTuple):
    """The log-probabilities of all words in a tree, natural logarithms."""

    tree: PrefixTree
    # The concatenated values for ``</s>`` after each empty sequence, the words of the first level,
    # ``</s>`` after the sequences that end there, the words of the second level, and so on.
    values: Floats

    def totals(self) -> Floats:
        """Return log p of each sequence with its ``</s>``, ``(sequences,)``."""
        nodes, totals = self.split()
        path = np.zeros(self.tree.num_roots)
        for level, log_probs in zip(self.tree.levels, nodes, strict=True):
            path = path[level.parents] + log_probs
            totals[level.ends] += path[level.end_nodes]
        return totals

    def split(self) -> tuple[list[Floats], Floats]:
        """Return the values of the nodes in each level, and of each sequence's ``</s>``."""
        sizes = [len(self.tree.empty)]
        for level in self.tree.levels:
            sizes += [len(level.words), len(level.ends)]
        parts = np.split(self.values, np.cumsum(sizes[:-1]))
        ends = np.zeros(sum(sizes[::2]))
        ends[self.tree.empty] = parts[0]
        for level, of_ends in zip(self.tree.levels, parts[2::2], strict=True):
            ends[level.ends] = of_ends
        return parts[1::2], ends


def log_mean_exp(parts: list[Floats]) -> Floats:
    """Return the log of the mean of e^x over arrays of one shape, summed in their order.

    An ensemble averages its models' probabilities in this way (Sutskever et al., 2014).
    """
    stacked = np.stack(parts)
    highest = stacked.max(axis=0)
    total = np.zeros_like(highest)
    for part in stacked:
        total += np.exp(part - highest)
    mean: Floats = highest + np.log(total / len(parts))
    return mean


@dataclass(frozen=True, slots=True)
class PairWork(Tally):
    """Counts of the work done to score phrase pairs."""

    pairs: int = 0
    source_nodes: int = 0  # encoder steps
    target_nodes: int = 0  # distributions over the shortlist

    def __str__(self) -> str:
        return (
            f"{self.pairs:,} pairs scored in {self.source_nodes:,} encoder and "
            f"{self.target_nodes:,} decoder steps"
        )


class TreeScorer:
    """Scores targets with one network. Several threads may share an instance."""

    def __init__(self, kind: str, network: nn.Module, products: Products, folder: str = "") -> None:
        self._products = products
        with torch.inference_mode():
            self._decoder = build_decoder(kind, network, products)
            self._probabilities = WordProbabilities(*self._decoder.output, products, folder)

    def score(self, sources: RaggedArray, tree: PrefixTree) -> TreeLogProbs:
        """Return the log-probability of every word in a tree of targets.

        :param sources: the word ids of each root's source, without ``</s>``.
        """
        with torch.inference_mode():
            return self._score_tree(self._decoder.encode(sources), np.arange(tree.num_roots), tree)

    def score_pairs(self, sources: RaggedArray, targets: RaggedArray) -> tuple[Floats, PairWork]:
        """Return log p(target ``</s>`` | source) for each pair, ``(pairs,)``, and the work done.

        Values are natural logarithms, not divided by length.

        :param sources: the word ids of each pair's source, without ``</s>``; ``targets`` likewise.
        """
        distinct, num_nodes, pieces = plan_pairs(sources, targets, self._products.level_rows)
        values = np.zeros(len(sources))
        with torch.inference_mode():
            encoded = self._decoder.encode(distinct)
            for piece in pieces:
                scored = self._score_tree(encoded, piece.sources, piece.targets)
                values[piece.pairs] = scored.totals()
        trees = [piece.targets for piece in pieces]
        return values, PairWork(
            pairs=len(values),
            source_nodes=num_nodes,
            target_nodes=sum(tree.num_roots + tree.num_nodes for tree in trees),
        )

    def _score_tree(self, encoded: Any, sources: Ids, tree: PrefixTree) -> TreeLogProbs:
        # On a GPU, all levels are submitted before the first one is done. The sums are checked
        # afterwards; few networks have sums that must be computed again.
        is_cpu = self._products.device.type == "cpu"
        values = self._walk(encoded, sources, tree, check_range=is_cpu)
        if not is_cpu and np.isnan(values).any():
            values = self._walk(encoded, sources, tree, check_range=True)
        return TreeLogProbs(tree, self._probabilities.check(values))

    def _walk(self, encoded: Any, sources: Ids, tree: PrefixTree, *, check_range: bool) -> Floats:
        """Return the values of :class:`TreeLogProbs`; they may be NaN without ``check_range``."""
        probabilities, device = self._probabilities, self._products.device
        found: list[Tensor] = []
        for rows, places, words in self._decoder.walk(encoded, on_device(sources, device), tree):
            normalizers = probabilities.log_normalizers(rows, check_range=check_range)
            found.append(probabilities.log_probs(rows, normalizers, places, words))
        values: Floats = torch.cat(found).cpu().numpy()
        return values


# Words in pieces


def split_words(vocabulary: Vocabulary, words: Sequence[str]) -> RaggedArray:
    """Return the piece ids of each word, at least one; in a shortlist, words are whole."""
    split = vocabulary.split(words)
    return RaggedArray.from_rows([vocabulary.ids_of_pieces(pieces) for pieces in split])


def sum_parts(values: NDArray[Any], lengths: Ids) -> Floats:
    """Sum consecutive parts of an array, given the length of each part."""
    owners = np.repeat(np.arange(len(lengths)), lengths)
    # Values are added one by one: a sum has the same bits whatever the other parts are.
    return np.asarray(np.bincount(owners, values, len(lengths)), np.float64)


class PieceTree(NamedTuple):
    """The prefix tree of pieces for a tree of words; both have the same sequences and roots."""

    words: PrefixTree
    pieces: PrefixTree
    # For each node in the tree of words, the nodes of its pieces; both are numbered level by level.
    nodes: RaggedArray

    @classmethod
    def of(cls, words: PrefixTree, pieces: RaggedArray) -> "PieceTree":
        """Build the tree, given the pieces of each word number in the order of prediction."""
        paths, roots = words.paths()
        numbers = np.concatenate([np.empty(0, np.int64), *(level.words for level in words.levels)])
        running = RaggedArray(numbers[paths.values], paths.starts)
        tree = build_prefix_tree(running.expand(pieces), roots, words.num_roots)
        # All sequences through a node have the same pieces there.
        through = np.empty(words.num_nodes, np.int64)
        through[paths.values] = np.arange(len(paths.values))
        nodes = RaggedArray.from_lengths(
            tree.paths()[0].values, pieces.lengths_of(running.values)
        ).take(through)
        return cls(words, tree, nodes)

    def sum_words(self, values: Floats) -> TreeLogProbs:
        """Return log p of each word: the sum over its pieces, whose log p are ``values``."""
        of_nodes, of_ends = TreeLogProbs(self.pieces, values).split()
        values = np.concatenate([np.empty(0), *of_nodes])
        sums = sum_parts(values[self.nodes.values], self.nodes.lengths)
        parts, first = [of_ends[self.words.empty]], 0
        for level in self.words.levels:
            last = first + len(level.words)
            parts += [sums[first:last], of_ends[level.ends]]
            first = last
        return TreeLogProbs(self.words, np.concatenate(parts))

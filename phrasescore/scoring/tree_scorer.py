"""The one scorer: log-probabilities of many targets of some sources, over trees of prefixes.

Many targets begin alike. Each distinct prefix of a source's targets is a node; a network's decoder
runs level by level over the nodes of several sources, and every node's distribution gives the
log-probabilities of the words that follow it. Nothing is padded, and nothing is computed twice.
Phrase pairs (:meth:`TreeScorer.score_pairs`) and hypotheses (:meth:`TreeScorer.score`) differ in
their :mod:`.products` alone, on which the last bits depend.
"""

import pkgutil
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from phrasescore.errors import ModelError
from phrasescore.scoring.prefix_tree import (
    Ids,
    PrefixTree,
    Sequences,
    TreeStep,
    on_device,
    plan_pairs,
)
from phrasescore.scoring.products import Products
from phrasescore.scoring.word_probabilities import WordProbabilities
from phrasescore.settings.kinds import get_kind
from phrasescore.vocabulary import Vocabulary

Floats = NDArray[np.float64]


class TreeDecoder(Protocol):
    """A network that predicts a target word by word, with its weights laid out for scoring.

    It computes row by row: with :class:`.products.Products` a node's result depends on its
    source and its prefix alone, to the last bit. Results are in buffers, valid until the next call
    of the same method by this thread.
    """

    # Weight (words, width) and bias (words,) of the softmax over the shortlist.
    output: tuple[Tensor, Tensor]

    def encode(self, sources: Sequences) -> Any:
        """Return the encodings of some sources, given as word ids without ``</s>``."""

    def start(self, encoded: Any, sources: Tensor) -> tuple[Any, Tensor]:
        """Return the state of the empty prefix of some sources, and the softmax' rows.

        :param encoded: from :meth:`encode`.
        :param sources: the number there of each root's source, ``(roots,)``.
        :return: the state, and the rows that predict the first word, ``(roots, width)``.
        """

    def advance(self, state: Any, step: TreeStep) -> tuple[Any, Tensor]:
        """Return the state of a level's nodes, and the rows that predict the next word.

        :param state: of the level above, which is not needed any more.
        :return: the state, and ``(nodes, width)``.
        """


def build_decoder(kind: str, network: nn.Module, products: Products) -> TreeDecoder:
    """Return the decoder of a network of this kind, on the device of ``products``.

    :param products: fixed ones; an encoder-decoder takes those of levels, too.
    :raises ModelError: if a weight is not finite.
    """
    check_weights(network)
    name = get_kind(kind).decoder
    assert name is not None
    decoder: TreeDecoder = pkgutil.resolve_name(name)(network, products)
    return decoder


def check_weights(network: nn.Module) -> None:
    """Raise a ModelError if a weight is not finite: the fast element-wise code carries no NaN."""
    for name, parameter in network.named_parameters():
        if not bool(parameter.isfinite().all()):
            raise ModelError(f"weights {name!r} are not all finite")


class TreeLogProbs(NamedTuple):
    """The log-probability of every word of a tree, natural logarithms."""

    tree: PrefixTree
    # One after another: ``</s>`` after each empty sequence, the last words of the first level's
    # nodes, ``</s>`` after the sequences that end there, the second level's words, and so on.
    values: Floats

    def totals(self) -> Floats:
        """Return log p of each sequence with its ``</s>``, ``(sequences,)``."""
        nodes, totals = self.split()
        path = np.zeros(self.tree.num_roots)
        for level, log_probs in zip(self.tree.levels, nodes, strict=True):
            path = path[level.parents] + log_probs
            totals[level.ends] += path[level.end_nodes]
        return totals

    def words(self) -> list[Floats]:
        """Return log p of each word of each sequence, its ``</s>`` last."""
        nodes, ends = self.split()
        found = [ends[place : place + 1] for place in range(len(ends))]
        paths = np.zeros((self.tree.num_roots, 0))
        for level, log_probs in zip(self.tree.levels, nodes, strict=True):
            paths = np.concatenate([paths[level.parents], log_probs[:, None]], axis=1)
            for sequence, node in zip(level.ends, level.end_nodes, strict=True):
                found[sequence] = np.append(paths[node], found[sequence])
        return found

    def split(self) -> tuple[list[Floats], Floats]:
        """Return the values of the nodes of each level, and those of the sequences' ends."""
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

    Of models' log-probabilities, as an ensemble decoder averages (Sutskever et al., 2014).
    """
    stacked = np.stack(parts)
    highest = stacked.max(axis=0)
    total = np.zeros_like(highest)
    for part in stacked:
        total += np.exp(part - highest)
    mean: Floats = highest + np.log(total / len(parts))
    return mean


@dataclass(frozen=True, slots=True)
class PairWork:
    """The work of scoring phrase pairs, to be set against the time that it took."""

    pairs: int = 0
    source_nodes: int = 0  # encoder steps
    sources: int = 0  # distinct sources: their summaries, and the products with these
    target_nodes: int = 0  # distributions over the shortlist
    products: int = 0  # decoder states that go on: recurrent products
    unknown_words: int = 0  # on both sides

    def __add__(self, other: "PairWork") -> "PairWork":
        return PairWork(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        """Return how much was computed, and how many words the network did not know."""
        return (
            f"{self.pairs:,} pairs scored in {self.source_nodes:,} encoder and "
            f"{self.target_nodes:,} decoder steps; {self.unknown_words:,} unknown words on both "
            "sides"
        )


class TreeScorer:
    """Scores targets with one network. Several threads may use one instance at once.

    :param kind: of the network, as its configuration names it.
    :param network: copied to the products' device, in the layout of scoring.
    :param products: see :func:`build_decoder`.
    :param folder: of the model, for errors.
    """

    def __init__(self, kind: str, network: nn.Module, products: Products, folder: str = "") -> None:
        self._products = products
        with torch.inference_mode():
            self._decoder = build_decoder(kind, network, products)
            self._probabilities = WordProbabilities(*self._decoder.output, products, folder)

    def score(self, sources: Sequences, tree: PrefixTree) -> TreeLogProbs:
        """Return the log-probability of every word of the tree.

        :param sources: the word ids, without ``</s>``, of the source of each root.
        :param tree: of the targets' word ids.
        :raises ModelError: if a value is not a finite log-probability.
        """
        with torch.inference_mode():
            encoded = self._decoder.encode(sources)
            return self._score_tree(encoded, np.arange(tree.num_roots), tree)

    def score_pairs(self, sources: Sequences, targets: Sequences) -> tuple[Floats, PairWork]:
        """Return log p(target ``</s>`` | source) of each pair, ``(pairs,)``, and the work done.

        Natural logarithms, summed over the target's words and its ``</s>``, not divided by length.

        :param sources: word ids without ``</s>``, a source per pair; ``targets`` alike.
        :raises ModelError: if a value is not a finite log-probability.
        """
        plan = plan_pairs(sources, targets, self._products.level_rows)
        values = np.zeros(len(sources.lengths))
        with torch.inference_mode():
            encoded = self._decoder.encode(plan.sources)
            for piece in plan.pieces:
                scored = self._score_tree(encoded, piece.sources, piece.targets)
                values[piece.pairs] = scored.totals()
        trees = [piece.targets for piece in plan.pieces]
        roots = sum(tree.num_roots for tree in trees)
        unknown = (int(np.sum(side.ids == Vocabulary.UNKNOWN)) for side in (sources, targets))
        return values, PairWork(
            pairs=len(values),
            source_nodes=plan.num_source_nodes,
            sources=roots,
            target_nodes=roots + sum(tree.num_nodes for tree in trees),
            products=roots + sum(tree.num_parents for tree in trees),
            unknown_words=sum(unknown),
        )

    def _score_tree(self, encoded: Any, sources: Ids, tree: PrefixTree) -> TreeLogProbs:
        """Return the log-probabilities of a tree whose roots have these of the encoded sources."""
        # On a GPU all levels are under way before the first is done. Few networks have sums that
        # have to be checked and computed anew before.
        is_cpu = self._products.device.type == "cpu"
        values = self._walk(encoded, sources, tree, check_range=is_cpu)
        if not is_cpu and np.isnan(values).any():
            values = self._walk(encoded, sources, tree, check_range=True)
        return TreeLogProbs(tree, self._probabilities.check(values))

    def _walk(self, encoded: Any, sources: Ids, tree: PrefixTree, *, check_range: bool) -> Floats:
        """Return the values of :class:`TreeLogProbs`.

        :param check_range: see :meth:`WordProbabilities.log_normalizers`; without, some values may
            be NaN.
        """
        decoder, probabilities, device = self._decoder, self._probabilities, self._products.device
        state, rows = decoder.start(encoded, on_device(sources, device))
        found: list[Tensor] = []
        roots, end_nodes = np.arange(tree.num_roots), tree.empty_roots
        for level in [*tree.levels, None]:
            normalizers = probabilities.log_normalizers(rows, check_range=check_range)
            places, words = end_nodes, np.full(len(end_nodes), Vocabulary.END)
            if level is not None:
                places = np.concatenate([places, level.parents])
                words = np.concatenate([words, level.words])
            found.append(probabilities.log_probs(rows, normalizers, places, words))
            if level is not None:
                roots, end_nodes = roots[level.parents], level.end_nodes
                step = TreeStep.of(level.parents, level.words, roots, device)
                state, rows = decoder.advance(state, step)
        values: Floats = torch.cat(found).cpu().numpy()
        return values

"""Log-probabilities of many targets of some sources, over the tree of the targets' prefixes.

An n-best list says the same beginnings again and again. Each distinct prefix of a source's targets
is a node; the decoder runs level by level over the nodes of several sources, and every node's
distribution gives the log-probabilities of the words that follow it. Nothing is padded, and nothing
is computed twice.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from phrasescore.errors import ModelError
from phrasescore.kernels.precision import Precision
from phrasescore.scoring.fixed_products import FixedProducts
from phrasescore.scoring.positions import on_device
from phrasescore.scoring.prefix_tree import Ids, PrefixTree, Sequences
from phrasescore.scoring.tree_decoder import TreeStep, build_decoder
from phrasescore.scoring.word_probabilities import WordProbabilities

Floats = NDArray[np.float64]

# Rounding may lift the log-probability of a certain event above 0 by this much.
ROUNDING = 1e-3


@dataclass(frozen=True)
class TreeLogProbs:
    """The log-probability of every word of a tree, natural logarithms.

    The words' order is that of the nodes, level by level; the ends' that of the sequences.
    """

    nodes: list[Floats]  # of each level (nodes,): the last word of a prefix, given what precedes
    ends: Floats  # (sequences,): ``</s>`` after each whole sequence

    def totals(self, tree: PrefixTree) -> Floats:
        """Return log p of each sequence with its ``</s>``, ``(sequences,)``."""
        totals = self.ends.copy()
        path = np.zeros(tree.num_roots)
        for level, log_probs in zip(tree.levels, self.nodes, strict=True):
            path = path[level.parents] + log_probs
            totals[level.ends] += path[level.end_nodes]
        return totals

    def words(self, tree: PrefixTree) -> list[Floats]:
        """Return log p of each word of each sequence, its ``</s>`` last."""
        found: list[Floats] = [self.ends[:0]] * len(self.ends)
        for sequence in tree.empty:
            found[sequence] = self.ends[sequence : sequence + 1]
        paths = np.zeros((tree.num_roots, 0))
        for level, log_probs in zip(tree.levels, self.nodes, strict=True):
            paths = np.concatenate([paths[level.parents], log_probs[:, None]], axis=1)
            for sequence, node in zip(level.ends, level.end_nodes, strict=True):
                found[sequence] = np.append(paths[node], self.ends[sequence])
        return found


def average_models(models: list[TreeLogProbs]) -> TreeLogProbs:
    """Return the log of the mean of the models' probabilities, word by word.

    An ensemble decoder averages so at each step (Sutskever et al., 2014). The mean of n models is
    summed in their order.
    """
    return TreeLogProbs(
        [
            log_mean_exp(list(level))
            for level in zip(*[model.nodes for model in models], strict=True)
        ],
        log_mean_exp([model.ends for model in models]),
    )


def log_mean_exp(parts: list[Floats]) -> Floats:
    """Return the log of the mean of e^x over arrays of one shape, summed in their order."""
    stacked = np.stack(parts)
    highest = stacked.max(axis=0)
    total = np.zeros_like(highest)
    for part in stacked:
        total += np.exp(part - highest)
    mean: Floats = highest + np.log(total / len(parts))
    return mean


class SentenceScorer:
    """Scores targets with one network. Several threads may use one instance at once.

    :param kind: of the network, as its configuration names it.
    :param network: copied to ``device`` in the layout that scoring wants.
    """

    def __init__(
        self, kind: str, network: nn.Module, device: torch.device, precision: Precision
    ) -> None:
        self.device = device
        with torch.inference_mode():
            self._products = FixedProducts(precision, device)
            self._decoder = build_decoder(kind, network, self._products)
            self._probabilities = WordProbabilities(*self._decoder.output, self._products)

    def score(
        self, sources: Sequences, tree: PrefixTree, target_ids: Ids, end: int
    ) -> TreeLogProbs:
        """Return the log-probability of every word of the tree.

        :param sources: the word ids, without ``</s>``, of the source of each root.
        :param tree: of the targets; its words are numbers of any kind.
        :param target_ids: the network's id of each such number.
        :param end: the network's id of ``</s>``.
        :raises ModelError: if a value is not a finite log-probability.
        """
        with torch.inference_mode():
            found = self._score(sources, tree, target_ids, end)
        for values in (*found.nodes, found.ends):
            wrong = np.flatnonzero(~(np.isfinite(values) & (values <= ROUNDING)))
            if len(wrong):
                raise ModelError(f"a word scores {values[wrong[0]]}, which is no log-probability")
            np.minimum(values, 0.0, out=values)
        return found

    def _score(
        self, sources: Sequences, tree: PrefixTree, target_ids: Ids, end: int
    ) -> TreeLogProbs:
        ends = np.zeros(len(tree.empty) + sum(len(level.ends) for level in tree.levels))
        nodes: list[Floats] = []
        encoded = self._decoder.encode(sources)
        state, rows = self._decoder.start(encoded)
        roots = np.arange(tree.num_roots)
        ending, end_nodes = tree.empty, tree.empty_roots
        for level in [*tree.levels, None]:
            normalizers = self._probabilities.log_normalizers(rows)
            # The words after the nodes of this level: those of the next one, and </s>.
            parents = end_nodes[:0] if level is None else level.parents
            words = parents if level is None else target_ids[level.words]
            log_probs = self._probabilities.log_probs(
                rows,
                normalizers,
                np.concatenate([parents, end_nodes]),
                np.concatenate([words, np.full(len(end_nodes), end)]),
            ).numpy()
            ends[ending] = log_probs[len(parents) :]
            if level is None:
                break
            nodes.append(log_probs[: len(parents)])
            roots = roots[level.parents]
            step = TreeStep(*(self._index(part) for part in (level.parents, words, roots)))
            state, rows = self._decoder.advance(encoded, state, step)
            ending, end_nodes = level.ends, level.end_nodes
        return TreeLogProbs(nodes, ends)

    def _index(self, positions: Ids) -> torch.Tensor:
        return on_device(positions, self.device)

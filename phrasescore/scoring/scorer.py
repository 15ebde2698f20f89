"""Log-probabilities of phrase pairs under an RNN Encoder-Decoder, over trees of shared prefixes.

The equations are those of :mod:`phrasescore.models.encoder_decoder`; what differs is what is done
once: a source prefix, a distinct source, a target prefix under its source, the product of a state
for all of its continuations, the input of each word. Rows have no padding.
"""

from dataclasses import astuple, dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.errors import ModelError
from phrasescore.kernels import gates
from phrasescore.kernels.precision import Factor, Precision, Product
from phrasescore.kernels.workspace import Workspace
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.scoring.positions import on_device
from phrasescore.scoring.prefix_tree import (
    Ids,
    Level,
    PrefixTree,
    Sequences,
    TargetPiece,
    plan_pairs,
)
from phrasescore.scoring.weights import ScoringWeights
from phrasescore.vocabulary import Vocabulary

# Rounding may lift the log-probability of a certain event above 0 by this much.
ROUNDING = 1e-3


@dataclass(frozen=True, slots=True)
class Work:
    """What a scorer did, to be set against the time that it took."""

    pairs: int = 0
    source_nodes: int = 0  # encoder steps
    sources: int = 0  # distinct sources: their summaries and what the decoder takes from them
    target_nodes: int = 0  # distributions over the shortlist
    products: int = 0  # decoder states that go on: recurrent products

    def __add__(self, other: "Work") -> "Work":
        return Work(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class PairScorer:
    """Scores phrase pairs, many at a time. Several threads may use one instance at once.

    :param model: copied to ``device`` in the layout that scoring wants.
    :param piece_size: pairs whose target prefixes are computed together: bounds rows and memory.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        device: torch.device,
        precision: Precision,
        *,
        piece_size: int = 2048,
    ) -> None:
        self.device = device
        self.precision = precision
        self.piece_size = piece_size
        with torch.inference_mode():
            self.weights = ScoringWeights(model, device, precision)
        self.workspace = Workspace(device)
        # Compiles the kernels, and lets the math libraries choose theirs, before several threads
        # do so at once: one that comes too early computes with other kernels, and other last bits.
        one_word = Sequences(np.array([Vocabulary.UNKNOWN]), np.array([1]))
        self.score(one_word, one_word)

    def score(self, sources: Sequences, targets: Sequences) -> tuple[NDArray[np.float64], Work]:
        """Return log p(target ``</s>`` | source) of each pair, ``(pairs,)``, and the work done.

        Natural logarithms, summed over the target's words and its ``</s>``, not divided by length.

        :param sources: the model's source word ids of each pair, without ``</s>``.
        :param targets: the model's target word ids of each pair, without ``</s>``.
        :raises ModelError: if a value is not a finite log-probability.
        """
        plan = plan_pairs(sources, targets, self.piece_size)
        values = np.zeros(len(sources.lengths))
        work = Work(pairs=len(values), source_nodes=plan.sources.num_nodes)
        with torch.inference_mode():
            states = self._encode(plan.sources)
            for piece in plan.pieces:
                # On a GPU all of a piece is under way before its first level is done. Few networks
                # have sums that would have to be looked at before.
                look = self.device.type == "cpu"
                found, done = self._decode(piece, states, look=look)
                if not look and np.isnan(found).any():
                    found, done = self._decode(piece, states, look=True)
                values[piece.pairs] = found
                work += done
        wrong = np.flatnonzero(~(np.isfinite(values) & (values <= ROUNDING)))
        if len(wrong):
            raise ModelError(
                f"pair {wrong[0]} of a block scores {values[wrong[0]]}, which is no log-probability"
            )
        return np.minimum(values, 0.0), work

    def _index(self, positions: Ids) -> Tensor:
        return on_device(positions, self.device)

    def _multiply(self, name: str, rows: Tensor, matrix: Factor) -> Product:
        padded = self._pad("padded", rows)
        return self._multiply_padded(name, padded, matrix).first(len(rows))

    def _pad(self, name: str, rows: Tensor) -> Factor:
        """Return rows as a product wants them, in buffers of this name if they have to change."""
        precision = self.precision
        if precision.factor_type == rows.dtype:
            return precision.round(rows)
        padded = self._take_factor(name, precision.padded_count(len(rows)), rows.shape[1])
        precision.round_into(rows, padded)
        return padded

    def _take_factor(self, name: str, rows: int, columns: int) -> Factor:
        take = self.workspace.take
        values = take(name, rows, columns, self.precision.factor_type)
        in_integers = self.precision.name == "int8"
        return Factor(values, take(f"scales of {name}", 1, rows)[0] if in_integers else None)

    def _multiply_padded(self, name: str, rows: Factor, matrix: Factor) -> Product:
        size = len(rows.values), matrix.values.shape[1]
        return self.precision.multiply(
            rows, matrix, self.workspace.take(name, *size, self.precision.product_type)
        )

    def _read(self, name: str, product: Product) -> Tensor:
        """Return a product as numbers, in a buffer of this name if it is of integers."""
        if product.columns is None:
            return product.values
        return product.read(self.workspace.take(name, *product.values.shape))

    def _encode(self, tree: PrefixTree) -> Tensor:
        """Return h_N of each distinct source, ``(sources, hidden)``; 0 for the empty one."""
        weights, take = self.weights, self.workspace.take
        hidden = weights.hidden_size
        count = len(tree.empty) + sum(len(level.ends) for level in tree.levels)
        summaries = take("encoder summaries", count, hidden)
        summaries.index_fill_(0, self._index(tree.empty), 0)  # without waiting for a GPU
        above = take("encoder states 1", 1, hidden).zero_()
        for depth, level in enumerate(tree.levels):
            states = take(f"encoder states {depth % 2}", len(level.words), hidden)
            for start in range(0, len(level.words), self.piece_size):
                rows = slice(start, start + self.piece_size)
                self._encoder_step(above, level.parents[rows], level.words[rows], states[rows])
            summaries[self._index(level.ends)] = states.index_select(
                0, self._index(level.end_nodes)
            )
            above = states
        return summaries

    def _encoder_step(self, above: Tensor, parents: Ids, words: Ids, out: Tensor) -> None:
        weights, take = self.weights, self.workspace.take
        # Nodes are in the order of their parents: those of these rows lie side by side.
        old = above[parents[0] : parents[-1] + 1]
        from_parents, by_words = self._index(parents - parents[0]), self._index(words)
        table = weights.source_words
        products = self._multiply("encoder gates", old, weights.encoder_gates)
        update, masked = take("update", *out.shape), take("masked", *out.shape)
        gates.encoder_gates(products, table, by_words, old, from_parents, update, masked)
        products = self._multiply("encoder candidate", masked, weights.encoder_candidate)
        gates.encoder_blend(products, table, by_words, old, from_parents, update, out)

    def _decode(
        self, piece: TargetPiece, states: Tensor, *, look: bool
    ) -> tuple[NDArray[np.float64], Work]:
        """Return the log-probabilities of the piece's pairs, and the work done.

        :param look: see :meth:`Normalizer.log_normalizers`; without, some values may be NaN.
        """
        weights, tree, normalizer = self.weights, piece.targets, self.weights.normalizer
        count, take = len(piece.sources), self.workspace.take

        def multiply(name: str, rows: Factor, matrix: Factor) -> Tensor:
            product = self._multiply_padded(name, rows, matrix).first(count)
            return self._read(f"{name}, read", product)

        def multiply_and_add(name: str, rows: Factor, matrix: Factor, bias: Tensor) -> Tensor:
            product = multiply(name, rows, matrix)
            return torch.add(product, bias, out=take(f"{name}, with bias", *product.shape))

        sources = take("sources", count, weights.hidden_size)
        torch.index_select(states, 0, self._index(piece.sources), out=sources)
        rounded = self._pad("rounded", sources)
        summary = multiply_and_add("summary", rounded, weights.summary, weights.summary_bias)
        rounded = self._pad("rounded", summary.tanh_())
        context = multiply("context", rounded, weights.context)
        readout = multiply_and_add(
            "readout context", rounded, weights.readout_context, weights.readout_bias
        )
        old = multiply_and_add("initial", rounded, weights.initial, weights.initial_bias).tanh_()
        rounded = self._pad("rounded", old)
        # The empty prefix of each root is a level of its own, reached by the zero vector e(y_0).
        roots = np.arange(tree.num_roots)
        start = np.full(tree.num_roots, weights.start_word)
        levels = [Level(roots, start, tree.empty, tree.empty_roots), *tree.levels]
        values = torch.zeros(len(piece.pairs), dtype=torch.float64, device=self.device)
        sums = torch.zeros(tree.num_roots, dtype=torch.float64, device=self.device)
        work = Work(sources=len(piece.sources))
        for depth, level in enumerate(levels):
            words, from_roots = self._index(level.words), self._index(roots)
            new = take(f"decoder states {depth % 2}", *_shape(level, old))
            work += Work(
                target_nodes=len(level.words),
                products=self._decoder_step(old, rounded, level, words, context, from_roots, new),
            )
            old, rounded = new, self._pad("rounded", new)
            factors = self._factors(rounded, words, readout, from_roots)
            log_normalizers = normalizer.log_normalizers(factors, look=look)
            seen = normalizer.seen(factors)
            nodes = self._index(level.end_nodes)
            end = torch.zeros_like(nodes)  # </s> has the id 0
            values[self._index(level.ends)] = sums[nodes] + normalizer.log_probs(
                seen, nodes, end, log_normalizers
            )
            if depth + 1 < len(levels):
                following = levels[depth + 1]
                parents = self._index(following.parents)
                sums = sums[parents] + normalizer.log_probs(
                    seen, parents, self._index(following.words), log_normalizers
                )
                roots = roots[following.parents]
        return values.cpu().numpy(), work

    def _decoder_step(
        self,
        old: Tensor,
        rounded: Factor,
        level: Level,
        words: Tensor,
        context: Tensor,
        roots: Tensor,
        out: Tensor,
    ) -> int:
        """Write the level's states into ``out``; return how many states went on."""
        goes_on, positions = np.unique(level.parents, return_inverse=True)
        if len(goes_on) < len(old):
            behind = self.precision.padded_count(len(goes_on)) - len(goes_on)
            rows = self._index(np.pad(goes_on, (0, behind)))
            rounded = rounded.select(rows, self._take_factor("going on", len(rows), old.shape[1]))
        products = self._multiply_padded("recurrent", rounded, self.weights.decoder_recurrent)
        gates.decoder_step(
            products,
            self._index(positions),
            context,
            roots,
            self.weights.target_words,
            words,
            old,
            self._index(level.parents),
            out,
        )
        return len(goes_on)

    def _factors(self, states: Factor, words: Tensor, readout: Tensor, roots: Tensor) -> Tensor:
        """Return G_r s with the columns that the normaliser wants, ``(nodes, width)``.

        :param states: from :meth:`_pad`, the nodes' ones first.
        """
        weights, take = self.weights, self.workspace.take
        products = self._multiply_padded("readout", states, weights.readout_hidden)
        units = take("maxout", len(words), weights.num_units)
        gates.maxout(products, readout, roots, weights.readout_words, words, units)
        product = self._multiply("factors", units, weights.output_factor)
        factors = self._read("factors, read", product)
        normalizer = weights.normalizer
        return normalizer.extend(factors, take("extended", len(words), normalizer.width))


def _shape(level: Level, states: Tensor) -> tuple[int, int]:
    return len(level.words), states.shape[1]

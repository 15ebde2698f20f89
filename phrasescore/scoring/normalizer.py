"""The normaliser of a softmax over a shortlist, without ever holding all of its logits."""

import math

import torch
from torch import Tensor

from phrasescore.kernels import gates
from phrasescore.kernels.avx512 import packed_words
from phrasescore.kernels.avx512.packed_words import PackedWords
from phrasescore.kernels.precision import Factor, Precision, Product
from phrasescore.kernels.softmax_sums import (
    add_sums_of_exp,
    add_sums_of_powers,
    add_sums_of_scaled_powers,
    chosen_products,
)
from phrasescore.kernels.workspace import Workspace
from phrasescore.models.layers import LARGEST_SUM, SMALLEST_SUM

# Words and rows whose logits are held at once: 1 MB in bfloat16, which stays in a core's cache
# between the matrix product that writes it and the sum that reads it.
WORDS = 512
ROWS = 1024
# In integers the sums take so little time that what a call costs counts for more.
INTEGER_WORDS = 1024
# Rows whose logits are all kept, where exp() alone would not do.
UNSAFE_ROWS = 64
# On a GPU the caches are larger and each call costs more.
CUDA_ROWS = 8192
# Matrix units for bfloat16 take 32 columns at a time.
ALIGNMENT = 32


class Normalizer:
    """log of the sum of exp(G_l f + b) over all words.

    The bias is one more column of the weights, met by a column of ones: no pass over the logits
    is needed to add it. In integers, and in float32 on a CPU, it is added as the logits are read.

    :param weight: G_l, ``(words, rank)``.
    :param bias: ``(words,)``.
    """

    def __init__(self, weight: Tensor, bias: Tensor, precision: Precision) -> None:
        self.rank = weight.shape[1]
        self.precision = precision
        self.rows = ROWS if weight.device.type == "cpu" else CUDA_ROWS
        # Small types are summed as powers of 2: what makes them so is in the weights.
        self.sums_powers = precision.product_type != torch.float32
        self._scale = math.log2(math.e) if self.sums_powers else 1.0
        self._in_integers = precision.name == "int8"
        fused = weight.device.type in gates.FUSED_DEVICES
        self._adds_bias = self._in_integers or (fused and not self.sums_powers)
        width = self.rank + 1
        if precision.name == "bfloat16":
            width += -width % ALIGNMENT
        words = weight.new_zeros(len(weight), width)
        words[:, : self.rank] = weight
        words[:, self.rank] = bias
        words *= self._scale
        factors = words[:, : self.rank] if self._adds_bias else words
        self._workspace = Workspace(weight.device)
        biases = words[:, self.rank].contiguous()
        self._packed: PackedWords | None = None
        self._blocks: list[tuple[Factor, Tensor]] = []
        if packed_words.are_fastest(precision):
            to_base_2 = math.log2(math.e) / self._scale
            self._packed = packed_words.pack(factors, biases, to_base_2, precision)
        else:
            size = INTEGER_WORDS if self._in_integers else WORDS
            for block, bias in zip(factors.split(size), biases.split(size), strict=True):
                self._blocks.append((precision.prepare(block.t().contiguous()), bias))
        # (words, width), as the products see them: a word's own logit has the rounding of the one
        # that is in the sum over all words, so that where a word is probable their errors cancel.
        self.words = self.seen(words)

    @property
    def width(self) -> int:
        """Return the number of columns of factors: the rank, the ones, and zeros."""
        return self.words.shape[1]

    def extend(self, factors: Tensor, out: Tensor) -> Tensor:
        """Write ``(rows, rank)`` factors and the column that meets the bias into ``out``."""
        out[:, : self.rank] = factors
        out[:, self.rank] = 1
        out[:, self.rank + 1 :] = 0
        return out

    def log_probs(
        self, rows: Tensor, places: Tensor, words: Tensor, log_normalizers: Tensor
    ) -> Tensor:
        """Return log p of ``words[i]`` after row ``places[i]``, ``(len(words),)``.

        None is above 0 by rounding alone.

        :param rows: ``(rows, width)``, from :meth:`seen`.
        :param log_normalizers: of all rows.
        """
        logits = self.precision.shown(chosen_products(rows, places, self.words, words))
        found = logits / self._scale - log_normalizers.index_select(0, places)
        # A GPU would be waited for.
        if found.device.type == "cpu" and not bool((found > 0).any()):
            return found
        rows, weights = rows.index_select(0, places), self.words.index_select(0, words)
        return self.precision.at_most_certain(found, rows, weights)

    def log_normalizers(self, factors: Tensor, *, look: bool = True) -> Tensor:
        """Return the log-sum-exp of all logits of each row, ``(rows,)``.

        :param look: whether to look for rows whose sums are out of range, for which a GPU has to be
            waited for, and to compute them otherwise. Without, they are NaN.
        """
        parts = torch.split(factors, self.rows)
        return torch.cat([self._of_rows(part, look=look) for part in parts])

    def seen(self, factors: Tensor) -> Tensor:
        """Return factors, or words, as products see them; in integers, no product sees the bias.

        :param factors: ``(rows, width)``, as :meth:`extend` makes them.
        """
        if not self._in_integers:
            return self.precision.seen(factors)
        seen = factors.clone()
        seen[:, : self.rank] = self.precision.seen(factors[:, : self.rank])
        return seen

    def _of_rows(self, factors: Tensor, *, look: bool) -> Tensor:
        # exp() needs no maximum subtracted as long as the sum stays far from overflow and
        # underflow: its largest terms, which make it, then have their full precision.
        total = factors.new_zeros(len(factors))
        if self._packed is None:
            self._add_sums_of_blocks(factors, total)
        else:
            self._packed.sums_of_powers(factors[:, : self.rank], total)
        result = total.log()
        unsafe = ~((total > SMALLEST_SUM) & (total < LARGEST_SUM))
        if not look:
            return result.masked_fill_(unsafe, math.nan)
        if bool(unsafe.any()):
            result[unsafe] = self._of_unsafe_rows(factors[unsafe])
        return result

    def _of_unsafe_rows(self, factors: Tensor) -> Tensor:
        """Return the log-sum-exp of rows whose logits are too large or too small for :func:`exp`.

        The logits have the same rounding as elsewhere, for the words' own ones to cancel out. So
        many rows at a time that a row has the same bits whatever rows are beside it.
        """
        count = len(factors)
        seen = self.seen(factors)
        seen = torch.cat([seen, seen.new_zeros(-count % UNSAFE_ROWS, self.width)])
        parts = [
            torch.logsumexp(self.precision.shown(rows @ self.words.t()) / self._scale, 1)
            for rows in torch.split(seen, UNSAFE_ROWS)
        ]
        return torch.cat(parts)[:count]

    def _add_sums_of_blocks(self, factors: Tensor, total: Tensor) -> None:
        padded = self.precision.pad(factors[:, : self.rank] if self._adds_bias else factors)
        for block, bias in self._blocks:
            size = len(padded.values), len(bias)
            logits = self._workspace.take("logits", *size, self.precision.product_type)
            product = self.precision.multiply(padded, block, logits).first(len(factors))
            self._add_sums(product, bias, total)

    def _add_sums(self, logits: Product, bias: Tensor, total: Tensor) -> None:
        if self._in_integers:
            add_sums_of_scaled_powers(logits, bias, total)
        elif self.sums_powers:
            add_sums_of_powers(logits.values, total)
        elif self._adds_bias:
            add_sums_of_exp(logits.values, bias, total)
        else:
            total += logits.values.exp_().sum(1)

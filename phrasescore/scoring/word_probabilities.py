"""Compute log-probabilities under a softmax over a shortlist, without storing all logits.

The result of a row does not depend on other rows, bit for bit. Sums are accumulated in float64.
With products in bfloat16 or of integers, powers of 2 are summed in place of powers of e; for this,
weights are scaled before they are rounded to bfloat16.
"""

import math
import threading

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from phrasescore.errors import ModelError
from phrasescore.kernels import softmax_sums
from phrasescore.kernels.precision import Factor
from phrasescore.models.layers import LARGEST_SUM, SMALLEST_SUM
from phrasescore.scoring.prefix_tree import Ids, on_device
from phrasescore.scoring.products import SOFTMAX_ROWS, Products

# Number of words whose logits are computed together: with `SOFTMAX_ROWS` 1 MB in bfloat16, which
# stays in a core's cache between product and sum. For fast integer products, calls matter more.
SOFTMAX_WORDS = {"float32": 512, "tf32": 512, "bfloat16": 512, "int8": 1024}
_GPU_WORDS = 32768
# Number of rows whose logits are computed together if sums of exp() are out of range.
UNSAFE_ROWS = 64
# Rounding may raise a log-probability above 0 by this much.
_ROUNDING = 1e-3

# Matrices of words, ``(width, words)``, and their biases.
_Blocks = list[tuple[Factor, Tensor]]


class WordProbabilities:
    """log softmax(rows W^T + b), for selected words. Several threads may share an instance.

    :param weight: W, ``(words, rank)``.
    """

    def __init__(self, weight: Tensor, bias: Tensor, products: Products, folder: str = "") -> None:
        self._products = products
        self._folder = folder
        precision = products.precision
        self._weight, self._bias = products.place(weight), products.place(bias)
        # Summands are powers of e, or of 2; weights in bfloat16 are scaled for that.
        self._base = 1.0 if precision.product_type == torch.float32 else math.log2(math.e)
        self._scale = self._base if precision.product_type == torch.bfloat16 else 1.0
        self._words = self._weight * self._scale  # (words, rank)
        # Rounded as in products: a word's own logit has the same rounding as in the sum over all
        # words, so that errors cancel out where a word is probable.
        self._rounded_words = precision.rounded_values(self._words)
        # Created lazily, because unnormalised logits do not need them.
        self._lock = threading.Lock()
        self._made_blocks: _Blocks | None = None

    def check(self, values: NDArray[np.float64], highest: float = 0.0) -> NDArray[np.float64]:
        """Check log-probabilities, and return them limited to ``highest``.

        :raises ModelError: if a value is not finite, or above ``highest`` by more than rounding.
        """
        wrong = np.flatnonzero(~(np.isfinite(values) & (values <= highest + _ROUNDING)))
        if len(wrong):
            where = f"{self._folder}: " if self._folder else ""
            value = values[wrong[0]]
            raise ModelError(f"{where}a word's score is {value}, expected a log-probability")
        return np.minimum(values, highest)

    @property
    def _blocks(self) -> _Blocks:
        with self._lock, torch.inference_mode():
            if self._made_blocks is None:
                self._made_blocks = self._make_blocks()
            return self._made_blocks

    def _make_blocks(self) -> _Blocks:
        products = self._products
        precision, bias = products.precision, self._bias * self._base
        is_cpu = products.device.type == "cpu"
        size = SOFTMAX_WORDS[precision.name] if is_cpu else _GPU_WORDS
        blocks = []
        for words, part in zip(self._words.split(size), bias.split(size), strict=True):
            matrix = products.prepare(words.t())
            if matrix.scales is not None:
                matrix = Factor(matrix.values, matrix.scales * self._base)
            blocks.append((matrix, part))
        return blocks

    def log_normalizers(self, rows: Tensor, *, check_range: bool = True) -> Tensor:
        """Return the log-sum-exp over the logits of each row, ``(rows,)`` float64.

        :param rows: ``(rows, rank)`` float32.
        :param check_range: whether to recompute sums that are out of range, which waits for a GPU;
            otherwise, they are NaN.
        """
        total = rows.new_zeros(len(rows), dtype=torch.float64)
        # The logits of a few rows at a time stay in the cache.
        step = SOFTMAX_ROWS[self._products.device.type]
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            some = self._products.round("rows of logits", rows[part])
            for matrix, bias in self._blocks:
                product = self._products.product("logits", some, matrix).first(some.size)
                softmax_sums.add_sums(product, bias, total[part])
        return self._log(total, rows, check_range=check_range)

    def log_distributions(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return log p of every word after each row, and the log-normalisers of the rows.

        There are only a few rows. log p is rounded to float32, which is enough to choose words, and
        valid until the thread's next call; :meth:`log_probs` is exact.

        :return: ``(rows, words)`` float32, and ``(rows,)`` as :meth:`log_normalizers` returns them.
        """
        out = self._products.workspace.take("log distributions", len(rows), len(self._words))
        total = rows.new_zeros(len(rows), dtype=torch.float64)
        first, some = 0, self._products.round("rows of logits", rows)
        for matrix, bias in self._blocks:
            product = self._products.product("logits", some, matrix).first(len(rows))
            softmax_sums.add_sums(product, bias, total)
            part = out[:, first : first + len(bias)]
            torch.add(product.read(part), bias, out=part)
            first += len(bias)
        normalizers = self._log(total, rows)
        return out.div_(self._base).sub_(normalizers.float().unsqueeze(1)), normalizers

    def log_probs(self, rows: Tensor, normalizers: Tensor, places: Ids, words: Ids) -> Tensor:
        """Return log p of ``words[i]`` after row ``places[i]``, float64, on the device.

        :param normalizers: log Z of all rows, from :meth:`log_normalizers`.
        """
        at, wanted = on_device(places, rows.device), on_device(words, rows.device)
        precision = self._products.precision
        if len(at) < len(rows) and precision.factor_type != torch.float32:
            used, at_used = torch.unique(at, return_inverse=True)
            rounded = precision.rounded_values(rows.index_select(0, used))
        else:
            at_used, rounded = at, precision.rounded_values(rows)
        products = softmax_sums.chosen_products(rounded, at_used, self._rounded_words, wanted)
        logits = precision.rounded_products(products) / self._scale
        logits += self._bias.index_select(0, wanted)
        found = logits.double() - normalizers.index_select(0, at)
        if found.device.type == "cpu":
            above = torch.nonzero(found > 0).flatten()
            if len(above):
                found[above] = self._at_most_certain(
                    found[above], rounded[at_used[above]], wanted[above]
                )
            return found.double()
        # Selecting values would wait for a GPU.
        return self._at_most_certain(found, rounded.index_select(0, at_used), wanted).double()

    def logits(self, rows: Tensor, places: Ids, words: Ids) -> Tensor:
        """Return the logit of ``words[i]`` after row ``places[i]``, float64, on the device."""
        at, wanted = on_device(places, rows.device), on_device(words, rows.device)
        # Without a sum over all words, logits need not be rounded in the same way.
        products = softmax_sums.chosen_products(rows, at, self._weight, wanted)
        return (products + self._bias.index_select(0, wanted)).double()

    def _at_most_certain(self, log_probs: Tensor, rows: Tensor, words: Tensor) -> Tensor:
        """See :meth:`Precision.at_most_certain`; the bias is an additional column."""
        weights = self._rounded_words.index_select(0, words)
        rows = functional.pad(rows, (0, 1), value=1.0)
        biases = self._bias.index_select(0, words)
        weights = torch.cat([weights, biases.unsqueeze(1)], dim=1)
        return self._products.precision.at_most_certain(log_probs, rows, weights)

    def _log(self, total: Tensor, rows: Tensor, *, check_range: bool = True) -> Tensor:
        """Return the log of sums of exp over all words; recompute sums that are out of range."""
        result = total.log()
        # Subtracting the maximum is needless: if the sum is far from overflow and underflow, its
        # largest terms have full precision.
        unsafe = ~((total > SMALLEST_SUM) & (total < LARGEST_SUM))
        if not check_range:
            return result.masked_fill_(unsafe, math.nan)
        if bool(unsafe.any()):
            result[unsafe] = self._log_sums_of_unsafe(rows[unsafe])
        return result

    def _log_sums_of_unsafe(self, rows: Tensor) -> Tensor:
        """Return the log-sum-exp of rows whose logits are too large or too small for :func:`exp`.

        The logits are rounded as elsewhere. A fixed number of rows is computed at a time, so that
        the bits of a row do not depend on the other rows.
        """
        count = len(rows)
        rounded = self._products.precision.rounded_values(rows)
        rounded = functional.pad(rounded, (0, 0, 0, -count % UNSAFE_ROWS)).double()
        words, parts = self._rounded_words.double(), []
        for some in torch.split(rounded, UNSAFE_ROWS):
            logits = self._products.precision.rounded_products(some @ words.t())
            logits = logits.double() / self._scale  # (UNSAFE_ROWS, words)
            logits += self._bias
            parts.append(torch.logsumexp(logits, 1))
        return torch.cat(parts)[:count]

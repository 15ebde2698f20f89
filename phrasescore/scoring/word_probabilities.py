"""Log-probabilities of single words under a softmax over a shortlist.

:mod:`phrasescore.scoring.normalizer` is for millions of phrase pairs; here a row gives the same
bits whatever other rows there are (:mod:`phrasescore.scoring.fixed_products`).
"""

import math
import threading

import torch
from torch import Tensor

from phrasescore.kernels import softmax_sums
from phrasescore.kernels.avx512 import packed_words
from phrasescore.kernels.avx512.packed_words import PackedWords
from phrasescore.kernels.precision import Factor
from phrasescore.models.layers import LARGEST_SUM, SMALLEST_SUM
from phrasescore.scoring.fixed_products import FixedProducts
from phrasescore.scoring.positions import on_device
from phrasescore.scoring.prefix_tree import Ids

# Words whose logits are held at once: with the rows of a fixed product 4 MB (in int8 twice that,
# and as much for their sums). Fewer would stay in a core's cache, but make narrower products, which
# costs more.
WORDS = {"cpu": 16384, "cuda": 32768}

# Matrices of words and their biases.
_Blocks = list[tuple[Factor, Tensor]]


class WordProbabilities:
    """log softmax(rows W^T + b), for the words wanted of each row.

    :param weight: W, ``(words, width)``.
    :param bias: b, ``(words,)``.
    """

    def __init__(self, weight: Tensor, bias: Tensor, products: FixedProducts) -> None:
        self._products = products
        weight = weight.detach().to(products.device, torch.float32).contiguous()
        self._weight = weight
        # As products see it: a word's own logit has the rounding of the one that is in the sum over
        # all words, so that where a word is probable their errors cancel out.
        self._seen = products.precision.seen(weight)
        self._bias = bias.detach().to(products.device, torch.float32).contiguous()
        # Made when they are first needed: who wants no log Z needs none.
        self._lock = threading.Lock()
        self._of_all: PackedWords | _Blocks | None = None

    @property
    def _words(self) -> PackedWords | _Blocks:
        """Return all words as this processor adds up their powers."""
        with self._lock, torch.inference_mode():
            if self._of_all is None:
                self._of_all = self._prepare()
            return self._of_all

    def _prepare(self) -> PackedWords | _Blocks:
        products = self._products
        if packed_words.are_fastest(products.precision):
            to_base_2 = math.log2(math.e)
            return packed_words.pack(self._weight, self._bias, to_base_2, products.precision)
        size = WORDS[products.device.type]
        blocks = zip(self._weight.split(size), self._bias.split(size), strict=True)
        return [(products.prepare(block.t()), bias) for block, bias in blocks]

    def log_normalizers(self, rows: Tensor) -> Tensor:
        """Return the log-sum-exp of all logits of each row, ``(rows,)`` float64."""
        words = self._words
        if isinstance(words, PackedWords):
            sums = rows.new_empty(len(rows), dtype=torch.float64)
            return self._log(words.sums_of_powers(rows, sums), rows)
        total = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
        # A few rows at a time: their logits are summed up while they are near.
        for start in range(0, len(rows), self._products.rows):
            part = slice(start, start + self._products.rows)
            for matrix, bias in words:
                logits = self._products.multiply("logits", rows[part], matrix)
                softmax_sums.add_sums_of_exp(logits, bias, total[part])
        return self._log(total, rows)

    def log_distributions(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return log p of every word after each of a few rows, and their log-normalisers.

        The first is rounded to float32 and good for a choice of words; :meth:`log_probs` has the
        value of each to the last bit. It is valid until the next call by this thread.

        :param rows: as many as a fixed product has, or fewer.
        :return: ``(rows, words)`` float32, and ``(rows,)`` as :meth:`log_normalizers` gives them.
        """
        out = self._products.workspace.take("log distributions", len(rows), len(self._weight))
        words = self._words
        if isinstance(words, PackedWords):
            sums = rows.new_empty(len(rows), dtype=torch.float64)
            logits = words.logits(rows, sums)
            normalizers = self._log(sums, rows)
            below = -normalizers.float().unsqueeze(1)
            return torch.add(below, logits, alpha=math.log(2), out=out), normalizers
        total = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
        first = 0
        for matrix, bias in words:
            logits = self._products.multiply("logits", rows, matrix)
            softmax_sums.add_sums_of_exp(logits, bias, total)
            torch.add(logits, bias, out=out[:, first : first + len(bias)])
            first += len(bias)
        normalizers = self._log(total, rows)
        out -= normalizers.float().unsqueeze(1)
        return out, normalizers

    def _log(self, total: Tensor, rows: Tensor) -> Tensor:
        """Return the log of the sums of exp over all words, made anew where they are unsafe."""
        result = total.log()
        # exp() needs no maximum subtracted as long as the sum is far from overflow and underflow.
        for row in torch.nonzero(~((total > SMALLEST_SUM) & (total < LARGEST_SUM))).flatten():
            seen = self._products.precision.seen(rows[row : row + 1]).double()
            logits = self._products.precision.shown(seen @ self._seen.t().double())
            result[row] = torch.logsumexp((logits + self._bias.double()).flatten(), 0)
        return result

    def log_probs(self, rows: Tensor, normalizers: Tensor, places: Ids, words: Ids) -> Tensor:
        """Return log p of ``words[i]`` after row ``places[i]``, float64, on the CPU.

        None is above 0 by rounding alone.

        :param normalizers: of all rows, from :meth:`log_normalizers`.
        """
        device = rows.device
        at, wanted = on_device(places, device), on_device(words, device)
        logits = self._rounded_products(rows, at, wanted) + self._bias.index_select(0, wanted)
        found = logits.double() - normalizers.index_select(0, at)
        above = torch.nonzero(found > 0).flatten()
        if len(above):
            # A bias is one more number of a word, which meets a 1.
            chosen = rows[at[above]], self._seen[wanted[above]]
            ones, biases = torch.ones_like(above), self._bias[wanted[above]]
            found[above] = self._products.precision.at_most_certain(
                found[above],
                torch.cat([chosen[0], ones.unsqueeze(1)], dim=1),
                torch.cat([chosen[1], biases.unsqueeze(1)], dim=1),
            )
        return found.cpu()

    def logits(self, rows: Tensor, places: Ids, words: Ids) -> Tensor:
        """Return the logit of ``words[i]`` after row ``places[i]``, float64, on the CPU."""
        device = rows.device
        at, wanted = on_device(places, device), on_device(words, device)
        # There is no sum over all words whose rounding they could share.
        products = softmax_sums.chosen_products(rows, at, self._weight, wanted)
        return (products + self._bias.index_select(0, wanted)).double().cpu()

    def _rounded_products(self, rows: Tensor, places: Tensor, words: Tensor) -> Tensor:
        precision = self._products.precision
        if precision.factor_type != torch.float32:
            used, places = torch.unique(places, return_inverse=True)
            rows = precision.seen(rows.index_select(0, used))
        return precision.shown(softmax_sums.chosen_products(rows, places, self._seen, words))

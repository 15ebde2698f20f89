"""The sampled softmax and label smoothing of training."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from phrasescore.devices import move


class Softmax(NamedTuple):
    """The weights of a softmax over a shortlist."""

    weight: Tensor  # (words, width)
    bias: Tensor  # (words,)


# A named tuple would be taken apart by autocast.
@dataclass(frozen=True, slots=True)
class WordSample:
    """Words that stand for the whole shortlist in an update."""

    words: Tensor  # (sample,) int64: distinct words, ascending
    log_weights: Tensor  # (sample,) float32: minus the log of a word's probability to be here


class WordSampler:
    """Draws samples of the shortlist in which frequent words are more likely to appear.

    The probability falls as 1 / rank, and is 1 for the most frequent words. Each word stands for
    1 / probability words, so that the expected value of a sum over a sample is the sum over the
    shortlist (Horvitz and Thompson, 1952). The draw is systematic: one random number chooses the
    sample, which has words from all parts of the ranking.

    :param counts: how often each word of the shortlist occurs, ``(words,)``.
    """

    def __init__(self, counts: NDArray[np.int64], size: int) -> None:
        self._ranking = np.argsort(-counts, kind="stable")
        probabilities = np.ones(len(counts))
        certain = 0
        while True:
            # The words after the certain ones share the rest of the sample.
            shares = 1 / np.arange(certain + 1, len(counts) + 1)
            probabilities[certain:] = (size - certain) * shares / shares.sum()
            more = int(np.count_nonzero(probabilities[certain:] >= 1))
            if not more:
                break
            probabilities[certain : certain + more] = 1
            certain += more
        self._size = size
        self._ends = np.cumsum(probabilities)
        self._log_weights = -np.log(probabilities)

    def draw(self, seed: NDArray[np.uint64], device: torch.device) -> WordSample:
        """Return a sample that depends only on ``seed``."""
        start = np.random.default_rng(seed).random()
        ranks = np.searchsorted(self._ends, start + np.arange(self._size), side="right")
        # Rounding may put the last one behind the end.
        ranks = np.unique(np.minimum(ranks, len(self._ends) - 1))
        words = self._ranking[ranks]
        order = np.argsort(words)
        weights = self._log_weights[ranks[order]].astype(np.float32)
        return WordSample(*move(device, torch.from_numpy(words[order]), torch.from_numpy(weights)))


class SampledLogProb(Function):
    """log softmax(G s + b) of one word per row, where the normaliser is estimated from a sample.

    The normaliser is the exponential of the logit of the row's own word, plus the exponentials of
    the other sampled words, each divided by the probability of being in the sample: importance
    sampling as in Jean et al. (2015), without replacement.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, words: Tensor, sample: WordSample
    ) -> Tensor:
        """Return ``(rows,)`` natural logarithms; see `layers.WordLogProb`."""
        chosen = weight.index_select(0, sample.words)
        offsets = bias.index_select(0, sample.words) + sample.log_weights
        logits = torch.addmm(offsets, rows, chosen.t())  # (rows, sample)
        # A row's own word is counted separately.
        columns = torch.searchsorted(sample.words, words).clamp_(max=len(sample.words) - 1)
        is_own = sample.words[columns] == words
        columns = columns.unsqueeze(1)
        kept = logits.gather(1, columns).masked_fill_(is_own.unsqueeze(1), -math.inf)
        logits.scatter_(1, columns, kept)
        own_weight = weight.index_select(0, words)
        own = (rows * own_weight).sum(1) + bias.index_select(0, words)
        highest = torch.maximum(logits.amax(1), own)
        shares = logits.sub_(highest.unsqueeze(1)).exp_()
        total = shares.sum(1) + (own - highest).exp()
        shares.div_(total.unsqueeze(1))
        log_probs = own - highest - total.log()
        ctx.save_for_backward(rows, chosen, own_weight, words, sample.words, shares, log_probs)
        ctx.num_words = len(weight)
        return log_probs

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, chosen, own_weight, words, sample, shares, log_probs = ctx.saved_tensors
        to_logits = shares * -gradient.unsqueeze(1)
        to_own = gradient * (1 - log_probs.exp())
        own_column = to_own.unsqueeze(1)
        to_rows = torch.addmm(own_weight * own_column, to_logits, chosen)
        to_weight = rows.new_zeros(ctx.num_words, rows.shape[1])
        to_weight.index_copy_(0, sample, to_logits.t() @ rows)
        to_weight.index_add_(0, words, rows * own_column)
        to_bias = rows.new_zeros(ctx.num_words)
        to_bias.index_copy_(0, sample, to_logits.sum(0))
        to_bias.index_add_(0, words, to_own)
        return to_rows, to_weight, to_bias, None, None

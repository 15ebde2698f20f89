"""Choose words from distributions over a shortlist, and limit the length of targets.

On a CPU, compiled loops read each probability once. On other devices torch does the same.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.kernels.precision import is_fused
from phrasescore.kernels.vector_math import ELEMENTWISE, exp, use_widest_registers

_LOWEST = np.float32(-87)

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@ELEMENTWISE
def _best_words(log_probs, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    count = out.shape[1]
    values = np.empty(count, np.float32)
    for row in range(len(log_probs)):
        filled = 0
        out[row] = -1
        for word in range(log_probs.shape[1]):
            value = log_probs[row, word]
            if value == -np.inf or (filled == count and value <= values[count - 1]):
                continue
            slot = min(filled, count - 1)
            filled = min(filled + 1, count)
            while slot > 0 and values[slot - 1] < value:
                values[slot], out[row, slot] = values[slot - 1], out[row, slot - 1]
                slot -= 1
            values[slot], out[row, slot] = value, word


@ELEMENTWISE
def _draw_words(log_probs, starts, numbers, sums, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    for row in range(len(log_probs)):
        highest = log_probs[row].max()
        total = 0.0
        last = 0
        for word in range(len(sums)):
            value = np.float32(log_probs[row, word] - highest)
            # A word less than e^-87 times as probable as the best is not drawn: exp() is limited.
            if value > _LOWEST:
                total += exp(value)
                last = word
            sums[word] = total
        for draw in range(starts[row], starts[row + 1]):
            # The first word with a larger running sum. Rounding may lead beyond the last word.
            index = np.searchsorted(sums, numbers[draw] * total, side="right")
            out[draw] = min(index, last)


def best_words(log_probs: Tensor, count: int) -> Ids:
    """Return the most probable words of each row, best first, ``(rows, count)``.

    The lower id wins a tie (on a GPU, any id). Words with -inf are never chosen; rows with fewer
    words are padded with -1. ``log_probs`` is ``(rows, words)`` float32.
    """
    if is_fused(log_probs):
        out = np.empty((len(log_probs), count), np.int64)
        _best_words(log_probs.numpy(), out)
        return out
    values, words = torch.topk(log_probs, min(count, log_probs.shape[1]), dim=1)
    best: Ids = words.masked_fill_(values == -torch.inf, -1).cpu().numpy()
    return np.pad(best, ((0, 0), (0, count - best.shape[1])), constant_values=-1)


def draw_words(log_probs: Tensor, starts: Ids, numbers: Floats) -> Ids:
    """Draw a word for each random number, in proportion to p in its row.

    A number selects the word at this point in the cumulative distribution.

    :param log_probs: ``(rows, words)`` float32; -inf is never drawn.
    :param starts: ``(rows + 1,)``: indices at which each row's numbers begin, and their end.
    :param numbers: the numbers of all rows, concatenated, in [0, 1).
    """
    out = np.empty(len(numbers), np.int64)
    if is_fused(log_probs):
        sums = np.empty(log_probs.shape[1])
        _draw_words(log_probs.numpy(), starts, numbers, sums, out)
        return out
    highest = log_probs.max(1, keepdim=True).values
    weights = (log_probs - highest).exp().double()
    running = weights.cumsum(1)
    rows = torch.from_numpy(np.repeat(np.arange(len(starts) - 1), np.diff(starts)))
    rows = rows.to(log_probs.device)
    wanted = torch.from_numpy(numbers).to(log_probs.device) * running[rows, -1]
    indices = torch.searchsorted(running[rows], wanted.unsqueeze(1), right=True).squeeze(1)
    possible = torch.arange(weights.shape[1], device=weights.device) * (weights > 0)
    out[:] = torch.minimum(indices, possible.max(1).values[rows]).cpu().numpy()
    return out


def length_limits(lengths: Ids, max_length: int | None) -> Ids:
    """Return the maximum length of each source's targets, by default 2 * its words + 10."""
    return np.full_like(lengths, max_length) if max_length is not None else 2 * lengths + 10

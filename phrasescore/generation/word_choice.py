"""Choose words of distributions over a shortlist, row by row, and how many words there may be.

On a CPU a compiled loop looks at each probability once, and a row's words depend on the row alone.
Elsewhere torch does the same.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.kernels.vector_math import ELEMENTWISE, exp, use_widest_registers

# Devices whose memory numba can reach.
FUSED_DEVICES: tuple[str, ...] = ("cpu",)

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
            place = min(filled, count - 1)
            filled = min(filled + 1, count)
            while place > 0 and values[place - 1] < value:
                values[place], out[row, place] = values[place - 1], out[row, place - 1]
                place -= 1
            values[place], out[row, place] = value, word


@ELEMENTWISE
def _draw_words(log_probs, sharpness, starts, numbers, sums, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    for row in range(len(log_probs)):
        highest = log_probs[row].max()
        total = 0.0
        last = 0
        for word in range(len(sums)):
            value = np.float32((log_probs[row, word] - highest) * sharpness)
            # The range of exp(): a word less probable than e^-87 of the best is not drawn.
            if value > _LOWEST:
                total += exp(value)
                last = word
            sums[word] = total
        for draw in range(starts[row], starts[row + 1]):
            # The first word whose sum is above; behind the last word's sum there is only rounding.
            place = np.searchsorted(sums, numbers[draw] * total, side="right")
            out[draw] = min(place, last)


def best_words(log_probs: Tensor, count: int) -> Ids:
    """Return the most probable words of each row, the best first, ``(rows, count)``.

    Of equally probable words the lower number comes first (on a GPU, any). -1 stands behind the
    last word where there are fewer; a word with -inf does not count.

    :param log_probs: ``(rows, words)`` float32.
    """
    if log_probs.device.type in FUSED_DEVICES:
        out = np.empty((len(log_probs), count), np.int64)
        _best_words(log_probs.numpy(), out)
        return out
    values, words = torch.topk(log_probs, min(count, log_probs.shape[1]), dim=1)
    found: Ids = words.masked_fill_(values == -torch.inf, -1).cpu().numpy()
    return np.pad(found, ((0, 0), (0, count - found.shape[1])), constant_values=-1)


def draw_words(log_probs: Tensor, temperature: float, starts: Ids, numbers: Floats) -> Ids:
    """Return a word for each random number, in proportion to p^(1 / temperature) of its row.

    The words' shares lie one after another between 0 and 1; a number points at one of them.

    :param log_probs: ``(rows, words)`` float32; -inf is never drawn.
    :param starts: ``(rows + 1,)``: where each row's numbers begin and end.
    :param numbers: of all rows, one after another; from 0 up to, not including, 1.
    """
    # Finite: the best word's 0 times infinity would be NaN.
    sharpness = np.float32(min(1 / temperature, float(np.finfo(np.float32).max)))
    out = np.empty(len(numbers), np.int64)
    if log_probs.device.type in FUSED_DEVICES:
        sums = np.empty(log_probs.shape[1])
        _draw_words(log_probs.numpy(), sharpness, starts, numbers, sums, out)
        return out
    highest = log_probs.max(1, keepdim=True).values
    weights = ((log_probs - highest) * float(sharpness)).exp().double()
    running = weights.cumsum(1)
    rows = torch.from_numpy(np.repeat(np.arange(len(starts) - 1), np.diff(starts)))
    rows = rows.to(log_probs.device)
    wanted = torch.from_numpy(numbers).to(log_probs.device) * running[rows, -1]
    places = torch.searchsorted(running[rows], wanted.unsqueeze(1), right=True).squeeze(1)
    possible = torch.arange(weights.shape[1], device=weights.device) * (weights > 0)
    out[:] = torch.minimum(places, possible.max(1).values[rows]).cpu().numpy()
    return out


def length_limits(lengths: Ids, max_length: int | None) -> Ids:
    """Return how many words, ``</s>`` not counted, the targets of each source may have.

    :param lengths: of the sources.
    :param max_length: for all; None for twice the words of the source and 10.
    """
    return np.full_like(lengths, max_length) if max_length is not None else 2 * lengths + 10

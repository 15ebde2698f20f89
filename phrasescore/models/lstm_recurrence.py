"""A layer of long short-term memory over packed steps, with a backward pass of its own.

Steps are packed as in :mod:`phrasescore.models.layers`: no padding is computed, and the gradient of
the recurrent matrix is one product over the rows of all steps. On one CPU thread it takes
about three quarters of the time that ``torch.nn.LSTM`` takes over a packed sequence.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class LstmRecurrence(Function):
    """c = f * c + i * tanh(g), h = o * tanh(c), with i, f, o and g from the input and the last h.

    Zaremba et al. (2014), equation 3: no peepholes.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(
        ctx: Any, inputs: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, sizes: list[int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return h after each step, ``(rows, hidden)``, and each pair's last h and c.

        :param inputs: ``(rows, 4 * hidden)``: input of i, f, o and g from below, bias included.
        :param hidden: ``(batch, hidden)``: h before the first step; of a pair without a step it is
            the last one, too.
        :param cell: ``(batch, hidden)``: c likewise.
        :param weight: ``(4 * hidden, hidden)``: from the last h to the four.
        :param sizes: pairs of each step, never growing; ``sizes[0]`` may be less than the batch.
        """
        size = hidden.shape[1]
        hidden, cell = hidden.clone(), cell.clone()
        states, before, cells_before, squashed = inputs.new_empty(4, len(inputs), size)
        gates = torch.empty_like(inputs)
        start = 0
        for active in sizes:
            rows = slice(start, start + active)
            start += active
            old, old_cell = hidden[:active], cell[:active]
            before[rows] = old
            cells_before[rows] = old_cell
            gate = torch.addmm(inputs[rows], old, weight.t(), out=gates[rows])
            gate[:, : 3 * size].sigmoid_()
            gate[:, 3 * size :].tanh_()
            admit, keep, show, candidate = gate.split(size, dim=1)
            old_cell.mul_(keep).addcmul_(admit, candidate)
            torch.mul(show, torch.tanh(old_cell, out=squashed[rows]), out=states[rows])
            old.copy_(states[rows])
        ctx.save_for_backward(weight, before, cells_before, squashed, gates)
        ctx.sizes = sizes
        return states, hidden, cell

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(
        ctx: Any, gradient: Tensor, hidden_gradient: Tensor, cell_gradient: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        weight, before, cells_before, squashed, gates = ctx.saved_tensors
        size = weight.shape[1]
        hidden_gradient, cell_gradient = hidden_gradient.clone(), cell_gradient.clone()
        inputs_gradient = torch.empty_like(gates)
        end = len(gates)
        for active in reversed(ctx.sizes):
            rows = slice(end - active, end)
            end -= active
            upper = hidden_gradient[:active].add_(gradient[rows])
            admit, keep, show, candidate = gates[rows].split(size, dim=1)
            to_admit, to_keep, to_show, to_candidate = inputs_gradient[rows].split(size, dim=1)
            flat = squashed[rows]
            to_cell = cell_gradient[:active].add_(upper * show * (1 - flat * flat))
            torch.mul(upper, flat, out=to_show)
            torch.mul(to_cell, candidate, out=to_admit)
            torch.mul(to_cell, cells_before[rows], out=to_keep)
            torch.mul(to_cell * admit, 1 - candidate * candidate, out=to_candidate)
            squashing = gates[rows, : 3 * size]
            inputs_gradient[rows, : 3 * size].mul_(squashing).mul_(1 - squashing)
            to_cell.mul_(keep)
            torch.mm(inputs_gradient[rows], weight, out=upper)
        weight_gradient = inputs_gradient.t() @ before
        return inputs_gradient, hidden_gradient, cell_gradient, weight_gradient, None

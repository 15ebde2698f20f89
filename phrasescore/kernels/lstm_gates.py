"""The element-wise part of an LSTM step, in one pass over memory.

As :mod:`phrasescore.kernels.gates`: each node's rows are read once, where they lie; on a GPU the
same function is plain torch.
"""

import numba
from torch import Tensor

from phrasescore.kernels.gates import FUSED_DEVICES
from phrasescore.kernels.vector_math import ELEMENTWISE, sigmoid, tanh, use_widest_registers


@numba.njit(inline="always")
def _quarters(row):  # type: ignore[no-untyped-def]
    """Return the parts of i, f, o and g; see :func:`phrasescore.kernels.gates.thirds`."""
    size = len(row) // 4
    return row[:size], row[size : 2 * size], row[2 * size : 3 * size], row[3 * size :]


@ELEMENTWISE
def _lstm_cell(  # type: ignore[no-untyped-def]
    recurrent, positions, below, places, bias, old, parents, hidden, cell
):
    use_widest_registers()
    size = hidden.shape[1]
    bias_i, bias_f, bias_o, bias_g = _quarters(bias)
    for node in range(len(hidden)):
        upper, lower, before = recurrent[positions[node]], below[places[node]], old[parents[node]]
        upper_i, upper_f, upper_o, upper_g = _quarters(upper)
        lower_i, lower_f, lower_o, lower_g = _quarters(lower)
        for j in range(size):
            admit = sigmoid(upper_i[j] + lower_i[j] + bias_i[j])
            keep = sigmoid(upper_f[j] + lower_f[j] + bias_f[j])
            show = sigmoid(upper_o[j] + lower_o[j] + bias_o[j])
            candidate = tanh(upper_g[j] + lower_g[j] + bias_g[j])
            inner = keep * before[j] + admit * candidate
            cell[node, j] = inner
            hidden[node, j] = show * tanh(inner)


def lstm_cell(
    recurrent: Tensor,
    positions: Tensor,
    below: Tensor,
    places: Tensor,
    bias: Tensor,
    old: Tensor,
    parents: Tensor,
    hidden: Tensor,
    cell: Tensor,
) -> None:
    """Write h and c of the nodes into ``hidden`` and ``cell``, ``(nodes, hidden)`` each.

    Zaremba et al. (2014), equation 3; i, f, o and g stand one after the other in a row of 4.

    :param recurrent: what the gates get from the last h of this layer, ``(rows, 4 * hidden)``.
    :param positions: ``(nodes,)``: the row of ``recurrent`` of each node's parent.
    :param below: what they get from below, ``(other rows, 4 * hidden)``.
    :param places: ``(nodes,)``: the row of ``below`` of each node.
    :param bias: ``(4 * hidden,)``.
    :param old: c before the step, ``(more rows, hidden)``; it must not overlap with ``cell``.
    :param parents: ``(nodes,)``: the row of ``old`` of each node's parent.
    """
    if hidden.device.type in FUSED_DEVICES:
        arguments = (recurrent, positions, below, places, bias, old, parents, hidden, cell)
        _lstm_cell(*(tensor.numpy() for tensor in arguments))
        return
    size = hidden.shape[1]
    total = recurrent.index_select(0, positions).add_(below.index_select(0, places)).add_(bias)
    admit, keep, show = total[:, : 3 * size].sigmoid_().split(size, dim=1)
    candidate = total[:, 3 * size :].tanh_()
    cell.copy_(old.index_select(0, parents).mul_(keep).addcmul_(admit, candidate))
    hidden.copy_(show * cell.tanh())

"""The deep LSTM of Sutskever et al. (2014): one LSTM reads the source, another predicts the target.

Unlike in Graves (2013), layers have no peepholes. Dropout is as in Zaremba et al. (2014).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding

from phrasescore.kernels.dropout import dropout
from phrasescore.models.batches import BatchSide, PairBatch, Steps
from phrasescore.models.layers import PairNetwork, draw_uniformly, step_rows
from phrasescore.settings.kinds import LstmConfig
from phrasescore.vocabulary import Vocabulary


class LstmRecurrence(Function):
    """c = f * c + i * tanh(g), h = o * tanh(c); i, f, o and g come from the input and the last h.

    Zaremba et al. (2014), equation 3. It is faster than ``torch.nn.LSTM`` on a packed sequence.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(
        ctx: Any, inputs: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, sizes: list[int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return h after each step, ``(rows, hidden)``, and the last h and c of each pair.

        :param inputs: ``(rows, 4 * hidden)``: input of i, f, o and g from below, with the bias.
        :param hidden: ``(batch, hidden)``: h before the first step, which is the result for a pair
            without a step; ``cell`` likewise.
        :param weight: ``(4 * hidden, hidden)``: from the last h to i, f, o and g.
        """
        size = hidden.shape[1]
        hidden, cell = hidden.clone(), cell.clone()
        states, before, cells_before, squashed = inputs.new_empty(4, len(inputs), size)
        gates = torch.empty_like(inputs)
        for rows, active in zip(step_rows(sizes), sizes, strict=True):
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
        for rows, active in zip(reversed(step_rows(ctx.sizes)), reversed(ctx.sizes), strict=True):
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


class LstmLayer(nn.Module):
    """One LSTM layer. The rows of both weight matrices are the gates i, f, o and g, stacked."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.input = nn.Linear(input_size, 4 * hidden_size)
        self.recurrent = nn.Linear(hidden_size, 4 * hidden_size, bias=False)


class LstmStack(nn.Module):
    """LSTM layers, each of which reads the states of the layer below."""

    layers: Sequence[LstmLayer]  # a module list, with the type of its modules

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        sizes = [config.embedding_size] + (config.layers - 1) * [config.hidden_size]
        layers = (LstmLayer(size, config.hidden_size) for size in sizes)
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]
        self.hidden_size = config.hidden_size
        self._dropout = config.dropout

    def forward(
        self, rows: Tensor, hidden: Tensor, cell: Tensor, steps: Steps
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the top layer's states, ``(rows, hidden)``, and the last h and c of each layer.

        :param rows: packed embeddings, ``(rows, embedding)``.
        :param hidden: h of each layer before the first step, ``(layers, batch, hidden)``, in the
            order of ``steps``; ``cell`` likewise.
        """
        last_hidden, last_cell = [], []
        for number, layer in enumerate(self.layers):
            # There is no dropout between steps (Zaremba et al., 2014).
            rows = dropout(rows, self._dropout) if self.training else rows
            rows, last, inner = LstmRecurrence.apply(
                layer.input(rows), hidden[number], cell[number], layer.recurrent.weight, steps.sizes
            )
            last_hidden.append(last)
            last_cell.append(inner)
        return rows, torch.stack(last_hidden), torch.stack(last_cell)


class LstmNetwork(PairNetwork):
    """A deep LSTM encoder and decoder for p(target | source) of sentence pairs."""

    config: LstmConfig

    def __init__(self, config: LstmConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Parameter(torch.empty(source_size, config.embedding_size))
        self.encoder = LstmStack(config)
        self.target_embedding = nn.Parameter(torch.empty(target_size, config.embedding_size))
        self.decoder = LstmStack(config)
        self.output = nn.Linear(config.hidden_size, target_size)

    def initialize(self, generator: torch.Generator) -> None:
        """Draw weights uniformly from [-``init_range``, ``init_range``], as in section 3.4."""
        draw_uniformly(self, self.config.init_range, generator)

    def forward(self, batch: PairBatch) -> Tensor:
        target = batch.target
        steps = target.words_and_ends().to(target.ids.device)
        hidden, cell = self.encode(batch.source)
        # The first step reads </s>.
        end = target.ids.new_full((len(target.lengths),), Vocabulary.END)
        previous = embedding(
            torch.cat([end, target.previous_ids(steps)]), self.target_embedding
        )  # (rows, embedding)
        states, _, _ = self.decoder(previous, hidden[:, steps.order], cell[:, steps.order], steps)
        return self.sum_log_probs(self.drop(states), target, steps)

    def source_vectors(self, source: BatchSide) -> Tensor:
        """Return the last h of the encoder's top layer, ``(batch, hidden)``, for reports."""
        return self.encode(source)[0][-1]

    def encode(self, source: BatchSide) -> tuple[Tensor, Tensor]:
        """Return the encoder's last h and c, each ``(layers, batch, hidden)``."""
        steps = source.words().to(source.ids.device)
        reverse = self.config.reverse_source
        positions = steps.backward_positions() if reverse else steps.positions
        words = embedding(source.ids[positions], self.source_embedding)  # (rows, embedding)
        zero = words.new_zeros(self.config.layers, len(source.lengths), self.config.hidden_size)
        _, hidden, cell = self.encoder(words, zero, zero, steps)
        back = torch.argsort(steps.order)
        return hidden[:, back], cell[:, back]

"""The deep LSTM of Sutskever et al. (2014): one LSTM reads the source, another predicts the target.

The paper takes its layers from Graves (2013); here they are without his peepholes, as in
Zaremba et al. (2014), whose dropout is here, too.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, embedding

from phrasescore.config.settings import LstmConfig
from phrasescore.models.batches import BatchSide, PairBatch, Steps
from phrasescore.models.layers import WordLogProb
from phrasescore.models.lstm_recurrence import LstmRecurrence
from phrasescore.vocabulary import Vocabulary


class LstmLayer(nn.Module):
    """The weights of one layer; the rows of both maps are i, f, o and g, one after the other."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.input = nn.Linear(input_size, 4 * hidden_size)
        self.recurrent = nn.Linear(hidden_size, 4 * hidden_size, bias=False)

    def forward(
        self, rows: Tensor, hidden: Tensor, cell: Tensor, sizes: list[int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the states and the last h and c; see :class:`LstmRecurrence`."""
        states: tuple[Tensor, Tensor, Tensor] = LstmRecurrence.apply(
            self.input(rows), hidden, cell, self.recurrent.weight, sizes
        )
        return states


class LstmStack(nn.Module):
    """Layers of LSTM, each of which reads the states of the one below."""

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        sizes = [config.embedding_size] + (config.layers - 1) * [config.hidden_size]
        self.layers = nn.ModuleList(LstmLayer(size, config.hidden_size) for size in sizes)
        self.hidden_size = config.hidden_size
        self._dropout = config.dropout

    def forward(
        self, rows: Tensor, hidden: Tensor, cell: Tensor, steps: Steps
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the upper layer's states, ``(rows, hidden)``, and the last h and c of each layer.

        :param rows: embeddings of the words, packed, ``(rows, embedding)``.
        :param hidden: h of each layer before the first step, ``(layers, batch, hidden)``, in the
            order of ``steps``; so are the returned states.
        :param cell: c likewise.
        """
        last_hidden, last_cell = [], []
        for number, layer in enumerate(self.layers):
            # Nothing is dropped on the way from one step to the next (Zaremba et al., 2014).
            rows = dropout(rows, self._dropout, self.training)
            rows, last, inner = layer(rows, hidden[number], cell[number], steps.sizes)
            last_hidden.append(last)
            last_cell.append(inner)
        return rows, torch.stack(last_hidden), torch.stack(last_cell)


class LstmNetwork(nn.Module):
    """p(target | source) of sentence pairs.

    A new network has no weights yet: :meth:`initialize` draws them, or a checkpoint brings them.

    :param config: sizes.
    :param source_size: words of the source vocabulary with ``</s>`` and ``<unk>``.
    :param target_size: likewise for the target.
    """

    def __init__(self, config: LstmConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Parameter(torch.empty(source_size, config.embedding_size))
        self.encoder = LstmStack(config)
        self.target_embedding = nn.Parameter(torch.empty(target_size, config.embedding_size))
        self.decoder = LstmStack(config)
        self.output = nn.Linear(config.hidden_size, target_size)

    @torch.no_grad()
    def initialize(self, generator: torch.Generator) -> None:
        """Draw all weights uniformly between -0.08 and 0.08 (``init_range``), section 3.4."""
        bound = self.config.init_range
        for parameter in self.parameters():
            parameter.uniform_(-bound, bound, generator=generator)

    def forward(self, batch: PairBatch) -> Tensor:
        """Return log p(target ``</s>`` | source) of each pair, ``(batch,)``.

        Natural logarithms, summed over the target's words and its ``</s>``, not divided by length.
        An empty source leaves the encoder at its initial state 0; of an empty target only
        ``</s>`` is scored.
        """
        return self.decode(*self.encode(batch.source), batch.target)

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

    def decode(self, hidden: Tensor, cell: Tensor, target: BatchSide) -> Tensor:
        """Return log p(target ``</s>`` | source) of each pair, ``(batch,)``.

        :param hidden: h of each layer after the source, ``(layers, batch, hidden)``.
        :param cell: c likewise.
        """
        steps = target.words_and_ends().to(target.ids.device)
        batch = len(target.lengths)
        # The first step reads </s>.
        end = target.ids.new_full((batch,), Vocabulary.END)
        previous = embedding(
            torch.cat([end, target.previous_ids(steps)]), self.target_embedding
        )  # (rows, embedding)
        states, _, _ = self.decoder(previous, hidden[:, steps.order], cell[:, steps.order], steps)
        log_probs: Tensor = WordLogProb.apply(
            dropout(states, self.config.dropout, self.training),
            self.output.weight,
            self.output.bias,
            target.ids[steps.positions],
        )  # (rows,)
        return log_probs.new_zeros(batch).index_add(0, steps.order[steps.pairs], log_probs)

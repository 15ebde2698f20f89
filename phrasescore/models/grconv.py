"""The gated recursive convolutional network (grConv) of Cho et al. (2014b), section 2.2.

Its encoder makes one vector of a sentence by joining neighbours, level by level. What a cell takes
of its two children, and what it makes of both, is decided by gates, which can be read as a soft
parse of the sentence. The decoder is that of the RNN Encoder-Decoder.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from phrasescore.config.settings import GrconvConfig
from phrasescore.models.batches import BatchSide, batch_sequences
from phrasescore.models.gated_decoder import GatedDecoderNetwork
from phrasescore.models.recursive_convolution import (
    GATES,
    RecursiveConvolution,
    build_pyramid,
)


@dataclass(frozen=True, slots=True)
class SoftParse:
    """The gates of the cells that stand for a sentence of N words.

    ``levels[t - 1]`` is ``(N - t, 3)``, for t from 1 to N - 1. Its row i belongs to the cell over
    the words i to i + t, counted from 0, and holds the shares, which add up to 1, of

    - omega_c: a new activation of both children;
    - omega_l: the left child, the cell over the words i to i + t - 1;
    - omega_r: the right child, the cell over the words i + 1 to i + t.

    A tree is in it where the shares are near 0 and 1. A sentence of one word or none has no levels.
    """

    levels: tuple[Tensor, ...]


class GrconvNetwork(GatedDecoderNetwork):
    """p(target | source) of sentence pairs.

    :param config: sizes.
    :param source_size: words of the source vocabulary with ``</s>`` and ``<unk>``.
    :param target_size: likewise for the target.
    """

    config: GrconvConfig

    def __init__(self, config: GrconvConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size)
        size = config.encoder_size
        self.projection = nn.Linear(config.embedding_size, size)
        self.left = nn.Linear(size, size)
        self.right = nn.Linear(size, size, bias=False)
        self.gate_left = nn.Linear(size, GATES)
        self.gate_right = nn.Linear(size, GATES, bias=False)
        self.build_decoder(size, target_size)

    def spectral_radius(self, name: str) -> float | None:
        """Return the radius that a matrix starts with if it starts orthogonal, otherwise None.

        Section 3.2 has 0.4 for the transition matrices of this network; the decoder's are those of
        the RNN Encoder-Decoder, of radius 1.
        """
        if name in ("left.weight", "right.weight"):
            return self.config.spectral_radius
        return super().spectral_radius(name)

    def encode(self, source: BatchSide) -> Tensor:
        """Return the last cells of the sources, ``(batch, encoder)``, which are their c.

        A source of one word is that word's cell of level 0; an empty one is 0.
        """
        tops, _, order = self._join(source)
        empty = len(source.lengths) - len(tops)
        if empty:
            tops = torch.cat([tops, tops.new_zeros(empty, tops.shape[1])])  # (batch, encoder)
        return tops[torch.argsort(order)]

    @torch.no_grad()
    def soft_parse(self, ids: Sequence[int]) -> SoftParse:
        """Return the gates of one source, given as word ids without ``</s>``.

        An edge that is drawn in the paper's figure of a parse has a share of more than 0.1.
        """
        source = batch_sequences([ids])
        _, gates, _ = self._join(source._replace(ids=source.ids.to(self.source_embedding.device)))
        return SoftParse(gates.cpu().split([len(ids) - t for t in range(1, len(ids))]))

    def join_weight(self) -> Tensor:
        """Return W_l above W_r, ``(2 * encoder, encoder)``."""
        return torch.cat([self.left.weight, self.right.weight])

    def gate_weight(self) -> Tensor:
        """Return G_l above G_r, ``(6, encoder)``."""
        return torch.cat([self.gate_left.weight, self.gate_right.weight])

    def _join(self, source: BatchSide) -> tuple[Tensor, Tensor, Tensor]:
        """Return the last cell of each sentence that has words, all gates, and the order.

        :return: ``(sentences, encoder)``, by falling length; ``(cells above level 0, 3)``; and the
            places of all sentences by falling length, ``(batch,)``.
        """
        steps, device = source.words(), source.ids.device
        pyramid, steps = build_pyramid(steps).to(device), steps.to(device)
        words = nn.functional.embedding(
            source.ids[steps.positions], self.source_embedding
        )  # (rows, embedding)
        # Both children's products have a bias in RecursiveConvolution; here only the left one.
        bias, gate_bias = self.left.bias, self.gate_left.bias
        tops, gates = RecursiveConvolution.apply(
            self.projection(self.drop(words)),
            self.join_weight(),
            torch.cat([bias, torch.zeros_like(bias)]),
            self.gate_weight(),
            torch.cat([gate_bias, torch.zeros_like(gate_bias)]),
            pyramid,
        )
        return tops, gates, steps.order

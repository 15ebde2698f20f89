"""The Transformer of Vaswani et al. (2017) for sentence pairs.

The positions of all sentences of a batch are concatenated, and every product, norm and dropout runs
over these rows without padding. Only the attention itself, which is a small part of the work, is
computed on padded sentences.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding, relu, scaled_dot_product_attention

from phrasescore.devices import move
from phrasescore.kernels.precision import products_in
from phrasescore.models.batches import BatchSide, PairBatch
from phrasescore.models.layers import PairNetwork
from phrasescore.models.softmax import Softmax
from phrasescore.settings.kinds import TransformerConfig

# The longest wavelength of the positions is 2 pi times this (section 3.5).
_LONGEST_WAVE = 10000.0

# The settings of a CPU's products; torch's types lack them.
_CPU_PRODUCTS: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


def sinusoids(times: Tensor, size: int) -> Tensor:
    """Return the encodings of positions, ``(positions, size)`` float64: sines, then cosines.

    Vaswani et al. (2017), section 3.5, with the columns in the order of Tensor2Tensor.

    :param times: positions in a sentence, from 0.
    """
    half = size // 2
    steps = torch.arange(half, dtype=torch.float64, device=times.device) / max(half - 1, 1)
    angles = times.double().unsqueeze(1) * torch.exp(-math.log(_LONGEST_WAVE) * steps)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Padding:
    """The places of concatenated words and ends in a padded array, ``(batch, longest)``."""

    def __init__(self, side: BatchSide) -> None:
        lengths, device = side.lengths + 1, side.ids.device
        self.size, self.longest = len(lengths), int(lengths.max()) if len(lengths) else 0
        owners, times = side.owners()
        real = torch.arange(self.longest) < lengths.unsqueeze(1)
        places = owners * self.longest + times
        # (rows,) all three: the sentence, the position in it, and the place.
        self.owners, self.times, self.places = move(device, owners, times, places)
        self.real = move(device, real)[0]  # (batch, longest)

    def pad(self, rows: Tensor, heads: int) -> Tensor:
        """Return ``(rows, size)`` as ``(batch, heads, longest, size / heads)``; padding is 0."""
        padded = rows.new_zeros(self.size * self.longest, rows.shape[1])
        padded = padded.index_copy(0, self.places, rows)
        return padded.view(self.size, self.longest, heads, -1).transpose(1, 2)

    def unpad(self, padded: Tensor) -> Tensor:
        """Return the rows of what :meth:`pad` returned."""
        flat = padded.transpose(1, 2).reshape(self.size * self.longest, -1)
        return flat.index_select(0, self.places)


class _FloatAttention(Function):
    """Attention on a CPU, in float32 also where other products are in bfloat16.

    In bfloat16, torch calls oneDNN for the small products of each sentence and head one by one,
    which takes ten times as long.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        inputs = [each.detach() for each in (query, key, value)]
        for each, needs_gradient in zip(inputs, ctx.needs_input_grad, strict=False):
            each.requires_grad_(needs_gradient)
        with torch.enable_grad(), products_in(_CPU_PRODUCTS, "ieee"):
            attended = scaled_dot_product_attention(inputs[0], inputs[1], inputs[2], mask)
        ctx.inputs, ctx.attended = inputs, attended
        return attended.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        with products_in(_CPU_PRODUCTS, "ieee"):
            gradients = torch.autograd.grad(ctx.attended, ctx.inputs, gradient, retain_graph=True)
        return *gradients, None


class MultiHeadAttention(nn.Module):
    """W^Q, W^K, W^V and W^O of all heads (section 3.2.2)."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.output = nn.Linear(size, size)

    def forward(
        self, rows: Tensor, read: Tensor, places: Padding, read_places: Padding, mask: Tensor
    ) -> Tensor:
        """Return the attention of rows to the rows that they read, ``(rows, size)``.

        :param mask: which positions are read: ``(batch, 1, 1 or longest, longest read)``.
        """
        query = places.pad(self.query(rows), self.heads)
        key, value = (read_places.pad(part(read), self.heads) for part in (self.key, self.value))
        on_cpu = rows.device.type == "cpu"
        attend = _FloatAttention.apply if on_cpu else scaled_dot_product_attention
        attended = attend(query, key, value, mask)
        result: Tensor = self.output(places.unpad(attended))
        return result

    def weights(
        self, rows: Tensor, read: Tensor, places: Padding, read_places: Padding, mask: Tensor
    ) -> Tensor:
        """Return the mean weights of all heads, ``(batch, longest, longest read)``."""
        query = places.pad(self.query(rows), self.heads)
        key = read_places.pad(self.key(read), self.heads)
        energies = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])
        return energies.masked_fill(~mask, -torch.inf).softmax(-1).mean(1)


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2 (section 3.3)."""

    def __init__(self, size: int, inner_size: int) -> None:
        super().__init__()
        self.inner = nn.Linear(size, inner_size)
        self.outer = nn.Linear(inner_size, size)

    def forward(self, rows: Tensor) -> Tensor:
        """Return ``(rows, size)``."""
        result: Tensor = self.outer(relu(self.inner(rows)))
        return result


class SublayerNorm(nn.LayerNorm):
    """Normalises the input of a sublayer (pre-norm), or the sum of its input and its result."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config.hidden_size)
        self._is_pre = config.norm == "pre"

    def before(self, rows: Tensor) -> Tensor:
        """Return the input of the sublayer."""
        return self(rows) if self._is_pre else rows

    def after(self, rows: Tensor, result: Tensor) -> Tensor:
        """Return the rows with the result of the sublayer added."""
        return rows + result if self._is_pre else self(rows + result)


class EncoderLayer(nn.Module):
    """Attention to the own sentence, and a feed-forward network."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.attention = MultiHeadAttention(size, config.heads)
        self.attention_norm = SublayerNorm(config)
        self.feed_forward = FeedForward(size, config.feed_forward_size)
        self.feed_forward_norm = SublayerNorm(config)


class DecoderLayer(EncoderLayer):
    """An encoder layer that also attends to the source."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.source_attention = MultiHeadAttention(config.hidden_size, config.heads)
        self.source_norm = SublayerNorm(config)


class TransformerNetwork(PairNetwork):
    """A Transformer for p(target | source) of sentence pairs.

    The first target word is predicted from a zero vector. With ``tied_embeddings`` the softmax has
    the weights of the target embeddings (Press and Wolf, 2017).
    """

    config: TransformerConfig
    # Module lists, with the types of their modules.
    encoder: Sequence[EncoderLayer]
    decoder: Sequence[DecoderLayer]

    def __init__(self, config: TransformerConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        self.config = config
        size, layers = config.hidden_size, range(config.layers)
        self.source_embedding = nn.Parameter(torch.empty(source_size, size))
        self.target_embedding = nn.Parameter(torch.empty(target_size, size))
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in layers)  # type: ignore[assignment]
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in layers)  # type: ignore[assignment]
        # Post-norm layers end in a norm.
        is_pre = config.norm == "pre"
        self.encoder_norm = nn.LayerNorm(size) if is_pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(size) if is_pre else nn.Identity()
        if not config.tied_embeddings:
            self.output_weight = nn.Parameter(torch.empty(target_size, size))
        self.output_bias = nn.Parameter(torch.empty(target_size))

    @property
    def output(self) -> Softmax:
        """The weights of the softmax."""
        tied = self.config.tied_embeddings
        return Softmax(self.target_embedding if tied else self.output_weight, self.output_bias)

    @torch.no_grad()
    def initialize(self, generator: torch.Generator) -> None:
        """Draw embeddings from a Gaussian of variance 1 / size, and matrices as Glorot and Bengio.

        The weights of norms are 1, and biases are 0.
        """
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif name.endswith("norm.weight"):
                parameter.fill_(1.0)
            elif name.endswith("embedding") or name == "output_weight":
                parameter.normal_(0.0, self.config.hidden_size**-0.5, generator=generator)
            else:
                bound = math.sqrt(6 / sum(parameter.shape))
                parameter.uniform_(-bound, bound, generator=generator)

    def forward(self, batch: PairBatch) -> Tensor:
        """See :class:`PairNetwork`; the encoder reads at least the source's ``</s>``."""
        target = batch.target
        rows, places = self._decode(batch)
        log_probs = self.smooth(self.word_log_probs(rows, target.ids), rows, target.ids)
        return log_probs.new_zeros(len(target.lengths)).index_add(0, places.owners, log_probs)

    def alignments(self, batch: PairBatch) -> Tensor:
        """Return the mean attention of the heads of the last layer to the source.

        See :meth:`phrasescore.models.rnnsearch.RnnsearchNetwork.alignments`.
        """
        found: list[Tensor] = []
        _, places = self._decode(batch, found.append)
        return found[-1] * places.real.unsqueeze(2)

    def encode(self, source: BatchSide) -> tuple[Tensor, Padding]:
        """Return the encodings of all source words and ends, ``(rows, size)``."""
        places = Padding(source)
        mask = places.real[:, None, None, :]
        rows = self._embed(embedding(source.ids, self.source_embedding), places)
        for layer in self.encoder:
            rows = self._attend_self(layer, rows, places, mask)
            rows = self._feed_forward(layer, rows)
        return self.encoder_norm(rows), places

    def _decode(
        self, batch: PairBatch, see: Callable[[Tensor], None] | None = None
    ) -> tuple[Tensor, Padding]:
        """Return the input of the softmax at each target word and end, ``(rows, size)``.

        :param see: called with each layer's weights of the source, ``(batch, target, source)``.
        """
        target = batch.target
        memory, source_places = self.encode(batch.source)
        source_mask = source_places.real[:, None, None, :]
        places = Padding(target)
        time = torch.arange(places.longest, device=target.ids.device)
        past = (time <= time.unsqueeze(1))[None, None]
        previous = embedding(torch.roll(target.ids, 1), self.target_embedding)
        previous = previous.masked_fill((places.times == 0).unsqueeze(1), 0.0)
        rows = self._embed(previous, places)
        for layer in self.decoder:
            rows = self._attend_self(layer, rows, places, past)
            own = layer.source_norm.before(rows)
            source = (memory, places, source_places, source_mask)
            if see is not None:
                see(layer.source_attention.weights(own, *source))
            rows = layer.source_norm.after(rows, self.drop(layer.source_attention(own, *source)))
            rows = self._feed_forward(layer, rows)
        return self.decoder_norm(rows), places

    def _attend_self(
        self, layer: EncoderLayer, rows: Tensor, places: Padding, mask: Tensor
    ) -> Tensor:
        own = layer.attention_norm.before(rows)
        attended = layer.attention(own, own, places, places, mask)
        return layer.attention_norm.after(rows, self.drop(attended))

    def _feed_forward(self, layer: EncoderLayer, rows: Tensor) -> Tensor:
        result = layer.feed_forward(layer.feed_forward_norm.before(rows))
        return layer.feed_forward_norm.after(rows, self.drop(result))

    def _embed(self, words: Tensor, places: Padding) -> Tensor:
        size = self.config.hidden_size
        positions = sinusoids(torch.arange(places.longest, device=words.device), size).to(words)
        return self.drop(words * math.sqrt(size) + positions.index_select(0, places.times))

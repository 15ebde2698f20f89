"""A small GPT-2 of CTranslate2's, written by its own specification, and its scores in numpy.

The weights are random and the tokenizer has a few merges of bytes. ``state`` names the weights as
transformers does, so that its GPT2LMHeadModel can load them.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from ctranslate2.specs import TransformerDecoderModelSpec
from ctranslate2.specs.common_spec import Activation
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from tests.tiny_translator import HEADS, attended

Floats = NDArray[np.float32]

END = "<|endoftext|>"
SIZE, LAYERS, POSITIONS = 16, 2, 96
_MERGES = ("Ġ t", "h e", "Ġt he", "Ġ m", "a i", "Ġm ai", "Ġ l", "Ġl a")


def tiny_tokenizer() -> Tokenizer:
    """Return a byte-level BPE as GPT-2's."""
    merges = [(one, other) for one, other in map(str.split, _MERGES)]
    names = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *map("".join, merges)]
    vocabulary = {name: number for number, name in enumerate(names)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(END, special=True)])
    return tokenizer


class TinyGenerator:
    """A model in a folder, with its tokenizer."""

    def __init__(self, path: Path, *, seed: int = 1) -> None:
        self.path = path
        self.tokenizer = tiny_tokenizer()
        size = self.tokenizer.get_vocab_size()
        self.vocabulary = [self.tokenizer.id_to_token(number) for number in range(size)]
        numbers = np.random.default_rng(seed)
        shapes: dict[str, tuple[int, ...]] = {
            "wte.weight": (size, SIZE),
            "wpe.weight": (POSITIONS, SIZE),
        }
        for layer in range(LAYERS):
            for name, rows, columns in (
                ("attn.c_attn", SIZE, 3 * SIZE),
                ("attn.c_proj", SIZE, SIZE),
                ("mlp.c_fc", SIZE, 2 * SIZE),
                ("mlp.c_proj", 2 * SIZE, SIZE),
            ):
                shapes[f"h.{layer}.{name}.weight"] = (rows, columns)
                shapes[f"h.{layer}.{name}.bias"] = (columns,)
            for name in ("ln_1", "ln_2"):
                shapes |= {f"h.{layer}.{name}.{each}": (SIZE,) for each in ("weight", "bias")}
        shapes |= {f"ln_f.{each}": (SIZE,) for each in ("weight", "bias")}
        self.state: dict[str, Floats] = {
            name: numbers.normal(0, 0.4, shape).astype(np.float32) + ("ln" in name and "w" in name)
            for name, shape in shapes.items()
        }
        self._save()

    def _save(self) -> None:
        spec = TransformerDecoderModelSpec.from_config(
            LAYERS, HEADS, pre_norm=True, activation=Activation.GELUTanh
        )
        decoder, state = spec.decoder, self.state
        decoder.scale_embeddings = False
        decoder.embeddings.weight = decoder.projection.weight = state["wte.weight"]
        decoder.position_encodings.encodings = state["wpe.weight"]
        norms = [(decoder.layer_norm, "ln_f")]
        linears = []
        for number, layer in enumerate(decoder.layer):
            start = f"h.{number}"
            norms += [(layer.self_attention.layer_norm, f"{start}.ln_1")]
            norms += [(layer.ffn.layer_norm, f"{start}.ln_2")]
            linears += [(layer.self_attention.linear[0], f"{start}.attn.c_attn")]
            linears += [(layer.self_attention.linear[1], f"{start}.attn.c_proj")]
            linears += [(layer.ffn.linear_0, f"{start}.mlp.c_fc")]
            linears += [(layer.ffn.linear_1, f"{start}.mlp.c_proj")]
        for norm, name in norms:
            norm.gamma, norm.beta = state[f"{name}.weight"], state[f"{name}.bias"]
        for linear, name in linears:
            linear.weight = np.ascontiguousarray(state[f"{name}.weight"].T)
            linear.bias = state[f"{name}.bias"]
        spec.register_vocabulary(self.vocabulary)
        spec.config.bos_token = spec.config.eos_token = spec.config.unk_token = END
        spec.validate()
        spec.optimize()
        self.path.mkdir(parents=True)
        spec.save(str(self.path))
        self.tokenizer.save(str(self.path / "tokenizer.json"))

    def log_prob(self, tokens: Sequence[str], first: int) -> float:
        """Return log p of the tokens from index ``first``, given those before, in numpy."""
        ids = [self.vocabulary.index(token) for token in tokens]
        state = self.state["wte.weight"][ids] + self.state["wpe.weight"][: len(ids)]
        for layer in range(LAYERS):
            start = f"h.{layer}"
            state = state + self._attended(f"{start}.attn", self._normed(f"{start}.ln_1", state))
            hidden = self._linear(f"{start}.mlp.c_fc", self._normed(f"{start}.ln_2", state))
            state = state + self._linear(f"{start}.mlp.c_proj", _gelu(hidden))
        logits = self._normed("ln_f", state) @ self.state["wte.weight"].T
        logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        return float(sum(logs[at - 1, ids[at]] for at in range(first, len(ids))))

    def _attended(self, name: str, state: Floats) -> Floats:
        queries, keys, values = np.split(self._linear(f"{name}.c_attn", state), 3, 1)
        return self._linear(f"{name}.c_proj", attended(queries, keys, values, causal=True))

    def _linear(self, name: str, rows: Floats) -> Floats:
        found: Floats = rows @ self.state[f"{name}.weight"] + self.state[f"{name}.bias"]
        return found

    def _normed(self, name: str, rows: Floats) -> Floats:
        centred = rows - rows.mean(1, keepdims=True)
        scale = np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
        found: Floats = centred / scale * self.state[f"{name}.weight"] + self.state[f"{name}.bias"]
        return found


def _gelu(rows: Floats) -> Floats:
    found: Floats = rows / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (rows + 0.044715 * rows**3)))
    return found

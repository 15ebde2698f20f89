"""A slow Transformer in float64 numpy, one pair and one word at a time.

Written from Vaswani et al. (2017), sections 3.1 to 3.5, and from nothing else; it shares no code
with the package, and has neither batches nor padding nor masks. Matrices are stored as
``torch.nn.Linear`` stores them, (out, in). The first target word follows a zero vector, and the
source ends with ``</s>``. Layers are post-norm as in the paper, or pre-norm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
END = 0


def log_prob(
    parameters: Mapping[str, Array],
    source: Sequence[int],
    target: Sequence[int],
    *,
    heads: int,
    pre_norm: bool,
) -> float:
    """Return log p(target ``</s>`` | source), a natural logarithm."""
    return sum(log_probs(parameters, source, target, heads=heads, pre_norm=pre_norm))


def log_probs(
    parameters: Mapping[str, Array],
    source: Sequence[int],
    target: Sequence[int],
    *,
    heads: int,
    pre_norm: bool,
) -> list[float]:
    """Return log p of each target word given the ones before it, ``</s>`` last."""
    model = _Model(parameters, heads, pre_norm)
    memory = model.encode([*source, END])
    weight = parameters.get("output_weight", parameters["target_embedding"])
    found = []
    for position, word in enumerate([*target, END]):
        # Each word is predicted anew from all words before it.
        logits = weight @ model.decode(memory, target[:position]) + parameters["output_bias"]
        found.append(
            float(logits[word] - np.log(np.exp(logits - logits.max()).sum()) - logits.max())
        )
    return found


class _Model:
    def __init__(self, parameters: Mapping[str, Array], heads: int, pre_norm: bool) -> None:
        self.parameters, self.heads, self.pre_norm = parameters, heads, pre_norm
        self.size = parameters["source_embedding"].shape[1]
        names = {name.split(".")[1] for name in parameters if name.startswith("encoder.")}
        self.layers = range(len(names))

    def encode(self, words: Sequence[int]) -> list[Array]:
        vectors = [self.parameters["source_embedding"][word] for word in words]
        rows = [self.position(i, vector) for i, vector in enumerate(vectors)]
        for number in self.layers:
            layer = f"encoder.{number}"
            rows = self.sublayer(f"{layer}.attention", rows, lambda own, layer=layer: [
                self.attend(f"{layer}.attention", query, own) for query in own
            ])  # fmt: skip
            rows = self.feed_forward(layer, rows)
        return self.last("encoder", rows)

    def decode(self, memory: list[Array], words: Sequence[int]) -> Array:
        vectors = [np.zeros(self.size), *(self.parameters["target_embedding"][w] for w in words)]
        rows = [self.position(i, vector) for i, vector in enumerate(vectors)]
        for number in self.layers:
            layer = f"decoder.{number}"
            rows = self.sublayer(f"{layer}.attention", rows, lambda own, layer=layer: [
                self.attend(f"{layer}.attention", own[i], own[: i + 1]) for i in range(len(own))
            ])  # fmt: skip
            rows = self.sublayer(f"{layer}.source", rows, lambda own, layer=layer: [
                self.attend(f"{layer}.source_attention", query, memory) for query in own
            ])  # fmt: skip
            rows = self.feed_forward(layer, rows)
        return self.last("decoder", rows)[-1]

    def position(self, place: int, vector: Array) -> Array:
        """Return the scaled embedding plus sines and cosines of falling frequency."""
        half = self.size // 2
        result = vector * math.sqrt(self.size)
        for i in range(half):
            angle = place / 10000 ** (i / max(half - 1, 1))
            result[i] += math.sin(angle)
            result[half + i] += math.cos(angle)
        return result

    def affine(self, name: str, vector: Array) -> Array:
        return self.parameters[f"{name}.weight"] @ vector + self.parameters[f"{name}.bias"]

    def norm(self, name: str, vector: Array) -> Array:
        mean, variance = vector.mean(), vector.var()
        unit = (vector - mean) / math.sqrt(variance + 1e-5)
        return unit * self.parameters[f"{name}.weight"] + self.parameters[f"{name}.bias"]

    def attend(self, name: str, query: Array, read: Sequence[Array]) -> Array:
        queries = np.split(self.affine(f"{name}.query", query), self.heads)
        results = []
        for head, part in enumerate(queries):
            keys = [np.split(self.affine(f"{name}.key", row), self.heads)[head] for row in read]
            values = [np.split(self.affine(f"{name}.value", row), self.heads)[head] for row in read]
            weights = [math.exp(float(part @ key) / math.sqrt(len(part))) for key in keys]
            total = sum(w * value for w, value in zip(weights, values, strict=True))
            results.append(total / sum(weights))
        return self.affine(f"{name}.output", np.concatenate(results))

    def feed_forward(self, layer: str, rows: list[Array]) -> list[Array]:
        name = f"{layer}.feed_forward"
        return self.sublayer(name, rows, lambda own: [
            self.affine(f"{name}.outer", np.maximum(self.affine(f"{name}.inner", row), 0))
            for row in own
        ])  # fmt: skip

    def sublayer(self, name: str, rows: list[Array], part) -> list[Array]:  # type: ignore[no-untyped-def]
        norm = f"{name}_norm"
        if self.pre_norm:
            results = part([self.norm(norm, row) for row in rows])
            return [row + result for row, result in zip(rows, results, strict=True)]
        results = part(rows)
        return [self.norm(norm, row + result) for row, result in zip(rows, results, strict=True)]

    def last(self, name: str, rows: list[Array]) -> list[Array]:
        return [self.norm(f"{name}_norm", row) for row in rows] if self.pre_norm else rows

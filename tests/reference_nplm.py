"""A slow reader and evaluator of NPLM's text model, in float64 numpy.

Written from NPLM's sources (src/model.cpp, neuralLM.h, propagator.h, vocabulary.h), and from
nothing else; it shares no code with the package.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def _rectifier(values: Array) -> Array:
    return np.maximum(values, 0.0)


_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"rectifier": _rectifier, "tanh": np.tanh}


class ReferenceNplm:
    """What Moses' NeuralLM computes from a file.

    :ivar config: the lines of ``\\config``.
    :ivar sections: the lines of each other section.
    """

    def __init__(self, path: Path) -> None:
        self.sections: dict[str, list[str]] = {}
        lines = iter(path.read_text(encoding="utf-8").split("\n"))
        for name in lines:
            if name == "\\end":
                break
            if name != "":
                # A section ends at an empty line: getline(file, line) && line != "".
                self.sections[name] = list(iter(lines.__next__, ""))
        self.config = dict(line.split(" ") for line in self.sections.pop("\\config"))

    def matrix(self, section: str) -> NDArray[np.float32]:
        """Return the numbers of a section, ``(rows, columns)``, as a float."""
        rows = [line.split(" ") for line in self.sections[f"\\{section}"]]
        return np.array(rows, dtype=np.float32)

    def lookup(self, word: str) -> int:
        """Return the id of a word, by the input vocabulary: Moses looks up both sides there."""
        ids = {known: place for place, known in enumerate(self.sections["\\input_vocab"])}
        return ids.get(word, ids["<unk>"])

    def ngram(self, words: Sequence[str]) -> list[int]:
        """Return an n-gram's ids, padded before as lookup_ngram does it."""
        ids = [self.lookup(word) for word in words]
        start, null = self.lookup("<s>"), self.lookup("<null>")
        missing = int(self.config["ngram_size"]) - len(ids)
        return [start if ids[0] == start else null] * missing + ids

    def value(self, words: Sequence[str]) -> float:
        """Return what Moses takes for log p of the last word after the others."""
        *context, predicted = self.ngram(words)
        activation = _ACTIVATIONS[self.config["activation_function"]]
        embeddings = self.matrix("input_embeddings").astype(np.float64)
        layer = np.concatenate([embeddings[word] for word in context])
        for number in (1, 2):
            weights = self.matrix(f"hidden_weights {number}").astype(np.float64)
            layer = activation(weights @ layer + self.matrix(f"hidden_biases {number}")[:, 0])
        row = self.matrix("output_weights")[predicted].astype(np.float64)
        return float(row @ layer + self.matrix("output_biases")[predicted, 0])

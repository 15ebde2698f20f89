"""Write feed-forward networks as NPLM's text model, which Moses' own search can load.

Moses built ``--with-nplm`` reads it in the features NeuralLM (moses/LM/NeuralLMWrapper.cpp) and
BilingualNPLM (moses/LM/bilingual-lm/BiLM_NPLM.cpp). The format is that of src/model.cpp of NPLM:
the embeddings of the words of a context, one after the other, go through two layers of units of one
kind to the row of the predicted word. Moses takes the number that this row gives as a natural
logarithm: it leaves log Z out.
"""

from collections.abc import Sequence
from typing import BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import ModelError

Floats = NDArray[np.float32]

# How messages name NPLM's file.
FORMAT = "NPLM's text model"


class NplmLayer(NamedTuple):
    """A matrix product, and what is added to it."""

    weights: Floats  # (outputs, inputs)
    biases: Floats  # (outputs,)


class NplmNetwork(NamedTuple):
    """A network as NPLM has it; words are looked up by name, and one is ``<unk>``."""

    input_words: Sequence[str]
    output_words: Sequence[str]
    activation: Literal["identity", "rectifier", "tanh", "hardtanh"]
    input_embeddings: Floats  # (input words, embedding)
    first: NplmLayer  # (hidden, (order - 1) * embedding), the oldest word first
    second: NplmLayer  # (output embedding, hidden)
    output: NplmLayer  # (output words, output embedding)

    @property
    def order(self) -> int:
        """The words of an n-gram: those of a context, and the predicted one."""
        return 1 + int(self.first.weights.shape[1]) // int(self.input_embeddings.shape[1])

    @property
    def num_bytes_in_moses(self) -> int:
        """The bytes of the first layer in Moses, which multiplies it with all words at its start.

        They are nearly all that it takes (NPLM's src/model.cpp, premultiply).
        """
        return 4 * len(self.first.weights) * len(self.input_words) * (self.order - 1)


def check_words(network: NplmNetwork) -> None:
    """Check that NPLM will read the words as they are.

    :raises ModelError: at the first that it would not.
    """
    for words in (network.input_words, network.output_words):
        seen: set[str] = set()
        for word in words:
            # NPLM cuts lines at blanks (src/util.cpp, readWordsFile), and of two equal words the
            # last one counts.
            if word in seen or set(word) & set(" \t\n"):
                problem = "is one of NPLM's own words" if word in seen else "holds a blank"
                raise ModelError(
                    f"{FORMAT} cannot hold the shortlist's word {word!r}: it {problem}"
                )
            seen.add(word)


def write_nplm(network: NplmNetwork, output: BinaryIO) -> None:
    """Write a network that `check_words` found good; NPLM reads the same float32 numbers."""
    config = {
        "version": 1,
        "ngram_size": network.order,
        "input_vocab_size": len(network.input_words),
        "output_vocab_size": len(network.output_words),
        "input_embedding_dimension": network.input_embeddings.shape[1],
        "num_hidden": len(network.first.weights),
        "output_embedding_dimension": len(network.second.weights),
        "activation_function": network.activation,
    }
    _write_section(output, "config", [f"{name} {value}" for name, value in config.items()])
    _write_section(output, "input_vocab", network.input_words)
    _write_section(output, "output_vocab", network.output_words)
    _write_numbers(output, "input_embeddings", network.input_embeddings)
    for number, layer in enumerate((network.first, network.second), start=1):
        _write_numbers(output, f"hidden_weights {number}", layer.weights)
        _write_numbers(output, f"hidden_biases {number}", layer.biases[:, None])
    _write_numbers(output, "output_weights", network.output.weights)
    _write_numbers(output, "output_biases", network.output.biases[:, None])
    output.write(b"\\end\n")


def _write_section(output: BinaryIO, name: str, lines: Sequence[str]) -> None:
    output.write("\n".join([f"\\{name}", *lines, "", ""]).encode())


def _write_numbers(output: BinaryIO, name: str, matrix: Floats) -> None:
    """Write a line per row; nine digits are those that a float32 can need."""
    row_format = " ".join(["%.9g"] * matrix.shape[1]) + "\n"
    output.write(f"\\{name}\n".encode())
    for row in matrix.tolist():
        output.write((row_format % tuple(row)).encode())
    output.write(b"\n")

"""Write feed-forward networks as NPLM's text model, which Moses' own search can load.

Moses built ``--with-nplm`` reads it in the features NeuralLM (moses/LM/NeuralLMWrapper.cpp) and
BilingualNPLM (moses/LM/bilingual-lm/BiLM_NPLM.cpp). The format is defined by NPLM's src/model.cpp:
the concatenated embeddings of the context words pass through one or two layers with the same
activation to the row of the predicted word. Moses takes the output of this row as a natural
logarithm, without subtracting log Z.
"""

from collections.abc import Iterable, Sequence
from typing import BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import ModelError

Floats = NDArray[np.float32]

FORMAT = "NPLM's text model"  # in messages

NPLM_BLANKS = " \t\n"  # at which NPLM splits lines (src/util.cpp, readWordsFile)
MOSES_BLANKS = " \t\n\v\f\r"  # at which Moses splits the vocabulary files of BilingualNPLM


class NplmLayer(NamedTuple):
    """A matrix product, and the biases that are added."""

    weights: Floats  # (outputs, inputs)
    biases: Floats  # (outputs,)


class NplmNetwork(NamedTuple):
    """A network in NPLM's form.

    NeuralLM finds input words by name. BilingualNPLM takes ids from its own vocabulary files, which
    are indices here, so a word may appear twice: as a target and as a source word.
    """

    input_words: Sequence[str]
    output_words: Sequence[str]
    activation: Literal["identity", "rectifier", "tanh", "hardtanh"]
    input_embeddings: Floats  # (input words, embedding)
    first: NplmLayer  # (hidden, (order - 1) * embedding), the oldest word first
    second: NplmLayer | None  # (output embedding, hidden); None: the hidden units are the output's
    output: NplmLayer  # (output words, output embedding)

    @property
    def order(self) -> int:
        """The length of an n-gram: the context and the predicted word."""
        return 1 + int(self.first.weights.shape[1]) // int(self.input_embeddings.shape[1])

    @property
    def num_bytes_in_moses(self) -> int:
        """The memory of the first layer in Moses, nearly all that the model takes.

        Moses multiplies it with all words when it starts (NPLM's src/model.cpp, premultiply).
        """
        return 4 * len(self.first.weights) * len(self.input_words) * (self.order - 1)


def check_words(words: Iterable[str], blanks: str = NPLM_BLANKS) -> None:
    """Check that a vocabulary will be read back unchanged; the reader splits at ``blanks``."""
    seen: set[str] = set()
    for word in words:
        # If two words are equal, NPLM uses the last one, and BilingualNPLM the first.
        if word in seen or set(word) & set(blanks):
            problem = "is one of NPLM's own words" if word in seen else "holds a blank"
            raise ModelError(f"{FORMAT} cannot hold the shortlist's word {word!r}: it {problem}")
        seen.add(word)


def write_words(words: Iterable[str], output: BinaryIO) -> None:
    """Write a vocabulary file of BilingualNPLM, one word per line, ``<unk>`` first."""
    output.write("".join(f"{word}\n" for word in words).encode())


def write_nplm(network: NplmNetwork, output: BinaryIO) -> None:
    """Write a network whose words passed `check_words`; NPLM reads the same float32 numbers."""
    config = {
        "version": 1,
        "ngram_size": network.order,
        "input_vocab_size": len(network.input_words),
        "output_vocab_size": len(network.output_words),
        "input_embedding_dimension": network.input_embeddings.shape[1],
        # To NPLM, one layer means 0 hidden units: src/model.cpp, resize.
        "num_hidden": len(network.first.weights) if network.second else 0,
        "output_embedding_dimension": network.output.weights.shape[1],
        "activation_function": network.activation,
    }
    _write_section(output, "config", [f"{name} {value}" for name, value in config.items()])
    _write_section(output, "input_vocab", network.input_words)
    _write_section(output, "output_vocab", network.output_words)
    _write_numbers(output, "input_embeddings", network.input_embeddings)
    for number, layer in enumerate(filter(None, (network.first, network.second)), start=1):
        _write_numbers(output, f"hidden_weights {number}", layer.weights)
        _write_numbers(output, f"hidden_biases {number}", layer.biases[:, None])
    _write_numbers(output, "output_weights", network.output.weights)
    _write_numbers(output, "output_biases", network.output.biases[:, None])
    output.write(b"\\end\n")


def _write_section(output: BinaryIO, name: str, lines: Sequence[str]) -> None:
    output.write("\n".join([f"\\{name}", *lines, "", ""]).encode())


def _write_numbers(output: BinaryIO, name: str, matrix: Floats) -> None:
    """Write one line per row, with the nine digits that a float32 may need."""
    row_format = " ".join(["%.9g"] * matrix.shape[1]) + "\n"
    output.write(f"\\{name}\n".encode())
    for row in matrix.tolist():
        output.write((row_format % tuple(row)).encode())
    output.write(b"\n")

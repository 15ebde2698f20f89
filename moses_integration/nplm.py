"""Write feed-forward networks as NPLM text models, which Moses can use in its search.

If Moses is built ``--with-nplm``, its features NeuralLM (moses/LM/NeuralLMWrapper.cpp) and
BilingualNPLM (moses/LM/bilingual-lm/BiLM_NPLM.cpp) read these models. NPLM's src/model.cpp defines
the format. The concatenated embeddings of the context words pass through one or two layers with the
same activation, then through the output row for the predicted word. Moses uses the output as a
natural logarithm, without subtracting log Z.
"""

from collections.abc import Iterable, Sequence
from typing import BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import ModelError

Floats = NDArray[np.float32]

FORMAT = "NPLM's text model"  # in messages

NPLM_BLANKS = " \t\n"  # characters at which NPLM splits lines (src/util.cpp, readWordsFile)
MOSES_BLANKS = " \t\n\v\f\r"  # characters at which Moses splits BilingualNPLM's vocabulary files


class NplmLayer(NamedTuple):
    """The weights and biases of a linear layer."""

    weights: Floats  # (outputs, inputs)
    biases: Floats  # (outputs,)


class NplmNetwork(NamedTuple):
    """A network in the form that NPLM stores.

    NeuralLM looks up input words by name. BilingualNPLM reads ids from separate vocabulary files,
    which are indices into the input words, so a word may occur twice: as a source word and as a
    target word.
    """

    input_words: Sequence[str]
    output_words: Sequence[str]
    activation: Literal["identity", "rectifier", "tanh", "hardtanh"]
    input_embeddings: Floats  # (input words, embedding)
    first: NplmLayer  # (hidden, (order - 1) * embedding), the oldest word first
    # (output embedding, hidden); None if the first layer is the input of the output layer.
    second: NplmLayer | None
    output: NplmLayer  # (output words, output embedding)

    @property
    def order(self) -> int:
        """The length of an n-gram: the context words and the predicted word."""
        return 1 + int(self.first.weights.shape[1]) // int(self.input_embeddings.shape[1])

    @property
    def num_bytes_in_moses(self) -> int:
        """The memory that the first layer uses in Moses, nearly all that the model uses.

        At startup, Moses multiplies it with the embeddings of all words (NPLM's src/model.cpp,
        premultiply).
        """
        return 4 * len(self.first.weights) * len(self.input_words) * (self.order - 1)


def check_words(words: Iterable[str], blanks: str = NPLM_BLANKS) -> None:
    """Check that a vocabulary will be read back unchanged; the reader splits at ``blanks``."""
    seen: set[str] = set()
    for word in words:
        # If two words are equal, NPLM uses the last one, and BilingualNPLM the first.
        if word in seen or set(word) & set(blanks):
            problem = "is one of NPLM's own words" if word in seen else "contains a blank"
            raise ModelError(f"{FORMAT} cannot hold the shortlist's word {word!r}: it {problem}")
        seen.add(word)


def write_words(words: Iterable[str], output: BinaryIO) -> None:
    """Write a vocabulary file for BilingualNPLM, one word per line with ``<unk>`` first."""
    output.write("".join(f"{word}\n" for word in words).encode())


def write_nplm(network: NplmNetwork, output: BinaryIO) -> None:
    """Write a network whose words passed `check_words`; NPLM reads identical float32 numbers."""
    config = {
        "version": 1,
        "ngram_size": network.order,
        "input_vocab_size": len(network.input_words),
        "output_vocab_size": len(network.output_words),
        "input_embedding_dimension": network.input_embeddings.shape[1],
        # NPLM takes 0 hidden units to mean a single layer (src/model.cpp, resize).
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
    """Write a matrix, one line per row, with nine significant digits, enough for float32."""
    row_format = " ".join(["%.9g"] * matrix.shape[1]) + "\n"
    output.write(f"\\{name}\n".encode())
    for row in matrix.tolist():
        output.write((row_format % tuple(row)).encode())
    output.write(b"\n")

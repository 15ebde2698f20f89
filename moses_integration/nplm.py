"""Write feed-forward networks as NPLM's text model, which Moses' own search can load.

Moses built ``--with-nplm`` reads it in the features NeuralLM (moses/LM/NeuralLMWrapper.cpp) and
BilingualNPLM (moses/LM/bilingual-lm/BiLM_NPLM.cpp). The format is that of src/model.cpp of NPLM:
the embeddings of the words of a context, one after the other, go through two layers of units of one
kind, or one, to the row of the predicted word. Moses takes the number that this row gives as a
natural logarithm: it leaves log Z out.
"""

from collections.abc import Iterable, Sequence
from typing import BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import ModelError

Floats = NDArray[np.float32]

# How messages name NPLM's file.
FORMAT = "NPLM's text model"

# Where NPLM cuts lines (src/util.cpp, readWordsFile).
NPLM_BLANKS = " \t\n"
# Where Moses cuts the vocabulary files of BilingualNPLM, which it reads with ``>>``.
MOSES_BLANKS = " \t\n\v\f\r"


class NplmLayer(NamedTuple):
    """A matrix product, and what is added to it."""

    weights: Floats  # (outputs, inputs)
    biases: Floats  # (outputs,)


class NplmNetwork(NamedTuple):
    """A network as NPLM has it.

    NeuralLM looks up words by name in the input words. BilingualNPLM has ids of its own vocabulary
    files, which are the places here, so that a word may come twice: as a target word, as a source
    word.
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
        """The words of an n-gram: those of a context, and the predicted one."""
        return 1 + int(self.first.weights.shape[1]) // int(self.input_embeddings.shape[1])

    @property
    def num_bytes_in_moses(self) -> int:
        """The bytes of the first layer in Moses, which multiplies it with all words at its start.

        They are nearly all that it takes (NPLM's src/model.cpp, premultiply).
        """
        return 4 * len(self.first.weights) * len(self.input_words) * (self.order - 1)


def check_words(words: Iterable[str], blanks: str = NPLM_BLANKS) -> None:
    """Check that the words of a vocabulary will be read as they are.

    :param blanks: the characters at which the reader cuts.
    :raises ModelError: at the first word that would be read as another.
    """
    seen: set[str] = set()
    for word in words:
        # Of two equal words only one counts: for NPLM the last one, for BilingualNPLM the first.
        if word in seen or set(word) & set(blanks):
            problem = "is one of NPLM's own words" if word in seen else "holds a blank"
            raise ModelError(f"{FORMAT} cannot hold the shortlist's word {word!r}: it {problem}")
        seen.add(word)


def write_words(words: Iterable[str], output: BinaryIO) -> None:
    """Write a vocabulary file of BilingualNPLM, a word per line, ``<unk>`` on the first."""
    output.write("".join(f"{word}\n" for word in words).encode())


def write_nplm(network: NplmNetwork, output: BinaryIO) -> None:
    """Write a network whose words `check_words` found good; NPLM reads the same float32 numbers."""
    config = {
        "version": 1,
        "ngram_size": network.order,
        "input_vocab_size": len(network.input_words),
        "output_vocab_size": len(network.output_words),
        "input_embedding_dimension": network.input_embeddings.shape[1],
        # NPLM's word for one layer is no hidden units: src/model.cpp, resize.
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
    """Write a line per row; nine digits are those that a float32 can need."""
    row_format = " ".join(["%.9g"] * matrix.shape[1]) + "\n"
    output.write(f"\\{name}\n".encode())
    for row in matrix.tolist():
        output.write((row_format % tuple(row)).encode())
    output.write(b"\n")

"""Write a trained network, or a system, as files that Moses' own search loads.

Networks are written as NPLM text models. If Moses is built ``--with-nplm``, its features NeuralLM
(moses/LM/NeuralLMWrapper.cpp) and BilingualNPLM (moses/LM/bilingual-lm/BiLM_NPLM.cpp) read them.
NPLM's src/model.cpp defines the format. The concatenated embeddings of the context words pass
through one or two layers with the same activation, then through the output row for the predicted
word. Moses uses the output as a natural logarithm, without subtracting log Z.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from moses_integration.decoder import ALGORITHMS
from moses_integration.ini_text import IniText, named_files
from moses_integration.moses_ini import WeightsSource
from moses_integration.weight_lines import check_weights
from phrasescore.arguments import StrPath
from phrasescore.errors import ArgumentError, ModelError
from phrasescore.io.compression import is_gzip_name
from phrasescore.io.output import check_files, open_output, optional_path
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.models.feed_forward import BOUNDARY, CslmNetwork, FeedForwardNetwork, JointNetwork
from phrasescore.systems.system import read_system
from phrasescore.vocabulary import Vocabulary

_logger = logging.getLogger(__name__)

Floats = NDArray[np.float32]

_FORMAT = "NPLM's text model"  # in messages
_NEVER = -100.0  # the score of words that occur in no text, Moses' lowest (moses/TypeDef.h)

_TARGET_SYMBOLS = ("<unk>", "<s>", "</s>", "<null>")  # sources have no <null>
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
    activation: Literal["rectifier", "tanh"]
    input_embeddings: Floats  # (input words, embedding)
    first: NplmLayer  # (hidden, (order - 1) * embedding), the oldest word first
    # (output embedding, hidden); None if the first layer is the input of the output layer.
    second: NplmLayer | None
    output: NplmLayer  # (output words, output embedding)

    @property
    def order(self) -> int:
        """The length of an n-gram: the context words and the predicted word."""
        return 1 + int(self.first.weights.shape[1]) // int(self.input_embeddings.shape[1])


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """A description of the exported network."""

    # Moses' class for the feature, and its name in moses.ini; None without a moses.ini.
    kind: str
    name: str | None
    order: int  # NPLM's order: the number of words that the network reads, plus 1
    input_words: int  # number of words in the shortlists, plus NPLM's symbols such as <unk>


class _MosesFeature(NamedTuple):
    network: NplmNetwork
    kind: str
    arguments: Mapping[str, str]  # without name=, path= and the vocabularies
    vocabularies: Mapping[str, Sequence[str]] = {}  # by the argument that names the file


def export(
    model: StrPath,
    output: StrPath,
    *,
    moses_ini: StrPath | None = None,
    moses_ini_out: StrPath | None = None,
) -> ExportSummary:
    """Write a trained network as a file that Moses' own search loads.

    The format is NPLM's text model, which needs a Moses built with NPLM. Moses scores without log
    Z, as ``unnormalized`` does here. For a joint model, there are two more files,
    ``output.source_vocab`` and ``output.target_vocab``.

    :param model: a model of the kind cslm or joint, trained with ``self_normalization``.
    :param output: ``-`` is stdout, for a cslm.
    :param moses_ini: the moses.ini to extend by a feature that loads the file.
    :param moses_ini_out: the moses.ini to write, in which that feature has weight 0.
    :raises ModelError: also if the format cannot hold the network.
    """
    path = os.fspath(output)
    ini_path, new_ini_path = optional_path(moses_ini), optional_path(moses_ini_out)
    if (ini_path is None) != (new_ini_path is None):
        raise ArgumentError("--moses-ini and --moses-ini-out must be given together")
    if is_gzip_name(path):
        problem = "--output: NPLM cannot read gzip:"
        raise ArgumentError(f"{problem} expected a name without .gz, got {path!r}")
    if path == "-" and ini_path is not None:
        raise ArgumentError("--moses-ini requires an --output that Moses can read, not stdout")
    ini = None if ini_path is None else IniText.read(ini_path)
    checkpoint = load_checkpoint(model)
    kind = checkpoint.config.kind
    if kind not in _FEATURES:
        known = " or ".join(_FEATURES)
        problem = f"{model}: {_FORMAT} supports networks of the kind {known}, not {kind}"
        raise ModelError(problem)
    if checkpoint.target_vocabulary.is_subwords:
        problem = f"{model}: {_FORMAT} supports networks that predict words,"
        raise ModelError(
            f"{problem} but this one predicts subwords; use it in lists or in search of a system"
        )
    try:
        feature = _FEATURES[kind](checkpoint)
    except ModelError as error:
        raise ModelError(f"{model}: {error}") from error
    if path == "-" and feature.vocabularies:
        problem = f"--output: expected a file, not stdout: a {kind} also writes vocabulary files"
        raise ArgumentError(problem)
    vocabularies = {key: f"{path}.{key}" for key in feature.vocabularies}
    named = () if ini is None else map(str, named_files(ini))
    check_files([ini_path, *named], [path, *vocabularies.values(), new_ini_path])
    name = None
    if ini is not None:
        files = {"path": path, **vocabularies}
        arguments = {**feature.arguments, **{key: os.path.abspath(files[key]) for key in files}}
        name = ini.add_feature(feature.kind, checkpoint.config.network.feature, arguments)
    with ExitStack() as stack:
        write_nplm(feature.network, stack.enter_context(open_output(path)))
        for key, words in feature.vocabularies.items():
            lines = "".join(f"{word}\n" for word in words)
            stack.enter_context(open_output(vocabularies[key])).write(lines.encode())
        if ini is not None and new_ini_path is not None:
            ini.write(new_ini_path)
    network = feature.network
    return ExportSummary(feature.kind, name, network.order, len(network.input_words))


def export_system(
    system: StrPath, output: StrPath = "-", *, weights: WeightsSource | None = None
) -> None:
    """Write the moses.ini of a system, with which Moses translates in any working folder.

    It has absolute paths, the limits of the system, and the weights of the search. Networks in the
    search and features of n-best lists, which Moses does not have, are left out with a warning.

    :param system: see `read_system`.
    :param weights: weights that replace the system's own; see `read_weights`.
    :raises ConfigError: if there is a weight other than 0 for a feature that the system lacks.
    """
    path, read = os.fspath(output), read_system(system)
    if weights is not None:
        read = read.with_weights(weights)
    ini, search = read.read_ini(), read.weights.search
    check_files(read.files(), (path,))
    check_weights({**ini.tuneable_weights(), **search}, str(read.weights_path or ini.path))
    for name in ini.set_weights(search):
        if name not in read.search_names and any(search[name]):
            raise read.weight_error(
                f"there is a weight for {name}, a feature that {ini.path} does not have or hold"
            )
    for name, value in read.limits.items():
        number = ALGORITHMS.index(value) if name == "search-algorithm" else value
        ini.set_value(name, str(number).lower())
    ini.rename_files(lambda file: os.path.abspath(ini.resolve(file)))
    ini.write(path)
    lists = [column.argument for column in read.lists]
    for names, where in ((read.search_names, "in the search"), (lists, "of the lists")):
        if names:
            _logger.warning("Moses does not have the features %s: %s", where, ", ".join(names))


def _cslm(checkpoint: Checkpoint) -> _MosesFeature:
    network = checkpoint.model
    assert isinstance(network, CslmNetwork)
    words = _own_words(checkpoint.target_vocabulary, *_TARGET_SYMBOLS)
    check_words(words)
    exported = _convert(network, words, network.embedding, "rectifier")
    return _MosesFeature(exported, "NeuralLM", {"factor": "0", "order": str(exported.order)})


def _joint(checkpoint: Checkpoint) -> _MosesFeature:
    network = checkpoint.model
    assert isinstance(network, JointNetwork)
    words = _own_words(checkpoint.target_vocabulary, *_TARGET_SYMBOLS)
    sources = _own_words(checkpoint.source_vocabulary, *_TARGET_SYMBOLS[:-1])
    for vocabulary in (words, sources):
        check_words(vocabulary, MOSES_BLANKS)
    exported = _convert(network, words, network.target_embedding, "tanh")
    # <s> is the last of the network's source words.
    rows = _floats(network.embedding[len(network.target_embedding) :])
    order = [Vocabulary.UNKNOWN, -1, Vocabulary.END, *range(len(Vocabulary.SYMBOLS), len(rows) - 1)]
    exported = exported._replace(
        input_words=[*words, *sources],
        input_embeddings=np.concatenate([exported.input_embeddings, rows[order]]),
    )
    config = network.config
    arguments = {"order": str(config.order), "source_window": str(config.source_window)}
    vocabularies = {"source_vocab": sources, "target_vocab": words}
    return _MosesFeature(exported, "BilingualNPLM", arguments, vocabularies)


def _own_words(vocabulary: Vocabulary, *own: str) -> list[str]:
    return [*own, *map(vocabulary.word, range(len(Vocabulary.SYMBOLS), len(vocabulary)))]


def _convert(
    network: FeedForwardNetwork,
    words: Sequence[str],
    embedding: Tensor,
    activation: Literal["rectifier", "tanh"],
) -> NplmNetwork:
    """Convert a network to NPLM's format, with the target words as its input words."""
    # ``<s>`` and ``</s>``, which are one word in the network's contexts, are two words in NPLM.
    if not network.config.self_normalization:
        raise ModelError(
            "Moses omits log Z from NPLM's scores, but this network was trained without "
            "self-normalization; train one with --set model.self_normalization=0.1"
        )
    # One more row for <null>, which replaces words that Moses does not know yet when it estimates
    # single phrases, and for words that are never predicted.
    extra = len(embedding)
    embeddings, output = _floats(embedding), _layer(network.output)
    mean = embeddings[len(Vocabulary.SYMBOLS) :].mean(axis=0, keepdims=True)
    shortlist = range(len(Vocabulary.SYMBOLS), extra)
    inputs = [Vocabulary.UNKNOWN, BOUNDARY, Vocabulary.END, extra, *shortlist]
    outputs = [Vocabulary.UNKNOWN, extra, Vocabulary.END, extra, *shortlist]
    return NplmNetwork(
        words,
        words,
        activation,
        np.concatenate([embeddings, mean])[inputs],
        _layer(network.lower),
        None if network.upper is None else _layer(network.upper),
        NplmLayer(
            np.concatenate([output.weights, np.zeros_like(output.weights[:1])])[outputs],
            np.append(output.biases, np.float32(_NEVER))[outputs],
        ),
    )


def _floats(weights: Tensor) -> Floats:
    values: Floats = weights.detach().numpy()
    return values


def _layer(layer: nn.Linear) -> NplmLayer:
    return NplmLayer(_floats(layer.weight), _floats(layer.bias))


# The kinds of networks that the format supports.
_FEATURES: dict[str, Callable[[Checkpoint], _MosesFeature]] = {"cslm": _cslm, "joint": _joint}


def check_words(words: Iterable[str], blanks: str = NPLM_BLANKS) -> None:
    """Check that a vocabulary will be read back unchanged; the reader splits at ``blanks``."""
    seen: set[str] = set()
    for word in words:
        # If two words are equal, NPLM uses the last one, and BilingualNPLM the first.
        if word in seen or set(word) & set(blanks):
            problem = "is one of NPLM's own words" if word in seen else "contains a blank"
            raise ModelError(f"{_FORMAT} cannot hold the shortlist's word {word!r}: it {problem}")
        seen.add(word)


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

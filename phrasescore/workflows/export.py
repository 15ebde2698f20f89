"""Write a trained network as a file that Moses' own search loads."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np
from torch import Tensor, nn

from moses_integration.ini_text import IniText, named_files
from moses_integration.nplm import FORMAT, Floats, NplmLayer, NplmNetwork, check_words, write_nplm
from phrasescore.arguments import ModelFormat, StrPath, check_choice
from phrasescore.errors import ArgumentError, ModelError
from phrasescore.features import NETWORK_NAMES
from phrasescore.io.output import check_files, open_output, optional_path
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.models.cslm import CslmNetwork
from phrasescore.models.feed_forward import BOUNDARY
from phrasescore.vocabulary import Vocabulary
from phrasescore.workflows.annotate import check_moses_ini
from phrasescore.workflows.warnings import returns_warnings

# What NPLM gives words that no text holds; Moses' lowest score (moses/TypeDef.h).
_NEVER = -100.0


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """What was written."""

    # Moses' class of the feature, and its name in moses.ini; None without a moses.ini.
    kind: str
    name: str | None
    order: int
    # Of the shortlist and NPLM's own, such as <unk>.
    input_words: int
    # What Moses takes for the network.
    num_bytes_in_moses: int
    warnings: tuple[str, ...] = ()


class _MosesFeature(NamedTuple):
    """A network, and how a moses.ini declares it."""

    network: NplmNetwork
    kind: str
    # Besides name= and path=.
    arguments: Mapping[str, str]


@returns_warnings
def export(
    model: StrPath,
    output: StrPath,
    *,
    model_format: ModelFormat = "nplm",
    moses_ini: StrPath | None = None,
    moses_ini_out: StrPath | None = None,
) -> ExportSummary:
    """Write a trained network as a file that Moses' own search loads.

    The format is NPLM's text model, for a Moses that is built with NPLM. Moses scores without log
    Z, as ``unnormalized`` does here.

    :param model: of the kind cslm, trained with ``self_normalization``.
    :param moses_ini: gets a feature that loads the file.
    :param moses_ini_out: where it goes with that feature, which has the weight 0.
    :raises ModelError: also if the format cannot hold the network.
    """
    path = os.fspath(output)
    ini_path, new_ini_path = optional_path(moses_ini), optional_path(moses_ini_out)
    check_choice(get_args(ModelFormat), model_format=model_format)
    check_moses_ini(ini_path, new_ini_path)
    if path.endswith(".gz"):
        raise ArgumentError(
            f"`output`: NPLM reads no gzip, so the name must not end in .gz: {path!r}"
        )
    if path == "-" and ini_path is not None:
        raise ArgumentError(
            "`moses_ini` needs an `output` that Moses can read, which stdout is not"
        )
    ini = None if ini_path is None else IniText.read(ini_path)
    named = () if ini is None else map(str, named_files(ini))
    check_files([ini_path, *named], [path, new_ini_path])
    checkpoint = load_checkpoint(model)
    kind = checkpoint.config.kind
    if kind not in _FEATURES:
        known = " or ".join(_FEATURES)
        raise ModelError(f"{model}: {FORMAT} holds networks of the kind {known}, not {kind}")
    try:
        feature = _FEATURES[kind](checkpoint)
        check_words(feature.network)
    except ModelError as error:
        raise ModelError(f"{model}: {error}") from error
    name = None
    if ini is not None:
        arguments = {**feature.arguments, "path": os.path.abspath(path)}
        name = ini.add_feature(feature.kind, NETWORK_NAMES[kind], arguments)
    with open_output(path) as stream:
        write_nplm(feature.network, stream)
        if ini is not None and new_ini_path is not None:
            ini.write(new_ini_path)
    network = feature.network
    return ExportSummary(
        feature.kind, name, network.order, len(network.input_words), network.num_bytes_in_moses
    )


def _cslm(checkpoint: Checkpoint) -> _MosesFeature:
    """Return a language model as Moses' feature NeuralLM has it: one vocabulary for both sides.

    ``<s>`` and ``</s>``, which are one word of the network's contexts, are two of NPLM's.
    """
    network = checkpoint.model
    assert isinstance(network, CslmNetwork)
    assert network.upper is not None
    if not network.config.self_normalization:
        raise ModelError(
            "Moses leaves log Z out of NPLM's scores, and this network was trained without "
            "self-normalization; train one with --set model.self_normalization=0.1"
        )
    vocabulary = checkpoint.target_vocabulary
    shortlist = range(len(Vocabulary.SYMBOLS), len(vocabulary))
    words = ("<unk>", "<s>", "</s>", "<null>", *map(vocabulary.word, shortlist))
    # One more row for <null>, the place of a word that is not known yet in Moses' estimates of
    # phrases on their own, and for what is never predicted.
    extra = len(vocabulary)
    embeddings, output = _floats(network.embedding), _layer(network.output)
    mean = embeddings[len(Vocabulary.SYMBOLS) :].mean(axis=0, keepdims=True)
    inputs = [Vocabulary.UNKNOWN, BOUNDARY, Vocabulary.END, extra, *shortlist]
    outputs = [Vocabulary.UNKNOWN, extra, Vocabulary.END, extra, *shortlist]
    nplm = NplmNetwork(
        words,
        words,
        "rectifier",
        np.concatenate([embeddings, mean])[inputs],
        _layer(network.lower),
        _layer(network.upper),
        NplmLayer(
            np.concatenate([output.weights, np.zeros_like(output.weights[:1])])[outputs],
            np.append(output.biases, np.float32(_NEVER))[outputs],
        ),
    )
    return _MosesFeature(nplm, "NeuralLM", {"factor": "0", "order": str(nplm.order)})


def _floats(weights: Tensor) -> Floats:
    values: Floats = weights.detach().numpy()
    return values


def _layer(layer: nn.Linear) -> NplmLayer:
    return NplmLayer(_floats(layer.weight), _floats(layer.bias))


# The kinds of networks that the format holds.
_FEATURES: dict[str, Callable[[Checkpoint], _MosesFeature]] = {"cslm": _cslm}

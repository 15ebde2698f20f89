"""Save and load trained models: folders with everything that scoring needs, and no code.

===================== ==========================================================================
model.safetensors     the weights
config.toml           every setting of the run
source.vocab          words of the side that the network reads
target.vocab          words of the side that the network predicts
source.spm            the sentencepiece model of a subword vocabulary; target.spm likewise
training.json         format and library version, fingerprints, direction, course of training
===================== ==========================================================================
"""

import errno
import json
import os
import pkgutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from phrasescore.arguments import StrPath
from phrasescore.errors import ModelError
from phrasescore.io.folders import writing_folder
from phrasescore.io.journal import digest_file, digest_text
from phrasescore.io.plain_file import MAX_ARRAYS, MAX_JSON, MAX_WORDS, check_plain, read_plain
from phrasescore.models.layers import PairNetwork
from phrasescore.settings.config import Config
from phrasescore.version import __version__
from phrasescore.vocabulary import Vocabulary, load_vocabulary

FORMAT = 1

FORWARD = "target-given-source"
REVERSE = "source-given-target"
# Suffix for the direction of a model that predicts the last word first.
RIGHT_TO_LEFT = "-right-to-left"
_DIRECTIONS = tuple(side + end for end in ("", RIGHT_TO_LEFT) for side in (FORWARD, REVERSE))

_WEIGHTS, _CONFIG, _RECORD = "model.safetensors", "config.toml", "training.json"
_SOURCE, _TARGET = "source.vocab", "target.vocab"
# The files whose fingerprints are recorded, and descriptions of their content for messages. Only a
# side whose words are split into pieces has a sentencepiece model.
_FINGERPRINTED = {
    _WEIGHTS: "weights",
    _CONFIG: "settings",
    _SOURCE: "vocabulary",
    _TARGET: "vocabulary",
    "source.spm": "sentencepiece model",
    "target.spm": "sentencepiece model",
}


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The state of training at one validation."""

    update: int
    minutes: float  # training time so far, without reading the data
    # Average over the updates since the last point: -log p per predicted word, ``</s>`` included,
    # or the loss per n-best list.
    training_loss: float
    # On the held-out pairs, if there are any: exp(-log p per predicted word).
    validation_perplexity: float | None
    # On the held-out lists, if the network is trained on lists: 0 to 100.
    expected_bleu: float | None = None

    def quality(self) -> str:
        """Return the quality on the held-out data with its name, or ""."""
        if self.expected_bleu is not None:
            return f"expected BLEU {self.expected_bleu:.2f}"
        perplexity = self.validation_perplexity
        return "" if perplexity is None else f"validation perplexity {perplexity:.3f}"


@dataclass(frozen=True, slots=True)
class FineTuning:
    """Describes how a network was fine-tuned on n-best lists."""

    objective: str
    start_fingerprint: str  # of the network before fine-tuning
    lists: int  # number of training lists
    held_out_lists: int
    # The network's feature in the log-linear model, and its weight.
    feature: str
    weight: float
    scale: float  # factor of the log-linear model's scores in the softmax over a list
    likelihood: float  # factor of -log p per predicted word in the loss


@dataclass(frozen=True, slots=True)
class TrainingRecord:
    """Describes a model's training data and course of training. New fields need a default."""

    direction: str = FORWARD  # see `direction_of`
    seed: int = 0
    # blake2b of the uncompressed lines of the phrase table, or of both texts.
    data_fingerprint: str = ""
    training_pairs: int = 0  # number of distinct pairs, without the held-out ones
    validation_pairs: int = 0
    duplicates: int = 0
    too_long: int = 0
    # Share of running words inside each shortlist.
    source_coverage: float = 0.0
    target_coverage: float = 0.0
    updates: int = 0
    epochs: float = 0.0
    minutes: float = 0.0
    # The update after which these weights were saved, and why training ended.
    best_update: int = 0
    stopped_by: str = ""
    device: str = ""
    curve: tuple[CurvePoint, ...] = field(default=(), repr=False)
    # In the record of a fine-tuned network, the numbers of pairs and the coverages describe its
    # first training, and all other fields the last one.
    fine_tuning: FineTuning | None = None

    def summary(self) -> str:
        """Return why training ended, and the quality of the saved weights."""
        best = [
            f"{point.quality()} after update {point.update:,}"
            for point in self.curve
            if point.update == self.best_update and point.quality()
        ]
        if self.fine_tuning is not None and self.curve:
            best.append(f"{self.curve[0].quality()} before")
        ends = {
            "patience": "the held-out quality no longer improved (patience)",
            "minutes": "time limit reached",
            "updates": "limit of updates reached",
            "epochs": "limit of epochs reached",
        }
        return "; ".join([ends.get(self.stopped_by, f"stopped by {self.stopped_by}"), *best])


@dataclass(frozen=True)
class Checkpoint:
    """A trained model: its network, vocabularies, settings and training record.

    The source of a reverse model is the target side of the phrase table; the ``table_*`` properties
    follow the table's sides. The target of a right-to-left model has its last word first.
    """

    model: nn.Module
    config: Config
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    record: TrainingRecord
    # blake2b of everything on which scores depend: weights, vocabularies and direction.
    fingerprint: str = ""
    library_version: str = __version__  # the release that wrote the folder
    folder: str = ""  # absolute path; empty for a model that was built in memory

    @property
    def reverse(self) -> bool:
        """Whether the network predicts the source side of the phrase table."""
        return self.record.direction.startswith(REVERSE)

    @property
    def right_to_left(self) -> bool:
        """Whether the network predicts the last word first."""
        return self.record.direction.endswith(RIGHT_TO_LEFT)

    @property
    def table_source_vocabulary(self) -> Vocabulary:
        """The shortlist of the phrase table's source side."""
        return self.target_vocabulary if self.reverse else self.source_vocabulary

    @property
    def table_target_vocabulary(self) -> Vocabulary:
        """The shortlist of the phrase table's target side."""
        return self.source_vocabulary if self.reverse else self.target_vocabulary

    @property
    def num_parameters(self) -> int:
        """Number of weights."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def load(self) -> "Checkpoint":
        """Return this model, which is loaded already; see :class:`ModelFolder`."""
        return self

    def in_folder(self) -> "ModelFolder":
        """Return the folder, from which a worker on another machine loads the same model."""
        return ModelFolder(self.folder, self.fingerprint)


class ModelFolder(NamedTuple):
    """A model's folder and expected fingerprint, from which a worker loads the model."""

    path: str
    fingerprint: str

    def load(self) -> Checkpoint:
        """Read the model, and check its fingerprint."""
        checkpoint = load_checkpoint(self.path)
        if checkpoint.fingerprint != self.fingerprint:
            raise ModelError(
                f"{self.path}: a worker expected a model with the fingerprint {self.fingerprint}, "
                f"found {checkpoint.fingerprint} instead"
            )
        return checkpoint


def direction_of(*, reverse: bool, right_to_left: bool) -> str:
    """Return a network's `TrainingRecord.direction`, such as ``target-given-source``."""
    return (REVERSE if reverse else FORWARD) + (RIGHT_TO_LEFT if right_to_left else "")


def empty_network(config: Config, source_size: int, target_size: int) -> PairNetwork:
    """Return a network of the configured kind on the meta device, without weight values."""
    network_class = pkgutil.resolve_name(config.network.network)
    # Drawing weights that are then overwritten takes seconds for large recurrent matrices.
    with torch.device("meta"):
        network: PairNetwork = network_class(config.model, source_size, target_size)
    return network


def save_checkpoint(path: StrPath, checkpoint: Checkpoint) -> None:
    """Write a model folder atomically; an older folder at ``path`` is replaced."""
    with writing_folder(path) as folder:
        (folder / _CONFIG).write_text(checkpoint.config.to_toml(), encoding="utf-8")
        save_tensors(folder / _WEIGHTS, checkpoint.model.state_dict())
        # safetensors gives only the owner access; use the permissions that the umask allows.
        (folder / _WEIGHTS).chmod((folder / _CONFIG).stat().st_mode)
        checkpoint.source_vocabulary.save(folder / _SOURCE)
        checkpoint.target_vocabulary.save(folder / _TARGET)
        written = [name for name in _FINGERPRINTED if (folder / name).exists()]
        fingerprints = {name: digest_file(folder / name) for name in written}
        record = {
            "format": FORMAT,
            "phrasescore": __version__,
            "fingerprint": _combined(fingerprints, checkpoint.record.direction),
            "fingerprints": fingerprints,
            "parameters": checkpoint.num_parameters,
            **asdict(checkpoint.record),
        }
        text = json.dumps(record, indent=1, allow_nan=False)
        (folder / _RECORD).write_text(text + "\n", encoding="utf-8")


def load_checkpoint(path: StrPath) -> Checkpoint:
    """Read a model folder, and return its network in evaluation mode."""
    folder = Path(path)
    record, values = read_record(folder)
    fingerprint = _check_fingerprints(folder, record, values)
    config = Config.of_model(folder)
    source, target = load_vocabulary(folder / _SOURCE), load_vocabulary(folder / _TARGET)
    network = empty_network(config, len(source), len(target))
    load_weights(network, folder / _WEIGHTS)
    return Checkpoint(
        model=network.eval(),
        config=config,
        source_vocabulary=source,
        target_vocabulary=target,
        record=record,
        fingerprint=fingerprint,
        library_version=str(values.get("phrasescore", "unknown")),
        folder=os.path.abspath(path),
    )


def read_record(folder: Path) -> tuple[TrainingRecord, dict[str, Any]]:
    """Read ``training.json`` from a model folder, as a record and as a plain dictionary."""
    found = ""
    if not folder.is_dir():
        found = "a file" if folder.exists() else "nothing of this name"
    elif not any((folder / name).exists() for name in (_RECORD, *_FINGERPRINTED)):
        found = "a folder without any file of a model"
    if found:
        raise ModelError(f"{folder}: expected the folder of a trained model, found {found}")
    path = folder / _RECORD
    try:
        values = msgspec.json.decode(read_plain(path, MAX_JSON))
    except FileNotFoundError as error:
        raise ModelError(f"{folder}: not a whole model: {_RECORD} is missing") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(f"{path}: expected JSON: {error}") from error
    if not isinstance(values, dict) or not isinstance(values.get("fingerprints"), dict):
        raise ModelError(f"{path}: expected the record of a model, found other JSON")
    if values.get("format") != FORMAT:
        raise ModelError(
            f"{folder}: the model has format {values.get('format')!r}, written by phrasescore "
            f"{values.get('phrasescore')}; this is phrasescore {__version__}, which "
            f"reads format {FORMAT}"
        )
    try:
        record = msgspec.convert(values, TrainingRecord)
    except msgspec.ValidationError as error:
        raise ModelError(f"{path}: expected the record of a model: {error}") from error
    if record.direction not in _DIRECTIONS:
        known = " or ".join(_DIRECTIONS)
        raise ModelError(f"{path}: direction: expected {known}, got {record.direction!r}")
    return record, values


def _check_fingerprints(folder: Path, record: TrainingRecord, values: Mapping[str, Any]) -> str:
    fingerprints = values["fingerprints"]
    for name, content in _FINGERPRINTED.items():
        # A stray sentencepiece model would split words into pieces: check it, too.
        is_expected = name in fingerprints or not name.endswith(".spm")
        if not is_expected and not os.path.lexists(folder / name):
            continue
        try:
            check_plain(folder / name, MAX_ARRAYS if name == _WEIGHTS else MAX_WORDS)
        except FileNotFoundError as error:
            raise ModelError(f"{folder}: not a whole model: {name} is missing") from error
        expected, actual = fingerprints.get(name), digest_file(folder / name)
        if expected != actual:
            raise ModelError(
                f"{folder / name}: the {content} changed: expected fingerprint {expected}, "
                f"got {actual}"
            )
    expected = values.get("fingerprint")
    combined = _combined(fingerprints, record.direction)
    if expected != combined:
        raise ModelError(
            f"{folder / _RECORD}: the recorded direction does not fit the fingerprint: "
            f"expected {expected}, got {combined}"
        )
    return combined


def _combined(fingerprints: Mapping[str, str], direction: str) -> str:
    scored = [name for name in _FINGERPRINTED if name != _CONFIG]
    parts = [fingerprints[name] for name in scored if name in fingerprints]
    return digest_text(" ".join([*parts, direction]))


# Weights


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as safetensors; raise an OSError on failure."""
    on_cpu = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    try:
        safetensors.torch.save_file(on_cpu, path)
    except safetensors.SafetensorError as error:
        raise OSError(errno.EIO, str(error)) from error


def load_weights(network: nn.Module, path: Path) -> None:
    """Read and check weights for a network from :func:`empty_network`."""
    try:
        weights = safetensors.torch.load_file(path)
    except safetensors.SafetensorError as error:
        raise ModelError(f"{path}: expected safetensors: {error}") from error
    empty = network.state_dict()
    for name in [*empty, *weights]:
        expected, actual = _describe(empty.get(name)), _describe(weights.get(name))
        if actual != expected:
            raise ModelError(
                f"{path}: {name}: expected {expected} from config.toml and the vocabularies, "
                f"got {actual}"
            )
        if not bool(weights[name].isfinite().all()):
            raise ModelError(f"{path}: the weights {name!r} are not all finite numbers")
    network.load_state_dict(weights, assign=True)


def _describe(tensor: Tensor | None) -> str:
    return "no weights" if tensor is None else f"{tensor.dtype} of shape {tuple(tensor.shape)}"

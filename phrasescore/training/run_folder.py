"""The work folder of a training run: who may use it, its state, and how it begins and ends.

============================ ==================================================================
run.json                     the settings, written before the input is read. They make it the
                             folder of an unfinished run, and are removed first at the end
pairs/                       :mod:`phrasescore.training.pair_store`
state-UPDATE/                weights, the optimizer's averages and a `RunState`, from which a
                             killed run continues to the same weights
best-UPDATE.safetensors      the best weights so far
inputs.json                  what a run on n-best lists was begun with; it has no pairs
lock                         held as long as a process is at work
============================ ==================================================================

A state appears whole. Only then are the state before it and its best weights removed.
"""

import os
from pathlib import Path
from typing import Annotated, Any

import msgspec
import safetensors
import safetensors.torch
from torch import nn

from phrasescore.errors import ModelError, PhrasescoreError
from phrasescore.io.folders import (
    LOCK,
    NEW,
    OLD,
    remove_folder,
    writing_folder,
)
from phrasescore.io.plain_file import MAX_ARRAYS, check_plain
from phrasescore.io.state import Number, Seconds, read_state, write_state
from phrasescore.models.checkpoint import CurvePoint
from phrasescore.models.weights import save_tensors
from phrasescore.settings.config import Config
from phrasescore.training.optimizers import Optimizer

_SETTINGS, _PAIRS = "run.json", "pairs"
INPUTS = "inputs.json"
_WEIGHTS, _OPTIMIZER, _STATE = "model.safetensors", "optimizer.safetensors", "state.json"
# Errors of safetensors and torch for weights that cannot be read or are of another network.
_DAMAGED = (OSError, RuntimeError, safetensors.SafetensorError)
# What a run may leave that was killed as it began, before its settings were written.
_BEGINNINGS = {LOCK, _PAIRS, f"{_PAIRS}{NEW}", f"{_SETTINGS}.new", f"{_SETTINGS}.part"}


class RunState(msgspec.Struct, forbid_unknown_fields=True):
    """How far a run is: everything besides the weights that the next update depends on."""

    # Updates made, and the next batch to draw.
    update: Number = 0
    epoch: Number = 0
    batch: Number = 0
    # Processes among which each batch is divided.
    world_size: Number = 1
    # Seconds of training over all resumptions, validations included.
    seconds: Seconds = 0.0
    # Sum and number of losses since the last validation: of predicted words, or of n-best lists.
    loss_sum: float = 0.0
    loss_words: Number = 0
    # Minus the perplexity, or the expected BLEU (0 to 1), of the best weights.
    best_update: Number = 0
    best_quality: float | None = None
    # Validations since the best one.
    stale: Number = 0
    # For n-best lists: how often the learning rate was halved, and the scale of the softmax, which
    # is chosen at the start.
    halvings: Number = 0
    scale: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    curve: list[CurvePoint] = msgspec.field(default_factory=list)


class _Settings(msgspec.Struct):
    """The tables of a `Config`."""

    kind: str
    model: dict[str, Any]
    vocabulary: dict[str, Any]
    training: dict[str, Any]


class RunFolder:
    """The work folder of one run; see the head of this module.

    :param path: made by `held` if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pairs = path / _PAIRS

    @property
    def is_begun(self) -> bool:
        """Whether it is the folder of an unfinished run."""
        return (self.path / _SETTINGS).exists()

    @property
    def has_state(self) -> bool:
        """Whether there is a state to continue from."""
        return bool(self._states())

    def settings(self) -> Config | None:
        """Return the settings of the unfinished run, None if there is no run.

        :raises PhrasescoreError: if the file is damaged, or a setting is wrong.
        """
        path = self.path / _SETTINGS
        stored = read_state(path, _Settings)
        if stored is None:
            return None
        return Config.from_dict(msgspec.structs.asdict(stored), str(path))

    def begin(self, config: Config) -> None:
        """Remove the files of a run without a state, and write the settings of a new run."""
        (self.path / _SETTINGS).unlink(missing_ok=True)
        for path in self.path.iterdir():
            if path.is_dir():
                remove_folder(path)
            elif path.name != LOCK:
                path.unlink()
        self.write_settings(config)

    def write_settings(self, config: Config) -> None:
        """Write the settings, by which the folder is an unfinished run that can be resumed.

        :raises PhrasescoreError: if they cannot be written.
        """
        write_state(self.path / _SETTINGS, _Settings(**config.to_dict()))

    def remove(self) -> None:
        """Remove the folder, its settings first, so that a kill leaves no unfinished run."""
        (self.path / _SETTINGS).unlink(missing_ok=True)
        remove_folder(self.path)

    @property
    def is_foreign(self) -> bool:
        """Whether it holds files that no run has written."""
        return self.path.is_dir() and not {path.name for path in self.path.iterdir()} <= _BEGINNINGS

    @property
    def has_best(self) -> bool:
        """Whether there are best weights."""
        return any(self.path.glob("best-*.safetensors"))

    @property
    def last_update(self) -> int:
        """The update of the newest state, 0 if there is none."""
        return max((int(path.name.removesuffix(OLD)[6:]) for path in self._states()), default=0)

    def save_state(self, state: RunState, network: nn.Module, optimizer: Optimizer) -> None:
        """Write a state, and remove older files.

        :raises PhrasescoreError: if it cannot be written; the state before it is kept.
        """
        written = self.path / f"state-{state.update:09d}"
        with writing_folder(written) as folder:
            save_tensors(folder / _WEIGHTS, network.state_dict())
            save_tensors(folder / _OPTIMIZER, optimizer.state())
            write_state(folder / _STATE, state)
        for path in self.path.glob("state-*"):
            if path != written:
                remove_folder(path)
        for path in self.path.glob("best-*.safetensors*"):
            if path != self._best(state.best_update):
                path.unlink()

    def load_state(self, network: nn.Module, optimizer: Optimizer) -> RunState:
        """Set network and optimizer to the newest state, and return it, or the state of a new run.

        :raises PhrasescoreError: if the state is not of this network, or damaged.
        """
        states = self._states()
        if not states:
            return RunState()
        folder = states[-1]
        state = read_state(folder / _STATE, RunState)
        if state is None:
            raise ModelError(f"{folder}: cannot go on from this state: {_STATE} is missing")
        _load_weights(network, folder / _WEIGHTS)
        try:
            check_plain(folder / _OPTIMIZER, MAX_ARRAYS)
            optimizer.load_state(safetensors.torch.load_file(folder / _OPTIMIZER))
        except (*_DAMAGED, ModelError, ArithmeticError, LookupError, ValueError) as error:
            raise ModelError(f"{folder}: cannot go on from this state: {error}") from error
        return state

    def save_best(self, update: int, network: nn.Module) -> None:
        """Write the best weights, whole or not at all.

        :raises PhrasescoreError: if they cannot be written.
        """
        path = self._best(update)
        part = path.with_suffix(".safetensors.part")
        try:
            save_tensors(part, network.state_dict())
            with part.open("rb") as file:
                os.fsync(file.fileno())
            part.replace(path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise PhrasescoreError(f"{path}: cannot write: {error.strerror}") from error

    def load_best(self, update: int, network: nn.Module) -> None:
        """Set the network to the best weights, which are those after ``update``.

        :raises ModelError: if they are not there.
        """
        _load_weights(network, self._best(update))

    def _best(self, update: int) -> Path:
        return self.path / f"best-{update:09d}.safetensors"

    def _states(self) -> list[Path]:
        """Return the complete states, oldest first.

        A state that is replaced has another name for a moment, which a kill may leave
        (:func:`phrasescore.io.folders.writing_folder`).
        """
        states = []
        for path in self.path.glob("state-*"):
            name = path.name.removesuffix(OLD)
            if name[6:].isdigit() and (path.name == name or not path.with_name(name).exists()):
                states.append(path)
        return sorted(states)


def _load_weights(network: nn.Module, path: Path) -> None:
    try:
        check_plain(path, MAX_ARRAYS)
        network.load_state_dict(safetensors.torch.load_file(path))
    except _DAMAGED as error:
        raise ModelError(f"{path}: cannot be read: {error}") from error

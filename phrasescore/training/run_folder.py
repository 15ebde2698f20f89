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

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import safetensors
import safetensors.torch
from torch import nn

from phrasescore.config.config import Config, check_resumable
from phrasescore.errors import ModelError, PhrasescoreError
from phrasescore.io.folders import (
    LOCK,
    NEW,
    OLD,
    check_folder_above,
    locked,
    names_beside,
    remove_folder,
    writing_folder,
)
from phrasescore.io.plain_file import MAX_ARRAYS, check_plain
from phrasescore.io.state import Number, Seconds, read_state, write_state
from phrasescore.models.checkpoint import Checkpoint, CurvePoint, load_checkpoint
from phrasescore.models.weights import save_tensors
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

    @contextlib.contextmanager
    def held(
        self,
        model: Path,
        inputs: Sequence[str],
        config: Config,
        *,
        resume: bool,
        has_made: Callable[[Checkpoint], bool],
    ) -> Iterator[None]:
        """Make the folder if needed, and keep other processes out of it.

        Refuses to overwrite a model or an unfinished run, and to mix two runs. A run that was
        stopped before its first state has only its pairs to lose: it may be resumed or started
        from the beginning.

        :param model: the folder that the run will write.
        :param inputs: paths of the input files, which may not be in the folder.
        :param resume: whether to continue an unfinished run if there is one.
        :param has_made: whether the unfinished run has made a model.
        :raises PhrasescoreError: naming the folder or file that is in the way.
        """

        def check() -> None:
            self._check(model, config, resume=resume, has_made=has_made)

        check()
        for name in inputs:
            if name != "-" and _real(name).is_relative_to(_real(self.path)):
                raise PhrasescoreError(
                    f"{name}: in {self.path}, which is removed at the end; choose another "
                    "--work-dir"
                )
        with locked(self.path):
            # Again, because another process may have ended its run here before we had the lock.
            check()
            yield

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

    def _check(
        self,
        model: Path,
        config: Config,
        *,
        resume: bool,
        has_made: Callable[[Checkpoint], bool],
    ) -> None:
        self._check_apart(model)
        check_folder_above(model)
        model_is_there = os.path.lexists(_real(model))
        stored = self.settings()
        if stored is not None and self.has_state:
            if not resume:
                raise PhrasescoreError(
                    f"{self.path}: an unfinished run; go on with it by --resume, or remove the "
                    "folder"
                )
            check_resumable(stored, config)
            if model_is_there and not self._has_made(model, config, has_made):
                raise PhrasescoreError(
                    f"{model}: there is something already that the run in {self.path} has not "
                    "made; move it away or choose another --output"
                )
            return
        if model_is_there:
            no_run = (
                f", and {self.path} holds no run to go on with (after its end, a run can be "
                "trained on only if it was started with --keep-work)"
            )
            raise PhrasescoreError(
                f"{model}: there is something already{no_run if resume and stored is None else ''}"
                "; remove it or choose another --output"
            )
        if stored is None:
            if self.path.is_dir() and {path.name for path in self.path.iterdir()} - _BEGINNINGS:
                # The folder is removed at the end.
                raise PhrasescoreError(
                    f"{self.path}: expected a folder for this run alone; remove what is in it"
                )
        elif any(self.path.glob("best-*.safetensors")):
            # Somebody removed the states. Starting over would lose the training silently.
            raise PhrasescoreError(
                f"{self.path}: the state of the run is missing; remove the folder to start anew"
            )
        elif resume:
            check_resumable(stored, config)

    def _check_apart(self, model: Path) -> None:
        """Refuse folders of which one is or holds the other: both are removed or replaced."""
        inside = _real(self.path)
        for taken in (_real(model), *names_beside(_real(model))):
            if inside.is_relative_to(taken) or taken.is_relative_to(inside):
                raise PhrasescoreError(
                    f"{self.path}: the work folder is removed at the end, and must neither be nor "
                    f"hold nor be in the model's folder {model}; choose another --work-dir"
                )

    def _has_made(
        self, model: Path, config: Config, has_made: Callable[[Checkpoint], bool]
    ) -> bool:
        """Return whether a folder is a model that this run has made, and may replace."""
        try:
            made = load_checkpoint(model)
            check_resumable(made.config, config)
        except PhrasescoreError:
            return False
        last_update = int(self._states()[-1].name.removesuffix(OLD)[6:])
        return made.record.updates <= last_update and has_made(made)


def _real(path: str | os.PathLike[str]) -> Path:
    return Path(os.path.realpath(path))


def _load_weights(network: nn.Module, path: Path) -> None:
    try:
        check_plain(path, MAX_ARRAYS)
        network.load_state_dict(safetensors.torch.load_file(path))
    except _DAMAGED as error:
        raise ModelError(f"{path}: cannot be read: {error}") from error

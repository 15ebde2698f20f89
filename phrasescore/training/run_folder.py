"""The work folder of a training run: its journal and weights, its creation and removal.

============================ ==================================================================
run.json                     the journal: settings, inputs and a `RunState`. It is written before
                             the input is read, and removed first at the end
pairs/                       :mod:`phrasescore.training.stores`
state-UPDATE.safetensors     weights and the optimizer's averages of the journal's state, from
                             which a killed run continues to the same weights
best-UPDATE.safetensors      the best weights so far
lock                         held as long as a process is at work
============================ ==================================================================

Weights are on the disk before the journal names them, and older weights are removed afterwards.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import safetensors
import safetensors.torch
from torch import Tensor, nn

from phrasescore.errors import ModelError
from phrasescore.io.folders import LOCK, NEW, remove_folder
from phrasescore.io.journal import Number, Seconds, check_settings, read_journal, write_journal
from phrasescore.io.output import PART, writing
from phrasescore.io.plain_file import MAX_ARRAYS, check_plain
from phrasescore.models.checkpoint import CurvePoint, save_tensors
from phrasescore.settings.config import Config
from phrasescore.training.optimizers import TorchOptimizer

_JOURNAL, _PAIRS = "run.json", "pairs"
# Files that remain if a run is killed before its journal is written.
_BEGINNINGS = {LOCK, _PAIRS, f"{_PAIRS}{NEW}", f"{_JOURNAL}{PART}"}
_START_OVER = "remove the folder to start over"
# Prefixes for the names of weights and of the optimizer's averages.
_NETWORK, _OPTIMIZER, _RECENT = "network/", "optimizer/", "recent/"

# The weights of a network by name.
Weights = dict[str, Tensor]


class RunState(msgspec.Struct, forbid_unknown_fields=True):
    """The state of a run: everything on which the next update depends, except the weights."""

    # Number of updates so far, and the position of the next batch.
    update: Number = 0
    epoch: Number = 0
    batch: Number = 0
    # Number of processes that share each batch.
    world_size: Number = 1
    # Seconds of training over all resumptions, validations included.
    seconds: Seconds = 0.0
    # Sum and number of losses (per predicted word, or per n-best list) since the last validation.
    loss_sum: float = 0.0
    loss_words: Number = 0
    # The update with the best weights, and their quality: minus the perplexity, or the expected
    # BLEU (0 to 1).
    best_update: Number = 0
    best_quality: float | None = None
    # Number of validations since the best one.
    stale: Number = 0
    # For n-best lists: the softmax scale that was chosen at the start.
    scale: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    curve: list[CurvePoint] = msgspec.field(default_factory=list)


class RunJournal(msgspec.Struct):
    """The content of ``run.json``."""

    settings: dict[str, Any]  # the tables of a `Config`
    # The inputs of a run that stores no pairs, by name; files are recorded as digests.
    inputs: dict[str, str] | None = None
    state: RunState | None = None  # the saved state; None at first


class RunFolder:
    """The work folder of one run; see the module's docstring."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pairs = path / _PAIRS

    def _read(self) -> RunJournal:
        return read_journal(self.path / _JOURNAL, RunJournal, _START_OVER) or RunJournal({})

    def _change(self, **fields: Any) -> None:
        write_journal(self.path / _JOURNAL, msgspec.structs.replace(self._read(), **fields))

    @property
    def is_begun(self) -> bool:
        """Whether the folder belongs to an unfinished run."""
        return (self.path / _JOURNAL).exists()

    @property
    def state(self) -> RunState | None:
        """The saved state, or None if the run has no state yet."""
        return self._read().state

    @property
    def inputs(self) -> dict[str, str] | None:
        """The recorded inputs, or None if the run stores its pairs."""
        return self._read().inputs

    def settings(self) -> Config | None:
        """Return the settings of the unfinished run, or None if there is no such run."""
        if not self.is_begun:
            return None
        return Config.from_dict(self._read().settings, str(self.path / _JOURNAL))

    def begin(self, config: Config) -> None:
        """Begin a new run: remove all old files except the lock, and write the settings."""
        (self.path / _JOURNAL).unlink(missing_ok=True)
        for path in self.path.iterdir():
            if path.is_dir():
                remove_folder(path)
            elif path.name != LOCK:
                path.unlink()
        write_journal(self.path / _JOURNAL, RunJournal(config.to_dict()))

    def write_settings(self, config: Config) -> None:
        """Replace the settings of a run; a resumed run may have different limits."""
        self._change(settings=config.to_dict())

    def set_inputs(self, inputs: Mapping[str, str]) -> None:
        """Record the inputs of a run, after checking that a resumed run has the same inputs."""
        if self.inputs is not None or self.state is not None:
            other = "choose another --output"
            check_settings(self.inputs or {}, inputs, f"{self.path}: the run", other)
        self._change(inputs=dict(inputs))

    def remove(self) -> None:
        """Remove the folder, the journal first, so that no unfinished run remains after a kill."""
        (self.path / _JOURNAL).unlink(missing_ok=True)
        remove_folder(self.path)

    @property
    def is_foreign(self) -> bool:
        """Whether the folder holds files that no run has written."""
        return self.path.is_dir() and not {path.name for path in self.path.iterdir()} <= _BEGINNINGS

    def save_state(
        self,
        state: RunState,
        network: nn.Module,
        optimizer: TorchOptimizer,
        recent: Sequence[Weights],
    ) -> None:
        """Write a state, and then remove older states.

        :param recent: the weights at the latest validations, the oldest first.
        """
        tensors = {f"{_NETWORK}{name}": value for name, value in network.state_dict().items()}
        tensors |= {f"{_OPTIMIZER}{name}": value for name, value in optimizer.state().items()}
        for number, weights in enumerate(recent):
            tensors |= {f"{_RECENT}{number}/{name}": value for name, value in weights.items()}
        path = self._path("state", state.update)
        _save(path, tensors)
        self._change(state=state)
        kept = {path, self._path("best", state.best_update)}
        for old in (*self.path.glob("state-*"), *self.path.glob("best-*")):
            if old not in kept:
                old.unlink()

    def load_state(
        self, network: nn.Module, optimizer: TorchOptimizer
    ) -> tuple[RunState, list[Weights]]:
        """Restore the network and the optimizer; return the saved state and the recent weights.

        Without a saved state, return the state of a new run.

        :raises PhrasescoreError: if the state is damaged or belongs to another network.
        """
        state = self.state
        if state is None:
            return RunState(), []
        path = self._path("state", state.update)
        tensors = _load(path)
        try:
            network.load_state_dict(_named(tensors, _NETWORK))
            optimizer.load_state(_named(tensors, _OPTIMIZER))
        except (ModelError, ArithmeticError, LookupError, RuntimeError, ValueError) as error:
            raise _damaged(path, error) from error
        recent: list[Weights] = []
        own = network.state_dict().items()
        while weights := _named(tensors, f"{_RECENT}{len(recent)}/"):
            try:
                recent.append({name: weights[name].to(each).view_as(each) for name, each in own})
            except (LookupError, RuntimeError) as error:
                raise _damaged(path, error) from error
        return state, recent

    def save_best(self, update: int, network: nn.Module) -> None:
        """Write the best weights so far, from the given update."""
        _save(self._path("best", update), network.state_dict())

    def load_best(self, update: int, network: nn.Module) -> None:
        """Restore the best weights, from the given update."""
        path = self._path("best", update)
        try:
            network.load_state_dict(_load(path))
        except RuntimeError as error:
            raise _damaged(path, error) from error

    def _path(self, kind: str, update: int) -> Path:
        return self.path / f"{kind}-{update:09d}.safetensors"


def _named(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def _save(path: Path, tensors: Mapping[str, Tensor]) -> None:
    part = path.with_suffix(f"{path.suffix}.part")
    with writing(path):
        try:
            save_tensors(part, tensors)
            with part.open("rb") as file:
                os.fsync(file.fileno())
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise


def _load(path: Path) -> dict[str, Tensor]:
    try:
        check_plain(path, MAX_ARRAYS)
        return safetensors.torch.load_file(path)
    except (OSError, RuntimeError, safetensors.SafetensorError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> ModelError:
    return ModelError(f"{path}: cannot continue from this state: {error}; {_START_OVER}")

"""The state of a training run on disk, from which it goes on to the same weights after a kill.

In the run's work folder are ``state-UPDATE/`` with the weights, what the optimizer remembers and
the numbers of :class:`RunState`, and ``best-UPDATE.safetensors``, the best weights so far. A state
appears whole; the one before it, and the best weights that it names, are removed only then.
"""

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path

import safetensors
import safetensors.torch
from torch import nn

from phrasescore.errors import ModelError, PhrasescoreError
from phrasescore.io.folders import OLD, remove_folder, writing_folder
from phrasescore.models.checkpoint import CurvePoint, save_tensors
from phrasescore.training.optimizers import Optimizer

FORMAT = 1

_WEIGHTS, _OPTIMIZER, _NUMBERS = "model.safetensors", "optimizer.safetensors", "state.json"


@dataclass
class RunState:
    """How far a run is. Everything that the next update depends on, weights apart."""

    # Updates made, and the next batch to draw.
    update: int = 0
    epoch: int = 0
    batch: int = 0
    # Seconds of training over all resumptions, validations included.
    seconds: float = 0.0
    # -log p and predicted words with </s> since the last validation.
    loss_sum: float = 0.0
    loss_words: int = 0
    best_update: int = 0
    best_perplexity: float | None = None
    # Validations since the best one.
    stale: int = 0
    curve: list[CurvePoint] = dataclasses.field(default_factory=list)


def save_state(work: Path, state: RunState, network: nn.Module, optimizer: Optimizer) -> None:
    """Write a state, and remove what it makes superfluous.

    :raises PhrasescoreError: if it cannot be written; the state before it is kept.
    """
    with writing_folder(_state_path(work, state.update)) as folder:
        save_tensors(folder / _WEIGHTS, network.state_dict())
        save_tensors(folder / _OPTIMIZER, optimizer.state())
        values = {"format": FORMAT, **dataclasses.asdict(state)}
        numbers = json.dumps(values, indent=1, allow_nan=False)
        (folder / _NUMBERS).write_text(numbers + "\n", encoding="utf-8")
    for path in work.glob("state-*"):
        if path != _state_path(work, state.update):
            remove_folder(path)
    for path in work.glob("best-*.safetensors*"):
        if path != best_path(work, state.best_update):
            path.unlink()


def load_state(work: Path, network: nn.Module, optimizer: Optimizer) -> RunState:
    """Set network and optimizer to the newest state and return its numbers; a new run has none.

    :raises ModelError: if the state is not of this network, or not what was written.
    """
    states = _states(work)
    if not states:
        return RunState()
    folder = states[-1]
    try:
        values = json.loads((folder / _NUMBERS).read_text(encoding="utf-8"))
        if values.pop("format") != FORMAT:
            raise ModelError(f"{folder}: the state is of another release of phrasescore")
        values["curve"] = [CurvePoint(**point) for point in values["curve"]]
        state = RunState(**values)
        network.load_state_dict(safetensors.torch.load_file(folder / _WEIGHTS))
        optimizer.load_state(safetensors.torch.load_file(folder / _OPTIMIZER))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        raise ModelError(f"{folder}: cannot go on from this state: {error}") from error
    except safetensors.SafetensorError as error:
        raise ModelError(f"{folder}: expected safetensors: {error}") from error
    return state


def has_state(work: Path) -> bool:
    """Return whether there is a state to go on from."""
    return bool(_states(work))


def last_update(work: Path) -> int:
    """Return the update of the state to go on from, 0 where there is none."""
    return max((int(path.name.removesuffix(OLD)[6:]) for path in _states(work)), default=0)


def has_best(work: Path) -> bool:
    """Return whether there are best weights of some update."""
    return any(work.glob("best-*.safetensors"))


def best_path(work: Path, update: int) -> Path:
    """Return where the best weights are, if they are those after ``update``."""
    return work / f"best-{update:09d}.safetensors"


def save_best(work: Path, update: int, network: nn.Module) -> None:
    """Write the weights as the best ones, whole or not at all."""
    path = best_path(work, update)
    part = path.with_suffix(".safetensors.part")
    try:
        save_tensors(part, network.state_dict())
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise PhrasescoreError(f"{path}: cannot write: {error.strerror}") from error


def load_best(work: Path, update: int, network: nn.Module) -> None:
    """Set the network to the best weights.

    :raises ModelError: if they are not there.
    """
    path = best_path(work, update)
    try:
        network.load_state_dict(safetensors.torch.load_file(path))
    except (OSError, safetensors.SafetensorError, RuntimeError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from error


def _states(work: Path) -> list[Path]:
    """Return the whole states, oldest first.

    A state that is written again has another name for an instant; a kill then leaves it so
    (:func:`phrasescore.io.folders.writing_folder`).
    """
    found = []
    for path in work.glob("state-*"):
        name = path.name.removesuffix(OLD)
        if name[6:].isdigit() and (path.name == name or not path.with_name(name).exists()):
            found.append(path)
    return sorted(found)


def _state_path(work: Path, update: int) -> Path:
    return work / f"state-{update:09d}"

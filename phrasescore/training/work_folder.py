"""The work folder of a training run: what it is called, who may use it, how it begins and ends.

It has the pairs (``pairs/``), the settings (``run.json``), the states
(:mod:`phrasescore.training.run_state`) and a lock. ``run.json`` is what makes it the folder of an
unfinished run: it is written before the pairs are read, and goes first when the run is over.
"""

import json
import os
from pathlib import Path
from typing import Any

from phrasescore.config.config import Config, check_resumable
from phrasescore.errors import ModelError, PhrasescoreError
from phrasescore.io.folders import LOCK, NEW, check_folder_above, names_beside, remove_folder
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.training.pair_store import PairStore
from phrasescore.training.run_state import has_best, has_state, last_update

PAIRS = "pairs"
_SETTINGS = "run.json"
# What a run that was killed as it began, or as it was begun anew, leaves without settings.
_BEGINNINGS = {LOCK, PAIRS, f"{PAIRS}{NEW}", f"{_SETTINGS}.part"}


def default_work(model: Path) -> Path:
    """Return the work folder of a model folder: beside it, with ``.work`` at the end."""
    return model.with_name(f"{model.name}.work")


def stored_config(work: Path) -> Config | None:
    """Return the settings of the unfinished run in a work folder, None if there is none.

    :raises PhrasescoreError: if they are not what was written.
    """
    path = work / _SETTINGS
    try:
        values: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ModelError(f"{path}: expected the settings of a run: {error}") from error
    if not isinstance(values, dict):
        raise ModelError(f"{path}: expected the settings of a run, got something else")
    return Config.from_dict(values, str(path))


def is_begun(work: Path) -> bool:
    """Return whether a work folder is that of an unfinished run."""
    return (work / _SETTINGS).exists()


def write_settings(work: Path, config: Config) -> None:
    """Make a work folder that of an unfinished run, which can be resumed.

    :raises PhrasescoreError: if the disk does not take it.
    """
    part = work / f"{_SETTINGS}.part"
    try:
        text = json.dumps(config.to_dict(), indent=1, allow_nan=False)
        part.write_text(text + "\n", encoding="utf-8")
        part.replace(work / _SETTINGS)
    except OSError as error:
        raise PhrasescoreError(f"{work}: cannot write: {error.strerror}") from error


def check_folders(model: Path, work: Path, config: Config, *, resume: bool) -> None:
    """Refuse to overwrite a model or an unfinished run, and to mix two runs.

    A run that was stopped before its first state has nothing to lose but its pairs: it may be
    resumed or begun anew.

    :param resume: whether to go on with an unfinished run where there is one.
    :raises PhrasescoreError: naming the folder that is in the way.
    """
    _check_apart(model, work)
    check_folder_above(model)
    is_there = os.path.lexists(os.path.realpath(model))
    stored = stored_config(work)
    if stored is not None and has_state(work):
        if not resume:
            raise PhrasescoreError(
                f"{work}: an unfinished run; go on with it by --resume, or remove the folder"
            )
        check_resumable(stored, config)
        if is_there and not _is_of_this_run(model, work, config):
            raise PhrasescoreError(
                f"{model}: there is something already that the run in {work} has not made; move "
                "it away or choose another --output"
            )
        return
    if is_there:
        no_run = (
            f", and {work} holds no run to go on with (after its end, one can be trained on only "
            "if it was started with --keep-work)"
        )
        raise PhrasescoreError(
            f"{model}: there is something already{no_run if resume and stored is None else ''}; "
            "remove it or choose another --output"
        )
    if stored is None:
        if work.is_dir() and {path.name for path in work.iterdir()} - _BEGINNINGS:
            # It will be removed in the end.
            raise PhrasescoreError(
                f"{work}: expected a folder for this run alone; remove what is in it"
            )
        return
    if has_best(work):
        # Each state was removed by somebody: what was trained so far would be lost unnoticed.
        raise PhrasescoreError(
            f"{work}: the state of the run is missing; remove the folder to start anew"
        )
    if resume:
        check_resumable(stored, config)


def _is_of_this_run(model: Path, work: Path, config: Config) -> bool:
    """Return whether a folder is a model that the run in ``work`` has made, and may replace."""
    store = PairStore(work / PAIRS)
    try:
        made = load_checkpoint(model)
        check_resumable(made.config, config)
    except PhrasescoreError:
        return False
    if made.record.updates > last_update(work):
        return False
    return (
        made.record.data_fingerprint == store.record.fingerprint
        and made.reverse == store.record.reverse
        and made.source_vocabulary == store.source_vocabulary
        and made.target_vocabulary == store.target_vocabulary
    )


def check_inputs_stay(inputs: tuple[str, ...], work: Path) -> None:
    """Refuse inputs in the work folder, which is emptied.

    :raises PhrasescoreError: naming the one.
    """
    for name in inputs:
        if name != "-" and Path(os.path.realpath(name)).is_relative_to(os.path.realpath(work)):
            raise PhrasescoreError(
                f"{name}: in {work}, which is removed at the end; choose another --work-dir"
            )


def _check_apart(model: Path, work: Path) -> None:
    """Refuse folders of which one is, or is in, the other: both are removed or replaced whole."""
    made = Path(os.path.realpath(model))
    inside = Path(os.path.realpath(work))
    for taken in (made, *names_beside(made)):
        if inside.is_relative_to(taken) or taken.is_relative_to(inside):
            raise PhrasescoreError(
                f"{work}: the work folder is removed at the end, and must neither be nor hold nor "
                f"be in the model's folder {model}; choose another --work-dir"
            )


def clear_work(work: Path) -> None:
    """Remove what a run without a state has left in its folder, but for the lock."""
    (work / _SETTINGS).unlink(missing_ok=True)
    for path in work.iterdir():
        if path.is_dir():
            remove_folder(path)
        elif path.name != LOCK:
            path.unlink()


def remove_work(work: Path) -> None:
    """Remove a work folder. A kill on the way leaves one that nobody takes for an unfinished run.

    Without the first step a kill could leave the settings and no state, and ``--resume`` would
    train from the beginning.
    """
    (work / _SETTINGS).unlink(missing_ok=True)
    remove_folder(work)

"""The state of the tuning loop in its working folder, so that a stopped run goes on.

``tune.json`` has what the run is about and each round with its weights; it is written before the
first round, and replaced as a whole after each. The lists are beside it, ``run1.nbest`` and so on:
a list has its name only when it is complete. At the end the best weights are in ``moses.ini``.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from phrasescore.cli.tune_pool import by_label, by_name
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.output import open_output
from phrasescore.io.text import open_input
from tuning.loop import Decided, LoopResult, NamedWeights

STATE, INI, CACHE = "tune.json", "moses.ini", "scores.cache"
_ROUND = re.compile(
    r"(run[1-9][0-9]*|trial)\.(nbest|nbest\.part|rescored\.gz|weights|out|log|source)"
)
_FORMAT = 1


def check_folder(work: Path, named: Iterable[str]) -> None:
    """Check that in a folder a run writes and removes nothing but what an earlier one has left.

    :param named: the files that it reads, and those that it writes elsewhere.
    :raises PhrasescoreError: if one of them, or something else, has a name that the run needs.
    """
    folder = os.path.realpath(work)
    for name in named:
        above, base = os.path.split(os.path.realpath(name))
        if above == folder and _is_of_a_run(base):
            raise PhrasescoreError(
                f"{name}: this name in {work} is needed for the run itself; name another file, or "
                "another --working-dir"
            )
    if (work / STATE).exists() or not work.is_dir():
        return
    theirs = sorted(filter(_is_of_a_run, os.listdir(work)))
    if theirs:
        raise PhrasescoreError(
            f"{work / theirs[0]}: this name is needed for the run, and is not of an earlier one "
            f"(there is no {STATE}); name another --working-dir"
        )


def _is_of_a_run(name: str) -> bool:
    return name in (STATE, INI) or name.startswith(CACHE) or _ROUND.fullmatch(name) is not None


def read_state(work: Path, about: Mapping[str, Any], *, resume: bool) -> list[Decided] | None:
    """Return what a run has decided after each of its rounds but the last; None without a state.

    A run that has decoded nothing is begun anew.

    :param about: what a run must have in common with the one that is resumed.
    :raises PhrasescoreError: if there is a run and it is not to be resumed, or it is another one.
    """
    path = work / STATE
    if not path.exists():
        return None
    found, num_rounds, decided = _parse_state(path)
    if not num_rounds and not (work / "run1.nbest").exists():
        remove_rounds(work)
        return None
    if not resume:
        problem = "there is a run here already: --resume goes on with it"
        raise PhrasescoreError(f"{work}: {problem}, or name another --working-dir")
    for key, value in about.items():
        if found.get(key) != value:
            problem = f"this run was begun with another {key}: {found.get(key)!r}, not {value!r}"
            raise PhrasescoreError(f"{work}: {problem}; use the same, or another --working-dir")
    return decided


def _parse_state(path: Path) -> tuple[dict[str, Any], int, list[Decided]]:
    """Return what a run is about, how many rounds it has, and what it has decided after them."""
    with open_input(str(path)) as stream:
        content = stream.read()
    try:
        state = json.loads(content)
        found = dict(state["about"])
        rounds = state["rounds"]
        following = [*rounds[1:], *([] if state["next"] is None else [{"weights": state["next"]}])]
        decided = [
            # Version 0.1 had one set of weights.
            Decided(
                _from_json(done.get("lists", done["weights"])),
                _from_json(after["weights"]),
                None if done["found_score"] is None else float(done["found_score"]),
            )
            for done, after in zip(rounds, following, strict=False)
        ]
        if state["format"] != _FORMAT:
            raise ValueError(f"format {state['format']}")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        problem = f"expected the state of a run of this version, found another thing: {error!r}"
        raise DataError(str(path), None, problem) from error
    return found, len(rounds), decided


def write_state(work: Path, about: Mapping[str, Any], result: LoopResult) -> None:
    """Write the state after a round, whole or not at all."""
    rounds = [
        {
            "score": done.score,
            "hypotheses": done.hypotheses,
            "new": done.new,
            "pool_score": done.pool_score,
            "found_score": done.found_score,
            "weights": _to_json(done.weights.search),
            "lists": _to_json(done.weights.lists),
        }
        for done in result.rounds
    ]
    following = None if result.next_weights is None else _to_json(result.next_weights)
    state = {
        "format": _FORMAT,
        "about": dict(about),
        "rounds": rounds,
        "next": following,
        "reason": result.reason,
    }
    with open_output(str(work / STATE)) as stream:
        stream.write((json.dumps(state, indent=1, ensure_ascii=False) + "\n").encode())


def remove_rounds(work: Path, beginning: str = "") -> None:
    """Remove the files of rounds and trials, and nothing else, whose names begin so."""
    for name in os.listdir(work):
        if _ROUND.fullmatch(name) and name.startswith(beginning):
            os.unlink(work / name)


def _to_json(weights: NamedWeights) -> dict[str, list[float]]:
    return {name: list(values) for name, values in by_name(weights).items()}


def _from_json(weights: dict[str, list[float]]) -> NamedWeights:
    return by_label({name: tuple(map(float, values)) for name, values in weights.items()})

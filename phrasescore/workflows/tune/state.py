"""The working folder of the tuning loop, and the state in it that lets a stopped run go on.

``tune.json`` has all that the run depends on, and each round with its weights; it is written before
the first round, and replaced as a whole after each. The lists are beside it, ``run1.nbest`` and so
on: a list has its name only when it is complete. At the end the best weights are in ``moses.ini``.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from phrasescore.errors import PhrasescoreError
from phrasescore.io.journal import check_settings, read_journal, write_journal
from phrasescore.records import Weights
from phrasescore.workflows.search_settings import SearchSettings
from tuning.loop import Decided, LoopResult

STATE, INI, CACHE = "tune.json", "moses.ini", "scores.cache"
_ROUND = re.compile(
    r"(run[1-9][0-9]*|trial)\.(nbest|nbest\.part|rescored\.gz|weights|out|log|source)"
)


class _RoundState(msgspec.Struct):
    """A round that is done; scores are from 0 to 1, as in `tuning.loop.Round`."""

    score: float
    hypotheses: int
    new: int
    pool_score: float
    found_score: float | None
    # The weights it was decoded with, and those that its lists are reranked with.
    weights: Weights
    list_weights: Weights


class _LoopState(msgspec.Struct):
    about: dict[str, Any]
    rounds: list[_RoundState]
    # The weights to decode with next; None where the loop has ended.
    next: Weights | None
    reason: str = ""


def check_folder(work: Path, named: Iterable[str]) -> None:
    """Check that in a folder a run writes and removes nothing but an earlier run's files.

    :param named: the files that it reads, and those that it writes elsewhere.
    :raises PhrasescoreError: if one of them, or another file, has a name that the run needs.
    """
    folder = os.path.realpath(work)
    for name in named:
        above, base = os.path.split(os.path.realpath(name))
        if above == folder and _is_of_a_run(base):
            raise PhrasescoreError(
                f"{name}: this name in {work} is needed for the run itself; name another file, or "
                "another working folder"
            )
    if (work / STATE).exists() or not work.is_dir():
        return
    theirs = sorted(filter(_is_of_a_run, os.listdir(work)))
    if theirs:
        raise PhrasescoreError(
            f"{work / theirs[0]}: this name is needed for the run, and is not of an earlier one "
            f"(there is no {STATE}); name another working folder"
        )


def _is_of_a_run(name: str) -> bool:
    return name.startswith((STATE, CACHE)) or name == INI or _ROUND.fullmatch(name) is not None


def read_decisions(work: Path, about: Mapping[str, Any], *, resume: bool) -> list[Decided] | None:
    """Return the decisions of a run after each of its rounds but the last; None without a state.

    A run that has decoded nothing is begun anew.

    :param about: all that a run must have in common with the one that is resumed.
    :raises PhrasescoreError: if there is a run and it is not to be resumed, or it is another one.
    """
    state = read_journal(work / STATE, _LoopState)
    if state is None:
        return None
    if not state.rounds and not (work / "run1.nbest").exists():
        remove_rounds(work)
        return None
    if not resume:
        problem = "there is a run here already: --resume goes on with it"
        raise PhrasescoreError(f"{work}: {problem}, or name another working folder")
    # As they come out of a file: lists for tuples.
    now = msgspec.json.decode(msgspec.json.encode(about))
    check_settings(state.about, now, str(work), "name another working folder")
    following = [*(each.weights for each in state.rounds[1:]), state.next]
    return [
        Decided(done.list_weights, after, done.found_score)
        for done, after in zip(state.rounds, following, strict=False)
        if after is not None
    ]


def about_search(search: SearchSettings) -> dict[str, Any] | None:
    """Return the settings of a search that change its translations, where they are not the usual.

    :return: as they come out of a state; None if all are the usual ones.
    """
    usual = SearchSettings()
    found = {
        name: value
        for name, value in msgspec.json.decode(msgspec.json.encode(search)).items()
        if getattr(search, name) != getattr(usual, name)
        and name not in ("processes", "threads", "buffer_size")
    }
    return found or None


def write_rounds(work: Path, about: Mapping[str, Any], result: LoopResult) -> None:
    """Write the state after a round, whole or not at all."""
    rounds = [
        _RoundState(
            *(done.score, done.hypotheses, done.new, done.pool_score, done.found_score),
            *done.weights,
        )
        for done in result.rounds
    ]
    write_journal(work / STATE, _LoopState(dict(about), rounds, result.next_weights, result.reason))


def remove_rounds(work: Path, beginning: str = "") -> None:
    """Remove the files of rounds and trials, and nothing else, whose names begin so."""
    for name in os.listdir(work):
        if _ROUND.fullmatch(name) and name.startswith(beginning):
            os.unlink(work / name)

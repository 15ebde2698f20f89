"""Signals at random moments: the same bytes when the command goes on, and nothing else."""

import os
import random
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.faults.starter import Started, starter
from tests.faults.works import Work

# Seconds that no command goes without progress, on top of what it takes by itself.
PATIENCE = 60
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class TooLateError(Exception):
    """The command ended before the signal came."""


class Undisturbed(NamedTuple):
    """What a command does when it is left alone."""

    seconds: float
    outputs: dict[str, bytes]
    names: set[str]


def start(work: Work, folder: Path, more: str = "") -> Started:
    with (folder / "log").open("ab") as log:
        return starter().start(shlex.split(work.command + more), folder, log.fileno())


def run_undisturbed(work: Work, folder: Path) -> Undisturbed:
    begin = time.monotonic()
    process = start(work, folder)
    assert process.wait(600) == 0, (folder / "log").read_text()
    seconds = time.monotonic() - begin
    outputs = {name: work.read(folder / name) for name in work.outputs}
    return Undisturbed(seconds, outputs, _names(folder))


def disturb(work: Work, folder: Path, wanted: Undisturbed, numbers: random.Random) -> str | None:
    """Send a command a signal at a random moment, twice if need be; return what went wrong."""
    said: list[str] = []
    resume = ""
    pristine = _names(folder)
    for _ in range(numbers.choice([1, 1, 2])):
        sent = numbers.choice(SIGNALS)
        wait = numbers.uniform(0.1, 1.0) * wanted.seconds
        process = start(work, folder, resume)
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            to_all = sent == signal.SIGINT or numbers.random() < 0.5  # Ctrl-C goes to all
            (os.killpg if to_all else os.kill)(process.pid, sent)
        else:
            if not said:
                raise TooLateError
        said.append(f"{signal.Signals(sent).name} after {wait:.2f} s")
        try:
            status = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"{said}: it goes on for a minute"
        if not _wait_for_end(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
            return f"{said}: processes that it started go on for a minute"
        # A Ray whose processes got the signal, too, may end the command itself, with 1.
        of_ray = (1,) if "--engine ray" in work.command else ()
        if status not in (0, -sent, 128 + sent, *of_ray):
            return f"{said}: exit {status}: {_tail(folder)}"
        for name, data in wanted.outputs.items() if not work.grows else ():
            if (folder / name).exists() and work.read(folder / name) != data:
                return f"{said}: {name} is there, and has other bytes"
        # The signal came as it ended, and nothing is left to go on with; at most a folder that is
        # about to be removed.
        left = _names(folder) ^ wanted.names
        is_made = all((folder / name).exists() for name in work.outputs)
        if status and is_made and all(name.startswith("out.work") for name in left):
            return None
        if status == 0:
            break
        # It begins again, with what it began with: the same bytes.
        if not work.resume and _names(folder) == pristine:
            return None
        resume = work.resume
    if status != 0:
        process = start(work, folder, resume)
        try:
            status = process.wait(3 * wanted.seconds + PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"{said}: it does not come to an end when it goes on"
        if status:
            return f"{said}: exit {status} when it goes on: {_tail(folder)}"
    for name, data in wanted.outputs.items():
        if work.read(folder / name) != data:
            return f"{said}: other bytes in {name}"
    if left := _names(folder) ^ wanted.names:
        return f"{said}: other files: {sorted(left)[:5]}"
    return None


def kills(work: Work, pristine: Path, folder: Path, count: int, seed: int) -> Iterator[str | None]:
    """Disturb a command so many times, each in a new copy of a folder."""
    calm = folder / "calm"
    shutil.copytree(pristine, calm, symlinks=True)
    wanted = run_undisturbed(work, calm)
    copy = folder / "disturbed"
    for number in range(count):
        while True:
            shutil.copytree(pristine, copy, symlinks=True)
            try:
                result = disturb(work, copy, wanted, random.Random(f"{work.name}:{seed + number}"))
                break
            except TooLateError:  # the machine has become faster
                wanted = wanted._replace(seconds=0.7 * wanted.seconds)
            finally:
                shutil.rmtree(copy)
        yield result
    shutil.rmtree(calm)


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.name != "log"}


def _tail(folder: Path) -> str:
    return (folder / "log").read_text(errors="replace")[-600:]


def _living(session: int) -> bool:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                return True
    return False


def _wait_for_end(session: int) -> bool:
    end = time.monotonic() + 2 * PATIENCE  # Ray's agents look for it once a minute
    while _living(session):
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True

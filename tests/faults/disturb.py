"""Signals at random moments and disks that get full: the same bytes when a command goes on.

After a signal nothing else is left; a full disk gives one line of error and leaves the old output.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.faults.cases import LONG, SHORT, Case, start

# Seconds that no command goes without progress, on top of what it takes by itself. If a
# signal ends Ray's own processes, the command waits for them for a minute.
PATIENCE = 90
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
# What differs between two runs: states tell the time, and caches are kept in any order.
_TOLD = ("cache", "loop/", "made/", "out.work/", "out/training.json")
# What a run may leave to go on from.
_TO_GO_ON = (".part", ".part.json", "cache", "loop", "made", "out.work")
# A disk has whole pages: outputs of fewer than these are on a large one, and files are limited.
_LEAST_PAGES, _PAGE = 20, 4096
_DATE = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d UTC")


class TooLateError(Exception):
    """The command ended before the signal came."""


class Undisturbed(NamedTuple):
    """What a command does when it is left alone."""

    seconds: float
    outputs: dict[str, bytes]
    names: set[str]


def kill_often(
    case: Case, pristine: Path, folder: Path, count: int, seed: int
) -> Iterator[tuple[str, str | None]]:
    """Send signals to ``count`` runs; for each, yield the signals, and what is wrong or None."""
    copy = folder / "run"  # always the same one: an output may have paths
    _copy(pristine, copy)
    begin = time.monotonic()
    process = _start(case, copy)
    assert process.wait(600) == 0, (copy / "log").read_text()
    wanted = Undisturbed(time.monotonic() - begin, _files(copy / "out"), _names(copy))
    for number in range(count):
        while True:
            _copy(pristine, copy)
            try:
                numbers = random.Random(f"{case.command}:{seed + number}")
                result = _disturb(case, copy, wanted, numbers)
                break
            except TooLateError:  # the machine has become faster
                wanted = wanted._replace(seconds=0.7 * wanted.seconds)
        yield f"kill {number}", result
    shutil.rmtree(copy)


def _copy(pristine: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(pristine, folder, symlinks=True)
    (folder / "out").mkdir()


def _start(case: Case, folder: Path, more: str = "") -> "subprocess.Popen[bytes]":
    with (folder / "log").open("ab") as log:
        return start(case.command.format(**LONG) + more, folder, log)


def _disturb(case: Case, folder: Path, wanted: Undisturbed, numbers: random.Random) -> str | None:
    """Send a command a signal at a random moment, twice if need be; return what went wrong."""
    said: list[str] = []
    resume = ""
    pristine = _names(folder)
    for _ in range(numbers.choice([1, 1, 2])):
        sent = numbers.choice(SIGNALS)
        wait = numbers.uniform(0.3, 1.0) * wanted.seconds  # the first part imports
        process = _start(case, folder, resume)
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
            return f"{said}: it goes on for {PATIENCE} s"
        if not _wait_for_end(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
            return f"{said}: processes that it started go on"
        # A Ray whose processes got the signal, too, may end the command itself, with 1.
        of_ray = (1,) if "--engine ray" in case.command else ()
        if status not in (0, -sent, 128 + sent, *of_ray):
            return f"{said}: exit {status}: {_tail(folder)}"
        for name, data in _files(folder / "out").items() if not case.grows else ():
            if not name.startswith(_TOLD) and wanted.outputs.get(name, data) != data:
                return f"{said}: {name} is there, and has other bytes"
        # The signal came as it ended, and nothing is left to go on with; at most a folder that is
        # about to be removed.
        left = _names(folder) ^ wanted.names
        if status and all(name.startswith("out/out.work") for name in left):
            return None
        if status == 0:
            break
        # It begins again, with what it began with: the same bytes.
        if not case.resume and _names(folder) == pristine:
            return None
        resume = " --resume" * case.resume
    if status != 0:
        process = _start(case, folder, resume)
        try:
            status = process.wait(3 * wanted.seconds + PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"{said}: it does not come to an end when it goes on"
        if status:
            return f"{said}: exit {status} when it goes on: {_tail(folder)}"
    if problem := _difference(_files(folder / "out"), wanted.outputs):
        return f"{said}: {problem}"
    if left := _names(folder) ^ wanted.names:
        return f"{said}: other files: {sorted(left)[:5]}"
    return None


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


def fill_disks(
    case: Case, pristine: Path, folder: Path, steps: int
) -> Iterator[tuple[str, str | None]]:
    """Run a command on disks of sizes from 0 to what it needs; yield sizes and what is wrong."""
    command = case.command.format(**SHORT)
    _copy(pristine, folder)
    disk = folder / "out"
    status, stderr = _run(command, folder)
    if status:
        yield "enough", f"exit {status}: {stderr[-300:]!r}"
        return
    wanted = _files(disk)
    sizes = [len(data) for data in wanted.values()]
    is_little = sum(sizes) < _LEAST_PAGES * _PAGE
    needed = max(sizes) if is_little else sum(sizes)
    for step in range(steps):
        shutil.rmtree(disk)
        disk.mkdir()
        size = needed * step // steps
        with contextlib.nullcontext(size) if is_little or not size else _small(disk, size) as limit:
            if step % 2 and "out.gz" in wanted:
                (disk / "out.gz").write_bytes(b"old")
            problem = _fill(command, folder, limit, wanted, resume=case.resume)
            yield f"{size:,} of {needed:,} bytes", problem
    shutil.rmtree(folder)


def _fill(
    command: str, folder: Path, limit: int | None, wanted: dict[str, bytes], *, resume: bool
) -> str | None:
    before = _files(folder / "out")
    try:
        status, stderr = _run(command, folder, limit)
    except subprocess.TimeoutExpired:
        return "it hangs"
    found = _files(folder / "out")
    if status == 0:
        return _difference(found, wanted)
    errors = stderr.splitlines()
    if status != 1 or not errors or not errors[-1].startswith("Error: "):
        return f"exit {status}: {errors[-3:]}"
    for path, data in found.items():
        if before.get(path, data) != data:
            return f"the old {path} is another"
        if path not in before and wanted.get(path) != data and not _is_to_go_on(path):
            return f"exit 1, and {path} is there, of {len(data):,} bytes: {errors[-1]}"
    if lost := before.keys() - found.keys():
        return f"lost: {lost}"
    if limit is None:
        _call("mount", "-o", "remount,size=1g", folder / "out")
    if found == before and not resume:
        return None  # it begins again, with what it began with
    goes_on = " --resume" * (resume and any(map(_is_to_go_on, found)))
    status, stderr = _run(command + goes_on, folder)
    if status:
        return f"then, with room: exit {status}: {stderr[-300:]!r}"
    return _difference(_files(folder / "out"), wanted)


def _is_to_go_on(path: str) -> bool:
    return path.endswith(_TO_GO_ON[:2]) or path.startswith(_TO_GO_ON[2:])


def _difference(found: dict[str, bytes], wanted: dict[str, bytes]) -> str | None:
    names = [
        name for name in {*found, *wanted} if not name.startswith(_TOLD) or name == "made/table.txt"
    ]
    others = [name for name in names if found.get(name) != wanted.get(name)]
    return f"other bytes: {sorted(others)}" if others else None


@contextlib.contextmanager
def _small(disk: Path, size: int) -> Iterator[int | None]:
    """Make a folder a disk of that size, a page at least; or yield a limit of a file's size."""
    try:
        _call("mount", "-t", "tmpfs", "-o", f"size={max(size, _PAGE)}", "tmpfs", disk)
    except (OSError, subprocess.CalledProcessError):
        yield size
        return
    try:
        yield None
    finally:
        _call("umount", disk)


def _call(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _run(command: str, folder: Path, limit: int | None = None) -> tuple[int, str]:
    process = start(command, folder, subprocess.PIPE, limit)
    try:
        _, stderr = process.communicate(timeout=3 * PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return process.returncode, stderr.decode(errors="replace")


def _files(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files, without the date of a report."""
    return {
        str(path.relative_to(folder)): _DATE.sub(b"", path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }

"""What else goes wrong: readers that leave, two at once, read-only folders, too little memory."""

import gzip
import os
import resource
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from tests.benchmarks.commands import PHRASESCORE
from tests.faults.disturb import PATIENCE

_ANNOTATE = "annotate small.gz --model rnn --threads 1 --engine here"
_RESCORE = "rescore lists.gz --source dev.en --model rnnsearch --threads 1 --engine here"
_TRAIN = "train lstm dev.en dev.fr --updates 20 --threads 1 --device cpu"
_MEBI = 1 << 20


def check_all(folder: Path) -> Iterator[tuple[str, str | None]]:
    """Try everything in a folder; yield what was tried, and what went wrong."""
    for command in (f"{_ANNOTATE} -o -", f"{_RESCORE} -o -", "rerank lists.gz --weights moses.ini"):
        yield f"a reader that leaves {command.split()[0]}", _leave(command, folder)
        yield f"a full stdout of {command.split()[0]}", _fill_stdout(command, folder)
    yield "a full stdout of show", _fill_stdout("show rnn", folder)
    for name, command, outputs in (
        ("annotate to one output", f"{_ANNOTATE} -o", ("two.gz", "two.gz")),
        ("rescore with one cache", f"{_RESCORE} --cache cache2 -o", ("lists1.gz", "lists2.gz")),
        ("train in one work folder", f"{_TRAIN} -o", ("two", "two")),
    ):
        yield f"two at once: {name}", _twice(command, outputs, folder)
    yield "a folder that is read-only", _read_only(folder)
    for name, damage in _BOMBS.items():
        damage(folder / "bomb.gz")
        for command in (
            "annotate bomb.gz --model rnn -o bomb.out --threads 1 --engine here",
            "rescore bomb.gz --source dev.en --model rnnsearch -o bomb.out --engine here",
            "tune --lists bomb.gz --references dev.fr --weights weights -o bomb.out",
        ):
            yield f"{command.split()[0]} of {name}", _with_little_memory(command, folder)
    (folder / "bomb.gz").unlink()


def _start(
    command: str,
    folder: Path,
    limit: Callable[[], None] | None = None,
    stdout: int | BinaryIO = subprocess.PIPE,
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*PHRASESCORE, *shlex.split(command)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        preexec_fn=limit,
    )


def _end(
    process: "subprocess.Popen[bytes]", seconds: float = 2 * PATIENCE
) -> tuple[int, list[str]]:
    try:
        _, stderr = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return -1, ["it hangs"]
    return process.returncode, stderr.decode(errors="replace").splitlines()


def _leave(command: str, folder: Path) -> str | None:
    process = _start(command, folder)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    status, lines = _end(process)
    said = [line for line in lines if "Error" in line or "Traceback" in line]
    return None if status in (0, 141) and not said else f"exit {status}: {lines[-3:]}"


def _fill_stdout(command: str, folder: Path) -> str | None:
    with open("/dev/full", "wb") as full:
        status, lines = _end(_start(command, folder, stdout=full))
    is_refused = status == 1 and lines[-1].startswith("Error: ")
    return None if is_refused else f"exit {status}: {lines[-3:]}"


def _twice(command: str, outputs: tuple[str, str], folder: Path) -> str | None:
    """One of two may be refused where both write one output; what is there in the end is whole."""
    status, lines = _end(_start(f"{command} alone.gz", folder))
    if status:
        return f"alone: exit {status}: {lines[-3:]}"
    path = folder / "alone.gz"
    whole = _whole(path)
    (shutil.rmtree if path.is_dir() else os.unlink)(path)
    (folder / "cache2").unlink(missing_ok=True)
    both = [_start(f"{command} {output}", folder) for output in outputs]
    ends = [_end(process) for process in both]
    if sum(status == 0 for status, _ in ends) < len(set(outputs)):
        return f"not all came to an end: {ends}"
    for status, lines in ends:
        if status not in (0, 1) or (status == 1 and not lines[-1].startswith("Error: ")):
            return f"exit {status}: {lines[-3:]}"
    is_same = all(_whole(folder / output) == whole for output in outputs)
    return None if is_same else "other bytes than alone"


def _whole(output: Path) -> bytes:
    """Return the bytes of an output, or of the model in it."""
    return (output / "model.safetensors" if output.is_dir() else output).read_bytes()


def _read_only(folder: Path) -> str | None:
    """Root writes to any folder but to /proc, where nobody makes files."""
    locked = folder / "locked"
    locked.mkdir(exist_ok=True)
    locked.chmod(0o555)
    where = Path("/proc") if os.geteuid() == 0 else locked
    for command in (
        f"{_ANNOTATE} -o",
        f"{_RESCORE} -o",
        f"{_TRAIN} -o",
        "experiment experiment.toml -o",
    ):
        status, lines = _end(_start(f"{command} {where}/out.gz", folder))
        if status != 1 or not lines[-1].startswith("Error: "):
            return f"{command.split()[0]}: exit {status}: {lines[-3:]}"
    return None


def _with_little_memory(command: str, folder: Path) -> str | None:
    """A line of error within a minute, without the memory that the file would have."""
    begin = time.monotonic()
    limit = 6144 * _MEBI
    status, lines = _end(
        _start(command, folder, lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    )
    if status != 1 or not lines[-1].startswith("Error: ") or (folder / "bomb.out").exists():
        return f"exit {status}: {[line[:300] for line in lines[-3:]]}"
    seconds = time.monotonic() - begin
    return f"{seconds:.0f} seconds" if seconds > PATIENCE else None


def _write_one_line(path: Path) -> None:
    """A line of 4 GB, 4 MB compressed."""
    member = gzip.compress(b"a" * (64 * _MEBI), 9)
    with path.open("wb") as file:
        for _ in range(64):
            file.write(member)


def _write_one_word_a_line(path: Path) -> None:
    member = gzip.compress(b"||| " * (16 * _MEBI), 9)
    with path.open("wb") as file:
        file.write(gzip.compress(b"0 ||| a ||| LM0= 1 ||| 1 "))
        for _ in range(64):
            file.write(member)


_BOMBS = {"a line of 4 GB": _write_one_line, "a billion fields": _write_one_word_a_line}

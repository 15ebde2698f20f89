"""``python -m tests.faults.load``: a table and lists much larger than those of the shipped example.

The real lines of a table are repeated, with other source phrases in each copy, and so are those of
lists, with other numbers; or they make one list of many hypotheses, and a few hypotheses of many
words, which should take time in proportion. Speed is in lines per second of the processor: the
clock of a machine that others use, too, says little. Memory is what is in use, looked at ten times
a second.
"""

import argparse
import functools
import gzip
import hashlib
import itertools
import json
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.conftest import REPOSITORY
from tests.faults.works import EXAMPLE, PHRASESCORE

_REAL = REPOSITORY.parent / "shared" / "data"
_PARTS = 10
_KILLED_AT = 0.75
# Hypotheses of many words, and the seconds of the processor after which a command is ended.
_LONG_HYPOTHESES, _ENOUGH = 10, 3600
_SMALLEST = "--updates 1 --set model.hidden_size=8 --set model.embedding_size=8 --threads 1"


class Point(NamedTuple):
    """Where a run stands: the lines that its journal has, its seconds of processor, its memory."""

    lines: int
    seconds: float
    num_bytes: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=20_000_000, help="of the table")
    parser.add_argument("--hypotheses", type=int, default=5_000_000, help="of the lists")
    parser.add_argument("--longest", type=int, default=100_000, help="hypotheses of a list, words")
    parser.add_argument("--only", choices=("table", "lists", "long"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.only in (None, "table"):
            _load_table(folder, options.lines)
        if options.only in (None, "lists"):
            _load_lists(folder, options.hypotheses)
        if options.only in (None, "long"):
            _load_long(folder, options.longest)


def _load_table(folder: Path, size: int) -> None:
    real = next(path / "phrase-table.gz" for path in (_REAL, EXAMPLE) if path.is_dir())
    _write(folder / "table.gz", itertools.islice(_renamed(real), size))
    _run(f"train encoder-decoder {EXAMPLE}/phrase-table.gz -o rnn {_SMALLEST}", folder)
    command = "annotate table.gz --model rnn --threads 1 --engine here -o"
    _report(_run(f"{command} whole.gz", folder), "annotate", size)
    _run(f"{command} killed.gz", folder, lambda point: point.lines >= _KILLED_AT * size)
    begin = time.monotonic()
    _run(f"{command} killed.gz --resume", folder)
    same = _digest(folder / "killed.gz") == _digest(folder / "whole.gz")
    print(f"killed at {_KILLED_AT:.0%}, resumed in {time.monotonic() - begin:.0f} s: ", end="")
    print("the same bytes" if same else "OTHER BYTES", flush=True)


def _report(points: list[Point], command: str, size: int) -> None:
    """Print the speed and the memory of each tenth, and what comes after the last line."""
    parts = _parts(points, size)
    print(f"{command}, {size:,} lines, in tenths: lines per second of the processor, memory")
    for part in parts:
        print(f"    {part.lines / part.seconds:10,.0f} {part.num_bytes / 1e6:8,.0f} MB")
    speeds = [part.lines / part.seconds for part in parts]
    print(f"    fastest / slowest {max(speeds) / min(speeds):.3f}")
    after = [point for point in points if point.lines == points[-1].lines]
    peak = max(point.num_bytes for point in after)
    print(f"    then {after[-1].seconds - after[0].seconds:,.0f} s, {peak / 1e6:,.0f} MB;", end="")
    print(f" in all {points[-1].seconds:,.0f} s", flush=True)


def _real_lists(folder: Path) -> tuple[Path, list[Path]]:
    """Write weights and a small cslm; return the real lists, and their source and references."""
    names = ("val.1000best.gz", "val.en", "val.fr", "moses.tuned.ini")
    paths = [_REAL / name for name in names]
    if not _REAL.is_dir():
        paths = [EXAMPLE / name for name in ("dev.20best.gz", "dev.en", "dev.fr", "moses.ini")]
    lists, *texts, ini = paths
    weights = ini.read_text().partition("[weight]")[2].split("\n")
    kept = [line for line in weights if "=" in line and not line.startswith("Unknown")]
    (folder / "weights").write_text("\n".join([*kept, "CSLM0= 0.1", ""]))
    _run(f"train cslm {EXAMPLE}/train.fr.gz -o cslm {_SMALLEST}", folder)
    return lists, texts


def _load_lists(folder: Path, size: int) -> None:
    lists, texts = _real_lists(folder)
    sentences = _write(folder / "lists.gz", itertools.islice(_renumbered(lists, texts[0]), size))
    for text, name in zip(texts, ("source", "references"), strict=True):
        lines = itertools.cycle(text.read_bytes().splitlines(keepends=True))
        _write(folder / name, itertools.islice(lines, sentences + 1))
    for command in (
        "rescore lists.gz --source source --model cslm --threads 1 --engine here -o rescored.gz",
        "rerank rescored.gz --weights weights -o out",
        *(
            f"tune rescored.gz --references references --weights weights --method {method} "
            "--starts 2 --threads 1 -o out"
            for method in ("mert", "mira", "xbleu")
        ),
    ):
        points = _run(command, folder, reads=(folder / command.split()[1], size))
        _report(points, command.partition(" -o")[0], size)


def _load_long(folder: Path, size: int) -> None:
    """Print what commands take with a list of so many hypotheses, and hypotheses of so many words.

    A tenth of them is beside it: the ratio is below 10 where time is in proportion.
    """
    lists, texts = _real_lists(folder)
    train = f"{EXAMPLE}/train.en.gz {EXAMPLE}/train.fr.gz"
    _run(f"train lstm {train} -o lstm {_SMALLEST}", folder)
    for text, name in zip(texts, ("source", "references"), strict=True):
        (folder / name).write_bytes(text.read_bytes().partition(b"\n")[0] + b"\n")
    rescore = "rescore lists.{0} --source source --threads 1 --engine here"
    tune = "tune rescored.{0} --references references --weights weights --starts 2 --threads 1"
    counts = size // 10, size
    for what in ("hypotheses", "words"):
        for count in counts:
            lines = _in_one_list(lists) if what == "hypotheses" else _joined(lists, count)
            number = count if what == "hypotheses" else _LONG_HYPOTHESES
            _write(folder / f"lists.{count}", itertools.islice(lines, number))
        for command in (
            f"{rescore} --model lstm -o out",
            f"{rescore} --model cslm -o rescored.{{0}}",
            "rerank rescored.{0} --weights weights -o out",
            f"{tune} --method mert -o out",
            f"{tune} --method mira -o out",
            "evaluate references --references references --nbest rescored.{0} -o out",
        ):
            few, many = (
                _run(command.format(count), folder, lambda now: now.seconds > _ENOUGH)[-1].seconds
                for count in counts
            )
            print(f"{command.partition(' -o')[0].format(what)}, {counts[0]:,} and {size:,}", end="")
            print(f" in {few:,.1f} and {many:,.1f} s, {many / few:.1f} times", flush=True)


def _in_one_list(path: Path) -> Iterator[bytes]:
    while True:
        with gzip.open(path) as file:
            yield from (b"0 " + line.partition(b" ")[2] for line in file)


def _joined(path: Path, size: int) -> Iterator[bytes]:
    fields = (line.split(b" ||| ") for line in _in_one_list(path))
    while True:
        words: list[bytes] = []
        while len(words) < size:
            number, text, *rest = next(fields)
            words += text.split()
        yield b" ||| ".join([number, b" ".join(words[:size]), *rest])


def _renamed(path: Path) -> Iterator[bytes]:
    for copy in itertools.count():
        with gzip.open(path) as file:
            for line in file:
                source, _, rest = line.partition(b" ||| ")
                yield b"%b~%d ||| %b" % (source, copy, rest) if copy else line


def _renumbered(path: Path, text: Path) -> Iterator[bytes]:
    sentences = text.read_bytes().count(b"\n")
    for copy in itertools.count():
        with gzip.open(path) as file:
            for line in file:
                number, _, rest = line.partition(b" ")
                yield b"%d %b" % (int(number) + copy * sentences, rest)


def _write(path: Path, lines: Iterator[bytes]) -> int:
    """Write lines; return the number that the last one begins with, if it does."""
    with gzip.open(path, "wb", 1) if path.suffix == ".gz" else path.open("wb") as file:
        last = b""
        for block in iter(lambda: list(itertools.islice(lines, 10_000)), []):
            file.write(b"".join(block))
            last = block[-1]
    first = last.split(b" ", 1)[0]
    return int(first) if first.isdigit() else 0


def _run(
    command: str,
    folder: Path,
    is_enough: Callable[[Point], bool] = lambda _: False,
    reads: tuple[Path, int] | None = None,
) -> list[Point]:
    """Run a command, or kill it where it is enough; return where it stood.

    :param reads: the file whose lines are counted as it is read, and their number; otherwise the
        lines of the output's journal are.
    """
    points = [Point(0, 0.0, 0)]
    journal = folder / f"{command.split(' -o ')[1].split()[0]}.part.json"
    count: Callable[[int], int]
    count = functools.partial(_lines_read, *reads) if reads else lambda _: _lines_done(journal)
    with (folder / "log").open("wb") as log:
        arguments = [*PHRASESCORE, *shlex.split(command)]
        process = subprocess.Popen(arguments, cwd=folder, stdout=log, stderr=log)
        while process.poll() is None:
            time.sleep(0.1)
            points.append(_look(process.pid, count, points[-1]))
            if is_enough(points[-1]):
                process.kill()
                process.wait()
                return points
    if process.returncode:
        raise SystemExit((folder / "log").read_text())
    return points


def _look(number: int, count: Callable[[int], int], before: Point) -> Point:
    try:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        pages = int(Path(f"/proc/{number}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return before
    try:
        lines = max(count(number), before.lines)
    except (OSError, ValueError):
        lines = before.lines
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return Point(lines, seconds, pages * os.sysconf("SC_PAGE_SIZE"))


def _lines_done(journal: Path) -> int:
    return int(json.loads(journal.read_bytes())["lines"])


def _lines_read(path: Path, size: int, number: int) -> int:
    """Return how many lines of a file a process has read, by its share of the file's bytes."""
    for entry in Path(f"/proc/{number}/fd").iterdir():
        if os.readlink(entry) == str(path):
            position = Path(f"/proc/{number}/fdinfo/{entry.name}").read_text().split()[1]
            return size * int(position) // path.stat().st_size
    return 0


def _parts(points: list[Point], size: int) -> list[Point]:
    """Return the lines, seconds and largest memory of each tenth, without the first hundredth.

    That has the start: loading, and compiling where there is no cache.
    """
    entries = [
        next(group) for _, group in itertools.groupby(points, key=lambda point: point.lines)
    ][1:]
    found = []
    begin = next(entry for entry in entries if entry.lines >= size // 100)
    for part in range(1, _PARTS + 1):
        inside = [entry for entry in entries if entry.lines <= part * size // _PARTS]
        end = inside[-1]
        lines, seconds = end.lines - begin.lines, end.seconds - begin.seconds
        peak = max(p.num_bytes for p in points if begin.lines <= p.lines <= end.lines)
        found.append(Point(lines, seconds, peak))
        begin = end
    return found


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


if __name__ == "__main__":
    main()

"""Disks that get full: one line of error and the old output, or all bytes."""

import contextlib
import gzip
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.faults.starter import starter

_ANNOTATE = "annotate small.gz --model rnn --threads 1 --engine here"
_RESCORE = "rescore lists.gz --source dev.en --model attention --threads 1 --engine here"
_TUNE = (
    "tune --decoder embedded --decoder-flags '--stack 3 --processes 1' --config small.ini "
    "--source dev.en --references dev.fr --method xbleu --iterations 2 --nbest-size 20 --threads 1 "
    "--working-dir disk/loop --translations disk/best -o disk/out"
)
# Commands that write into the folder "disk", and what makes them go on.
WRITERS = {
    "annotate": (f"{_ANNOTATE} -o disk/out.gz", "--resume"),
    "annotate plain": (
        f"{_ANNOTATE} -o disk/out --moses-ini small.ini --moses-ini-out disk/moses.ini",
        "--resume",
    ),
    "rescore": (f"{_RESCORE} --cache disk/cache -o disk/out.gz", "--resume"),
    "rescore words": (f"{_RESCORE} --word-scores disk/words -o disk/out.gz", ""),
    "score": (
        "score dev.en dev.fr --model attention --threads 1 --cache disk/cache -o disk/out.gz",
        "",
    ),
    "score words": (
        "score dev.en dev.fr --model attention --word-scores disk/words -o disk/out.gz",
        "",
    ),
    "rescore command": (
        "rescore lists.gz --source dev.en --command 'sed -u s/.*/1/' -o disk/out.gz",
        "--resume",
    ),
    "rescore processes": (
        (
            "rescore lists.gz --source dev.en --model attention --engine processes --workers 2 "
            "--cache disk/cache -o disk/out.gz"
        ),
        "--resume",
    ),
    "rerank": ("rerank lists.gz --average LM0 --nbest -o disk/out.gz", ""),
    "combine": ("combine lists.gz lists.gz -o disk/out.gz", ""),
    "decode": (
        (
            "decode dev.en --config small.ini --stack 3 --workers 1 -o disk/out "
            "--nbest disk/lists.gz 50"
        ),
        "",
    ),
    "generate": ("generate attention dev.en --nbest disk/lists.gz 5 -o disk/out --threads 1", ""),
    "segment": (
        (
            "segment test.en --model rnn --reverse-model rnn.reverse -o disk/out "
            "--segments disk/segments.json --threads 1"
        ),
        "",
    ),
    "generate --sample": ("generate attention dev.en --sample 5 -o disk/out --threads 1", ""),
    "translate": (
        (
            "translate system.toml test.en --workers 1 --confidence -o disk/out "
            "--nbest disk/lists.gz 9 --explain disk/json"
        ),
        "",
    ),
    "build": ("build train.en train.fr -o disk/out --workers 2", "--resume"),
    "build-lm": ("build-lm train.fr -o disk/out.gz", ""),
    "select": ("select train.fr --random --share 0.9 -o disk/out.gz", ""),
    "select scores": (
        (
            "select test.fr --in-domain lm.fr.arpa.gz --general test.arpa --share 0.5 "
            "--processes 1 --scores disk/scores -o disk/out"
        ),
        "",
    ),
    "tune": (
        (
            "tune lists.gz --references dev.fr --moses-ini moses.ini --moses-ini-out disk/out "
            "--method mira --features-out disk/features.gz --scores-out disk/scores.gz "
            "--report disk/report"
        ),
        "",
    ),
    "tune for mert": (
        (
            "tune lists.gz --references dev.fr --weights weights --starts 2 --ifile-out disk/ifile "
            "--features-out disk/features.gz --scores-out disk/scores.gz -o disk/out"
        ),
        "",
    ),
    "tune a moses.ini": (
        "tune --weights moses.ini --moses-ini moses.ini --moses-ini-out disk/out",
        "",
    ),
    "tune in a loop": (_TUNE, "--resume"),
    "train": ("train lstm dev.en dev.fr --updates 2 -o disk/out --threads 1", "--resume"),
    "train transformer": (
        (
            "train transformer dev.en dev.fr --updates 2 -o disk/out --threads 1 "
            "--set model.hidden_size=16 --set model.feed_forward_size=16"
        ),
        "--resume",
    ),
    "export": ("export cslm -o disk/out", ""),
    "export joint": (
        "export joint -o disk/out --moses-ini moses.ini --moses-ini-out disk/moses.ini",
        "",
    ),
    "evaluate": ("evaluate dev.fr --references dev.fr --format json -o disk/out", ""),
    "evaluate --plot": (
        (
            "evaluate dev.fr --references dev.fr --by-length reference --plot disk/plot.svg "
            "-o disk/out"
        ),
        "",
    ),
    "init": (
        (
            "init moses.ini --train train.en train.fr --dev dev.en dev.fr --test test.en test.fr "
            "--minutes 5 -o disk/out"
        ),
        "",
    ),
    "report": (
        (
            "report --translation a=dev.fr --source dev.en --references dev.fr "
            "--only results -o disk/out"
        ),
        "",
    ),
    "report of a model": (
        ("report small.gz --model rnn --source dev.en --references dev.fr --threads 1 -o disk/out"),
        "",
    ),
    "experiment": ("experiment baseline.toml -o disk/made", ""),
}
# A disk has whole pages: outputs of fewer than these are on a large one, and files are limited.
_LEAST_PAGES, _PAGE = 20, 4096
_PATIENCE = 180
# What a run may leave to go on from.
_TO_GO_ON = (".part", ".part.json", "cache", "loop", "made", "out.work")


def fill_all(
    name: str, pristine: Path, folder: Path, steps: int
) -> Iterator[tuple[str, str | None]]:
    """Run a writer on disks of sizes from 0 to what it needs; yield the sizes and what is wrong."""
    command, resume = WRITERS[name]
    shutil.copytree(pristine, folder, symlinks=True)
    disk = folder / "disk"
    disk.mkdir()
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
            if step % 2 and (disk / "out.gz").name in wanted:
                (disk / "out.gz").write_bytes(gzip.compress(b"old\n"))
            yield (f"{size:,} of {needed:,} bytes", _fill((command, resume), folder, limit, wanted))
    shutil.rmtree(folder)


def _fill(
    command: tuple[str, str], folder: Path, limit: int | None, wanted: dict[str, bytes]
) -> str | None:
    before = _files(folder / "disk")
    try:
        status, stderr = _run(command[0], folder, limit)
    except subprocess.TimeoutExpired:
        return "it hangs"
    found = _files(folder / "disk")
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
        _call("mount", "-o", "remount,size=1g", folder / "disk")
    if found == before and not command[1]:
        return None  # it begins again, with what it began with
    goes_on = command[1] if any(map(_is_to_go_on, found)) else ""
    status, stderr = _run(f"{command[0]} {goes_on}", folder)
    if status:
        return f"then, with room: exit {status}: {stderr[-300:]!r}"
    return _difference(_files(folder / "disk"), wanted)


def _is_to_go_on(path: str) -> bool:
    return path.endswith(_TO_GO_ON[:2]) or path.startswith(_TO_GO_ON[2:])


def _difference(found: dict[str, bytes], wanted: dict[str, bytes]) -> str | None:
    """Return which files are others; states tell the time, and caches are kept in any order."""
    told = ("cache", "loop/", "made/", "out.work/", "out/training.json")
    names = [
        name for name in {*found, *wanted} if not name.startswith(told) or name == "made/table.txt"
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
    return starter().run(shlex.split(command), folder, _PATIENCE, limit)


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }

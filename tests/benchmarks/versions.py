"""Two versions of this package: what each command takes, in turns, on the same inputs."""

from __future__ import annotations

import shlex
import shutil
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from xopen import xopen

from moses_integration.nbest import read_nbest
from tests.benchmarks import same_bytes
from tests.benchmarks.commands import REPOSITORY, Cost, measure_command
from tests.benchmarks.results import Report, Row, quotients

RUN = "from phrasescore.cli import main; main()"
TRAIN = " --updates {updates} --threads 1 --set training.validation_pairs=50 --quiet"
LISTS = " lists.gz --source lists.en --threads 1 --device cpu --quiet"
# Moses' features and a network's column.
TUNE = "tune rescored.gz --references lists.fr --moses-ini lists.ini --quiet --threads 1 --method "
# By name: the command, from the folder in which all of it runs; {x} is the example. {set} makes a
# later version train as 0.2 did.
COMMANDS = {
    "start-up (--help)": "--help",
    "train encoder-decoder": "train encoder-decoder part.gz -o ed" + TRAIN + "{set}",
    "train attention": "train attention train.en train.fr -o att" + TRAIN + "{set}{smooth}",
    "train lstm": "train lstm train.en train.fr -o lstm" + TRAIN + "{set}",
    "train grconv": "train grconv train.en train.fr -o grconv" + TRAIN + "{set}",
    "train cslm": "train cslm train.fr -o cslm" + TRAIN + "{set}",
    "train joint": "train joint train.en train.fr --alignments {x}/train.align.gz -o joint"
    + TRAIN
    + "{set}",
    "annotate": "annotate part.gz --model ed -o annotated.gz --threads 1 --quiet",
    "rescore attention": "rescore --model att -o rescored.gz" + LISTS,
    "rescore lstm": "rescore --model lstm -o lstm.gz" + LISTS,
    "rescore cslm": "rescore --model cslm -o cslm.gz" + LISTS,
    "rerank": "rerank rescored.gz --average Attention0 -o average.fr --quiet",
    "rerank --mbr": "rerank rescored.gz --average Attention0 --mbr -o mbr.fr --quiet",
    **{f"tune {name}": TUNE + f"{name} -o {name}.weights" for name in ("mert", "mira", "xbleu")},
    "decode": "decode some.en --config {x}/moses.ini -o test.out --processes 1 --threads 1 --quiet",
    "decode with a cslm": "decode short.en --config {x}/moses.ini --stack 50 --feature cslm "
    "--model cslm --feature-weight CSLM0=0.1 -o cslm.out --processes 1 --threads 1 --quiet",
    "generate": "generate att some.en --beam 4 -o generated --threads 1 --quiet",
    "segment": "segment short.en --model grconv --confidence forward -o segmented --quiet",
    "select": "select train.en train.fr --in-domain-target {x}/lm.fr.arpa.gz --general-target "
    "letters.arpa --share 0.2 -o part.en --target-output part.fr --quiet",
    "score": "score train.en train.fr --model lstm -o scores --threads 1 --quiet",
    "evaluate": "evaluate average.fr mbr.fr --references lists.fr --paired bootstrap -o evaluated",
    "perplexity": "perplexity train.fr --model cslm --lm {x}/lm.fr.arpa.gz",
    "report": "report part.gz --model ed -o report",
}


@dataclass(frozen=True)
class VersionOptions:
    # A checkout.
    old: str
    # n-best lists and their source; beside it the reference, and its moses.ini.
    nbest: str
    source: str
    # The first ones of the file.
    lists: int
    updates: int
    turns: int
    # After this time, what has not begun is left out.
    minutes: float
    # Names of commands, or all.
    only: Sequence[str] = ()


def measure_versions(options: VersionOptions) -> Report:
    trees = {"old": Path(options.old).resolve(), "new": REPOSITORY}
    rows: list[Row] = []
    left_out: list[str] = []
    end = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as name:
        sides = {side: Path(name) / side for side in trees}
        for folder in sides.values():
            same_bytes.prepare(folder)
            _write_lists(options, folder)
        for label in options.only or COMMANDS:
            if time.monotonic() > end:
                left_out.append(f"{label} was not run: {options.minutes:g} minutes had passed")
                continue
            try:
                rows += _measure(label, trees, sides, options)
            except RuntimeError:
                left_out.append(f"{label} failed in one of the versions")
                traceback.print_exc()
    what = (
        f"each command in {options.turns} turns of the old version and of this one, with the same "
        f"inputs; processor seconds of whole commands, one thread; {options.updates} updates of "
        f"training; {options.lists} lists of {options.nbest}"
    )
    return Report("versions", what, rows, left_out)


def _measure(
    label: str,
    trees: dict[str, Path],
    sides: dict[str, Path],
    options: VersionOptions,
) -> list[Row]:
    before = {path.name for path in sides["old"].iterdir()}
    costs: dict[str, list[Cost]] = {side: [] for side in sides}
    for turn in range(-1, options.turns):  # the first one compiles
        for side in sides if turn % 2 else reversed(sides):
            later = side == "new"
            words = shlex.split(
                COMMANDS[label].format(
                    x=same_bytes.EXAMPLE,
                    updates=options.updates,
                    set=" --set training.softmax=full --set training.precision=float32" * later,
                    smooth=" --set training.label_smoothing=0" * later,
                )
            )
            for path in _made(sides[side], before):
                _remove(path)
            cost, _ = measure_command(
                [sys.executable, "-c", RUN, *words],
                sides[side],
                PYTHONPATH=str(trees[side]),
                OMP_NUM_THREADS="1",
            )
            if turn >= 0:
                costs[side].append(cost)
    for path in _made(sides["new"], before):
        _remove(path)
    for path in _made(sides["old"], before):  # what follows has the same inputs
        copy = shutil.copytree if path.is_dir() else shutil.copyfile
        copy(path, sides["new"] / path.name)
    old, new = costs["old"], costs["new"]
    memory = [statistics.median(cost.peak / 1e6 for cost in found) for found in (old, new)]
    seconds = [[cost.cpu for cost in found] for found in (old, new)]
    print(
        f"  {label}: {statistics.median(seconds[0]):.2f} s, {statistics.median(seconds[1]):.2f} s"
    )
    return [
        Row(f"{label}: old", seconds[0], "s"),
        Row(f"{label}: new", seconds[1], "s"),
        Row(f"{label}: old / new", quotients(*seconds)),
        Row(f"{label}: peak memory, old", memory[:1], "MB", 0),
        Row(f"{label}: peak memory, new", memory[1:], "MB", 0),
    ]


def _made(folder: Path, before: set[str]) -> list[Path]:
    return [path for path in folder.iterdir() if path.name not in before]


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _write_lists(options: VersionOptions, folder: Path) -> None:
    for path, copy, count in (
        (same_bytes.EXAMPLE / "phrase-table.gz", "part.gz", 30_000),
        (same_bytes.EXAMPLE / "test.en", "some.en", 150),
    ):
        with xopen(path, "rb") as lines, xopen(folder / copy, "wb") as part:
            part.writelines(islice(lines, count))
    with xopen(folder / "lists.gz", "wb") as lists:
        for item in read_nbest(options.nbest):
            if item.id >= options.lists:
                break
            lists.write(b"".join(raw + b"\n" for raw in item.raws))
    source = Path(options.source)
    for path in (source, source.with_suffix(".fr")):
        with path.open("rb") as lines:
            (folder / f"lists{path.suffix}").write_bytes(b"".join(islice(lines, options.lists)))
    shutil.copyfile(source.with_name("moses.ini"), folder / "lists.ini")

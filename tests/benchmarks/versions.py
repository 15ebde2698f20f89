"""Two versions of this package: what each command takes, in turns, on the same inputs.

Commands are in the words of today; ``same_bytes.SPELLINGS`` has the words of older versions.
"""

from __future__ import annotations

import shlex
import shutil
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import click
from xopen import xopen

from moses_integration.nbest import read_nbest
from tests.benchmarks.commands import Cost, measure_command
from tests.benchmarks.results import Report, Row, quotients
from tests.benchmarks.same_bytes import EXAMPLE, REPOSITORY, Side, prepare, spell, spelling_of
from tests.benchmarks.settings import Settings

RUN = "from phrasescore.cli import main; main()"
TRAIN = " --updates {updates} --threads 1 --set training.validation_pairs=50 --quiet"
LISTS = " lists.gz --source lists.en --threads 1 --device cpu --quiet"
# Moses' features and a network's column.
TUNE = "tune --lists rescored.gz --references lists.fr --weights lists.ini"
TUNE += " --quiet --threads 1 --method "
# By name: the command, from the folder in which all of it runs; {x} is the example.
COMMANDS = {
    "start-up (--help)": "--help",
    "train encoder-decoder": "train encoder-decoder part.gz -o ed" + TRAIN,
    "train rnnsearch": "train rnnsearch train.en train.fr -o search" + TRAIN,
    "train lstm": "train lstm train.en train.fr -o lstm" + TRAIN,
    "train grconv": "train grconv train.en train.fr -o grconv" + TRAIN,
    "train cslm": "train cslm train.fr -o cslm" + TRAIN,
    "train joint": "train joint train.en train.fr --alignments {x}/train.align.gz -o joint" + TRAIN,
    "annotate": "annotate part.gz --model ed -o annotated.gz --threads 1 --quiet",
    "rescore rnnsearch": "rescore --model search -o rescored.gz" + LISTS,
    "rescore lstm": "rescore --model lstm -o lstm.gz" + LISTS,
    "rescore cslm": "rescore --model cslm -o cslm.gz" + LISTS,
    **{f"tune {name}": TUNE + f"{name} -o {name}.weights" for name in ("mert", "mira", "xbleu")},
    "rerank": "rerank rescored.gz --weights mert.weights -o reranked.fr --quiet",
    "translate": "translate {x}/moses.ini some.en --tokenized -o test.out --workers 1 --quiet",
    "translate with a cslm": "translate cslm.toml short.en --tokenized --set limits.stack=50 "
    "-o cslm.out --workers 1 --threads 1 --quiet",
    "generate": "generate search some.en --beam 4 -o generated --threads 1 --quiet",
    "segment": "segment short.en --model grconv --confidence forward -o segmented --quiet",
    "select": "select train.en train.fr --in-domain-target {x}/lm.fr.arpa.gz --general-target "
    "letters.arpa --share 0.2 -o part.en --target-output part.fr --quiet",
    "score": "score train.en train.fr --model lstm -o scores --threads 1 --quiet",
    "evaluate": "evaluate reranked.fr lists.fr --references lists.fr --paired bootstrap "
    "-o evaluated",
    "perplexity": "perplexity train.fr --model cslm --lm {x}/lm.fr.arpa.gz",
    "report": "report part.gz --model ed -o report",
}


def measure_versions(settings: Settings) -> Report:
    if settings.old is None:
        raise click.UsageError("versions needs --old")
    trees = {"old": Path(settings.old).resolve(), "new": REPOSITORY}
    rows: list[Row] = []
    left_out: list[str] = []
    end = time.monotonic() + 60 * settings.minutes
    with tempfile.TemporaryDirectory() as name:
        sides = [Side(tree, Path(name) / side, spelling_of(tree)) for side, tree in trees.items()]
        for side in sides:
            prepare(side.folder, side.spelling)
            _write_lists(settings, side.folder)
        for label in settings.only or COMMANDS:
            if time.monotonic() > end:
                left_out.append(f"{label} was not run: {settings.minutes:g} minutes had passed")
                continue
            try:
                rows += _measure(label, sides, settings)
            except RuntimeError:
                left_out.append(f"{label} failed in one of the versions")
                traceback.print_exc()
    what = (
        f"each command in {settings.repeats} turns of the old version and of this one, with the "
        f"same inputs; processor seconds of whole commands, one thread; {settings.updates} updates "
        f"of training; {settings.version_lists} lists of {settings.nbest[0]}"
    )
    return Report("versions", what, rows, left_out)


def _measure(label: str, sides: Sequence[Side], settings: Settings) -> list[Row]:
    before = {path.name for path in sides[0].folder.iterdir()}
    costs: list[list[Cost]] = [[] for _ in sides]
    for turn in range(-1, settings.repeats):  # the first one compiles
        for side, found in list(zip(sides, costs, strict=True))[:: 1 if turn % 2 else -1]:
            for path in side.folder.iterdir():
                if path.name not in before:
                    _remove(path)
            command = spell(COMMANDS[label], side.spelling)
            words = shlex.split(command.format(x=EXAMPLE, updates=settings.updates))
            cost, _ = measure_command(
                [sys.executable, "-c", RUN, *words],
                side.folder,
                PYTHONPATH=str(side.tree),
                OMP_NUM_THREADS="1",
            )
            if turn >= 0:
                found.append(cost)
    old, new = costs
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


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _write_lists(settings: Settings, folder: Path) -> None:
    for path, copy, count in (
        (EXAMPLE / "phrase-table.gz", "part.gz", 30_000),
        (EXAMPLE / "test.en", "some.en", 150),
    ):
        with xopen(path, "rb") as lines, xopen(folder / copy, "wb") as part:
            part.writelines(islice(lines, count))
    with xopen(folder / "lists.gz", "wb") as lists:
        for item in read_nbest(settings.nbest[0]):
            if item.id >= settings.version_lists:
                break
            lists.write(b"".join(raw + b"\n" for raw in item.raws))
    source = Path(settings.nbest[1])
    for path in (source, source.with_suffix(".fr")):
        with path.open("rb") as lines:
            (folder / f"lists{path.suffix}").write_bytes(
                b"".join(islice(lines, settings.version_lists))
            )
    shutil.copyfile(source.with_name("moses.ini"), folder / "lists.ini")

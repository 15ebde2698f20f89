"""Building: a system's tables against Moses' own programs, on the same aligned text."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

from xopen import xopen

from phrasescore.io.text import read_lines
from tests.benchmarks.commands import PHRASESCORE, compare_commands, find_tool
from tests.benchmarks.results import Report, Row

PHRASES = "phrase-table.gz"
REORDERING = "reordering-table.wbe-msd-bidirectional-fe.gz"
TOOLS = ("extract", "score", "consolidate", "lexical-reordering-score")
# The steps 5 to 7 of train-model.perl, with its -parallel. The lexicons of step 4 are given.
SCRIPT = """
set -e
export LC_ALL=C
"$1" target source aligned extract 7 orientation --model wbe-msd
sort extract > extract.sorted & sort extract.inv > extract.inv.sorted &
sort extract.o > extract.o.sorted & wait
"$2" extract.sorted model/lex.f2e half.f2e &
("$2" extract.inv.sorted model/lex.e2f half.unsorted --Inverse; sort half.unsorted > half.e2f) &
"$4" extract.o.sorted 0.5 reordering-table. --model "wbe msd wbe-msd-bidirectional-fe" & wait
"$3" half.f2e half.e2f phrase-table
gzip -f phrase-table
"""


@dataclass(frozen=True)
class BuildingOptions:
    source: str
    target: str
    alignment: str
    lm: str
    # The first ones of the text, or all.
    sentences: int | None
    threads: int
    turns: int
    moses_bin: str | None


def measure_building(options: BuildingOptions) -> Report:
    tools = [tool for name in TOOLS if (tool := find_tool(name, options.moses_bin)) is not None]
    moses = ["bash", "-c", SCRIPT, "bash", *tools] if len(tools) == len(TOOLS) else None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        num_pairs = _copy(options, folder)
        build = [*PHRASESCORE, "build", "source", "target", "--alignments", "aligned"]
        build += ["--lm", str(Path(options.lm).resolve()), "--max-sentence-length", "1000"]
        build += ["--workers", str(options.threads), "--output", "model", "--quiet"]
        again = ["bash", "-c", 'rm -rf model; exec "$@"', "bash", *build]
        rows = compare_commands(again, moses, folder, options.turns, names=("build", "Moses"))
        rows.append(Row("sentence pairs", [num_pairs], digits=0))
        size = sum(1 for _ in read_lines(str(folder / "model" / PHRASES)))
        if moses is not None:
            for table in (PHRASES, REORDERING):
                different = _count_differences(folder / "model" / table, folder / table)
                rows.append(Row(f"lines of {table} that differ", [different], digits=0))
    what = (
        f"a phrase table of {size:,} pairs and a reordering table, from {num_pairs:,} sentence "
        f"pairs of {options.source} and their word alignment; {options.threads} workers; Moses' "
        f"{', '.join(TOOLS)}, sort and gzip, at the same time where possible; without its lexicons"
    )
    left_out = [] if moses else [f"Moses was not run: it needs {', '.join(TOOLS)}"]
    return Report("building", what, rows, left_out)


def _copy(options: BuildingOptions, folder: Path) -> int:
    """Write plain files with the first sentences; return the number of sentences."""
    count = 0
    paths = (options.source, options.target, options.alignment)
    for path, plain in zip(paths, ("source", "target", "aligned"), strict=True):
        with xopen(path, "rb") as lines, (folder / plain).open("wb") as copy:
            chosen = list(islice(lines, options.sentences))
            copy.writelines(chosen)
            count = len(chosen)
    return count


def _count_differences(one: Path, other: Path) -> int:
    pairs = zip_longest(read_lines(str(one)), read_lines(str(other)))
    return sum(a != b for a, b in pairs)

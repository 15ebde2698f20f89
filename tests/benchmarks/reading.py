"""Reading: the checked reader and the writer of phrase tables against bare Python loops."""

import gzip
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from moses_integration.phrase_table import read_phrase_table, read_table_blocks
from phrasescore.io.resumable import ResumableOutput
from phrasescore.workflows.annotate import CHUNK_LINES
from tests.benchmarks.material import write_slices
from tests.benchmarks.results import Report, Row, quotients

ROUNDS = 5
GZIP_LEVEL = 6  # of gzip itself


@dataclass(frozen=True)
class ReadingOptions:
    table: str
    lines: int


def _read(table: Path, _output: Path) -> int:
    return sum(1 for _ in read_phrase_table(str(table)))


def _read_blocks(table: Path, _output: Path) -> int:
    return sum(block.num_lines for block in read_table_blocks(str(table)))


def _split(table: Path, _output: Path) -> int:
    count = 0
    with gzip.open(table, "rb") as lines:
        for line in lines:
            line.split(b" ||| ")
            count += 1
    return count


def _add(table: Path, output: Path) -> int:
    counts: list[int] = []
    with ResumableOutput(str(output), {}, resume=False, chunk_lines=CHUNK_LINES) as target:
        blocks = target.remaining(read_table_blocks(str(table)), str(table))
        for block in blocks:
            values = np.full(block.num_lines, -23.456789)  # seven digits
            target.write(block.with_scores([values]), block.raw, block.num_lines)
            counts.append(block.num_lines)
    return sum(counts)


def _split_and_join(table: Path, output: Path) -> int:
    count = 0
    with gzip.open(table, "rb") as lines, gzip.open(output, "wb", compresslevel=GZIP_LEVEL) as out:
        for line in lines:
            fields = line.split(b" ||| ")
            fields[2] += b" 6.499348e-11"
            out.write(b" ||| ".join(fields))
            count += 1
    return count


def measure_reading(options: ReadingOptions) -> Report:
    ways: dict[str, Callable[[Path, Path], int]] = {
        "read_phrase_table": _read,
        "read_table_blocks": _read_blocks,
        "gzip and split(b' ||| ')": _split,
        "read, add a column, write .gz": _add,
        "gzip, split, join, gzip": _split_and_join,
    }
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (table,) = write_slices(options.table, folder, options.lines, options.lines)
        for _ in range(ROUNDS):
            for way, run in ways.items():
                start = time.perf_counter()
                lines = run(table, folder / "out.gz")
                speeds[way].append(lines / (time.perf_counter() - start))
    read, blocks, split, add, join = speeds.values()
    rows = [Row(way, found, "lines/s", 0) for way, found in speeds.items()]
    rows.append(Row("read_phrase_table / gzip and split", quotients(read, split)))
    rows.append(Row("read_table_blocks / gzip and split", quotients(blocks, split)))
    rows.append(Row("with a column and .gz written / the same by hand", quotients(add, join)))
    return Report("reading", f"{lines:,} lines of {options.table}, {ROUNDS} rounds", rows)

"""Memory: the peak of the real ``phrasescore annotate`` for few lines and for the whole table."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from phrasescore.io.text import read_lines
from phrasescore.models.checkpoint import save_checkpoint
from phrasescore.settings.config import Config
from tests.benchmarks.commands import PHRASESCORE, measure_command
from tests.benchmarks.material import (
    padded_vocabularies,
    random_checkpoint,
    read_pairs,
    write_slices,
)
from tests.benchmarks.results import Report, Row


@dataclass(frozen=True)
class MemoryOptions:
    table: str
    config: Config
    # Of the smaller run; the other one takes the whole table.
    lines: int
    threads: int
    precision: str = "float32"


def measure_memory(options: MemoryOptions) -> Report:
    whole = sum(1 for _ in read_lines(options.table))
    # The two runs are to differ.
    few = min(options.lines, max(whole // 2, 1))
    rows = []
    peaks = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "model"
        vocabularies = padded_vocabularies(read_pairs([options.table]), options.config)
        save_checkpoint(model, random_checkpoint(options.config, vocabularies))
        (part,) = write_slices(options.table, folder, few, few)
        for lines, table in ((few, str(part)), (whole, options.table)):
            peak, seconds = _annotate(table, model, folder / "out.gz", options)
            peaks.append(peak)
            rows.append(Row(f"{lines:,} lines: peak memory", [peak / 1e6], "MB", 0))
            rows.append(Row(f"{lines:,} lines: with loading", [lines / seconds], "pairs/s", 0))
    rows.append(Row("whole table / first lines (target 1)", [peaks[1] / peaks[0]]))
    what = (
        f"phrasescore annotate on {options.table}, hidden {options.config.model.hidden_size}, "
        f"{options.precision}, {options.threads} threads"
    )
    return Report("memory", what, rows)


def _annotate(table: str, model: Path, output: Path, options: MemoryOptions) -> tuple[float, float]:
    command = [*PHRASESCORE, "annotate", table, "--model", str(model), "--output", str(output)]
    command += ["--device", "cpu", "--threads", str(options.threads)]
    cost, _ = measure_command([*command, "--precision", options.precision, "--quiet"])
    return cost.peak, cost.wall

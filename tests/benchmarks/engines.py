"""Engines: annotate by threads here, by processes and by Ray, turn by turn.

All three stand ready at the same time, and take turns at the slices of the table: what counts is
their ratio within a slice.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from phrasescore.features.model import Network
from phrasescore.features.request import ScoringRequest
from phrasescore.models.checkpoint import load_checkpoint, save_checkpoint
from phrasescore.settings.compute import ENGINES, Compute, EngineName
from phrasescore.settings.config import Config
from phrasescore.workflows.scoring.scoring import Scoring
from tests.benchmarks.material import (
    padded_vocabularies,
    random_checkpoint,
    read_pairs,
    write_slices,
)
from tests.benchmarks.results import Report, Row, quotients
from tests.benchmarks.scoring import annotate_file

TARGETS = {"processes": "", "ray": " (target 0.95)"}


@dataclass(frozen=True)
class EngineOptions:
    table: str
    config: Config
    lines: int
    slice_lines: int
    workers: int
    engines: tuple[EngineName, ...] = ENGINES


def measure_engines(options: EngineOptions) -> Report:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = _speeds(options, folder)
    sizes = options.config.model.hidden_size
    what = (
        f"{options.table}, from .gz to .gz, in slices of {options.slice_lines:,} lines; hidden "
        f"{sizes}; {options.workers} workers of one thread each"
    )
    return Report("engines", what, rows)


def _speeds(options: EngineOptions, folder: Path) -> list[Row]:
    slices = write_slices(options.table, folder, options.lines, options.slice_lines)
    model = _save_model(folder / "model", options.table, options.config)
    loader = ScoringRequest((Network(model),), (load_checkpoint(model),), of_phrases=True)
    speeds: dict[str, list[float]] = {name: [] for name in options.engines}
    driver: dict[str, list[float]] = {name: [] for name in options.engines}
    with ExitStack() as stack:
        # Processes first: they are forks of a process that should have no threads.
        scorers = {
            name: stack.enter_context(
                Scoring(loader, Compute(engine=name, workers=options.workers))
            )
            for name in sorted(options.engines, key=["processes", "here", "ray"].index)
        }
        for number, path in enumerate([slices[0], *slices]):
            first = number % len(options.engines)
            for name in (*options.engines[first:], *options.engines[:first]):
                output = folder / f"{name}.gz"
                start, cpu = time.perf_counter(), time.process_time()
                lines = len(annotate_file(path, output, scorers[name]))
                seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
                if number > 0:  # the first turn warms up
                    speeds[name].append(lines / seconds)
                    driver[name].append(1e4 * cpu / lines)
            if len({(folder / f"{name}.gz").read_bytes() for name in options.engines}) > 1:
                raise AssertionError("the engines' tables differ")
    here = speeds["here"]
    rows = [
        Row(f"{name}, {options.workers} workers", speeds[name], "lines/s", 0) for name in speeds
    ]
    for name in options.engines:
        if name != "here":
            rows.append(Row(f"{name} / here{TARGETS[name]}", quotients(speeds[name], here)))
            label = f"{name}: driver's CPU per 10,000 lines (target 0.05)"
            rows.append(Row(label, driver[name], "s", 3))
    return rows


def _save_model(path: Path, table: str, config: Config) -> str:
    vocabularies = padded_vocabularies(read_pairs([table]), config)
    save_checkpoint(path, random_checkpoint(config, vocabularies))
    return str(path)

"""Scoring: ``annotate`` against plain torch, which scores each pair alone; and on a GPU.

The machine may be shared, so a figure means little by itself: the sides take turns, slice after
slice of the table, and what counts is their ratio within a slice.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from moses_integration.table_line import LOWEST_LOG
from phrasescore.io.text import read_lines
from phrasescore.kernels.precision import lacks_units
from phrasescore.models.checkpoint import Checkpoint, save_checkpoint
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.settings.config import Config
from tests.benchmarks.commands import PHRASESCORE, measure_command, measure_work
from tests.benchmarks.material import (
    INIT_STD,
    read_pairs,
    start_checkpoint,
    torch_threads,
    write_slices,
)
from tests.benchmarks.plain_torch import IdPair, plain_encoder_decoder
from tests.benchmarks.results import Report, Row, quotients
from tests.benchmarks.settings import Settings
from tests.benchmarks.training import measure_training

BATCH_SIZE = 256
TARGETS = {"float32": " (target 4)", "bfloat16": " (target 7)", "int8": " (target 7)"}
# Lines of a table that takes hardly longer than loading.
LITTLE = 64
# The sizes with which memory is measured.
SMALL = "encoder-decoder-small"


def measure_scoring(settings: Settings) -> Report:
    with tempfile.TemporaryDirectory() as name:
        bench = _Bench(settings, Path(name))
        # A type that has no instructions takes longer than float32.
        names = ["float32", *(each for each in ("bfloat16", "int8") if not lacks_units(each))]
        ours: dict[str, list[float]] = {each: [] for each in names}
        values: dict[str, list[float]] = {each: [] for each in names}
        plain: list[float] = []
        wanted: list[float] = []
        for path in bench.slices:
            # The plain side does half before ours and half after: what else runs on the machine
            # then weighs on both alike.
            ids = bench.ids(path)
            half = len(ids) // 2
            before, first = bench.plain(ids[:half])
            for each in names:
                ours[each].append(bench.annotate(path, "--device", "cpu", "--precision", each))
                values[each] += bench.values()
            after, second = bench.plain(ids[half:])
            plain.append(before + after)
            wanted += first + second
        whole = bench.annotate_all()
    rows = [Row("plain torch, float32", quotients(bench.sizes, plain), "pairs/s", 0)]
    rows += [
        Row(f"annotate, {each}", quotients(bench.sizes, ours[each]), "pairs/s", 0) for each in names
    ]
    rows += [
        Row(f"annotate {each} / plain float32{TARGETS[each]}", quotients(plain, ours[each]))
        for each in names
    ]
    for each in names:
        rows += _errors(f"annotate {each}", values[each], wanted)
    rows.append(Row("mean log-probability of a pair", [float(np.mean(wanted))]))
    return Report("scoring", bench.what(), [*rows, *whole])


def measure_gpu(settings: Settings) -> Report:
    """Measure scores against the CPU's, and speed; the card is nobody else's."""
    with tempfile.TemporaryDirectory() as name:
        bench = _Bench(settings, Path(name))
        bench.annotate(bench.little, "--device", "cpu")
        wanted = bench.values()
        rows: list[Row] = []
        for precision in ("float32", "tf32", "bfloat16"):
            options = ("--device", "cuda", "--precision", precision)
            bench.annotate(bench.little, *options)
            rows += _errors(precision, bench.values(), wanted)
            seconds = [bench.annotate(path, *options) for path in bench.slices]
            speeds = quotients(bench.sizes, seconds)
            rows.append(Row(f"{precision}: annotate, from .gz to .gz", speeds, "pairs/s", 0))
            # The plain loop is in float32, or in tf32 beside tf32.
            training = (*settings.overrides, f"training.precision={precision}")
            trained = measure_training(replace(settings, overrides=training), "cuda")
            rows += [row._replace(label=f"{precision}, {row.label}") for row in trained.rows]
    return Report("gpu", bench.what(), rows)


def _errors(name: str, values: Sequence[float], wanted: Sequence[float]) -> list[Row]:
    errors = np.abs(np.subtract(values, np.maximum(wanted, LOWEST_LOG)))  # as in a table
    return [
        Row(f"{name}, largest error in log", [float(errors.max())], digits=6),
        Row(f"{name}, mean error in log", [float(errors.mean())], digits=6),
    ]


class _Bench:
    """A table in slices, and a network with random weights of which both sides have a copy."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings, self._folder = settings, folder
        (little,) = write_slices(settings.table, folder, LITTLE, LITTLE)
        self.little = little.rename(folder / "little.gz")
        self.slices = write_slices(settings.table, folder, settings.lines, settings.slice_lines)
        self.sizes = [sum(1 for _ in read_lines(str(path))) for path in self.slices]
        self.checkpoint = self._save(settings.config(), self.slices)
        assert isinstance(self.checkpoint.model, EncoderDecoder)
        self._plain = plain_encoder_decoder(self.checkpoint.model)
        self.plain(self.ids(self.little))

    def _save(self, config: Config, tables: Sequence[Path | str]) -> Checkpoint:
        config = config.override([f"model.init_std={INIT_STD}"])
        checkpoint = start_checkpoint(config, read_pairs(tables))
        save_checkpoint(self._folder / "model", checkpoint)
        return checkpoint

    def ids(self, path: Path) -> list[IdPair]:
        sources = self.checkpoint.source_vocabulary
        targets = self.checkpoint.target_vocabulary
        return [(sources.ids(pair.source), targets.ids(pair.target)) for pair in read_pairs([path])]

    def plain(self, ids: Sequence[IdPair]) -> tuple[float, list[float]]:
        with torch_threads(self._settings.threads):
            start = time.perf_counter()
            values = self._plain.score(ids, BATCH_SIZE)
            return time.perf_counter() - start, values

    def _command(self, table: Path | str, output: str, *options: str) -> list[str]:
        command = [*PHRASESCORE, "annotate", str(table), "--model", "model", "--output", output]
        return [*command, "--workers", str(self._settings.threads), "--quiet", *options]

    def annotate(self, table: Path, *options: str) -> float:
        """Return the seconds without loading."""
        whole, little = self._command(table, "out.gz"), self._command(self.little, "little.out")
        return measure_work([*whole, *options], [*little, *options], self._folder)

    def values(self) -> list[float]:
        """Return the logarithms that the last table has in its new column."""
        lines = read_lines(str(self._folder / "out.gz"))
        return [math.log(float(line.split(b" ||| ")[2].split()[-1])) for line in lines]

    def annotate_all(self) -> list[Row]:
        """Measure the memory of the whole table, with a network of the small preset."""
        self._save(Config.preset(SMALL), [self._settings.table])
        cost, _ = measure_command(self._command(self._settings.table, "out.gz"), self._folder)
        lines = sum(1 for _ in read_lines(self._settings.table))
        return [
            Row(
                "whole table, preset encoder-decoder-small: peak memory", [cost.peak / 1e6], "MB", 0
            ),
            Row(
                "whole table, preset encoder-decoder-small: with loading",
                [lines / cost.wall],
                "pairs/s",
                0,
            ),
        ]

    def what(self) -> str:
        sizes = self.checkpoint.config.model
        return (
            f"{sum(self.sizes):,} lines of {self._settings.table} in {len(self.sizes)} slices, "
            f"from .gz to .gz, without loading; hidden {sizes.hidden_size}, shortlist "
            f"{len(self.checkpoint.target_vocabulary):,}; {self._settings.threads} threads"
        )

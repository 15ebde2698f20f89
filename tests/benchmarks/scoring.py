"""Scoring: phrasescore's annotation of a table against plain torch, which scores each pair alone.

The machine may be shared, so a figure means little by itself: the sides take turns, slice after
slice of the table, and what counts is their ratio within a slice.
"""

from __future__ import annotations

import tempfile
import time
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from moses_integration.phrase_table import read_table_blocks
from phrasescore.arguments import PrecisionName
from phrasescore.features.model import Network
from phrasescore.features.neural import NeuralScore
from phrasescore.features.request import ScoringRequest
from phrasescore.io.resumable import ResumableOutput
from phrasescore.kernels.precision import lacks_units
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.records import PhraseBlock, PhrasePair
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import EncoderDecoderConfig
from phrasescore.workflows.scoring.scoring import Scoring
from tests.benchmarks import plain_torch
from tests.benchmarks.machine import torch_threads
from tests.benchmarks.material import (
    padded_vocabularies,
    plain_copy,
    random_checkpoint,
    read_pairs,
    write_slices,
)
from tests.benchmarks.plain_torch import IdPair, PlainEncoderDecoder
from tests.benchmarks.results import Report, Row, quotients

BATCH_SIZE = 256
# As ``phrasescore annotate`` writes.
CHUNK_LINES = 65536
REDUCED: tuple[PrecisionName, ...] = ("bfloat16", "int8")
TARGETS = {"float32": " (target 4)", "bfloat16": " (target 7)", "int8": " (target 7)"}


@dataclass(frozen=True)
class ScoringOptions:
    table: str
    config: Config
    lines: int
    slice_lines: int
    threads: int
    # A trained network's folder, in place of random weights.
    network: str | None = None
    # Beside float32; none named are those that the processor is quick at.
    reduced: tuple[PrecisionName, ...] = ()

    @property
    def precisions(self) -> tuple[PrecisionName, ...]:
        """Return those measured. A type that has no instructions takes longer than float32."""
        quick = tuple(name for name in REDUCED if not lacks_units(name))
        return ("float32", *(self.reduced or quick))


def open_scorer(feature: NeuralScore, device: str, threads: int) -> Scoring:
    checkpoint = feature._checkpoint
    request = ScoringRequest((Network(""),), (checkpoint,), device, of_phrases=True)
    scorer = Scoring(request, Compute(workers=threads))
    feature.rows = scorer.features[0].rows
    scorer.features[0] = feature
    return scorer


@dataclass
class Side:
    """The measurements of one implementation, one a slice."""

    seconds: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def speed(self, pairs: list[float]) -> list[float]:
        return quotients(pairs, self.seconds)


@dataclass
class Measurements:
    plain: Side = field(default_factory=Side)
    ours: dict[str, Side] = field(default_factory=dict)
    pairs: list[float] = field(default_factory=list)


def annotate_file(table: Path, output: Path, scorer: Scoring) -> array[float]:
    """Add a column to a .gz table and write a .gz table, as ``phrasescore annotate`` does.

    :return: the values of the column, in few bytes: memory is measured, too.
    """
    kept = array("d")
    with ResumableOutput(str(output), {}, resume=False, chunk_lines=CHUNK_LINES) as target:
        blocks = target.remaining(read_table_blocks(str(table)), str(table))
        for block, scores in scorer.score_lines(blocks):
            target.write(block.with_scores([*scores.values]), block.raw, block.num_lines)
            kept.frombytes(scores.values[0].tobytes())
    return kept


def measure_scoring(options: ScoringOptions) -> Report:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        slices = write_slices(options.table, folder, options.lines, options.slice_lines)
        if options.network is None:
            vocabularies = padded_vocabularies(read_pairs(slices), options.config)
            checkpoint = random_checkpoint(options.config, vocabularies)
        else:
            checkpoint = load_checkpoint(options.network)
        with torch_threads(1):
            ours = {
                precision: NeuralScore(checkpoint, torch.device("cpu"), precision=precision)
                for precision in options.precisions
            }
        bench = _Bench(options, checkpoint, ours, folder)
        bench.warm_up(slices[0])
        for path in slices:
            bench.measure(path)
    return _report(options, bench.found, checkpoint)


class _Bench:
    """The implementations with the same weights, and what was found."""

    def __init__(
        self,
        options: ScoringOptions,
        checkpoint: Checkpoint,
        ours: dict[PrecisionName, NeuralScore],
        folder: Path,
    ) -> None:
        assert isinstance(checkpoint.model, EncoderDecoder)
        self.options = options
        self.checkpoint = checkpoint
        self.model = checkpoint.model
        self.plain: PlainEncoderDecoder = plain_copy(checkpoint.model).eval()
        self.ours = ours
        self.folder = folder
        self.found = Measurements(ours={name: Side() for name in ours})

    def warm_up(self, path: Path) -> None:
        few = list(islice(read_pairs([path]), 2 * BATCH_SIZE))
        with torch_threads(self.options.threads):
            plain_torch.score(self.plain, self._ids(few), BATCH_SIZE)
        with torch_threads(1):
            for feature in self.ours.values():
                feature.score(PhraseBlock.of(few))

    def measure(self, path: Path) -> None:
        """Let each implementation score a slice.

        The plain one does half of it before ours and half after: what else runs on the machine
        then weighs on both alike.
        """
        found = self.found
        ids = self._ids(read_pairs([path]))
        half = len(ids) // 2
        before, first = self._plain(ids[:half])
        self._ours(path, "float32")
        after, second = self._plain(ids[half:])
        for precision in self.options.precisions[1:]:
            self._ours(path, precision)
        found.plain.seconds.append(before + after)
        found.plain.values += first + second
        found.pairs.append(len(ids))

    def _ids(self, pairs: Iterable[PhrasePair]) -> list[IdPair]:
        sources = self.checkpoint.source_vocabulary
        targets = self.checkpoint.target_vocabulary
        return [(sources.ids(pair.source), targets.ids(pair.target)) for pair in pairs]

    def _plain(self, ids: list[IdPair]) -> tuple[float, list[float]]:
        with torch_threads(self.options.threads):
            start = time.perf_counter()
            values = plain_torch.score(self.plain, ids, BATCH_SIZE)
            return time.perf_counter() - start, values

    def _ours(self, path: Path, precision: PrecisionName) -> None:
        side = self.found.ours[precision]
        start = time.perf_counter()
        with open_scorer(self.ours[precision], "cpu", self.options.threads) as scorer:
            values = annotate_file(path, self.folder / "out.gz", scorer)
        side.seconds.append(time.perf_counter() - start)
        side.values += values


def _report(options: ScoringOptions, found: Measurements, checkpoint: Checkpoint) -> Report:
    plain, pairs = found.plain, found.pairs
    rows = [Row("plain torch, float32", plain.speed(pairs), "pairs/s", 0)]
    for name, side in found.ours.items():
        rows.append(Row(f"annotate, {name}", side.speed(pairs), "pairs/s", 0))
    for name, side in found.ours.items():
        ratio = quotients(plain.seconds, side.seconds)
        rows.append(Row(f"annotate {name} / plain float32{TARGETS[name]}", ratio))
    wanted = np.array(plain.values)
    sides = {f"annotate {name}": side for name, side in found.ours.items()}
    for name, side in sides.items():
        errors = np.abs(np.array(side.values) - wanted)
        rows.append(Row(f"{name}, largest error in log", [float(errors.max())], digits=6))
        rows.append(Row(f"{name}, mean error in log", [float(errors.mean())], digits=6))
    rows.append(Row("mean log-probability of a pair", [float(wanted.mean())]))
    sizes = checkpoint.config.model
    assert isinstance(sizes, EncoderDecoderConfig)
    what = (
        f"{sum(pairs):,.0f} lines of {options.table} in {len(pairs)} slices, from .gz to .gz; "
        f"hidden {sizes.hidden_size}, rank {sizes.output_rank}, shortlist "
        f"{len(checkpoint.target_vocabulary):,}; {options.threads} threads"
    )
    return Report("scoring", what, rows)

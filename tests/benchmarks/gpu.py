"""A GPU: its scores against the CPU's, how fast it scores and trains, and how much of it is used.

The card is nobody else's, so figures stand for themselves; what varies is the CPU beside it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from moses_integration.phrase_table import TableBlock, read_table_blocks
from phrasescore.arguments import PrecisionName
from phrasescore.devices import GPU_THREADS
from phrasescore.engines import LoadedWork, ThreadPool
from phrasescore.features.feature import BLOCK_SIZE
from phrasescore.features.neural import NeuralScore
from phrasescore.kernels.phrases import join_blocks
from phrasescore.kernels.precision import Precision
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.records import PhraseBlock
from phrasescore.scoring.tree_scorer import PairWork
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import Config
from tests.benchmarks.material import (
    padded_vocabularies,
    random_checkpoint,
    read_pairs,
    write_slices,
)
from tests.benchmarks.results import Report, Row, quotients
from tests.benchmarks.scoring import annotate_file, open_scorer
from tests.benchmarks.training import TrainingOptions, measure_training

PRECISIONS: tuple[PrecisionName, ...] = ("float32", "tf32", "bfloat16")
# Pairs whose scores are compared with those of the CPU.
COMPARED = 2000
DEVICE = torch.device("cuda")


@dataclass(frozen=True)
class GpuOptions:
    table: str
    config: Config
    lines: int
    # Of the CPU, for the scores to compare with.
    threads: int
    # Of the table, in each precision.
    turns: int
    # Of training, in each precision.
    training_turns: int
    training_lines: int | None
    # Of the product whose speed is the peak: rows, inner size and columns.
    peak_size: int


def measure_gpu(options: GpuOptions) -> Report:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (table,) = write_slices(options.table, folder, options.lines, options.lines)
        vocabularies = padded_vocabularies(read_pairs([table]), options.config)
        checkpoint = random_checkpoint(options.config, vocabularies)
        lines = read_table_blocks(str(table))
        blocks = _join(lines)
        compared = _some(blocks, COMPARED)
        on_cpu = NeuralScore(checkpoint, torch.device("cpu"))
        expected, _ = _values(on_cpu, compared, options.threads)
        rows: list[Row] = []
        for precision in PRECISIONS:
            side = _Side(checkpoint, precision, options)
            rows += side.errors(compared, expected)
            rows += side.speeds(blocks, table, folder / "out.gz")
    for precision in PRECISIONS:
        rows += _training(options, precision)
    what = (
        f"{torch.cuda.get_device_name()}; {sum(len(block.places) for block in blocks):,} lines of "
        f"{options.table}, {options.turns} turns; hidden {options.config.model.hidden_size}, "
        f"shortlist {len(checkpoint.target_vocabulary):,}"
    )
    return Report("gpu", what, rows)


class _Side:
    def __init__(
        self, checkpoint: Checkpoint, precision: PrecisionName, options: GpuOptions
    ) -> None:
        assert isinstance(checkpoint.model, EncoderDecoder)
        self._model = checkpoint.model
        self._feature = NeuralScore(checkpoint, DEVICE, precision=precision)
        self._precision: PrecisionName = precision
        self._options = options

    def errors(self, blocks: list[PhraseBlock], expected: NDArray[np.float64]) -> list[Row]:
        errors = np.abs(_values(self._feature, blocks)[0] - expected)
        return [
            Row(f"{self._precision}: largest error in log", [float(errors.max())], digits=6),
            Row(f"{self._precision}: mean error in log", [float(errors.mean())], digits=6),
        ]

    def speeds(self, blocks: list[PhraseBlock], table: Path, output: Path) -> list[Row]:
        alone: list[float] = []
        whole: list[float] = []
        shares: list[float] = []
        peaks: list[float] = []
        for _ in range(self._options.turns):
            peaks.append(_measure_peak(self._precision, self._options.peak_size))
            start = time.perf_counter()
            values, work = _values(self._feature, blocks)
            pairs, seconds = len(values), time.perf_counter() - start
            alone.append(pairs / seconds)
            rate = plan_operations(work, self._model) / seconds
            shares.append(100 * rate / peaks[-1])
            start = time.perf_counter()
            with open_scorer(self._feature, "cuda", GPU_THREADS) as scorer:
                annotate_file(table, output, scorer)
            whole.append(pairs / (time.perf_counter() - start))
        name = self._precision
        return [
            Row(f"{name}: matrix-product peak", [peak * 1e-12 for peak in peaks], "TFLOP/s", 1),
            Row(f"{name}: scoring alone", alone, "pairs/s", 0),
            Row(f"{name}: scoring alone, share of that peak", shares, "%", 1),
            Row(f"{name}: annotate, from .gz to .gz", whole, "pairs/s", 0),
        ]


def plan_operations(work: PairWork, model: EncoderDecoder) -> float:
    """Return the floating-point operations of the products; words come in by tables."""
    sizes = model.config
    hidden, maxout, rank = sizes.hidden_size, sizes.maxout_size, sizes.output_rank
    shortlist = len(model.target_embedding)
    source = hidden * hidden * (1 + 1 + 3) + 2 * maxout * hidden  # V, V', C and O_c
    distribution = 2 * maxout * hidden + maxout * rank + rank * shortlist  # O_h, G_r and G_l
    return 2.0 * (
        work.source_nodes * 3 * hidden * hidden
        + work.sources * source
        + work.products * 3 * hidden * hidden
        + work.target_nodes * distribution
    )


def _measure_peak(name: PrecisionName, size: int) -> float:
    precision = Precision(name, DEVICE)
    best = float("inf")
    with precision.active(), torch.inference_mode():
        rows = precision.round(torch.randn(size, size, device=DEVICE))
        columns = precision.prepare(torch.randn(size, size, device=DEVICE))
        out = torch.empty(size, size, device=DEVICE)
        for _ in range(10):
            torch.cuda.synchronize()
            start = time.perf_counter()
            precision.multiply(rows, columns, out)
            torch.cuda.synchronize()
            best = min(best, time.perf_counter() - start)
    return 2.0 * size**3 / best


def _training(options: GpuOptions, precision: PrecisionName) -> list[Row]:
    config = options.config.override([f"training.precision={precision}"])
    report = measure_training(
        TrainingOptions(
            *(options.table, config, options.training_lines, options.threads),
            turns=options.training_turns,
            device=DEVICE,
        )
    )
    ours, plain = (
        next(row for row in report.rows if row.label == label)
        for label in ("phrasescore's loop", "plain torch loop")
    )
    # The plain loop knows no bfloat16.
    of = "plain loop in tf32" if precision == "bfloat16" else "plain loop"
    return [
        ours._replace(label=f"{precision}: training"),
        Row(f"{precision}: training / {of}", quotients(ours.values, plain.values)),
    ]


def _join(lines: Iterable[TableBlock]) -> list[PhraseBlock]:
    blocks, group, size = [], [], 0
    for each in lines:
        group.append(each.block)
        size += each.num_lines
        if size >= BLOCK_SIZE["cuda"]:
            blocks.append(join_blocks(group))
            group, size = [], 0
    return [*blocks, join_blocks(group)]


def _values(
    feature: NeuralScore, blocks: list[PhraseBlock], threads: int = GPU_THREADS
) -> tuple[NDArray[np.float64], PairWork]:
    feature.prepare()
    work = LoadedWork(feature.score)
    with feature.computing(), ThreadPool(work, Compute(workers=threads)) as pool:
        found = list(pool.map(blocks))
    values = np.concatenate([scores.values[0] for scores in found])
    return values, sum((scores.tally for scores in found), PairWork())  # type: ignore[return-value]


def _some(blocks: list[PhraseBlock], count: int) -> list[PhraseBlock]:
    """Return about ``count`` pairs, from all over the table."""
    step = max(sum(len(block.places) for block in blocks) // count, 1)
    return [block._replace(places=block.places[::step]) for block in blocks]

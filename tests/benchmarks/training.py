"""Training: the real training loop against a plain torch loop, on the same batches in turn."""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from moses_integration.phrase_table import read_phrase_table
from moses_integration.table_line import joint_count
from phrasescore.io.ragged import Indices
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.settings.config import Config
from phrasescore.training.draw import Draw
from phrasescore.training.likelihood import LikelihoodLoop
from phrasescore.training.loop import INTERRUPTED, TrainingProgress
from phrasescore.training.pair_store_writer import CountedPair, Shortlist, write_pair_store
from phrasescore.training.ranks import Ranks
from phrasescore.training.run_folder import RunFolder
from phrasescore.training.stores import PairStore
from tests.benchmarks import plain_torch
from tests.benchmarks.machine import torch_threads
from tests.benchmarks.material import padded_vocabularies, plain_copy, read_pairs, start_network
from tests.benchmarks.plain_torch import IdPair
from tests.benchmarks.results import Report, Row, quotients

CPU = torch.device("cpu")


@dataclass(frozen=True)
class TrainingOptions:
    table: str
    config: Config
    # Lines of the table to train on; None for all.
    lines: int | None
    threads: int
    # Of each side that are measured; one more comes before them.
    turns: int
    # Updates of a turn.
    chunk: int = 5
    # Of both sides.
    device: torch.device = CPU


def measure_training(options: TrainingOptions) -> Report:
    with tempfile.TemporaryDirectory() as name, torch_threads(options.threads):
        folder = Path(name)
        store = _write_store(options, folder / "pairs")
        limits = {"updates": options.chunk * (options.turns + 1), "epochs": 0, "minutes": 0}
        quiet = {"validation_pairs": 0, "checkpoint_minutes": 0, "checkpoint_updates": 0}
        config = options.config.override(
            f"training.{key}={value}" for key, value in {**limits, **quiet}.items()
        )
        network = start_network(config, store.source_vocabulary, store.target_vocabulary)
        network = network.to(options.device).train()
        contest = _Contest(options, config, store, network)
        work = RunFolder(folder / "work")
        work.path.mkdir()
        work.begin(config)
        loop = LikelihoodLoop(network, store, config.training, work, contest.report, Ranks())
        contest.start()
        if loop.run() == INTERRUPTED:
            raise KeyboardInterrupt  # which the loop caught, to end between two updates
        return _report(options, contest.times)


def _write_store(options: TrainingOptions, folder: Path) -> PairStore:
    pairs = islice(read_pairs([options.table]), options.lines)
    shortlists = [
        Shortlist("padded", vocabulary) for vocabulary in padded_vocabularies(pairs, options.config)
    ]
    return write_pair_store(
        folder,
        _counted(options),
        options.config.vocabulary,
        max_length=options.config.training.max_length,
        shortlists=(shortlists[0], shortlists[1]),
    )


def _counted(options: TrainingOptions) -> Iterator[CountedPair]:
    for line in islice(read_phrase_table(options.table), options.lines):
        yield CountedPair(line.raw, line.pair, joint_count(line.raw))


@dataclass
class _Times:
    """Words a second of each chunk, ``</s>`` not counted."""

    ours: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)


class _Contest:
    """Lets the plain loop do, after every few updates of ours, the same batches."""

    def __init__(
        self, options: TrainingOptions, config: Config, store: PairStore, network: EncoderDecoder
    ) -> None:
        training = config.training
        self._options = options
        self._store = store
        self._draw = Draw(store, config.training, 0)
        self._plain = plain_copy(network).to(options.device).train()
        self._optimizer = torch.optim.Adadelta(
            self._plain.parameters(), lr=1.0, rho=training.rho, eps=training.epsilon
        )
        self._started = 0.0
        self._warm = False
        self.times = _Times()

    def start(self) -> None:
        self._started = time.perf_counter()

    def report(self, progress: TrainingProgress) -> None:
        """Take turns; called by the loop after each update."""
        chunk = self._options.chunk
        if progress.update % chunk:
            return
        self._wait()
        seconds = time.perf_counter() - self._started
        batches = [
            self._draw.batch(*divmod(number, self._draw.batches_per_epoch))
            for number in range(progress.update - chunk, progress.update)
        ]
        words = sum(sum(int(part.sum()) for part in self._store.lengths(each)) for each in batches)
        pairs = [pair for each in batches for pair in _id_pairs(self._store, each)]
        ends = np.cumsum([len(each) for each in batches]).tolist()
        ranges = [range(end - len(each), end) for end, each in zip(ends, batches, strict=True)]
        start = time.perf_counter()
        plain_torch.train_steps(self._plain, pairs, ranges, self._optimizer)
        self._wait()
        plain_seconds = time.perf_counter() - start
        # The first turns compile kernels and map memory.
        if self._warm:
            self.times.ours.append(words / seconds)
            self.times.plain.append(words / plain_seconds)
        self._warm = True
        self._started = time.perf_counter()

    def _wait(self) -> None:
        if self._options.device.type == "cuda":
            torch.cuda.synchronize()


def _id_pairs(store: PairStore, indices: Indices) -> list[IdPair]:
    batch = store.batch(indices)
    sides = [
        [ids[:-1].tolist() for ids in side.ids.split((side.lengths + 1).tolist())] for side in batch
    ]
    return list(zip(*sides, strict=True))


def _report(options: TrainingOptions, times: _Times) -> Report:
    training = options.config.training
    rows = [
        Row("plain torch loop", times.plain, "words/s", 0),
        Row("phrasescore's loop", times.ours, "words/s", 0),
        Row("phrasescore / plain (target 1.3)", quotients(times.ours, times.plain)),
    ]
    what = (
        f"{len(times.ours)} turns of {options.chunk} updates of {training.batch_size} pairs each; "
        f"{training.optimizer}, {training.precision}, hidden {options.config.model.hidden_size}, "
        f"{options.threads} threads; words of both sides without </s>"
    )
    return Report("training", what, rows)

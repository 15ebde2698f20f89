"""Training: the real training loop against a plain torch loop, on the same batches in turn."""

import copy
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from unittest.mock import patch

import torch

from moses_integration.phrase_table import read_phrase_table
from moses_integration.table_line import joint_count
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.settings.config import Config
from phrasescore.training.draw import Draw
from phrasescore.training.likelihood import LikelihoodLoop
from phrasescore.training.loop import INTERRUPTED, TrainingProgress
from phrasescore.training.pair_store_writer import CountedPair, write_pair_store
from phrasescore.training.ranks import Ranks
from phrasescore.training.run_folder import RunFolder
from phrasescore.training.stores import PairStore
from tests.benchmarks import plain_torch
from tests.benchmarks.material import read_pairs, start_checkpoint, torch_threads
from tests.benchmarks.plain_torch import IdPair
from tests.benchmarks.results import Report, Row, quotients
from tests.benchmarks.settings import Settings

# Updates of a turn.
CHUNK = 5


def measure_training(settings: Settings, device: str = "cpu") -> Report:
    config = settings.config()
    pairs = islice(read_pairs([settings.table]), settings.training_lines)
    checkpoint = start_checkpoint(config, pairs)
    with tempfile.TemporaryDirectory() as name, torch_threads(settings.threads):
        padded = iter((checkpoint.source_vocabulary, checkpoint.target_vocabulary))
        with patch(
            "phrasescore.training.pair_store_writer.build_vocabulary", lambda *_: next(padded)
        ):
            store = write_pair_store(
                Path(name) / "pairs",
                _counted(settings),
                config.vocabulary,
                max_length=config.training.max_length,
            )
        assert isinstance(checkpoint.model, EncoderDecoder)
        contest = _Contest(store, checkpoint.model.to(device).train(), config)
        contest.run(settings.turns, Path(name) / "work")
    training = config.training
    what = (
        f"{settings.turns} turns of {CHUNK} updates of {training.batch_size} pairs each; "
        f"{training.optimizer}, {training.precision}, hidden {config.model.hidden_size}, "
        f"{settings.threads} threads; words of both sides without </s>"
    )
    rows = [
        Row("plain torch loop", contest.plain, "words/s", 0),
        Row("phrasescore's loop", contest.ours, "words/s", 0),
        Row("phrasescore / plain (target 1.3)", quotients(contest.ours, contest.plain)),
    ]
    return Report("training", what, rows)


def _counted(settings: Settings) -> Iterator[CountedPair]:
    for line in islice(read_phrase_table(settings.table), settings.training_lines):
        yield CountedPair(line.raw, line.pair, joint_count(line.raw))


class _Contest:
    """Lets a plain loop do, after every few updates of ours, the same batches.

    :ivar ours: words per second of each turn, ``</s>`` not counted.
    :ivar plain: the same of the plain loop.
    """

    def __init__(self, store: PairStore, network: EncoderDecoder, config: Config) -> None:
        self._store, self._network, self._config = store, network, config
        self._draw = Draw(store, config.training, 0)
        self._plain = copy.deepcopy(network)
        self._optimizer = torch.optim.Adadelta(
            self._plain.parameters(), lr=1.0, rho=config.training.rho, eps=config.training.epsilon
        )
        self._started, self._measured = 0.0, 0
        self.ours: list[float] = []
        self.plain: list[float] = []

    def run(self, turns: int, folder: Path) -> None:
        limits = {"updates": CHUNK * (turns + 1), "epochs": 0, "minutes": 0}
        quiet = {"validation_pairs": 0, "checkpoint_minutes": 0, "checkpoint_updates": 0}
        config = self._config.override(
            f"training.{key}={value}" for key, value in {**limits, **quiet}.items()
        )
        work = RunFolder(folder)
        work.path.mkdir()
        work.begin(config)
        loop = LikelihoodLoop(
            self._network, self._store, config.training, work, self._report, Ranks()
        )
        self._started = self._now()
        if loop.run() == INTERRUPTED:
            raise KeyboardInterrupt  # which the loop caught, to end between two updates
        # The first turns compile kernels and map memory.
        del self.ours[0], self.plain[0]

    def _report(self, progress: TrainingProgress) -> None:
        """Take turns; called by the loop after each update."""
        # The loop reports its last update again when it ends.
        if progress.update % CHUNK or progress.update == self._measured:
            return
        self._measured = progress.update
        middle = self._now()
        batches = [
            self._draw.batch(*divmod(number, self._draw.batches_per_epoch))
            for number in range(progress.update - CHUNK, progress.update)
        ]
        words = sum(sum(int(part.sum()) for part in self._store.lengths(each)) for each in batches)
        pairs: list[IdPair] = []
        ranges = []
        for indices in batches:
            sides = [
                [ids[:-1].tolist() for ids in side.ids.split((side.lengths + 1).tolist())]
                for side in self._store.batch(indices)
            ]
            ranges.append(range(len(pairs), len(pairs) + len(indices)))
            pairs += zip(*sides, strict=True)
        begin = self._now()
        plain_torch.train_steps(self._plain, pairs, ranges, self._optimizer)
        self.ours.append(words / (middle - self._started))
        self.plain.append(words / (self._now() - begin))
        self._started = self._now()

    def _now(self) -> float:
        if self._network.output.weight.is_cuda:
            torch.cuda.synchronize()
        return time.perf_counter()

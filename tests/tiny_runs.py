"""Training runs of a tiny network on a tiny table, which tests start, kill and resume."""

from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from phrasescore.records import PhrasePair
from phrasescore.settings.config import Config
from phrasescore.training.loop import TrainingProgress
from phrasescore.training.objectives import PairRun
from phrasescore.training.pair_store_writer import CountedPair

TINY = Config().override(
    [
        "model.hidden_size=6",
        "model.embedding_size=4",
        "model.maxout_size=3",
        "model.output_rank=4",
        "model.init_std=0.1",
        "training.batch_size=5",
        "training.updates=23",
        "training.validation_pairs=8",
        "training.validation_share=0.5",
        "training.validation_updates=6",
        "training.checkpoint_minutes=0",
    ]
)


def write_table(path: Path, size: int = 60) -> Path:
    with path.open("w") as file:
        for i in range(size):
            source = " ".join(f"s{(i * 7 + j) % 11}" for j in range(1 + i % 3)) + f" x{i}"
            target = " ".join(f"t{(i * 5 + j) % 9}" for j in range(1 + i % 4))
            file.write(f"{source} ||| {target} ||| 1\n")
    return path


def read_table(path: Path) -> Iterator[CountedPair]:
    for line in path.read_bytes().split(b"\n")[:-1]:
        source, target, _ = line.decode().split(" ||| ")
        yield CountedPair(line, PhrasePair(tuple(source.split()), tuple(target.split())), 1.0)


def make_run(folder: Path, config: Config = TINY, name: str = "model") -> PairRun:
    table = folder / "table"
    if not table.exists():
        write_table(table)
    return PairRun(
        inputs=(str(table),),
        read=lambda: read_table(table),
        model=folder / name,
        work=folder / f"{name}.work",
        config=config,
        device=torch.device("cpu"),
    )


def weights(run: PairRun) -> bytes:
    return (run.model / "model.safetensors").read_bytes()


class KilledError(BaseException):
    """Stands for a process that ends at once."""


def kill_after(update: int) -> Callable[[TrainingProgress], None]:
    def report(now: TrainingProgress) -> None:
        if now.update == update:
            raise KilledError

    return report

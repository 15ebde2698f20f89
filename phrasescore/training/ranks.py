"""Ranks: the processes of one training run, which torchrun starts.

Each rank has the whole network and its share of every batch. The gradients of an update become one
flat vector, which one all-reduce sums over the ranks, always in the same order, so that the same
number of ranks gives the same bits. (torch's DistributedDataParallel rearranges its buckets after
the first step of a process, so a resumed run would add in another order.)
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

import torch
import torch.distributed
from torch import nn

from phrasescore.devices import choose_device
from phrasescore.errors import PhrasescoreError

# Maximum time to wait while the first rank reads the input.
_PREPARATION = timedelta(days=30)
# Maximum time between two sums of gradients: the first rank may save to a slow disk.
_PATIENCE = timedelta(minutes=10)


class RankLostError(PhrasescoreError):
    """Another rank has ended, or cannot be reached."""


class Ranks:
    """One rank's connection to all ranks of a run; by default, this process is the only rank."""

    def __init__(self, rank: int = 0, size: int = 1, device: torch.device | None = None) -> None:
        self.rank, self.size = rank, size
        self._device = device
        self._patient = (
            torch.distributed.new_group(timeout=_PREPARATION, backend="gloo") if size > 1 else None
        )

    @property
    def is_first(self) -> bool:
        """Whether this rank reads the input, decides by the clock, and writes all files."""
        return self.rank == 0

    def sum_gradients(
        self, parameters: Iterable[nn.Parameter], numbers: Sequence[float]
    ) -> list[float]:
        """Replace each gradient by its sum over the ranks; return float32 sums of ``numbers``."""
        parameters = list(parameters)
        gradients = [
            torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            for parameter in parameters
        ]
        parts = [gradient.flatten() for gradient in gradients]
        parts.append(torch.tensor(numbers, device=self._device))
        flat = torch.cat(parts)  # (gradients + numbers,)
        with _translated_errors():
            torch.distributed.all_reduce(flat)
        *flat_sums, sums = flat.split(list(map(len, parts)))
        for parameter, gradient in zip(parameters, flat_sums, strict=True):
            parameter.grad = gradient.view_as(parameter)
        return [float(number) for number in sums.tolist()]

    def sum(self, numbers: Sequence[float]) -> list[float]:
        """Return the sum of each number over the ranks, in float64."""
        sums = torch.tensor(numbers, dtype=torch.float64, device=self._device)
        if self.size > 1:
            with _translated_errors():
                torch.distributed.all_reduce(sums)
        return [float(number) for number in sums.tolist()]

    def wait(self) -> None:
        """Wait until every rank has reached this call."""
        if self._patient is not None:
            with _translated_errors():
                torch.distributed.barrier(self._patient)


def local_ranks() -> int:
    """Return the number of ranks on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def device_of_rank(name: str) -> torch.device:
    """Return the device for a ``--device`` option; if there are several ranks, each has one GPU."""
    device = choose_device(name)
    if device.type == "cuda" and ":" not in name and "LOCAL_RANK" in os.environ:
        return choose_device(f"cuda:{os.environ['LOCAL_RANK']}")
    return device


@contextlib.contextmanager
def joined_ranks(device: torch.device) -> Iterator[Ranks]:
    """Join the ranks that torchrun has started; without torchrun, this process is the only rank.

    :raises RankLostError: if the other ranks cannot be reached.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Ranks()
        return
    with _translated_errors():
        backend = "nccl" if device.type == "cuda" else "gloo"
        torch.distributed.init_process_group(backend, timeout=_PATIENCE)
    try:
        rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        yield Ranks(rank, size, device)
    finally:
        torch.distributed.destroy_process_group()


@contextlib.contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise RankLostError(
            "another process of this run has ended, or cannot be reached; --resume continues from "
            "the last saved state"
        ) from error

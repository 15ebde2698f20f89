"""The targets of many sources, on an engine: windows of sources are its items."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import NamedTuple

import torch

from phrasescore.arguments import PrecisionName
from phrasescore.devices import choose_device, torch_threads
from phrasescore.engines import EngineSettings, open_pool
from phrasescore.engines.pool import WorkerPool
from phrasescore.generation.generator import Generated, Generator, Source
from phrasescore.models.checkpoint import ModelFolder

_logger = logging.getLogger(__name__)

# Batches that are read together and then cut by length, so that a batch's sources are alike.
WINDOW_BATCHES = 4

# The number of the first source, and some sources.
SourceWindow = tuple[int, list[Source]]
TargetPool = WorkerPool[SourceWindow, list[list[Generated]]]


class NetworkFolders(NamedTuple):
    """Where a worker on another machine finds the networks of a generator."""

    models: tuple[ModelFolder, ...]
    device: str
    precision: PrecisionName

    def load(self) -> Generator:
        """Read the networks.

        :raises ModelError: if one is not there, or is another one.
        """
        checkpoints = [model.load() for model in self.models]
        with torch_threads(1):
            return Generator(checkpoints, choose_device(self.device), precision=self.precision)


@dataclass(frozen=True)
class TargetWork:
    """Finds the targets of windows of sources: the work of an engine's workers."""

    networks: Generator | NetworkFolders
    # Takes the generator, the number of a window's first source, and the window.
    find: Callable[[Generator, int, Sequence[Source]], list[list[Generated]]]
    # Sources that the networks compute together.
    batch_size: int

    @property
    def device(self) -> str:
        """Where the networks run."""
        return str(self.networks.device)

    def load(self) -> Callable[[SourceWindow], list[list[Generated]]]:
        """Return what finds the targets of a window.

        :raises ModelError: if a model is not there, or is another one.
        """
        networks = self.networks
        generator = networks.load() if isinstance(networks, NetworkFolders) else networks

        def find(window: SourceWindow) -> list[list[Generated]]:
            # Windows never wait for one another: each is computed with one thread.
            torch.set_num_threads(1)
            return self.find(generator, *window)

        return find

    def open_pool(self, engine: EngineSettings) -> TargetPool:
        """Return the workers of an engine, to be entered; here a GPU has one."""
        if engine.name == "here" and self.device != "cpu":
            engine = replace(engine, workers=1)
        return open_pool(engine, self)

    def windows(self, sources: Iterable[Source]) -> Iterator[SourceWindow]:
        """Yield the sources in windows of some batches."""
        size = self.batch_size * WINDOW_BATCHES
        iterator = iter(sources)
        parts = iter(lambda: list(islice(iterator, size)), [])
        return zip(count(step=size), parts, strict=False)

    def targets(
        self, sources: Iterable[Source], engine: EngineSettings
    ) -> Iterator[list[Generated]]:
        """Yield the targets of each source, in order; some windows are read ahead."""
        with self.open_pool(engine) as pool:
            for found in pool.map(self.windows(sources)):
                yield from found
        for note in pool.notes:
            _logger.warning("%s", note)

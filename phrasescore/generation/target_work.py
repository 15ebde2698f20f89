"""Generate the targets of many sources on an engine, a window of sources at a time."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import NamedTuple

import torch

from phrasescore.arguments import PrecisionName
from phrasescore.devices import choose_device, torch_threads
from phrasescore.engines import open_pool
from phrasescore.engines.pool import WorkerPool
from phrasescore.generation.generator import Generated, Generator, Source
from phrasescore.models.checkpoint import ModelFolder
from phrasescore.settings.compute import Compute

_logger = logging.getLogger(__name__)

# A window has this many batches; its sources are sorted by length, so that a batch's are similar.
WINDOW_BATCHES = 4

# The number of the first source of a window, and its sources.
SourceWindow = tuple[int, list[Source]]
TargetPool = WorkerPool[SourceWindow, list[list[Generated]]]


class NetworkFolders(NamedTuple):
    """The networks of a generator for a worker on another machine."""

    models: tuple[ModelFolder, ...]
    device: str
    precision: PrecisionName

    def load(self) -> Generator:
        """Read the networks."""
        checkpoints = [model.load() for model in self.models]
        with torch_threads(1):
            return Generator(checkpoints, choose_device(self.device), precision=self.precision)


@dataclass(frozen=True)
class TargetWork:
    """Generates the targets of windows of sources in an engine's workers."""

    networks: Generator | NetworkFolders
    # Its arguments are the generator, the number of the window's first source, and the window.
    find: Callable[[Generator, int, Sequence[Source]], list[list[Generated]]]
    # Number of sources that the networks compute together.
    batch_size: int

    @property
    def device(self) -> str:
        """Where the networks run."""
        return str(self.networks.device)

    def load(self) -> Callable[[SourceWindow], list[list[Generated]]]:
        """Return a function from a window to its targets."""
        networks = self.networks
        generator = networks.load() if isinstance(networks, NetworkFolders) else networks

        def find(window: SourceWindow) -> list[list[Generated]]:
            # Windows run in parallel, so each uses one thread.
            torch.set_num_threads(1)
            return self.find(generator, *window)

        return find

    def open_pool(self, engine: Compute) -> TargetPool:
        """Return the workers of an engine, as a context manager; a local GPU gets one worker."""
        if engine.engine == "here" and self.device != "cpu":
            engine = replace(engine, workers=1)
        return open_pool(engine, self)

    def windows(self, sources: Iterable[Source]) -> Iterator[SourceWindow]:
        """Yield the sources in windows of several batches."""
        size = self.batch_size * WINDOW_BATCHES
        iterator = iter(sources)
        parts = iter(lambda: list(islice(iterator, size)), [])
        return zip(count(step=size), parts, strict=False)

    def targets(self, sources: Iterable[Source], engine: Compute) -> Iterator[list[Generated]]:
        """Yield the targets of each source, in order; some windows are read ahead."""
        with self.open_pool(engine) as pool:
            for targets in pool.map(self.windows(sources)):
                yield from targets
        for note in pool.notes:
            _logger.warning("%s", note)

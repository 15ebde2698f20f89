"""Targets of many sources: read as a stream, generated batch by batch, in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import count, islice

import torch

from phrasescore.engines.worker_threads import worker_threads
from phrasescore.generation.beam_search import BATCH_ROWS, BeamSettings, beam_search
from phrasescore.generation.generator import Generated, Generator, Source
from phrasescore.generation.sampling import BATCH_SAMPLES, SampleSettings, sample_targets

# Batches that are read together and then cut by length, so that a batch's sources are alike.
WINDOW_BATCHES = 4
# The target of a source without words, for which no network is asked.
EMPTY = Generated((), 0.0)

_Work = Callable[[int, list[Source]], list[list[Generated]]]


def best_targets(
    generator: Generator,
    sources: Iterable[Source],
    settings: BeamSettings,
    *,
    threads: int = 1,
) -> Iterator[list[Generated]]:
    """Yield the best targets of each source, in order; some hundred sources are read ahead.

    A source without words has one target without words, with the score 0.

    :param threads: CPU threads, each with some sources of its own. A GPU has one.
    """
    size = max(BATCH_ROWS[generator.device.type] // settings.width, 1) * WINDOW_BATCHES

    def search(_first: int, window: list[Source]) -> list[list[Generated]]:
        found = iter(beam_search(generator, [source for source in window if source], settings))
        return [next(found) if source else [EMPTY] for source in window]

    return _in_order(search, sources, size, threads if generator.device.type == "cpu" else 1)


def samples(
    generator: Generator,
    sources: Iterable[Source],
    settings: SampleSettings,
    *,
    threads: int = 1,
) -> Iterator[list[Generated]]:
    """Yield random targets of each source, in order; the number of a source is its place, from 0.

    A source without words has none.

    :param threads: CPU threads, each with some sources of its own. A GPU has one.
    """
    size = max(BATCH_SAMPLES[generator.device.type] // settings.count, 1) * WINDOW_BATCHES

    def draw(first: int, window: list[Source]) -> list[list[Generated]]:
        places = [place for place, source in enumerate(window) if source]
        found = iter(
            sample_targets(
                generator,
                [window[place] for place in places],
                settings.count,
                temperature=settings.temperature,
                seed=settings.seed,
                max_length=settings.max_length,
                unknown=settings.unknown,
                numbers=[first + place for place in places],
            )
        )
        return [next(found) if source else [] for source in window]

    return _in_order(draw, sources, size, threads if generator.device.type == "cpu" else 1)


def _in_order(
    work: _Work, sources: Iterable[Source], size: int, threads: int
) -> Iterator[list[Generated]]:
    """Yield the results of ``work`` on windows of sources, in order.

    ``work`` gets the number of a window's first source, and the window. One more window is read
    ahead than there are threads.
    """
    iterator = iter(sources)
    waiting: deque[Future[list[list[Generated]]]] = deque()
    # Each thread computes with one thread of torch's: windows never wait for one another.
    with worker_threads(threads, lambda: torch.set_num_threads(1)) as pool:
        for first in count(step=size):
            window = list(islice(iterator, size))
            if window:
                waiting.append(pool.submit(work, first, window))
            while waiting and (not window or len(waiting) > threads + 1):
                yield from waiting.popleft().result()
            if not window:
                return

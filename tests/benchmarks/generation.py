"""Generation: sentences a second by beam width, batched against one at a time."""

import time

import torch

from phrasescore.generation.beam_search import BeamSettings, beam_search
from phrasescore.generation.generator import Generator
from phrasescore.io.corpora import read_monolingual_text
from phrasescore.records import PhrasePair
from phrasescore.settings.config import Config
from tests.benchmarks.material import start_checkpoint, torch_threads
from tests.benchmarks.results import Report, Row, quotients
from tests.benchmarks.settings import Settings

PRESET = "lstm-small"
WIDTHS = (1, 12)
# Every so many sentences are searched alone, too: all of them would take long.
ALONE_STEP = 5
# Words of a target: a network with random weights finds no end.
LENGTH = 12


def measure_generation(settings: Settings) -> Report:
    lines = [line.words for line in read_monolingual_text(settings.translate[1])]
    sources = lines[: settings.sentences]
    # A shortlist of the source's words is as good as any.
    pairs = [PhrasePair(source, source) for source in sources]
    rows: list[Row] = []
    with torch_threads(1):
        checkpoint = start_checkpoint(Config.preset(PRESET), pairs)
        generator = Generator([checkpoint], torch.device("cpu"))
        for width in WIDTHS:
            rows += _measure(generator, sources, width, settings.repeats)
    what = (
        f"{len(sources)} sentences of {settings.translate[1]}, of them each {ALONE_STEP}th alone; "
        f"random weights, {PRESET}; one thread, seconds of the processor"
    )
    return Report("generation", what, rows)


def _measure(
    generator: Generator, sources: list[tuple[str, ...]], width: int, turns: int
) -> list[Row]:
    settings = BeamSettings(width, max_length=LENGTH)
    alone = sources[::ALONE_STEP]
    beam_search(generator, alone[:2], settings)  # what comes first is compiled, or mapped
    batched: list[float] = []
    single: list[float] = []
    for _ in range(turns):
        start = time.process_time()
        found = beam_search(generator, sources, settings)
        batched.append((time.process_time() - start) / len(sources))
        start = time.process_time()
        one_by_one = [beam_search(generator, [source], settings)[0] for source in alone]
        single.append((time.process_time() - start) / len(alone))
    if one_by_one != found[::ALONE_STEP]:
        raise RuntimeError("a sentence on its own got something else")
    name = f"random, beam {width}"
    return [
        Row(f"{name}: batched", quotients([1.0] * turns, batched), "sentences/s", 1),
        Row(f"{name}: one at a time", quotients([1.0] * turns, single), "sentences/s", 1),
        Row(f"{name}: batched against one at a time", quotients(single, batched)),
    ]

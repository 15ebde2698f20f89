"""Generation: sentences a second by beam width, batched against one at a time, and BLEU."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from sacrebleu.metrics.bleu import BLEU

from phrasescore.generation.beam_search import BeamSettings, beam_search
from phrasescore.generation.generator import Generator
from phrasescore.io.corpora import read_monolingual_text
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.records import HypothesisList
from phrasescore.settings.config import Config
from tests.benchmarks.machine import torch_threads
from tests.benchmarks.rescoring import random_sentence_network
from tests.benchmarks.results import Report, Row, quotients

WIDTHS = (1, 2, 5, 10, 12)
# Every so many sentences are searched alone, too: all of them would take long.
ALONE_STEP = 5
# Words of a target of a network with random weights, which finds no end.
RANDOM_LENGTH = 12


@dataclass(frozen=True)
class GenerationOptions:
    source: str
    reference: str
    # The first ones of the text.
    sentences: int
    # Folders: of the first alone, and of all as an ensemble. None: random weights, and no BLEU.
    models: Sequence[str]
    # Sizes of the network with random weights.
    config: Config
    turns: int


def measure_generation(options: GenerationOptions) -> Report:
    pairs = list(
        zip(
            (line.words for line in read_monolingual_text(options.source)),
            (" ".join(line.words) for line in read_monolingual_text(options.reference)),
            strict=True,
        )
    )[: options.sentences]
    sources, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    rows: list[Row] = []
    with torch_threads(1):
        for name, checkpoints in _systems(options, sources):
            generator = Generator(checkpoints, torch.device("cpu"))
            for width in WIDTHS:
                rows += _measure(
                    f"{name}, beam {width}", generator, sources, references, width, options
                )
    what = (
        f"{len(sources)} sentences of {options.source}, of them each {ALONE_STEP}th alone; "
        f"{', '.join(options.models) or f'random weights, {options.config.kind}'}; one thread, "
        "seconds of the processor"
    )
    return Report("generation", what, rows)


def _systems(
    options: GenerationOptions, sources: Sequence[tuple[str, ...]]
) -> list[tuple[str, list[Checkpoint]]]:
    models = [load_checkpoint(path) for path in options.models]
    if not models:
        # A shortlist of the source's words is as good as any.
        lists = [HypothesisList(source, [source]) for source in sources]
        return [("random", [random_sentence_network(options.config, lists)])]
    return [("one", models[:1]), *([("ensemble", models)] if len(models) > 1 else [])]


def _measure(
    name: str,
    generator: Generator,
    sources: Sequence[tuple[str, ...]],
    references: Sequence[str],
    width: int,
    options: GenerationOptions,
) -> list[Row]:
    settings = BeamSettings(width, max_length=None if options.models else RANDOM_LENGTH)
    alone = sources[::ALONE_STEP]
    beam_search(generator, alone[:2], settings)  # what comes first is compiled, or mapped
    batched: list[float] = []
    single: list[float] = []
    for _ in range(options.turns):
        start = time.process_time()
        found = beam_search(generator, sources, settings)
        batched.append((time.process_time() - start) / len(sources))
        start = time.process_time()
        one_by_one = [beam_search(generator, [source], settings)[0] for source in alone]
        single.append((time.process_time() - start) / len(alone))
    if one_by_one != found[::ALONE_STEP]:
        raise RuntimeError("a sentence on its own got something else")
    rows = [
        Row(f"{name}: batched", quotients([1.0] * options.turns, batched), "sentences/s", 1),
        Row(f"{name}: one at a time", quotients([1.0] * options.turns, single), "sentences/s", 1),
        Row(f"{name}: batched against one at a time", quotients(single, batched)),
    ]
    if options.models:
        texts = [" ".join(targets[0].words) for targets in found]
        bleu = BLEU(tokenize="none", force=True).corpus_score(texts, [list(references)])
        rows.append(Row(f"{name}: BLEU", [bleu.score]))
    return rows

"""Rescoring: phrasescore's scores of n-best lists against plain torch, hypothesis by hypothesis."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import torch

from moses_integration.nbest import read_nbest
from phrasescore.io.text import read_lines
from phrasescore.models.attention import AttentionNetwork
from phrasescore.models.checkpoint import Checkpoint, TrainingRecord
from phrasescore.models.lstm import LstmNetwork
from phrasescore.records import HypothesisList, PhrasePair
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import Config
from tests.benchmarks.machine import torch_threads
from tests.benchmarks.material import padded_vocabularies
from tests.benchmarks.plain_sentences import IdPair, PlainScorer, plain_attention, plain_lstm
from tests.benchmarks.results import Report, Row, quotients
from tests.sentence_scores import SentenceScores

BATCH_SIZE = 64
# The plain side takes every so many lines of the lists as the decoder wrote them, and its time is
# multiplied: all of them take it minutes.
LINE_STEP = 10


@dataclass(frozen=True)
class RescoringOptions:
    nbest: str
    source: str
    # Sizes of the networks: a preset of each kind.
    configs: Sequence[Config]
    lists: int
    threads: int
    turns: int


@dataclass
class _Found:
    """Seconds of each turn, and the scores of the distinct hypotheses."""

    ours: list[float] = field(default_factory=list)
    distinct: list[float] = field(default_factory=list)
    lines: list[float] = field(default_factory=list)
    difference: float = 0.0
    steps: int = 0


def measure_rescoring(options: RescoringOptions) -> Report:
    lists = read_lists(options.nbest, options.source, options.lists)
    lines = sum(len(item.hypotheses) for item in lists)
    rows: list[Row] = []
    distinct = [HypothesisList(item.source, list(dict.fromkeys(item.hypotheses))) for item in lists]
    num_distinct = sum(len(item.hypotheses) for item in distinct)
    for config in options.configs:
        checkpoint = random_sentence_network(config, lists)
        found = _measure(checkpoint, lists, distinct, options)
        speed = quotients([lines] * options.turns, found.ours)
        kind = config.kind
        rows += [
            Row(f"{kind}: phrasescore, lines of the lists", speed, "lines/s", 0),
            Row(
                f"{kind}: phrasescore, distinct hypotheses",
                quotients([num_distinct] * options.turns, found.ours),
                "hypotheses/s",
                0,
            ),
            Row(
                f"{kind}: plain, distinct hypotheses",
                quotients([num_distinct] * options.turns, found.distinct),
                "hypotheses/s",
                0,
            ),
            Row(f"{kind}: against plain, distinct", quotients(found.distinct, found.ours)),
            Row(f"{kind}: against plain, every line", quotients(found.lines, found.ours)),
            Row(
                f"{kind}: words of plain, distinct / decoder steps",
                [_words(distinct) / found.steps],
            ),
            Row(f"{kind}: largest difference in log", [found.difference], digits=7),
        ]
    sizes = "; ".join(
        f"{config.kind} hidden {config.model.hidden_size}" for config in options.configs
    )
    what = (
        f"{len(lists)} lists of {options.nbest}, {lines:,} lines, {num_distinct:,} distinct "
        f"hypotheses; {sizes}; shortlist {options.configs[0].vocabulary.target_size:,}; "
        f"{options.threads} threads"
    )
    return Report("rescoring", what, rows)


def read_lists(nbest: str, source: str, count: int) -> list[HypothesisList]:
    """Return ``count`` lists at equal distances, with their sources."""
    sources = [tuple(line.decode().split()) for line in read_lines(source)]
    step = max(len(sources) // count, 1)
    chosen = set(range(0, len(sources), step)[:count])
    found = []
    for item in read_nbest(nbest):
        if item.id in chosen:
            words = item.distinct()
            hypotheses = [words[hypothesis] for hypothesis in item.hypotheses]
            found.append(HypothesisList(sources[item.id], hypotheses))
    return found


def _words(lists: Sequence[HypothesisList]) -> int:
    return sum(len(hypothesis) + 1 for item in lists for hypothesis in item.hypotheses)


def random_sentence_network(config: Config, lists: Sequence[HypothesisList]) -> Checkpoint:
    pairs = [PhrasePair(item.source, words) for item in lists for words in item.hypotheses[:100]]
    source, target = padded_vocabularies(pairs, config)
    network_class = {"lstm": LstmNetwork, "attention": AttentionNetwork}[config.kind]
    network = network_class(config.model, len(source), len(target))
    network.initialize(torch.Generator().manual_seed(1))
    if isinstance(network, AttentionNetwork):
        with torch.no_grad():
            # Start weights attend to every word alike.
            network.alignment.energy.normal_(0, 1, generator=torch.Generator().manual_seed(2))
    return Checkpoint(network.eval(), config, source, target, TrainingRecord())


def _measure(
    checkpoint: Checkpoint,
    lists: Sequence[HypothesisList],
    distinct: Sequence[HypothesisList],
    options: RescoringOptions,
) -> _Found:
    network = checkpoint.model
    plain = plain_lstm(network) if isinstance(network, LstmNetwork) else _attention(network)
    with torch_threads(1):
        engine = Compute(workers=options.threads)
        ours = SentenceScores([checkpoint], torch.device("cpu"), engine=engine)
    ids = _ids(checkpoint, distinct)
    sample = _ids(checkpoint, lists)[::LINE_STEP]
    found = _Found()
    with torch_threads(options.threads):
        plain.score(ids[: 2 * BATCH_SIZE], BATCH_SIZE)
    for _ in range(options.turns):
        with torch_threads(options.threads):
            seconds, wanted = _timed(plain, ids)
            found.distinct.append(seconds)
        with torch_threads(1):
            start = time.perf_counter()
            scores = list(ours.values(lists))
            found.ours.append(time.perf_counter() - start)
        with torch_threads(options.threads):
            seconds, _ = _timed(plain, sample)
            found.lines.append(seconds * LINE_STEP)
    found.steps = ours.work.steps // options.turns
    by_list = (
        dict(zip(item.hypotheses, values.columns[0].tolist(), strict=True))
        for item, values in zip(lists, scores, strict=True)
    )
    values = chain.from_iterable(
        (known[hypothesis] for hypothesis in item.hypotheses)
        for item, known in zip(distinct, by_list, strict=True)
    )
    found.difference = float(np.abs(np.array(list(values)) - np.array(wanted)).max())
    return found


def _attention(network: torch.nn.Module) -> PlainScorer:
    assert isinstance(network, AttentionNetwork)
    return plain_attention(network)


def _timed(plain: PlainScorer, pairs: Sequence[IdPair]) -> tuple[float, list[float]]:
    start = time.perf_counter()
    values = plain.score(pairs, BATCH_SIZE)
    return time.perf_counter() - start, values


def _ids(checkpoint: Checkpoint, lists: Sequence[HypothesisList]) -> list[IdPair]:
    sources, targets = checkpoint.source_vocabulary, checkpoint.target_vocabulary
    return [
        (sources.ids(item.source), targets.ids(hypothesis))
        for item in lists
        for hypothesis in item.hypotheses
    ]

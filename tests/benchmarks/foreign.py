"""Rescoring with a model of CTranslate2's: phrasescore against CTranslate2 called plainly."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import ctranslate2
import numpy as np

from phrasescore.features import ColumnSpec
from phrasescore.foreign import ForeignText
from phrasescore.foreign.model import ForeignModel
from phrasescore.records import HypothesisList, PhrasePair
from phrasescore.settings.compute import Compute
from phrasescore.workflows.scoring.columns import FeatureLoader
from phrasescore.workflows.scoring.scorer import Scorer, group_pairs
from tests.benchmarks.rescoring import read_lists
from tests.benchmarks.results import Report, Row, quotients
from tests.tiny_translator import TinyTranslator

# The plain side takes every so many lines of the lists, and its time is multiplied.
LINE_STEP = 20
# Examples of a batch that CTranslate2 makes itself.
BATCH_SIZE = 64


@dataclass(frozen=True)
class ForeignOptions:
    nbest: str
    source: str
    # A model's folder; None for random weights and the words of the lists as pieces.
    folder: str | None
    # Units of a layer of those.
    size: int
    lists: int
    threads: int
    turns: int


def measure_foreign(options: ForeignOptions) -> Report:
    lists = read_lists(options.nbest, options.source, options.lists)
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or _random_model(Path(name, "model"), lists, options.size)
        return _measure(options, folder, lists)


def _random_model(path: Path, lists: Sequence[HypothesisList], size: int) -> str:
    words = {word for item in lists for side in (item.source, *item.hypotheses) for word in side}
    TinyTranslator(path, sorted(words), size=size, layers=3, positions=512)
    return str(path)


def _measure(options: ForeignOptions, folder: str, lists: Sequence[HypothesisList]) -> Report:
    lines = [PhrasePair(item.source, words) for item in lists for words in item.hypotheses]
    distinct = list(dict.fromkeys(lines))
    text = ForeignText()
    model = ForeignModel(folder, text)
    plain = ctranslate2.Translator(folder, inter_threads=options.threads, intra_threads=1)

    def score_batches(pairs: Sequence[PhrasePair]) -> list[float]:
        found = plain.score_batch(
            [[*model.source.pieces(source), *model.after] for source, _ in pairs],
            [model.target.pieces(target) for _, target in pairs],
            max_input_length=0,
            max_batch_size=BATCH_SIZE,
        )
        return [sum(each.log_probs) for each in found]

    def score_singly(pairs: Sequence[PhrasePair]) -> list[float]:
        return [score_batches([pair])[0] for pair in pairs]

    column = ColumnSpec("ctranslate2", folder, foreign=text)
    loader = FeatureLoader((column,), callers=options.threads)
    ours, one_by_one, of_distinct, batches = [], [], [], []
    difference = 0.0
    with Scorer(loader, Compute(workers=options.threads)) as scorer:

        def score_all(pairs: Sequence[PhrasePair]) -> list[float]:
            scored = scorer.score(group_pairs(pairs))
            return [value for _, scores in scored for value in scores.values[0].tolist()]

        score_all(distinct[:2])  # loads the model
        for _ in range(options.turns):
            # Lists bring each hypothesis once to a feature.
            seconds, values = _timed(score_all, distinct)
            ours.append(seconds)
            by_pair = dict(zip(distinct, values, strict=True))
            sample = lines[::LINE_STEP]
            seconds, wanted = _timed(score_singly, sample)
            one_by_one.append(seconds * len(lines) / len(sample))
            found = np.array([by_pair[pair] for pair in sample])
            difference = max(difference, float(np.abs(found - np.array(wanted)).max()))
            sample = distinct[::LINE_STEP]
            seconds, _ = _timed(score_singly, sample)
            of_distinct.append(seconds * len(distinct) / len(sample))
            sample = lines[: len(lines) // LINE_STEP]
            seconds, _ = _timed(score_batches, sample)
            batches.append(seconds * len(lines) / len(sample))
    counts = [[len(pairs)] * options.turns for pairs in (lines, distinct)]
    rows = [
        Row("phrasescore, lines of the lists", quotients(counts[0], ours), "lines/s", 0),
        Row("  distinct hypotheses", quotients(counts[1], ours), "hypotheses/s", 0),
        Row("CTranslate2, line by line", quotients(counts[0], one_by_one), "lines/s", 0),
        Row("  against it (target 5)", quotients(one_by_one, ours)),
        Row("  against it, distinct hypotheses", quotients(of_distinct, ours)),
        Row(f"  against its own batches of {BATCH_SIZE}, every line", quotients(batches, ours)),
        Row("  largest difference in log (target 1e-3)", [difference], digits=7),
    ]
    what = (
        f"{len(lists)} lists of {options.nbest}, {len(lines):,} lines, {len(distinct):,} distinct "
        f"hypotheses; {options.folder or f'random, 3 layers of {options.size}'}; "
        f"{options.threads} threads"
    )
    return Report("foreign", what, rows)


def _timed(
    score: Callable[[Sequence[PhrasePair]], list[float]], pairs: Sequence[PhrasePair]
) -> tuple[float, list[float]]:
    start = time.perf_counter()
    found = score(pairs)
    return time.perf_counter() - start, found

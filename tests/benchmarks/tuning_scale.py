"""Tuning at scale: seconds and peak memory of each method on large pools, by resampling real ones.

A list that is made up has the hypotheses of one real list, with their features and statistics. It
is drawn at random, and its hypotheses too: without replacement while there are enough, else each as
often as it takes. Features beyond the real ones are random directions in the space of those, in
units of their deviations, with as much noise. So hypotheses share statistics where real ones do (a
list of 1,000 has some hundred different strings), and hardly two share all features: as real lists.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from phrasescore.records import FeatureLabel
from tests.benchmarks import peak_memory
from tests.benchmarks.results import Report, Row
from tests.benchmarks.tuning import (
    MADE_UP_LISTS,
    MADE_UP_QUALITY,
    MADE_UP_SIZE,
    Clock,
    Extracted,
    read_extracted,
    read_start,
)
from tests.random_pools import random_pool
from tuning.methods import load_method
from tuning.metrics import CorpusBleu
from tuning.pool import Pool
from tuning.settings import TuneSettings

# How many features, and with which methods: mert is for some twenty.
SIZES = ((20, ("mert", "mira", "xbleu")), (100, ("mira", "xbleu")))


@dataclass(frozen=True)
class ScaleOptions:
    # What is resampled; None: made-up hypotheses. Its start is the start.
    files: Extracted | None
    sentences: int
    # Of each sentence.
    hypotheses: int
    starts: int
    threads: int


def measure_tuning_scale(options: ScaleOptions) -> Report:
    real, start = _material(options.files)
    rows = [Row("sentences", [options.sentences], digits=0)]
    rows.append(Row("hypotheses of each", [options.hypotheses], digits=0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for num_features, methods in SIZES:
            pool = resample(real, options.sentences, options.hypotheses, num_features, seed=1)
            np.save(folder / "features.npy", pool.features)
            np.save(folder / "stats.npy", pool.stats)
            np.save(folder / "starts.npy", pool.starts)
            np.save(folder / "weights.npy", np.append(start, np.zeros(num_features - len(start))))
            size = pool.features.nbytes + pool.stats.nbytes
            rows.append(Row(f"{num_features} features: the pool itself", [size / 1e6], "MB", 0))
            del pool
            for method in methods:
                rows += _measure(method, num_features, folder, options)
    what = (
        f"{options.sentences:,} sentences of {options.hypotheses:,} hypotheses,"
        f" {options.starts} random starts, {options.threads} threads"
    )
    return Report("tuning_scale", what, rows)


def resample(real: Pool, sentences: int, hypotheses: int, num_features: int, seed: int) -> Pool:
    """Return a pool of that many sentences, hypotheses of each, and features, as described above.

    :param num_features: at least those of the real pool.
    """
    random = np.random.default_rng(seed)
    rows = np.concatenate(
        [
            _draw(real.starts[segment], real.starts[segment + 1], hypotheses, random)
            for segment in random.integers(real.num_segments, size=sentences)
        ]
    )
    more = num_features - real.num_features
    directions = random.normal(size=(real.num_features, more))
    directions /= np.linalg.norm(directions, axis=0)
    units = real.deviations()
    directions /= np.where(units > 0, units, 1.0)[:, None]
    features = np.empty((len(rows), num_features))
    features[:, : real.num_features] = real.features[rows]
    made = features[:, real.num_features :]
    np.matmul(features[:, : real.num_features], directions, out=made)
    for column in range(more):  # one at a time: all at once would take the room of the pool again
        made[:, column] += random.normal(size=len(rows))
    labels = real.labels + tuple(FeatureLabel("Made", place) for place in range(more))
    return Pool(labels, features, real.stats[rows], np.arange(sentences + 1) * hypotheses)


def _draw(first: int, end: int, number: int, random: np.random.Generator) -> np.ndarray:
    size = end - first
    whole = [random.permutation(size) for _ in range(-(-number // size))]
    return first + np.concatenate(whole)[:number]


def _material(files: Extracted | None) -> tuple[Pool, np.ndarray]:
    if files is None:
        pool = random_pool(1, MADE_UP_LISTS, MADE_UP_SIZE, MADE_UP_QUALITY)
        return pool, np.full(pool.num_features, 0.3)
    return read_extracted(files.features, files.scores), read_start(files.start)


def _measure(method: str, num_features: int, folder: Path, options: ScaleOptions) -> list[Row]:
    command = [sys.executable, str(peak_memory.__file__), sys.executable]
    command += ["-m", __name__, method, str(folder), str(options.starts), str(options.threads)]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    found, whole = map(json.loads, done.stdout.splitlines()[-2:])
    what = f"{num_features} features, {method}"
    return [
        Row(f"{what}: seconds", [found["seconds"]], "s", 1),
        Row(f"{what}: seconds of the processor", [found["cpu"]], "s", 1),
        Row(f"{what}: peak of the process", [whole["bytes"] / 1e6], "MB", 0),
        Row(f"{what}: BLEU at the start", [100 * found["start"]]),
        Row(f"{what}: BLEU reached", [100 * found["reached"]]),
    ]


def _main(method: str, folder: str, starts: str, threads: str) -> None:
    """Tune on the pool in a folder; print seconds without reading and compiling, and BLEU."""
    names = ("features", "stats", "starts", "weights")
    features, stats, ends, weights = (np.load(Path(folder) / f"{name}.npy") for name in names)
    labels = tuple(FeatureLabel("Feature", place) for place in range(len(weights)))
    pool = Pool(labels, features, stats, ends)
    optimise = load_method(method)
    settings = TuneSettings(starts=int(starts), threads=int(threads))
    optimise(pool.subset([0, 1]), CorpusBleu(), weights, settings, seed=1)
    began = Clock.now()
    tuned = optimise(pool, CorpusBleu(), weights, settings, seed=1)
    now = Clock.now()
    found = {"seconds": now.wall - began.wall, "cpu": now.cpu - began.cpu}
    print(json.dumps({**found, "start": tuned.start_score, "reached": tuned.score}))


if __name__ == "__main__":
    _main(*sys.argv[1:])

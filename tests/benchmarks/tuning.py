"""Tuning: phrasescore's MERT against Moses' own ``mert``, on what Moses' extractor wrote."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import stdev
from typing import NamedTuple

import numpy as np
from xopen import xopen

from phrasescore.workflows.tune.optimiser import read_extracted
from tests.benchmarks.results import Report, Row, quotients
from tests.random_pools import random_pool
from tuning.methods import Tuned, load_method
from tuning.metrics import CorpusBleu
from tuning.pool import Pool
from tuning.settings import TuneSettings

# The pool that is made up where there is no real one: about as many lists as a decoder makes of a
# small tuning set.
MADE_UP_LISTS, MADE_UP_SIZE = 300, 200
MADE_UP_QUALITY = tuple(1 / (place + 1) for place in range(14))


class Extracted(NamedTuple):
    """Files of Moses' extractor, and a file of weights to start from, as ``mert --ifile`` has it.

    The features' and the scores' file may be compressed.
    """

    features: str
    scores: str
    start: str


@dataclass(frozen=True)
class TuningOptions:
    # None: made-up hypotheses.
    files: Extracted | None
    seeds: int
    # Random starts, of both sides.
    starts: int
    threads: int
    # Whether to run Moses' mert, too, if it is on the PATH: it takes minutes a seed.
    moses: bool
    # Features and scores of another set, with the same features: both sides' weights are tried
    # there.
    test: tuple[str, str] | None = None


class Clock(NamedTuple):
    """A time, in seconds."""

    wall: float
    # Of this process and of those that it has started.
    cpu: float

    @classmethod
    def now(cls) -> Clock:
        return cls(time.perf_counter(), sum(os.times()[:4]))


@dataclass
class _Found:
    """Seconds from the files to the weights, and BLEU, of each seed."""

    seconds: list[float] = field(default_factory=list)
    # Of the processor: on a busy machine the others' work is not in them.
    cpu: list[float] = field(default_factory=list)
    bleu: list[float] = field(default_factory=list)
    # BLEU of the other set; none where there is none.
    test: list[float] = field(default_factory=list)

    def add(self, began: Clock, bleu: float, weights: np.ndarray, test: Pool | None) -> None:
        now = Clock.now()
        self.seconds.append(now.wall - began.wall)
        self.cpu.append(now.cpu - began.cpu)
        self.bleu.append(100 * bleu)
        if test is not None:
            self.test.append(100 * test.score(CorpusBleu(), weights))

    def rows(self, who: str) -> list[Row]:
        if not self.seconds:
            return []
        rows = [
            Row(f"{who}: from the files to the weights", self.seconds, "s"),
            Row(f"{who}: the same, of the processor", self.cpu, "s"),
            Row(f"{who}: BLEU reached", self.bleu),
        ]
        if len(self.bleu) > 1:
            rows.append(Row(f"{who}: spread of it, a deviation", [stdev(self.bleu)], digits=3))
        if self.test:
            rows.append(Row(f"{who}: BLEU of the test set", self.test))
        return rows


def measure_tuning(options: TuningOptions) -> Report:
    """Measure seconds and BLEU by seed; the two sides take turns.

    Both read the same plain files and start from the same weights, with as many random starts; a
    time is from the files to the weights, for both.
    """
    tool = shutil.which("mert") if options.moses else None
    ours, theirs = _Found(), _Found()
    test = None if options.test is None else read_extracted(*([path] for path in options.test))
    with tempfile.TemporaryDirectory() as name:
        files = _plain_files(Path(name), options.files)
        start = read_start(files.start)
        # Compiled before anything is timed.
        _tune(read_extracted([files.features], [files.scores]).subset([0, 1]), start, 0, options)
        for seed in range(1, options.seeds + 1):
            began = Clock.now()
            pool = read_extracted([files.features], [files.scores])
            found = _tune(pool, start, seed, options)
            ours.add(began, found.score, found.weights, test)
            if tool is not None:
                began = Clock.now()
                bleu, weights = _run_mert(tool, Path(name), files, seed, options)
                theirs.add(began, bleu, weights, test)
    rows = ours.rows("phrasescore") + theirs.rows("Moses' mert")
    if tool is not None:
        better = np.array(ours.bleu) - np.array(theirs.bleu)
        rows.append(Row("times as fast", quotients(theirs.seconds, ours.seconds)))
        rows.append(Row("times as fast, of the processor", quotients(theirs.cpu, ours.cpu)))
        rows.append(Row("BLEU above Moses'", better.tolist()))
    what = (
        f"{len(pool.stats)} distinct hypotheses of {pool.num_segments} sentences,"
        f" {pool.num_features} features, {options.starts} random starts,"
        f" {options.threads} threads, {options.seeds} seeds"
    )
    return Report("tuning", what, rows)


def _tune(pool: Pool, start: np.ndarray, seed: int, options: TuningOptions) -> Tuned:
    settings = TuneSettings(starts=options.starts, threads=options.threads)
    return load_method("mert")(pool, CorpusBleu(), start, settings, seed=seed)


def _run_mert(
    tool: str, folder: Path, files: Extracted, seed: int, options: TuningOptions
) -> tuple[float, np.ndarray]:
    """Run mert as mert-moses.pl does; return the BLEU, 0 to 1, and weights that it calls best."""
    command = [tool, "-d", str(len(read_start(files.start))), "--sctype", "BLEU"]
    command += ["--scconfig", "case:true", "-n", str(options.starts), "-r", str(seed)]
    command += ["--threads", str(options.threads), "--ifile", files.start]
    command += ["--ffile", files.features, "--scfile", files.scores]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    found = re.search(r"Best point: .* => ([0-9.e-]+)", done.stderr + done.stdout)
    if found is None:
        raise RuntimeError(f"mert names no best point: {done.stderr[-300:]}")
    weights = (folder / "weights.txt").read_text(encoding="ascii").split()
    return float(found[1]), np.array([float(weight) for weight in weights])


def _plain_files(folder: Path, files: Extracted | None) -> Extracted:
    """Return uncompressed files: neither side is timed at unpacking."""
    if files is None:
        return write_made_up(folder)
    features, scores = folder / "features.dat", folder / "scores.dat"
    for path, target in ((files.features, features), (files.scores, scores)):
        with xopen(path, "rb") as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy)
    return Extracted(str(features), str(scores), str(Path(files.start).resolve()))


def read_start(path: str) -> np.ndarray:
    """Return the weights in the first line; the other two say what may vary, and how far."""
    with open(path, encoding="ascii") as lines:
        return np.array([float(number) for number in lines.readline().split(" ")])


def write_made_up(folder: Path) -> Extracted:
    pool = random_pool(1, MADE_UP_LISTS, MADE_UP_SIZE, MADE_UP_QUALITY)
    size = pool.num_features
    names = " ".join(map(str, pool.labels))
    order = [0, 4, 1, 5, 2, 6, 3, 7, 8]  # a match, a total, and so on
    _write_blocks(folder / "features.dat", "FEATURES", f"{size} {names}", pool, pool.features)
    _write_blocks(folder / "scores.dat", "SCORES", "9 BLEU", pool, pool.stats[:, order])
    start = folder / "init.opt"
    lines = [" ".join([number] * size) for number in ("0.3", "0", "1")]
    start.write_text("\n".join(lines) + "\n", encoding="ascii")
    return Extracted(str(folder / "features.dat"), str(folder / "scores.dat"), str(start))


def _write_blocks(path: Path, kind: str, names: str, pool: Pool, values: np.ndarray) -> None:
    lines: list[str] = []
    for segment, rows in enumerate(np.split(values, pool.starts[1:-1])):
        lines.append(f"{kind}_TXT_BEGIN_0 {segment} {len(rows)} {names} ")
        lines += [" ".join(f"{value:g}" for value in row) + " " for row in rows.tolist()]
        lines.append(f"{kind}_TXT_END_0")
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


def default_files(folder: Path) -> Extracted | None:
    names = ("features.dat.gz", "scores.dat.gz", "init.default.opt")
    features, scores, start = (str(folder / name) for name in names)
    return Extracted(features, scores, start) if Path(features).is_file() else None

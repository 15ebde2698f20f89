"""Tuning: MERT and MIRA against Moses' ``mert`` and ``kbmira``, on what Moses' extractor wrote."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import stdev
from typing import NamedTuple

import numpy as np
from xopen import xopen

from phrasescore.records import FeatureLabel
from tests.benchmarks.results import Report, Row, quotients
from tests.random_pools import random_pool
from tuning.methods import Tuned, load_method
from tuning.metrics import CorpusBleu
from tuning.pool import Pool
from tuning.settings import MethodName, TuneSettings

# The pool that is made up where there is no real one: about as many lists as a decoder makes of a
# small tuning set.
MADE_UP_LISTS, MADE_UP_SIZE = 300, 200
MADE_UP_QUALITY = tuple(1 / (place + 1) for place in range(14))
BLEU_ORDER = [0, 4, 1, 5, 2, 6, 3, 7, 8]  # in Moses' files: a match, a total, and so on


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
    # Moses' programs, each of which takes minutes a seed; None: not measured.
    mert: str | None = None
    kbmira: str | None = None
    # The first ones of the files, or all.
    lists: int | None = None
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
    mert, mira = _Sides("mert", options.mert), _Sides("mira", options.kbmira)
    test = None if options.test is None else read_extracted(*options.test)
    with tempfile.TemporaryDirectory() as name:
        files = _plain_files(Path(name), options.files, options.lists)
        start = read_start(files.start)
        few = read_extracted(files.features, files.scores).subset([0, 1])
        for sides in (mert, mira):
            _tune(sides.method, few, start, 0, options)  # compiled before anything is timed
        for seed in range(1, options.seeds + 1):
            for sides in (mert, mira):
                began = Clock.now()
                pool = read_extracted(files.features, files.scores)
                found = _tune(sides.method, pool, start, seed, options)
                sides.ours.add(began, found.score, found.weights, test)
                if sides.tool is not None:
                    run = _run_mert if sides is mert else _run_kbmira
                    began = Clock.now()
                    weights = run(sides.tool, Path(name), files, seed, options)
                    sides.theirs.add(began, pool.score(CorpusBleu(), weights), weights, test)
    what = (
        f"{len(pool.stats)} distinct hypotheses of {pool.num_segments} sentences,"
        f" {pool.num_features} features, {options.starts} random starts,"
        f" {options.threads} threads, {options.seeds} seeds"
    )
    rows = [row for sides in (mert, mira) for row in sides.rows()]
    rows.append(Row("sentences", [pool.num_segments], digits=0))
    rows.append(Row("distinct hypotheses", [len(pool.stats)], digits=0))
    left_out = [
        f"Moses' {name} was not run: no such program in --moses-bin or on the PATH"
        for name, sides in (("mert", mert), ("kbmira", mira))
        if sides.tool is None
    ]
    return Report("tuning", what, rows, left_out)


class _Sides:
    """A method, and Moses' program for it."""

    def __init__(self, method: MethodName, tool: str | None) -> None:
        self.method, self.tool = method, tool
        self.ours, self.theirs = _Found(), _Found()

    def rows(self) -> list[Row]:
        ours, theirs = self.ours, self.theirs
        name = "mert" if self.method == "mert" else "kbmira"
        rows = ours.rows(f"tune, {self.method}") + theirs.rows(f"Moses' {name}")
        if self.tool is not None:
            better = (np.array(ours.bleu) - np.array(theirs.bleu)).tolist()
            rows += [
                Row(f"{self.method}: times as fast", quotients(theirs.seconds, ours.seconds)),
                Row(
                    f"{self.method}: times as fast, of the processor",
                    quotients(theirs.cpu, ours.cpu),
                ),
                Row(f"{self.method}: BLEU above Moses'", better),
            ]
        return rows


def _tune(
    method: MethodName, pool: Pool, start: np.ndarray, seed: int, options: TuningOptions
) -> Tuned:
    settings = TuneSettings(starts=options.starts, threads=options.threads)
    return load_method(method)(pool, CorpusBleu(), start, settings, seed=seed)


def _run_mert(
    tool: str, folder: Path, files: Extracted, seed: int, options: TuningOptions
) -> np.ndarray:
    """Run mert as mert-moses.pl does; return the weights that it calls best."""
    command = [tool, "-d", str(len(read_start(files.start))), "--sctype", "BLEU"]
    command += ["--scconfig", "case:true", "-n", str(options.starts), "-r", str(seed)]
    command += ["--threads", str(options.threads), "--ifile", files.start]
    command += ["--ffile", files.features, "--scfile", files.scores]
    subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    weights = (folder / "weights.txt").read_text(encoding="ascii").split()
    return np.array([float(weight) for weight in weights])


def _run_kbmira(
    tool: str, folder: Path, files: Extracted, seed: int, _options: TuningOptions
) -> np.ndarray:
    """Run kbmira as mert-moses.pl does; return its weights."""
    output = folder / "weights"
    command = [tool, "-J", "60", "-r", str(seed), "--dense-init", files.start, "-o", str(output)]
    command += ["--ffile", files.features, "--scfile", files.scores]
    subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    lines = re.findall(r"^F\d+ (\S+)$", output.read_text(encoding="ascii"), re.MULTILINE)
    return np.array([float(weight) for weight in lines])


def _plain_files(folder: Path, files: Extracted | None, lists: int | None) -> Extracted:
    """Return uncompressed files with the first lists: neither side is timed at unpacking."""
    if files is None:
        return write_made_up(folder)
    features, scores = folder / "features.dat", folder / "scores.dat"
    for path, target in ((files.features, features), (files.scores, scores)):
        left = -1 if lists is None else lists
        with xopen(path, "rb") as source, target.open("wb") as copy:
            for line in source:
                copy.write(line)
                left -= b"_END_" in line
                if left == 0:
                    break
    return Extracted(str(features), str(scores), str(Path(files.start).resolve()))


def read_extracted(features: str, scores: str) -> Pool:
    """Return the distinct hypotheses in files of Moses' extractor, without sparse features."""
    names, values, starts = _read_blocks(features)
    _, found, _ = _read_blocks(scores)
    stats = np.empty_like(found)
    stats[:, BLEU_ORDER] = found
    labels = [name.rpartition("_") for name in names]
    return Pool(
        tuple(FeatureLabel(name, int(place)) for name, _, place in labels), values, stats, starts
    ).distinct()


def _read_blocks(path: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return the names in the first header, all rows of numbers, and where each block begins."""
    headers: list[list[str]] = []
    rows: list[list[str]] = []
    with xopen(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if "_TXT_BEGIN_" in words[0]:
                headers.append(words)
            elif "_TXT_END_" not in words[0]:
                rows.append(words)
    values = np.fromiter(map(float, chain.from_iterable(rows)), np.float64)
    starts = np.cumsum([0, *(int(header[2]) for header in headers)], dtype=np.int64)
    return headers[0][4:], values.reshape(len(rows), -1), starts


def read_start(path: str) -> np.ndarray:
    """Return the weights in the first line; the other two say what may vary, and how far."""
    with open(path, encoding="ascii") as lines:
        return np.array([float(number) for number in lines.readline().split(" ")])


def write_made_up(folder: Path) -> Extracted:
    pool = random_pool(1, MADE_UP_LISTS, MADE_UP_SIZE, MADE_UP_QUALITY)
    size = pool.num_features
    names = " ".join(map(str, pool.labels))
    _write_blocks(folder / "features.dat", "FEATURES", f"{size} {names}", pool, pool.features)
    _write_blocks(folder / "scores.dat", "SCORES", "9 BLEU", pool, pool.stats[:, BLEU_ORDER])
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

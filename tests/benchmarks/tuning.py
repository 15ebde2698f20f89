"""Tuning: MERT and MIRA on lists against Moses' programs, and each method on a large pool.

Both sides read the same lists and references, and start from the same weights with as many random
starts; seconds are of whole commands: ``tune``, and Moses' ``extractor`` with ``mert`` or
``kbmira``.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from xopen import xopen

from moses_integration.nbest import read_nbest
from tests.benchmarks.commands import PHRASESCORE, compare_commands, find_tool, measure_command
from tests.benchmarks.results import Report, Row
from tests.benchmarks.search import Words, score_bleu
from tests.benchmarks.settings import Settings
from tests.random_pools import random_pool
from tuning.methods import load_method
from tuning.metrics import CorpusBleu
from tuning.settings import TuneSettings

# $1 is extractor, $2 mert or kbmira, with its arguments behind.
SCRIPT = """
set -e
"$1" --sctype BLEU --scconfig case:true --nbest lists --reference references \
    --ffile features.dat --scfile scores.dat
shift; exec "$@" --ffile features.dat --scfile scores.dat
"""
# How many features, and with which methods: mert is for some twenty.
SIZES = ((20, ("mert", "mira", "xbleu")), (100, ("mira", "xbleu")))
SEED = "1"


def measure_tuning(settings: Settings) -> Report:
    rows: list[Row] = []
    left_out: list[str] = []
    starts, extractor = str(settings.starts), find_tool("extractor", settings.moses_bin)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench = _Lists(settings, folder)
        for method, program in (("mert", "mert"), ("mira", "kbmira")):
            ours = [*PHRASESCORE, "tune", "--lists", "lists", "--references", "references", "--weights"]
            ours += ["moses.ini", "--method", method, "--seed", SEED, "--threads", "1", "--quiet"]
            ours += ["--output", "weights"] + ["--starts", starts] * (method == "mert")
            tool = find_tool(program, settings.moses_bin)
            theirs = None
            if extractor is None or tool is None:
                left_out.append(f"Moses' {program} was not run: it or extractor is missing")
            else:
                theirs = ["bash", "-c", SCRIPT, "bash", extractor, tool, *bench.options(method)]
                theirs += ["-n", starts] * (method == "mert")
            names = (f"tune, {method}", f"Moses' {program}")
            rows += compare_commands(ours, theirs, folder, settings.repeats, names=names)
            rows.append(Row(f"{names[0]}: BLEU reached", [bench.bleu("weights")]))
            if theirs is not None:
                bench.write_weights(method)
                rows.append(Row(f"{names[1]}: BLEU reached", [bench.bleu("found")]))
    rows.append(Row("sentences", [bench.sentences], digits=0))
    rows.append(Row("distinct hypotheses", [bench.hypotheses], digits=0))
    what = (
        f"{bench.sentences} lists of {settings.nbest[0]}, {len(bench.start)} features, "
        f"{starts} random starts, one thread"
    )
    return Report("tuning", what, rows, left_out)


class _Lists:
    """Lists in a folder, with their references, start weights and moses.ini."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        nbest, source = settings.nbest
        self._folder = folder
        with (folder / "lists").open("wb") as file:
            items = [item for item in read_nbest(nbest) if item.id < settings.tuning_lists]
            file.writelines(raw + b"\n" for item in items for raw in item.raws)
        self.sentences = len(items)
        self.hypotheses = sum(len(set(item.hypotheses)) for item in items)
        with xopen(Path(source).with_suffix(".fr"), "rb") as file:
            lines = list(islice(file, self.sentences))
        (folder / "references").write_bytes(b"".join(lines))
        self._references: list[Words] = [tuple(line.decode().split()) for line in lines]
        ini = Path(source).with_name("moses.ini").read_text(encoding="utf-8")
        (folder / "moses.ini").write_text(ini, encoding="utf-8")
        # The weights of each feature of the lists, in their order there.
        known = dict(re.findall(r"^(\w+)= (.+)$", ini.partition("[weight]")[2], re.MULTILINE))
        fields = items[0].raws[0].split(b" ||| ")[2].decode()
        self._names = re.findall(r"(\w+)=", fields)
        self.start = [float(each) for name in self._names for each in known[name].split()]
        self._sizes = [len(known[name].split()) for name in self._names]
        rows = (self.start, [0] * len(self.start), [1] * len(self.start))
        text = "".join(" ".join(map(str, row)) + "\n" for row in rows)
        (folder / "init.opt").write_text(text, encoding="ascii")

    def options(self, method: str) -> list[str]:
        """Return the arguments of Moses' program, as mert-moses.pl gives them."""
        if method == "mira":
            return ["-J", "60", "-r", SEED, "--dense-init", "init.opt", "-o", "mira.weights"]
        options = ["-d", str(len(self.start)), "--sctype", "BLEU", "--scconfig", "case:true"]
        return [*options, "-r", SEED, "--threads", "1", "--ifile", "init.opt"]

    def write_weights(self, method: str) -> None:
        """Write what Moses' program found as a file of weights, ``found``."""
        name = "weights.txt" if method == "mert" else "mira.weights"
        text = (self._folder / name).read_text(encoding="ascii")
        values = iter(read_weights(text))
        lines = [
            f"{name}= {' '.join(islice(values, size))}\n"
            for name, size in zip(self._names, self._sizes, strict=True)
        ]
        (self._folder / "found").write_text("".join(lines), encoding="ascii")

    def bleu(self, weights: str) -> float:
        """Return BLEU of the lists' best hypotheses with these weights."""
        command = [*PHRASESCORE, "rerank", "lists", "--weights", weights, "-o", "best", "--quiet"]
        measure_command(command, self._folder)
        lines = (self._folder / "best").read_text(encoding="utf-8").split("\n")[:-1]
        return score_bleu([tuple(line.split()) for line in lines], self._references)


def read_weights(text: str) -> list[str]:
    """Return the weights that mert writes in one line, or kbmira with a name in each line."""
    return re.findall(r"(?:^F\d+ )?(\S+)(?: |$)", text.strip(), re.MULTILINE)


def measure_tuning_scale(settings: Settings) -> Report:
    sentences, hypotheses = settings.scale
    rows = [Row("sentences", [sentences], digits=0)]
    rows.append(Row("hypotheses of each", [hypotheses], digits=0))
    counts = [*map(str, (*settings.scale, settings.starts, settings.threads))]
    for num_features, methods in SIZES:
        for method in methods:
            command = [sys.executable, "-m", __name__, method, str(num_features), *counts]
            cost, output = measure_command(command)
            found = json.loads(output)
            what = f"{num_features} features, {method}"
            rows += [
                Row(f"{what}: seconds of the processor", [found["cpu"]], "s", 1),
                Row(f"{what}: peak of the process", [cost.peak / 1e6], "MB", 0),
                Row(f"{what}: BLEU at the start", [100 * found["start"]]),
                Row(f"{what}: BLEU reached", [100 * found["reached"]]),
            ]
    what = (
        f"{sentences:,} made-up lists of {hypotheses:,} hypotheses, {settings.starts} random "
        f"starts, {settings.threads} threads"
    )
    return Report("tuning_scale", what, rows)


def _main(method: str, numbers: Sequence[int]) -> None:
    """Tune on a made-up pool; print seconds without making it and compiling, and BLEU."""
    num_features, sentences, hypotheses, starts, threads = numbers
    quality = tuple(1 / (place + 1) for place in range(num_features))
    pool = random_pool(1, sentences, hypotheses, quality)
    weights = np.full(num_features, 0.3)
    optimise = load_method(method)
    settings = TuneSettings(starts=starts, threads=threads)
    optimise(pool.subset([0, 1]), CorpusBleu(), weights, settings, seed=1)
    began = time.process_time()
    tuned = optimise(pool, CorpusBleu(), weights, settings, seed=1)
    seconds = time.process_time() - began
    print(json.dumps({"cpu": seconds, "start": tuned.start_score, "reached": tuned.score}))


if __name__ == "__main__":
    _main(sys.argv[1], [int(number) for number in sys.argv[2:]])

"""The cache: ``phrasescore rescore`` with an empty one, a full one, and one that lacks a tenth."""

import hashlib
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from moses_integration.nbest import read_nbest
from phrasescore.io.output import open_output
from phrasescore.io.text import read_lines
from phrasescore.models.checkpoint import save_checkpoint
from phrasescore.settings.config import Config
from tests.benchmarks.rescoring import random_sentence_network, read_lists
from tests.benchmarks.results import Report, Row

# One hypothesis in so many is new in the last run.
NEW = 10


@dataclass(frozen=True)
class CachingOptions:
    nbest: str
    source: str
    config: Config
    lists: int
    threads: int


def measure_caching(options: CachingOptions) -> Report:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lists = read_lists(options.nbest, options.source, options.lists)
        save_checkpoint(folder / "model", random_sentence_network(options.config, lists))
        whole, fewer, source = folder / "whole.gz", folder / "fewer.gz", folder / "source"
        lines = _write(options, whole, fewer, source)
        cold = _rescore(options, folder, whole, "one", "cold")
        warm = _rescore(options, folder, whole, "one", "warm")
        _rescore(options, folder, fewer, "two", "part")
        grown = _rescore(options, folder, whole, "two", "grown")
        outputs = [(folder / f"{name}.gz").read_bytes() for name in ("cold", "warm", "grown")]
        assert outputs[0] == outputs[1] == outputs[2], "the cache changed a value"
    rows = [
        Row("lines", [lines], digits=0),
        Row("an empty cache", [cold], "s"),
        Row("a full cache", [warm], "s"),
        Row("a cache without a tenth of the hypotheses", [grown], "s"),
        Row("empty / full, same bytes", [cold / warm]),
        Row("share of the time for that tenth, loading left out", [(grown - warm) / (cold - warm)]),
    ]
    what = (
        f"phrasescore rescore, {lines:,} lines of {options.nbest}; {options.config.kind}, hidden "
        f"{options.config.model.hidden_size}, shortlist {options.config.vocabulary.target_size:,}; "
        f"{options.threads} threads"
    )
    return Report("caching", what, rows)


def _write(options: CachingOptions, whole: Path, fewer: Path, source: Path) -> int:
    lines = 0
    sentences = list(read_lines(options.source))[: options.lists]
    source.write_bytes(b"".join(line + b"\n" for line in sentences))
    with open_output(str(whole)) as every, open_output(str(fewer)) as some:
        for item in read_nbest(options.nbest):
            if item.id >= options.lists:
                break
            lines += len(item.raws)
            every.write(b"".join(raw + b"\n" for raw in item.raws))
            kept = [
                raw
                for place, raw in enumerate(item.raws)
                if place == 0 or not _is_new(item.hypotheses[place])
            ]
            some.write(b"".join(raw + b"\n" for raw in kept))
    return lines


def _is_new(hypothesis: bytes) -> bool:
    return hashlib.blake2b(hypothesis, digest_size=4).digest()[0] < 256 / NEW


def _rescore(options: CachingOptions, folder: Path, nbest: Path, cache: str, output: str) -> float:
    command = [
        *(sys.executable, "-m", "phrasescore", "rescore", str(nbest)),
        *("--source", str(folder / "source"), "--model", str(folder / "model")),
        *("--cache", str(folder / cache), "--output", str(folder / f"{output}.gz")),
        *("--device", "cpu", "--threads", str(options.threads), "--quiet"),
    ]
    start = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - start

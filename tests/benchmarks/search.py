"""The search: against Moses, with cube pruning, and with a neural language model."""

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from moses_integration.decoder.stack_search import StatefulFeature
from moses_integration.source_text import read_source
from phrasescore.features.search_network import SearchCslm, SearchJoint
from phrasescore.language_models.word_scorer import CslmOptions
from phrasescore.models.checkpoint import load_checkpoint
from tests.benchmarks.machine import torch_threads
from tests.benchmarks.results import Report
from tests.benchmarks.search_engines import Task, measure_engines
from tests.benchmarks.search_variants import Model, measure_cubes, measure_networks

CPU = torch.device("cpu")
# Updates of the network that is made where none is given.
QUICK_UPDATES = 20


@dataclass(frozen=True)
class SearchOptions:
    ini: str
    source: str
    reference: str
    # The first ones of the text that have words.
    sentences: int
    # Of those, as many at equal distances for the network in the search.
    cslm_sentences: int
    # The program; None: the embedded search alone.
    moses: str | None
    # The folder of a language model; None: one that has hardly been trained.
    cslm: str | None
    # The folder of a joint model, to be measured beside the language model; None: it is not.
    joint: str | None = None


def measure_search(options: SearchOptions) -> Report:
    task = read_task(options)
    rows = measure_engines(task, options.moses)
    model = Model.read(task)
    rows += measure_cubes(model, task)
    step = max(1, len(task.sentences) // options.cslm_sentences)
    some = task.sentences[::step][: options.cslm_sentences]
    with tempfile.TemporaryDirectory() as name, torch_threads(1):
        folder = options.cslm or _train(Path(options.reference), Path(name) / "model")
        cslm, free = load_checkpoint(folder), CslmOptions(normalized=False)
        networks: dict[str, StatefulFeature] = {
            "CSLM": SearchCslm(cslm, CPU),
            "CSLM, unnormalized": SearchCslm(cslm, CPU, options=free),
        }
        if options.joint is not None:
            model, joint = Model.read(task, aligned=True), load_checkpoint(options.joint)
            networks["joint"] = SearchJoint(joint, CPU)
            networks["joint, unnormalized"] = SearchJoint(joint, CPU, options=free)
        rows += measure_networks(model, some, networks, SearchCslm(cslm, CPU))
    what = (
        f"{len(task.sentences)} sentences of {options.source} with {options.ini}, of them"
        f" {len(some)} with the language model {options.cslm or 'of a few updates'}; one thread"
    )
    return Report("search", what, rows)


def read_task(options: SearchOptions) -> Task:
    sentences, references = read_source(options.source), read_source(options.reference)
    pairs = [pair for pair in zip(sentences, references, strict=True) if pair[0]]
    chosen = pairs[: options.sentences]
    ini = Path(options.ini).resolve()
    return Task(ini, [pair[0] for pair in chosen], [pair[1] for pair in chosen])


def _train(text: Path, folder: Path) -> str:
    command = [sys.executable, "-m", "phrasescore", "train", "cslm", str(text)]
    command += ["--output", str(folder), "--updates", str(QUICK_UPDATES)]
    subprocess.run([*command, "--threads", "1", "--device", "cpu", "--quiet"], check=True)
    return str(folder)

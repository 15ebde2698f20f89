"""The search: against Moses, with cube pruning, and with a neural language model."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from moses_integration.decoder.stateful import StatefulFeature
from moses_integration.source_text import read_source
from phrasescore.features.cslm import SearchCslm
from phrasescore.features.joint import SearchJoint
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.word_scorer import CslmOptions
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.models.feed_forward import FeedForwardNetwork
from phrasescore.scoring.products import Products
from tests.benchmarks.machine import torch_threads
from tests.benchmarks.results import Report
from tests.benchmarks.search_engines import Task, measure_engines
from tests.benchmarks.search_variants import Model, measure_cubes, measure_kinds, measure_network

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
        rows += measure_network(model, some, _loader(folder))
        if options.joint is not None:
            networks = _networks(load_checkpoint(folder), load_checkpoint(options.joint))
            rows += measure_kinds(Model.read(task, aligned=True), some, networks)
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


class _EveryTime:
    """The first layer of a network, without the table of what words give it at each place."""

    def __init__(self, network: FeedForwardNetwork) -> None:
        self._products = Products(Precision("float32", CPU), CPU)
        self._embedding = self._products.place(network.embedding)
        self._weight = self._products.prepare(network.lower.weight.detach().t())
        self._bias = self._products.place(network.lower.bias)

    def units(self, contexts: NDArray[np.int64]) -> torch.Tensor:
        """Return the inputs of the layer's units after contexts, ``(contexts, hidden_size)``."""
        rows = self._embedding[torch.from_numpy(contexts)].flatten(1)
        return self._products.multiply("every time", rows, self._weight).add_(self._bias)


def _networks(cslm: Checkpoint, joint: Checkpoint) -> dict[str, StatefulFeature]:
    free = CslmOptions(normalized=False)
    every_time = SearchJoint(joint, CPU, options=free)
    network = joint.model
    assert isinstance(network, FeedForwardNetwork)
    every_time._scorer._first = _EveryTime(network)  # type: ignore[assignment]
    return {
        "CSLM": SearchCslm(cslm, CPU),
        "CSLM, unnormalized": SearchCslm(cslm, CPU, options=free),
        "joint": SearchJoint(joint, CPU),
        "joint, unnormalized": SearchJoint(joint, CPU, options=free),
        "joint, unnormalized, nothing precomputed": every_time,
    }


def _loader(folder: str) -> Callable[[], tuple[StatefulFeature, Callable[[], int]]]:
    checkpoint = load_checkpoint(folder)

    def load() -> tuple[StatefulFeature, Callable[[], int]]:
        feature = SearchCslm(checkpoint, torch.device("cpu"))
        return feature, lambda: feature.contexts_scored

    return load

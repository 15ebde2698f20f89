"""Promises of workflows.tune.lists, called as a function."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phrasescore
from moses_integration.weights import load_weights
from phrasescore.errors import ArgumentError
from phrasescore.progress import Progress
from phrasescore.workflows.tune import lists
from tests.log import warnings
from tests.phrasescore.workflows.tune.tune_folder import TuneFolder
from tests.random_pools import random_pool
from tuning.bleu import CorpusBleu
from tuning.methods import Tuned


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TuneFolder:
    monkeypatch.chdir(tmp_path)
    return TuneFolder(tmp_path)


@pytest.mark.usefixtures("folder")
def test_weights_come_back_as_values_and_are_those_of_the_file(
    caplog: pytest.LogCaptureFixture,
) -> None:
    start = {"LM0": (1.0,), "TM0": (0.5, 0.5), "Gone0": (1.0,)}
    found = phrasescore.tune(["nbest"], ["reference"], start, "out", threads=1)
    assert found.weights == load_weights("out").lists
    assert found.weights["TM0"] == (0.5, 0.5)
    assert found.report.start == pytest.approx(66.874, abs=1e-3)
    assert found.report.reached == pytest.approx(100)
    assert warnings(caplog) == ["no list has these features of the start weights: Gone0"]


def test_nothing_is_written_where_no_file_is_named(folder: TuneFolder) -> None:
    before = sorted(folder.path.iterdir())
    phrasescore.tune(["nbest"], ["reference"], "weights", method="pro", threads=1)
    assert sorted(folder.path.iterdir()) == before


@pytest.mark.usefixtures("folder")
def test_a_list_much_longer_than_the_references_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Path("reference").write_text("a\nf\nk\n")
    phrasescore.tune(["nbest"], ["reference"], "weights", threads=1)
    assert warnings(caplog)[0].startswith("nbest has 15 words, the references 3: are they of")


@pytest.mark.usefixtures("folder")
def test_steps_are_counted() -> None:
    seen: list[Progress] = []
    phrasescore.tune(["nbest"], ["reference"], "weights", threads=1, progress=seen.append)
    assert {(each.task, each.unit) for each in seen} == {("tune", "steps")}
    assert seen[-1].finished
    assert seen[-1].done > 0


def test_where_the_average_is_worse_than_the_start_the_best_replica_is_taken() -> None:
    class Optimiser:
        stopped = False

        def __call__(self, _pool: object, _metric: object, _start: object, seed: int) -> Tuned:
            weights = np.array([0.5, seed / 10, -0.2])
            score = {3: 0.2, 4: 0.4, 5: 0.3}[seed]
            return Tuned(weights, score, 1.0, "mert", seed, 1, ())

    optimiser: Any = Optimiser()
    pool, start = random_pool(1), np.array([0.5, -0.2, 0.3])
    weights, notes, rows = lists._replicate(3, optimiser, pool, CorpusBleu(), start, 3)
    assert weights.tolist() == [0.5, 0.4, -0.2]
    assert notes[-1] == "the average is worse than the start: seed 4 is taken, the best"
    assert [row.seed for row in rows] == [3, 4, 5]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"method": "simplex"}, "--method: expected one of mert, mira, pro, xbleu, got 'simplex'"),
        ({"metrics": {"ter": 1.0}}, "--metric: expected bleu or chrf"),
        ({"metrics": {"bleu": 0.0}}, "--metric: expected bleu or chrf, and weights above 0"),
        ({"metrics": {"bleu": float("nan")}}, "--metric: expected bleu or chrf, and weights"),
        ({"reference_length": "longest"}, "--reference-length: expected one of closest, shortest"),
        ({"report_format": "xml"}, "--format: expected text or json, got 'xml'"),
        ({"replicas": 0}, "--replicas: expected at least 1, got 0"),
        ({"cross_validate": 1}, "--cross-validate: expected at least 2, got 1"),
        ({"starts": -1}, "--starts: expected at least 0, got -1"),
        ({"plateau_smoothing": -1}, "--plateau-smoothing: expected at least 0, got -1"),
        ({"threads": 0}, "--threads: expected at least 1, got 0"),
        ({"seed": -1}, "--seed: expected at least 0, got -1"),
        ({"moses_ini_out": "ini"}, "--moses-ini-out needs the --moses-ini to change"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_wrong_arguments_are_refused(arguments: dict, problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        phrasescore.tune(["nbest"], ["reference"], "weights", **arguments)

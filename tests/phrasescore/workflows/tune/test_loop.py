"""Promises of workflows.tune.loop, called as a function: its decoder may be any callable."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from phrasescore.workflows.search_settings import SearchSettings

import phrasescore
from moses_integration.moses_ini import load_weights
from moses_integration.weight_lines import write_weights
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.records import FeatureLabel, Weights
from phrasescore.report.tuning import FeatureRow
from phrasescore.settings.compute import Compute
from phrasescore.settings.tuning import RoundTuning
from phrasescore.workflows.tune.outcome import feature_rows, with_contributions
from phrasescore.workflows.tune.rounds import about_search, read_decisions
from tests.phrasescore.workflows.tune.loop_folder import DECODER, Folder
from tests.random_pools import random_pool
from tuning.metrics import CorpusBleu
from tuning.pool import Pool, Vector

START: Weights = {"Good0": (0.1,), "Bad0": (0.5, -0.5)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path)


class CountingDecoder:
    """A decoder in this process that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, source: str, weights: Weights, size: int, nbest: str) -> None:
        self.calls += 1
        write_weights("given", weights)
        command = [sys.executable, str(DECODER), "--references", "reference"]
        command += ["--weights-file", "given", "--nbest", nbest, str(size)]
        subprocess.run(command, input=Path(source).read_bytes(), check=True, capture_output=True)


def tune(decoder: object, folder: str, **more: object) -> phrasescore.TuneOutcome:
    arguments = ("source", ["reference"], START, folder)
    given = {"settings": RoundTuning(nbest_size=4), "compute": Compute(threads=1), **more}
    return phrasescore.tune_with_decoder(decoder, *arguments, **given)  # type: ignore[arg-type]


@pytest.mark.usefixtures("folder")
def test_a_callable_finds_the_weights_that_the_same_decoder_as_a_command_finds() -> None:
    decoder = CountingDecoder()
    called = tune(decoder, "called", output="out")
    command = shlex.join([sys.executable, str(DECODER), "--references", "reference"])
    command += " --weights-file {weights} --nbest {nbest} {size}"
    commanded = tune(command, "commanded")
    assert called.weights == commanded.weights == load_weights("out")
    assert decoder.calls == len(called.report.rounds) > 1
    assert called.report.reached > called.report.start + 10
    assert max(row.score for row in called.report.rounds) == called.report.reached
    lists = [Path(name, "run1.nbest").read_bytes() for name in ("called", "commanded")]
    assert lists[0] == lists[1]


@pytest.mark.usefixtures("folder")
def test_a_callable_is_resumed_and_known_by_its_name() -> None:
    decoder = CountingDecoder()
    whole = tune(decoder, "work")
    calls = decoder.calls
    assert tune(decoder, "work", resume=True).weights == whole.weights
    assert decoder.calls == calls
    with pytest.raises(PhrasescoreError, match="started with another value for decoder"):
        tune(lambda *_: None, "work", resume=True)


@pytest.mark.usefixtures("folder")
def test_start_weights_that_are_all_zero_are_refused_before_decoding() -> None:
    zeros = {name: (0.0,) * len(values) for name, values in START.items()}
    with pytest.raises(
        DataError, match="the start weights: expected weights that are not all zero"
    ):
        phrasescore.tune_with_decoder("x {nbest}", "source", ["reference"], zeros, "work")
    assert not Path("work").exists()


METRIC = CorpusBleu()


def contributions(pool: Pool, weights: Vector) -> tuple[FeatureRow, ...]:
    return with_contributions(feature_rows(pool, weights, weights), pool, METRIC, weights)


def test_contributions_by_hand() -> None:
    # Inside segments the first feature is 1 or 3: deviation 1; the second 0 or 8: deviation 4, and
    # its mean differs between segments, which does not count.
    features = np.array([[1.0, 100], [3, 108], [3, 0], [1, 8]])
    good, bad = [4.0, 3, 2, 1, 4, 3, 2, 1, 4], [2.0, 1, 0, 0, 4, 3, 2, 1, 4]
    stats = np.array([bad, good, good, bad])
    labels = (FeatureLabel("LM", 0), FeatureLabel("TM", 0))
    pool = Pool(labels, features, stats, np.array([0, 2, 4]))
    first, second = contributions(pool, np.array([2.0, -0.5]))
    assert [each.contribution for each in (first, second)] == [2.0, -2.0]
    assert [each.share for each in (first, second)] == [0.5, 0.5]
    # The second alone chooses bad and good: 6/8, 4/6, 2/4, 1/2 of the n-grams match.
    assert first.left_out == pytest.approx(100 * (6 / 8 * 4 / 6 * 2 / 4 * 1 / 2) ** 0.25)
    assert second.left_out == 100


def test_nothing_contributes_where_all_weights_are_zero() -> None:
    for each in contributions(random_pool(1), np.zeros(3)):
        assert (each.contribution, each.share) == (0, 0)


CSLM = {"features": ("cslm",), "models": ("m=n",)}


@pytest.mark.parametrize(
    ("begun", "now", "same"),
    [
        ({}, {"processes": 3, "threads": 2, "buffer_size": 9}, True),
        ({"stack_size": 9, **CSLM, "processes": 2}, {"stack_size": 9, **CSLM}, True),
        ({"unnormalized": True}, {"unnormalized": True}, True),
        ({}, {"stack_size": 9}, False),
        ({"stack_size": 9}, {"stack_size": 8}, False),
    ],
)
def test_a_search_is_another_run_where_its_translations_are_others(
    tmp_path: Path, begun: dict, now: dict, same: bool
) -> None:
    old, new = (
        {"decoder": "embedded", "search": about_search(SearchSettings(**settings))}
        for settings in (begun, now)
    )
    state = {"format": 2, "settings": old, "rounds": [], "next": {}, "reason": ""}
    (tmp_path / "tune.json").write_text(json.dumps(state))
    (tmp_path / "run1.nbest").write_text("")
    if same:
        assert read_decisions(tmp_path, new, resume=True) == ({}, [])
    else:
        with pytest.raises(PhrasescoreError, match="started with another value for search"):
            read_decisions(tmp_path, new, resume=True)

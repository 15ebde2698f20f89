"""Promises of workflows.tune.loop, called as a function: its decoder may be any callable."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import phrasescore
from moses_integration.moses_ini import load_weights
from moses_integration.weight_lines import write_weights
from phrasescore.errors import ArgumentError, DataError, PhrasescoreError
from phrasescore.records import Weights
from tests.phrasescore.workflows.tune.loop_folder import DECODER, Folder

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


def tune(decoder: object, folder: str, **more: object) -> phrasescore.LoopOutcome:
    arguments = ("source", ["reference"], START, folder)
    return phrasescore.tune_with_decoder(decoder, *arguments, nbest_size=4, threads=1, **more)  # type: ignore[arg-type]


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
    with pytest.raises(PhrasescoreError, match="started with another decoder"):
        tune(lambda *_: None, "work", resume=True)


@pytest.mark.parametrize("name", ["iterations", "nbest_size", "patience"])
@pytest.mark.usefixtures("folder")
def test_too_low_a_number_is_refused(name: str) -> None:
    more: dict[str, object] = {"nbest_size": 4, name: 0}
    with pytest.raises(ArgumentError, match="expected at least 1, got 0"):
        phrasescore.tune_with_decoder("x", "source", ["reference"], START, "work", **more)  # type: ignore[arg-type]


@pytest.mark.usefixtures("folder")
def test_start_weights_that_are_all_zero_are_refused_before_decoding() -> None:
    zeros = {name: (0.0,) * len(values) for name, values in START.items()}
    with pytest.raises(
        DataError, match="the start weights: expected weights that are not all zero"
    ):
        phrasescore.tune_with_decoder("x {nbest}", "source", ["reference"], zeros, "work")
    assert not Path("work").exists()

"""Promises of workflows.decode, called as a function."""

from pathlib import Path
from typing import Any

import pytest
from phrasescore.workflows.search_settings import moses_limits

import phrasescore
from moses_integration.moses_ini import load_weights
from moses_integration.weight_lines import write_weights
from phrasescore import SearchSettings
from phrasescore.errors import ArgumentError, DataError
from phrasescore.progress import Progress
from phrasescore.records import WeightPair, Weights
from tests.log import warnings
from tests.phrasescore.cli.test_decode import INI, LM, TABLE


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"table": TABLE, "lm.arpa": LM, "moses.ini": INI}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "source").write_text("la maison\n\nxyz\nmaison\n")
    return tmp_path


def test_the_summary_has_the_figures_of_a_run(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Progress] = []
    (folder / "weights").write_text("LM0= 0.5\nEncoderDecoder0= 1\n")
    done = phrasescore.decode(
        *(folder / "source", "moses.ini", folder / "out"),
        weights="weights",
        search=phrasescore.SearchSettings(processes=1),
        progress=seen.append,
    )
    assert (folder / "out").read_text() == "the house\n\nxyz\nhome\n"
    assert (done.sentences, done.untranslated, done.requests) == (4, 0, 0)
    assert warnings(caplog) == ["moses.ini has no features for these weights: EncoderDecoder0"]
    assert (seen[-1].task, seen[-1].done, seen[-1].finished) == ("decode", 4, True)


def test_weights_are_a_file_a_mapping_or_a_tuners_result(folder: Path) -> None:
    (folder / "weights").write_text("TM0= 0 1\nLM0= 0\n")
    by_name: Weights = {"TM0": (0.0, 1.0), "LM0": (0.0,)}
    usual: Weights = {"TM0": (1.0, 0.0)}
    found = []
    for weights in ("weights", by_name, WeightPair(by_name, usual)):
        phrasescore.decode("source", "moses.ini", "out", weights=weights, nbest=("nbest", 3))
        found.append((folder / "nbest").read_bytes())
    assert found[0] == found[1] == found[2]
    phrasescore.decode("source", "moses.ini", "out", weights=usual, nbest=("nbest", 3))
    assert (folder / "nbest").read_bytes() != found[0]


def test_weights_that_put_translations_in_no_order_are_refused(folder: Path) -> None:
    usual = load_weights("moses.ini").lists | {"PhrasePenalty0": (0.25,)}
    weights = {name: (0.0,) * len(own) for name, own in usual.items()}
    for values in (weights, {**weights, "LM0": (1e-40,)}):
        with pytest.raises(
            DataError, match=r"moses.ini: expected (weights that are not all zero|a)"
        ):
            phrasescore.decode("source", "moses.ini", folder / "out", weights=values)
    write_weights(str(folder / "zeros"), weights)
    with pytest.raises(DataError, match="zeros: expected weights that are not all zero"):
        phrasescore.decode("source", "moses.ini", folder / "out", weights=folder / "zeros")
    assert not (folder / "out").exists()


def test_small_weights_translate_as_large_ones_do(folder: Path) -> None:
    # A common factor changes no order; thresholds aside, which weights of 1e-20 never reach.
    usual = load_weights("moses.ini").lists | {"PhrasePenalty0": (0.25,)}
    for factor in (1.0, 1e-20):
        weights = {name: tuple(factor * value for value in own) for name, own in usual.items()}
        phrasescore.decode("source", "moses.ini", folder / f"{factor}", weights=weights)
    assert (folder / "1e-20").read_text() == (folder / "1.0").read_text()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"algorithm": "foo"}, "--search-algorithm: expected one of normal, cube, got 'foo'"),
        ({"stack_size": -3}, "--stack: expected at least 0, got -3"),
        ({"distortion_limit": -2}, "--distortion-limit: expected at least -1, got -2"),
        ({"beam_threshold": 1.5}, "--beam-threshold: expected at most 1, got 1.5"),
        ({"buffer_size": 0}, "--buffer-size: expected at least 1, got 0"),
        ({"features": ("rnn",), "models": ("m",)}, "--feature: expected cslm or joint, got 'rnn'"),
    ],
)
def test_a_value_that_a_setting_may_not_have_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        SearchSettings(**given)
    assert str(caught.value) == problem


def test_limits_have_the_names_and_numbers_of_moses() -> None:
    settings = SearchSettings(stack_size=50, algorithm="cube", beam_threshold=0.0)
    found = {"stack": "50", "search-algorithm": "1", "beam-threshold": "0.0"}
    assert moses_limits(settings) == found
    assert SearchSettings(distortion_limit=-1).limits() == {"distortion-limit": -1}

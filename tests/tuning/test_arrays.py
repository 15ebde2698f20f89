"""Tuning on arrays finds what tuning on files finds, and names what is wrong with an array."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phrasescore
from phrasescore.errors import ArgumentError
from phrasescore.records import FeatureLabel
from tests.random_pools import random_pool
from tuning.methods import load_method, tune_arrays
from tuning.metrics import Bleu, CorpusBleu
from tuning.settings import METHODS, TuneSettings

LISTS = """\
0 ||| la grande maison est bleue ||| LM0= -5.5 TM0= -1 -2 ||| -8.5
0 ||| la maison grande est bleue ||| LM0= -5 TM0= -1.5 -2.5 ||| -9
0 ||| la grande maison est bleue ||| LM0= -5.5 TM0= -1 -2 ||| -8.5
1 ||| le petit chat dort ici ||| LM0= -7 TM0= -1 -0.5 ||| -8.5
1 ||| le chat petit dort ||| LM0= -4 TM0= -1 -3 ||| -8
1 ||| un petit chat dort ici ||| LM0= -6 TM0= -2 -0.75 ||| -8.75
"""
REFERENCES = ["la grande maison est bleue", "le petit chat dort ici"]


@pytest.mark.parametrize("method", METHODS)
def test_the_weights_are_those_for_the_same_lists_in_a_file(tmp_path: Path, method: str) -> None:
    (tmp_path / "lists").write_text(LISTS)
    (tmp_path / "references").write_text("".join(f"{text}\n" for text in REFERENCES))
    start = {"LM0": (0.5,), "TM0": (0.3, 0.2)}
    settings: Any = phrasescore.ListTuning(method=method, starts=3, seed=4)  # type: ignore[arg-type]
    paths = ([tmp_path / "lists"], [tmp_path / "references"])
    found = phrasescore.tune(*paths, start, settings=settings)
    fields = [line.split(" ||| ") for line in LISTS.splitlines()]
    features = [[float(x) for x in re.findall(r" (-[\d.]+)", field[2])] for field in fields]
    segments = [int(field[0]) for field in fields]
    bleu = Bleu([[text.split() for text in REFERENCES]])
    stats = bleu.statistics([field[1].split() for field in fields], segments)
    tuned = phrasescore.tune_arrays(
        *(features, stats, segments, [0.5, 0.3, 0.2]),
        metric=bleu,
        method=method,  # type: ignore[arg-type]
        settings=TuneSettings(starts=3),
        seed=4,
    )
    assert tuned.weights.tolist() == [*found.weights.lists["LM0"], *found.weights.lists["TM0"]]
    assert 100 * tuned.score == found.report.reached == pytest.approx(100)
    assert tuned.start_score < 1


def test_segments_may_be_in_any_order_and_features_may_be_fixed() -> None:
    pool = random_pool(1)
    fixed = TuneSettings(fixed=(FeatureLabel("TM", 1),), starts=2, near_starts=2)
    start = np.array([0.5, -0.2, 0.3])
    expected = load_method("mert")(pool, CorpusBleu(), start, fixed, seed=1)
    order = np.random.default_rng(1).permutation(len(pool.stats))
    order = order[np.argsort(order % 15, kind="stable")]  # a segment's rows keep their order
    found = tune_arrays(
        *(pool.features[order], pool.stats[order], pool.segments[order], start),
        names=["LM", "TM", "TM"],
        settings=fixed,
    )
    assert found.weights.tolist() == expected.weights.tolist()
    assert found.weights[2] == 0.3
    assert found.score > found.start_score


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": [1, 2]}, r"features: expected the shape \(any, any\), got \(2,\)"),
        ({"features": [["x", 1], [1, 2]]}, "features: expected an array of numbers: could not"),
        ({"features": [[1], [1, 2]]}, "features: expected an array of numbers: "),
        ({"features": [[np.nan, 1], [1, 2]]}, "features: expected finite numbers"),
        ({"statistics": np.ones((3, 9))}, r"statistics: expected the shape \(2, 9\), got \(3, 9\)"),
        ({"statistics": np.ones((2, 8))}, r"statistics: expected the shape \(2, 9\), got \(2, 8\)"),
        ({"segments": [0]}, r"segments: expected the shape \(2\), got \(1,\)"),
        ({"segments": [0, 0.5]}, "segments: expected whole numbers from 0"),
        ({"segments": [-1, 0]}, "segments: expected whole numbers from 0"),
        ({"segments": [0, 2]}, "segments: expected whole numbers from 0, without a gap"),
        (
            {"features": np.empty((0, 2)), "statistics": np.empty((0, 9)), "segments": []},
            "segments: expected whole numbers from 0",
        ),
        ({"start": [1, 2, 3]}, r"start: expected the shape \(2\), got \(3,\)"),
        ({"start": 1.0}, r"start: expected the shape \(2\), got \(\)"),
        ({"names": ["LM0"]}, "names: expected 2, one per column, got 1"),
        ({"method": "minimum"}, "method: expected one of mert, mira, xbleu, got 'minimum'"),
    ],
)
def test_a_wrong_array_is_named(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "features": [[1.0, 0.0], [0.0, 1.0]],
        "statistics": np.ones((2, 9)),
        "segments": [0, 1],
        "start": [1.0, 1.0],
    }
    with pytest.raises(ArgumentError, match=f"^{message}"):
        tune_arrays(**arguments | changes)

"""Models that version 0.2.0 wrote load, and give the scores that it gave (tests/data/README.md)."""

import json
import tarfile
from pathlib import Path

import pytest

import phrasescore
from phrasescore import Compute, HypothesisList

ARCHIVE = Path(__file__).resolve().parents[2] / "data" / "models-0.2.tar.gz"
SOURCE = "the coats are red ."
TARGETS = ["les manteaux sont rouges .", "il inconnu", ""]
AFFILIATIONS = [(0, 1, 2, 3, 4), (0, 3), ()]


@pytest.fixture(name="models", scope="module")
def unpacked_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("older")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "models"


@pytest.mark.parametrize(
    "name", ["encoder-decoder", "attention", "lstm", "grconv", "cslm", "joint", "subwords"]
)
def test_a_model_of_version_0_2_gives_the_scores_that_it_gave(models: Path, name: str) -> None:
    model = phrasescore.load_model(models / name, compute=Compute(threads=1))
    affiliations = AFFILIATIONS if name == "joint" else None
    (scores,) = model.score_lists([HypothesisList(SOURCE, TARGETS, affiliations)])
    expected = json.loads((models / "scores.json").read_text(encoding="utf-8"))[name]
    assert scores == pytest.approx(expected, abs=2e-5, rel=1e-6)

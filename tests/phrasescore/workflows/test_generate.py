"""``phrasescore.generate`` and ``segment`` as library functions."""

from pathlib import Path

import pytest

import phrasescore
from phrasescore.errors import ArgumentError
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import Generating, Segmenting
from tests.doubles import RandomModel
from tests.log import warnings

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return RandomModel(tmp_path / "model", "uvw", "abcd", seed=8).path


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text"
    path.write_text("u v\n\nnowhere v w\n")
    return path


def test_generate_returns_counts(
    model: Path, text: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done = phrasescore.generate(
        *(text, model, tmp_path / "out"),
        settings=Generating(max_length=1),
        compute=Compute(threads=1),
    )
    assert (done.lines, done.words, done.unknown_words) == (3, 5, 1)
    lines = (tmp_path / "out").read_text().split("\n")
    assert done.predicted_unknown_words == sum(line.split().count("<unk>") for line in lines)
    cut = [warning for warning in warnings(caplog) if "did not end" in warning]
    assert len(cut) == (done.unfinished > 0)


def test_segment_returns_counts(model: Path, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = phrasescore.segment(
        *(text, model, out),
        settings=Segmenting(confidence="forward", max_segment=2),
        compute=Compute(threads=1),
    )
    assert (done.sentences, done.words) == (3, 5)
    assert out.read_text().count("\n") == 3
    with pytest.raises(ArgumentError, match="--confidence penalized requires a --reverse-model"):
        phrasescore.segment(text, model, out)

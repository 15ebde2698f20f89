"""Promises of ``phrasescore.generate`` on engines: the same files on each."""

from pathlib import Path

import pytest

import phrasescore
from phrasescore.generation.beam_search import BATCH_ROWS
from phrasescore.generation.sampling import BATCH_SAMPLES
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import Generating
from tests.doubles import RandomModel

pytestmark = pytest.mark.usefixtures("one_thread")

PROCESSES = Compute(engine="processes", workers=2)
TEXT = "u v\n\nnowhere v w\nw w u\n" * 3


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and a text, of which a window has four sources."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(BATCH_ROWS, "cpu", 10)
    monkeypatch.setitem(BATCH_SAMPLES, "cpu", 5)
    RandomModel(tmp_path / "model", "uvw", "abcd", seed=8)
    (tmp_path / "text").write_text(TEXT)
    return tmp_path


def test_a_text_has_the_same_translations_on_each_engine(engine: Compute, folder: Path) -> None:
    here = phrasescore.generate(
        "text", "model", "one", nbest=("one.nbest", 3), compute=Compute(threads=1)
    )
    found = phrasescore.generate("text", "model", "two", nbest=("two.nbest", 3), compute=engine)
    assert found == here
    assert (folder / "one").read_bytes() == (folder / "two").read_bytes()
    assert (folder / "one.nbest").read_bytes() == (folder / "two.nbest").read_bytes()


def test_samples_are_the_same_in_processes(folder: Path) -> None:
    five = Generating(sample=5)
    here = phrasescore.generate("text", "model", "one", settings=five, compute=Compute(threads=2))
    assert phrasescore.generate("text", "model", "two", settings=five, compute=PROCESSES) == here
    assert (folder / "one").read_bytes() == (folder / "two").read_bytes() != b""

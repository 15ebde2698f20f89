"""A new kind of column is a class in one file, and a line in `COLUMN_KINDS`: the class is here."""

import importlib
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
import pytest

import phrasescore
from phrasescore.cli import scoring
from phrasescore.features.columns import COLUMN_KINDS, Column, Kind, read_column
from phrasescore.features.feature import BlockScores, CountTally, Feature, ScoreRow
from phrasescore.io.journal import digest_file
from phrasescore.records import PhraseBlock
from phrasescore.settings.toml_file import read_table
from tests.command_line import run, succeeded

NBEST = """0 ||| la belle maison ||| LM0= -1 ||| -1
0 ||| une maison ||| LM0= -2 ||| -2
"""


@dataclass(frozen=True)
class Keywords(Column):
    """The number of target words in a file with a word per line, times a factor."""

    feature: ClassVar[str] = "Keywords"
    paths: ClassVar[tuple[str, ...]] = ("keywords",)

    keywords: str
    _: KW_ONLY
    factor: Annotated[float, msgspec.Meta(gt=0)] = 1.0

    def load(self, _request: Any) -> Feature:
        return CountedKeywords(self.keywords, self.factor)


class CountedKeywords(Feature):
    """Counts the words of a file."""

    def __init__(self, path: str, factor: float) -> None:
        self._words, self._factor = frozenset(Path(path).read_text().split()), factor
        self.rows = (ScoreRow(f"{digest_file(Path(path))} {factor}"),)

    def score(self, block: PhraseBlock) -> BlockScores:
        counts = [len(self._words.intersection(pair.target)) for pair in block.pairs()]
        values = np.array([counts], np.float64) * self._factor
        return BlockScores(values, CountTally("keywords", sum(counts)))


@pytest.fixture(autouse=True)
def kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The line in the registry, from which the command line makes its option."""
    import sys

    module = sys.modules[__name__]
    monkeypatch.setitem(sys.modules, "keywords", module)
    monkeypatch.setitem(
        COLUMN_KINDS, "keywords", Kind("keywords:Keywords", "FILE", "Count keywords.")
    )
    monkeypatch.chdir(tmp_path)
    Path("words").write_text("maison\nbelle\n")
    Path("nbest").write_text(NBEST)
    Path("source").write_text("the beautiful house\n")
    importlib.reload(scoring)
    yield
    monkeypatch.undo()
    importlib.reload(scoring)


def test_the_command_line_has_it(tmp_path: Path) -> None:
    wanted = 'keywords = "words", factor = 0.5, name = "Half"'
    given = ["--keywords", "words", "--feature", "target_length", "--column", wanted]
    result = succeeded(run("rescore", "nbest", "--source", "source", *given))
    # By hand: two words and one word.
    assert " Keywords0= 2 TargetLength0= 3 Half= 1 |||" in result.stdout
    assert " Keywords0= 1 TargetLength0= 2 Half= 0.5 |||" in result.stdout
    assert "Keywords0: 3 keywords\n" in result.stderr
    help_text = succeeded(run("rescore", "--help-all")).stdout
    assert "--keywords FILE" in help_text
    assert "Count keywords." in help_text
    Path("table").write_text("the house ||| la maison ||| 0.5 ||| 0-0 1-1 ||| 1 1 1 ||| |||\n")
    result = succeeded(run("annotate", "table", "--keywords", "words", "--workers", 2))
    assert "||| 0.5 2.71828" in result.stdout  # e^1
    assert run("rescore", "nbest", "--source", "source", "--keywords", "none").exit_code == 1
    assert str(tmp_path)  # the folder that the commands ran in


def test_toml_has_it_and_names_start_in_its_folder(tmp_path: Path) -> None:
    Path("folder").mkdir()
    Path("folder/columns.toml").write_text('column = { keywords = "words", factor = 2 }\n')
    table = read_table("folder/columns.toml").table("column")
    assert read_column(table) == Keywords(str(tmp_path / "folder" / "words"), factor=2)


def test_python_has_it() -> None:
    done = phrasescore.rescore("nbest", "source", [Keywords("words", factor=3)], "out")
    assert done.features == ("Keywords0",)
    assert "Keywords0= 6 |||" in Path("out").read_text()
    with pytest.raises(phrasescore.errors.ArgumentError, match="expected a number above 0, got -1"):
        Keywords("words", factor=-1)


def test_it_is_written_as_it_is_read() -> None:
    column = Keywords("words", factor=2, name="Two")
    assert column.to_toml() == 'keywords = "words", name = "Two", factor = 2.0'

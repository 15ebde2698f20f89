"""Promises of annotate on engines: the same bytes, whoever computes them and whatever happens."""

import functools
import importlib.util
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import phrasescore
from phrasescore.arguments import PrecisionName
from phrasescore.errors import ModelError, PhrasescoreError
from phrasescore.features.feature import BLOCK_SIZE, BlockScores
from phrasescore.features.lexicon import Lexicon
from phrasescore.features.named import NamedFeature
from phrasescore.features.neural import NeuralScore
from phrasescore.features.request import ScoringItem, ScoringRequest, ScoringWork
from phrasescore.records import PhraseBlock
from phrasescore.settings.compute import Compute, EngineName
from phrasescore.systems import scoring
from phrasescore.workflows import annotate as annotate_module
from tests.random_tables import make_model, make_table

BLOCK = 64
LINES = 1000
UNKNOWN = NamedFeature("unknown_words")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BLOCK_SIZE, "cpu", BLOCK)
    monkeypatch.setattr(annotate_module, "CHUNK_LINES", 2 * BLOCK)


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(make_model(tmp_path / "model").path)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return make_table(tmp_path / "table", LINES)


@pytest.fixture
def whole(tmp_path: Path, model: str, table: Path) -> tuple[bytes, tuple[str, ...]]:
    done = phrasescore.annotate(
        table, [model, UNKNOWN], tmp_path / "whole", compute=Compute(threads=1)
    )
    assert done.lines == LINES
    return (tmp_path / "whole").read_bytes(), done.columns


@dataclass(frozen=True)
class DyingScoring(ScoringWork):
    """Ends the worker, once, in the middle of the table."""

    marker: str = ""

    def load(self) -> Callable[[ScoringItem], list[BlockScores]]:
        compute = super().load()
        blocks = 0

        def score(item: ScoringItem) -> list[BlockScores]:
            nonlocal blocks
            blocks += 1
            if blocks == 3 and not os.path.exists(self.marker):
                Path(self.marker).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return compute(item)

        return score


@pytest.mark.parametrize(
    "engine",
    [
        Compute(workers=3),
        Compute(engine="processes", workers=1),
        Compute(engine="processes", workers=3),
    ],
)
def test_bytes_and_counts_are_the_same_on_each_engine(
    engine: Compute, tmp_path: Path, model: str, table: Path, whole: tuple[bytes, tuple[str, ...]]
) -> None:
    done = phrasescore.annotate(table, [model, UNKNOWN], tmp_path / "out", compute=engine)
    assert ((tmp_path / "out").read_bytes(), done.columns) == whole


@pytest.mark.parametrize("name", ["processes", pytest.param("ray", marks=pytest.mark.slow)])
def test_a_worker_that_dies_changes_no_byte(
    name: EngineName,
    tmp_path: Path,
    model: str,
    table: Path,
    whole: tuple[bytes, tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if name == "ray" and importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    marker = str(tmp_path / "died")
    dying = functools.partial(DyingScoring, marker=marker)
    monkeypatch.setattr(scoring, "ScoringWork", dying)
    engine = Compute(engine=name, workers=2)
    done = phrasescore.annotate(table, [model, UNKNOWN], tmp_path / "out", compute=engine)
    assert os.path.exists(marker)
    assert ((tmp_path / "out").read_bytes(), done.columns) == whole


def test_workers_with_another_file_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "lex").write_text("the la 0.5\n")
    column = Lexicon(str(tmp_path / "lex"))
    loader = ScoringRequest((column,), of_phrases=True)
    rows = tuple(each.feature.rows for each in loader.load())
    begun = ScoringWork(loader, rows, None).in_folders()
    begun.load()
    (tmp_path / "lex").write_text("the la 0.6\n")
    with pytest.raises(
        PhrasescoreError, match=r"a worker has loaded a different feature: .*lexicon "
    ):
        begun.load()


def test_a_wrong_value_is_told_with_its_block(
    tmp_path: Path, model: str, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(feature: NeuralScore, block: PhraseBlock) -> BlockScores:
        if block.text == wrong:
            raise ModelError("a score is NaN")
        return score(feature, block)

    wrong, score = b"", NeuralScore.score
    for number, each in enumerate(_blocks(table)):
        wrong = each if number == 5 else wrong
    monkeypatch.setattr(NeuralScore, "score", fail)
    problem = f"a score is NaN, in the block that begins with line {5 * 2 * BLOCK + 1}"
    with pytest.raises(ModelError, match=f"^{re.escape(problem)}$"):
        phrasescore.annotate(table, [model], tmp_path / "out")


def _blocks(table: Path) -> list[bytes]:
    lines = table.read_bytes().splitlines()
    phrases = [b"".join(line.split(b" ||| ")[:2]) for line in lines]
    return [b"".join(phrases[first : first + 2 * BLOCK]) for first in range(0, LINES, 2 * BLOCK)]


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_table_that_is_cut_and_annotated_in_pieces_has_the_same_bytes(
    precision: PrecisionName, tmp_path: Path, model: str, table: Path
) -> None:
    phrasescore.annotate(table, [model], tmp_path / "whole", compute=Compute(precision=precision))
    lines = table.read_bytes().splitlines(keepends=True)
    parts = []
    for first in range(0, LINES, 137):
        (tmp_path / "piece").write_bytes(b"".join(lines[first : first + 137]))
        phrasescore.annotate(
            tmp_path / "piece", [model], tmp_path / "out", compute=Compute(precision=precision)
        )
        parts.append((tmp_path / "out").read_bytes())
    assert b"".join(parts) == (tmp_path / "whole").read_bytes()

"""Promises of ``annotate --for``: which lines stay, with which scores, on every way."""

import gzip
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phrasescore
from moses_integration.phrase_table import TableBlock, read_table_blocks
from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.features.feature import BLOCK_SIZE
from phrasescore.features.named import NamedFeature
from phrasescore.features.request import ScoringRequest
from phrasescore.progress import Progress
from phrasescore.settings.compute import Compute
from phrasescore.systems.scoring import Scoring
from tests.command_line import run, succeeded
from tests.log import warnings
from tests.random_tables import make_model, make_table

CHUNK = 100
LINES = 9 * CHUNK + 7
TEXT = "la maison ! la rue x\nrare l' hôpital la maison\n"
COLUMNS = [NamedFeature("number_mismatch")]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasescore.io.text.BLOCK_SIZE", 1100)
    monkeypatch.setattr("phrasescore.workflows.annotate.CHUNK_LINES", CHUNK)
    monkeypatch.setitem(BLOCK_SIZE, "cpu", CHUNK // 4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = make_table(tmp_path / "table", LINES)
    table.write_text(table.read_text("utf-8").replace("home", "7"), "utf-8")  # numbers to count
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")
    return tmp_path


def annotate(folder: Path, out: str, columns: Any = COLUMNS, **options: Any) -> bytes:
    given = {"texts": [folder / "text"], **options}
    phrasescore.annotate(folder / "table", columns, folder / out, **given)
    return (folder / out).read_bytes()


def occurs(line: bytes) -> bool:
    phrase = line.split(b" ||| ")[0].decode()
    return any(f" {phrase} " in f" {sentence} " for sentence in TEXT.split("\n"))


def test_lines_of_characters_are_looked_for_in_the_characters_of_the_texts(folder: Path) -> None:
    lines = ["m a ||| m e ||| 1\n", "\u2581 n ||| x ||| 1\n", "ma ||| me ||| 1\n"]
    (folder / "table").write_text("".join(lines), encoding="utf-8")
    feature = "PhraseDictionaryMemory name=TM0 num-features=1 path=table\n"
    ini = f"# phrasescore: characters = true\n[feature]\n{feature}[weight]\nTM0= 1\n"
    (folder / "moses.ini").write_text(ini)
    (folder / "text").write_text("ma na\nan\n")
    texts = [folder / "text"]
    phrasescore.annotate(folder / "moses.ini", COLUMNS, folder / "new", texts=texts)
    found = (folder / "new" / "table").read_text("utf-8").splitlines()
    assert [line.split(" ||| ")[0] for line in found] == ["m a", "\u2581 n"]


def test_lines_whose_source_occurs_stay_with_their_scores(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = annotate(folder, "whole", texts=()).splitlines(keepends=True)
    expected = [line for line in whole if occurs(line)]
    assert 50 < len(expected) < LINES // 2
    assert annotate(folder, "kept").splitlines(keepends=True) == expected
    done = phrasescore.annotate(folder / "table", COLUMNS, folder / "kept", texts=[folder / "text"])
    assert (done.lines, done.scored, warnings(caplog)) == (LINES, len(expected), [])


def test_odd_lines_and_a_last_line_without_its_newline(folder: Path) -> None:
    (folder / "table").write_bytes(
        b"la  maison|||the ||| 0.5 1\r\n x ||| x ||| 1 1\ny ||| x ||| 1 1\nla rue ||| st ||| 1 1"
    )
    kept = b"la  maison|||the ||| 0.5 1 1\r\n x ||| x ||| 1 1 1\n"
    assert annotate(folder, "out") == kept + b"la rue ||| st ||| 1 1 1"


@pytest.mark.parametrize("end", ["", ".gz"])
def test_engines_and_streams_give_the_same_bytes(folder: Path, end: str) -> None:
    model = [str(make_model(folder / "model").path)]
    one = annotate(folder, f"one{end}", model, compute=Compute(threads=1))
    processes = Compute(engine="processes", workers=2)
    assert annotate(folder, f"two{end}", model, compute=processes) == one
    arguments = ["-", "--model", model[0], "--for", str(folder / "text"), "--threads", "1"]
    data = (folder / "table").read_bytes()
    piped = succeeded(run("annotate", *arguments, stdin=data))
    assert piped.stdout_bytes == (gzip.decompress(one) if end else one)


def test_values_are_close_to_those_of_a_whole_run(folder: Path) -> None:
    model = [str(make_model(folder / "model").path)]
    whole = [
        line for line in annotate(folder, "whole", model, texts=()).splitlines() if occurs(line)
    ]
    kept = annotate(folder, "kept", model).splitlines()
    for line, other in zip(kept, whole, strict=True):
        values = [float(each.split(b" ||| ")[2].split()[-1]) for each in (line, other)]
        assert values[0] == pytest.approx(values[1], rel=1e-5)


def test_a_stopped_run_goes_on_for_the_same_texts_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = annotate(folder, "whole")

    class StopError(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.done >= 6 * CHUNK:
            raise StopError

    monkeypatch.setattr("phrasescore.progress.INTERVAL", 0)
    with pytest.raises(StopError):
        annotate(folder, "out", progress=stop)
    with pytest.raises(PhrasescoreError, match="another value for texts"):
        annotate(folder, "out", texts=(), resume=True)
    (folder / "text").write_text(TEXT + "more\n", encoding="utf-8")
    with pytest.raises(PhrasescoreError, match="another value for texts"):
        annotate(folder, "out", resume=True)
    (folder / "text").write_text(TEXT.replace(" ", "  "), encoding="utf-8")  # the same words
    assert annotate(folder, "out", resume=True) == whole


def test_texts_without_any_phrase_of_the_table_are_warned_of(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "text").write_text("the house\n")
    phrasescore.annotate(folder / "table", COLUMNS, folder / "out", texts=[folder / "text"])
    assert warnings(caplog) == [f"{folder / 'table'}: no source phrase occurs in the texts"]
    assert (folder / "out").read_bytes() == b""


def test_a_long_stretch_without_pairs_is_not_held_in_memory(folder: Path) -> None:
    (block,) = itertools.islice(read_table_blocks(str(folder / "table")), 1)
    read = 0

    def endless() -> Iterator[TableBlock]:
        nonlocal read
        for read in itertools.count(1):
            wanted = np.full(block.num_lines, read == 1)
            yield block._replace(before=(read - 1) * block.num_lines, wanted=wanted)

    with Scoring(
        ScoringRequest(tuple(COLUMNS), of_phrases=True), Compute(engine="here", workers=2)
    ) as scorer:
        stream = scorer.score_lines(endless())
        first, scores = next(stream)
        assert first.before == 0
        assert len(scores[0]) > 0
        # Two threads have five groups, each of at most 16 lines for each of its CHUNK // 4 pairs.
        ahead = 5 * (4 * CHUNK // block.num_lines + 2)
        assert read <= ahead
        last = [part for part, _ in itertools.islice(stream, 100)][-1]
        assert read <= last.before // block.num_lines + ahead


def test_what_does_not_go_together_is_refused(folder: Path) -> None:
    with pytest.raises(ArgumentError, match="texts: expected a sequence"):
        annotate(folder, "out", texts=str(folder / "text"))
    with pytest.raises(PhrasescoreError, match="would overwrite another file"):
        annotate(folder, "text")
    with pytest.raises(ArgumentError, match="two files cannot share stdin"):
        phrasescore.annotate("-", COLUMNS, folder / "out", texts=["-"])

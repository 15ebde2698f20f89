"""Models of CTranslate2 from Python: engines, truecasing, and where they have no place."""

from pathlib import Path

import pytest

from phrasescore import ColumnSpec, ForeignText, annotate, generate_foreign
from phrasescore.errors import ArgumentError, DataError
from phrasescore.settings.compute import Compute
from phrasescore.workflows import generate_foreign as module
from tests.tiny_translator import TinyTranslator, tiny_translator


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyTranslator:
    return tiny_translator(tmp_path_factory.mktemp("folders") / "tiny")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_text("This is the house .\n\n" + "it &apos;s Amy\nno no\nThis is\n" * 2)
    return path


def test_every_engine_gives_the_same_bytes(
    tiny: TinyTranslator, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GROUP_SIZE", 2)
    found = []
    engines = [Compute(workers=2), Compute(engine="processes", workers=2), Compute(workers=1)]
    for number, engine in enumerate(engines):
        out, lists = tmp_path / f"out{number}", tmp_path / f"lists{number}"
        done = generate_foreign(source, tiny.path, out, nbest=(lists, 3), beam=4, compute=engine)
        assert (done.lines, done.translations) == (8, len(lists.read_text().splitlines()))
        found.append((out.read_bytes(), lists.read_bytes()))
        monkeypatch.setattr(module, "_GROUP_SIZE", 128)
    assert found[0] == found[1] == found[2]
    first, second = found[0][0].split(b"\n")[2:5], found[0][0].split(b"\n")[5:8]
    assert first == second


def test_translations_are_truecased(tiny: TinyTranslator, source: Path, tmp_path: Path) -> None:
    model, plain, out = (tmp_path / name for name in ("model", "plain", "out"))
    generate_foreign(source, tiny.path, plain)
    words = sorted({word for word in plain.read_text().split() if word.isalpha()})
    assert words
    model.write_text("".join(f"{word.upper()} (1/1)\n" for word in words))
    generate_foreign(source, tiny.path, out, truecase_model=model)
    expected = [
        [word.upper() if word in words else word for word in line.split()]
        for line in plain.read_text().split("\n")
    ]
    assert [line.split() for line in out.read_text().split("\n")] == expected


def test_arguments_that_do_not_go_together_are_refused(
    tiny: TinyTranslator, source: Path, tmp_path: Path, tiny_table: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(ArgumentError, match="--beam: expected at least 3, for --nbest"):
        generate_foreign(source, tiny.path, out, beam=2, nbest=(tmp_path / "lists", 3))
    with pytest.raises(ArgumentError, match="--name: has an effect only with --nbest"):
        generate_foreign(source, tiny.path, out, name="A0")
    with pytest.raises(DataError, match="nothing: cannot open"):
        text = ForeignText(target_spm=str(tmp_path / "nothing"))
        generate_foreign(source, tiny.path, out, text=text)
    column = ColumnSpec("ctranslate2", str(tiny.path))
    with pytest.raises(ArgumentError, match="scores sentences: use it for n-best lists"):
        annotate(tiny_table, [column], out)
    assert not out.exists()

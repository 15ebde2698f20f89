"""Promises of moses_integration.moses_ini: weights outside [weight] are read, and written."""

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from moses_integration.ini_text import IniText, named_files
from moses_integration.moses_ini import MosesIni
from moses_integration.text_settings import TextSettings
from phrasescore.errors import ConfigError, PhrasescoreError

SPARSE = "[feature]\nWT name=WT0\nKENLM name=LM0 path=lm\n[weight]\nLM0= 0.5\nWT0_la= 7\n"


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as caught:
        call()
    return str(caught.value)


@pytest.fixture
def sparse_ini(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sparse").write_text("# of kbmira\nWT0_la 2\nWT0_#~a=b -4e-1\nWT0_le= 0.5\n")
    path = tmp_path / "inis" / "moses.ini"
    path.parent.mkdir()
    path.write_text(f"{SPARSE}[weight-file]\n sparse # sparse.2\nother\n")
    return path


def test_a_weight_file_is_read_from_the_working_folder_and_weight_overrules_it(
    sparse_ini: Path,
) -> None:
    # StaticData.cpp: PlusEquals of the file, then LoadSparseWeightsFromConfig assigns.
    weights = {"LM0": (0.5,), "WT0_la": (7.0,), "WT0_#~a=b": (-0.4,), "WT0_le=": (0.5,)}
    assert MosesIni.read(str(sparse_ini)).tuneable_weights() == weights
    packed = gzip.compress(Path("sparse").read_bytes())
    Path("sparse").write_bytes(packed)
    assert MosesIni.read(str(sparse_ini)).tuneable_weights() == weights
    assert named_files(IniText.read(str(sparse_ini))) == (Path("lm"), Path("sparse"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "moses.ini:8: [weight-file] : cannot open sparse: there is no such file in "),
        ("WT0_la 1\nWT0_la 1\n", "sparse:2: expected one weight for WT0_la, found a second"),
        ("\nWT0_la 1 2\n", "sparse:2: expected 'name value' for a sparse feature, found 'WT0_la 1"),
        ("WT0_la x\n", "sparse:1: expected a number as weight for WT0_la, found 'x'"),
        ("LM0 1\n", "sparse:1: expected a sparse feature, with '_' in its name, found 'LM0'; "),
    ],
)
def test_a_weight_file_that_moses_would_not_use_is_refused(
    sparse_ini: Path, text: str | None, message: str
) -> None:
    Path("sparse").unlink()
    if text is not None:
        Path("sparse").write_text(text)
    with pytest.raises(PhrasescoreError) as caught:
        MosesIni.read(str(sparse_ini)).tuneable_weights()
    assert str(caught.value).removeprefix(f"{sparse_ini.parent}/").startswith(message)


def test_a_weight_file_of_an_ini_elsewhere_may_begin_at_its_folder(sparse_ini: Path) -> None:
    (sparse_ini.parent / "sparse").write_text("WT0_un 3\n")
    for ini in (MosesIni.read(str(sparse_ini)), MosesIni.read(str(sparse_ini), sparse_ini.parent)):
        assert ini.tuneable_weights()["WT0_un"] == (3.0,)


def test_truecasing_models_move_with_the_ini(tmp_path: Path) -> None:
    settings = TextSettings(tokenize="de en", truecase_source="a.model", truecase_target="/b.model")
    text = "\n".join(["[x]", *settings.lines(), "[y]", ""])
    ini = IniText("moses.ini", text.encode(), tmp_path)
    ini.move(tmp_path / "new")
    moved = replace(settings, truecase_source="../a.model")
    assert ini.text_settings() == moved
    assert ini.lines == [*moved.lines(), "[x]", "[y]", ""]


def test_a_weight_that_the_section_cannot_hold_is_left_out(sparse_ini: Path) -> None:
    # No name of [weight] has "#" (Parameter.cpp).
    ini = MosesIni.read(str(sparse_ini))
    new = {"LM0": (0.25,), "WT0_#~#": (3.0,), "WT0_\u00a0=[": (1e-20,), "WT0_le=": (2.0,)}
    before = ini.tuneable_weights()
    assert ini.set_weights(new) == ["WT0_#~#"]
    ini.folder = ""  # the paths start in the working folder
    ini.write("new.ini")
    del new["WT0_#~#"]
    assert MosesIni.read("new.ini").tuneable_weights() == {**before, **new}
    assert "WT0_\u00a0=[= 0.00000000000000000001" in Path("new.ini").read_text(encoding="utf-8")

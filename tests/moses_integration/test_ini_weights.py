"""Promises of moses_integration.moses_ini: weights outside [weight] are read, and written."""

import gzip
from collections.abc import Callable
from dataclasses import replace
from functools import partial
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


def test_weights_to_add_count_where_weight_has_none() -> None:
    # Parameter.cpp, CreateWeightsMap: [weight-add], then [weight].
    text = "[weight]\nLM0= 0.5\n[weight-add]\nLM0= 1\nTM0= 2\n"
    ini = MosesIni("moses.ini", text.encode())
    assert ini.tuneable_weights() == {"TM0": (2.0,), "LM0": (0.5,)}
    assert ini.set_weights({"LM0": (3.0,), "TM0": (4.0,)}) == []
    assert ini.to_bytes() == b"[weight]\nLM0= 3\n[weight-add]\nLM0= 1\nTM0= 4\n"


# No name of [weight] has "#" (Parameter.cpp), and all that a stream does not split are read by
# FVector::load.
@pytest.mark.parametrize("has_file", [False, True])
def test_weights_that_the_section_cannot_hold_go_to_a_file_beside(
    sparse_ini: Path, has_file: bool
) -> None:
    if not has_file:
        sparse_ini.write_text(SPARSE)
    ini = MosesIni.read(str(sparse_ini))
    before = ini.tuneable_weights()
    new = {"LM0": (0.25,), "WT0_#~#": (3.0,), "WT0_\u00a0=[": (1e-20,), "WT0_le=": (2.0,)}
    assert ini.set_weights(new) == []
    for path in ("new.ini", "again.ini"):
        ini.write(path)
        assert MosesIni.read(path).tuneable_weights() == {**before, **new}
        lines = Path(f"{path}.sparse-weights").read_text(encoding="utf-8").split("\n")
        assert "WT0_#~# 3" in lines
        assert "WT0_\u00a0=[= 0.00000000000000000001" in Path(path).read_text(encoding="utf-8")


def test_weights_that_need_a_file_are_not_written_to_stdout_or_over_the_old_file(
    sparse_ini: Path,
) -> None:
    Path("sparse").rename("new.ini.sparse-weights")
    sparse_ini.write_text(f"{SPARSE}[weight-file]\nnew.ini.sparse-weights\n")
    ini = MosesIni.read(str(sparse_ini))
    ini.set_weights({"WT0_#~#": (3.0,)})
    for path in ("-", "new.ini"):
        assert "[weight] cannot hold 'WT0_#~#'; its" in refusal(partial(ini.write, path))
    assert not Path("new.ini").exists()

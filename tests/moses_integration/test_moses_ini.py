"""Promises of moses_integration.moses_ini: an edit changes what it is about and nothing else."""

import io
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from moses_integration.ini_text import IniText, named_files
from moses_integration.moses_ini import MosesIni, is_phrase_table
from phrasescore.errors import ConfigError, DataError

DATA = Path(__file__).parents[1] / "data"
SIMPLE = (DATA / "train-model.moses.ini").read_bytes()
SEVERAL = (DATA / "several.moses.ini").read_bytes()
REAL = DATA.parents[1].parent / "shared" / "data" / "moses.tuned.ini"

MEMORY = "PhraseDictionaryMemory"


def edited(content: bytes, *changes: tuple[bytes, bytes]) -> bytes:
    for old, new in changes:
        assert content.count(old) == 1, old
        content = content.replace(old, new)
    return content


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as caught:
        call()
    return str(caught.value)


# Reading


def tables(content: bytes) -> list[tuple[str, str, str | None, int]]:
    ini = MosesIni("moses.ini", content)
    found = [feature for feature in ini.features if is_phrase_table(feature.kind)]
    return [(each.name, each.kind, each.path, ini.num_scores(each)) for each in found]


def test_a_phrase_table_is_described() -> None:
    assert tables(SIMPLE) == [("TranslationModel0", MEMORY, "model/phrase-table.gz", 4)]


def test_tables_without_a_name_are_counted_by_class_as_moses_does() -> None:
    # moses/FF/FeatureFunction.cpp, ParseLine: features with name= are not counted.
    assert tables(SEVERAL) == [
        ("First", MEMORY, "a/table.gz", 2),
        ("Second", MEMORY, "b/table.gz", 1),
        ("PhraseDictionaryMemory0", MEMORY, "c/plain", 1),
        ("PhraseDictionaryCompact0", "PhraseDictionaryCompact", "c/binary.minphr", 4),
        ("PhraseDictionaryMemory1", MEMORY, "d/other.gz", 3),
    ]


@pytest.mark.parametrize("kind", ["ProbingPT", "PhraseDictionaryOnDisk", "Mmsapt"])
def test_every_class_of_phrase_table_is_listed(kind: str) -> None:
    assert tables(f"[feature]\n{kind} path=x".encode()) == [(f"{kind}0", kind, "x", 1)]


@pytest.mark.parametrize("content", [SIMPLE, SEVERAL, b"", b"\n", b"\xff\xfe \r x", b"[feature"])
def test_what_is_read_is_written_byte_for_byte(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "in.ini").write_bytes(content)
    MosesIni.read(str(tmp_path / "in.ini")).write(str(tmp_path / "out.ini"))
    assert (tmp_path / "out.ini").read_bytes() == content


def test_a_null_byte_is_a_data_error() -> None:
    with pytest.raises(DataError, match=r"moses\.ini:2: expected text, found a null byte"):
        MosesIni("moses.ini", b"[feature]\nKENLM path=a\0b\n")


def test_a_file_that_cannot_be_read_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot open"):
        MosesIni.read(str(tmp_path / "none.ini"))


def test_stdin_is_called_stdin_in_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = type("Stream", (), {"buffer": io.BytesIO(SIMPLE)})()
    monkeypatch.setattr(sys, "stdin", stdin)
    ini = MosesIni.read("-")
    message = refusal(lambda: ini.add_scores(1, "new", num_scores=5))
    assert message.startswith("<stdin>:21: [feature] TranslationModel0: ")


@pytest.mark.parametrize("content", [b"", SEVERAL])
def test_stdin_is_called_stdin_where_no_line_is_to_blame(content: bytes) -> None:
    ini = MosesIni("-", content)
    assert refusal(lambda: ini.find_phrase_table()).startswith("<stdin>: [feature]: expected ")


# Adding a feature


def test_a_feature_goes_below_the_others_whatever_the_order_of_the_sections() -> None:
    content = b"[weight]\nB0= 1\n\n[feature] \nWordPenalty\n# end"
    ini = MosesIni("moses.ini", content)
    # B0 has no line of its own, but its weight would count for one.
    assert ini.add_feature("New", "B", {"order": "3", "path": "/x"}) == "B1"
    wanted = (
        b"[weight]\nB0= 1\nB1= 0\n\n[feature] \nWordPenalty\nNew name=B1 order=3 path=/x\n# end"
    )
    assert ini.to_bytes() == wanted
    assert [feature.name for feature in ini.features] == ["WordPenalty0", "B1"]
    assert ini.tuneable_weights()["B1"] == (0.0,)


# Finding


def test_the_only_table_is_found_whatever_the_path() -> None:
    ini = MosesIni("moses.ini", SIMPLE)
    for path in (None, "elsewhere/filtered.gz"):
        assert ini.find_phrase_table(path).name == "TranslationModel0"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/table.gz", "First"),
        ("./b/../b/table.gz", "Second"),
        ("elsewhere/plain.gz", "PhraseDictionaryMemory0"),
        ("other", "PhraseDictionaryMemory1"),
    ],
)
def test_a_table_is_found_by_its_path_and_else_by_its_last_part(path: str, name: str) -> None:
    assert MosesIni("moses.ini", SEVERAL).find_phrase_table(path).name == name


def test_paths_are_relative_to_the_working_folder_as_in_moses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "table.gz").write_bytes(b"")
    os.symlink("b/table.gz", tmp_path / "link")
    monkeypatch.chdir(tmp_path)
    ini = MosesIni("elsewhere/moses.ini", SEVERAL)
    assert ini.find_phrase_table(str(tmp_path / "link")).name == "Second"


# DESIGN: a relative path starts at the folder of the file; if that has none of the files, in the
# working folder, as in Moses.
@pytest.mark.parametrize(
    ("files", "start"),
    [
        (["inis/pt", "lm", "pt"], "inis"),
        (["inis/lm.gz"], "inis"),
        (["inis/pt.minphr", "lm"], "inis"),
        (["inis/pt.of-another"], ""),
        (["lm", "pt"], ""),
    ],
)
def test_paths_start_in_the_folder_of_the_ini_if_it_has_one_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], start: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inis").mkdir()
    for name in files:
        (tmp_path / name).write_bytes(b"")
    text = b"[feature]\nPhraseDictionaryMemory path=pt\nKENLM path=lm\nKENLM path=/abs\n"
    for path in ("inis/moses.ini", str(tmp_path / "inis" / "moses.ini")):
        ini = MosesIni(path, text)
        assert ini.folder == (os.path.dirname(path) if start else "")
        assert ini.resolve("pt") == os.path.join(ini.folder, "pt")
        assert ini.resolve("/abs") == "/abs"


def test_a_written_ini_names_the_same_files_from_its_new_folder(tmp_path: Path) -> None:
    (tmp_path / "old data").mkdir()
    (tmp_path / "there").mkdir()
    # The folder of the new file, where its relative paths start, is a link to another place.
    os.symlink("there", tmp_path / "link")
    (tmp_path / "there" / "deep").mkdir()
    line = "BilingualNPLM path=net source_vocab=s target_vocab=/t # path=net"
    text = f"[feature]\nKENLM  path=../lm\torder=3\n{line}\n[weight-file]\nw\n"
    ini = MosesIni("x", text.encode(), tmp_path / "old")
    ini.write(str(tmp_path / "link" / "deep" / "moses.ini"))
    written = tmp_path / "there" / "deep" / "moses.ini"
    line = "BilingualNPLM path=../../old/net source_vocab=../../old/s target_vocab=/t # path=net"
    assert written.read_text() == (
        f"[feature]\nKENLM  path=../../lm\torder=3\n{line}\n[weight-file]\n../../old/w\n"
    )
    before = written.read_bytes()
    MosesIni.read(str(written), written.parent).write(str(written))
    assert written.read_bytes() == before
    message = refusal(
        lambda: MosesIni("x", text.encode(), tmp_path / "old data").write(str(written))
    )
    assert message == (
        "x:3: [feature] BilingualNPLM0: expected a path without blanks and '#', found "
        "'../../old data/net'; moses.ini cannot hold it"
    )


@pytest.mark.parametrize(
    ("path", "wanted", "found"),
    [
        ("elsewhere/table.gz", "elsewhere/table.gz", 2),
        ("unknown.gz", "unknown.gz", 0),
        (None, "the new scores", 5),
    ],
)
def test_no_or_several_choices_are_an_error_that_names_them(
    path: str | None, wanted: str, found: int
) -> None:
    message = refusal(lambda: MosesIni("moses.ini", SEVERAL).find_phrase_table(path))
    assert message == (
        f"moses.ini: [feature]: expected one phrase table for {wanted}, found {found} among "
        "First (path=a/table.gz), Second (path=b/table.gz), "
        "PhraseDictionaryMemory0 (path=c/plain), "
        "PhraseDictionaryCompact0 (path=c/binary.minphr), "
        "PhraseDictionaryMemory1 (path=d/other.gz)"
    )


@pytest.mark.parametrize("content", [b"[feature]\nWordPenalty\n", b""])
def test_a_file_without_a_phrase_table_is_refused(content: bytes) -> None:
    message = refusal(lambda: MosesIni("moses.ini", content).add_scores(1, "new"))
    expected = "expected a phrase table such as PhraseDictionaryMemory, found none"
    assert message == f"moses.ini: [feature]: {expected}"


@pytest.mark.parametrize("section", ["weight-l", "weight-overwrite", "weight-add"])
def test_weights_elsewhere_are_refused_wherever_a_moses_ini_is_read(section: str) -> None:
    text = f"[input-factors]\n0\n[{section}]\n0.5\n".encode()
    for reader in (MosesIni, IniText):
        message = refusal(partial(reader, "moses.ini", text))
        assert message.startswith(f"moses.ini:4: [{section}] : expected weights only in [weight]; ")
        assert message.endswith(" with convert-moses-ini-to-v2.perl")


# Editing


def test_an_edit_changes_count_path_and_weights_only() -> None:
    ini = MosesIni("moses.ini", SIMPLE)
    assert ini.add_scores(2, "out/new.gz", num_scores=4) == "TranslationModel0"
    assert ini.to_bytes() == edited(
        SIMPLE,
        (b"num-features=4 path=model/phrase-table.gz", b"num-features=6 path=out/new.gz"),
        (b"TranslationModel0= 0.2 0.2 0.2 0.2\n", b"TranslationModel0= 0.2 0.2 0.2 0.2 0 0\n"),
    )


def test_comments_blanks_and_crlf_stay() -> None:
    ini = MosesIni("moses.ini", SEVERAL)
    ini.add_scores(2, "new", old_table_path="a/table.gz")
    assert ini.to_bytes() == edited(
        SEVERAL,
        (
            b"num-features=2 \tpath=a/table.gz table-limit=20 tuneable-components=true,false #",
            b"num-features=4 \tpath=new table-limit=20 tuneable-components=true,false,true,true #",
        ),
        (b"First=  0.1\t0.2 \t# after\r\n", b"First=  0.1\t0.2 0 0 \t# after\r\n"),
    )


def test_a_missing_count_is_one_and_is_added() -> None:
    ini = MosesIni("moses.ini", SEVERAL)
    ini.add_scores(1, "new", old_table_path="c/plain")
    assert ini.to_bytes() == edited(
        SEVERAL,
        (b"path=c/plain\r\n", b"path=new num-features=2\r\n"),
        (b"PhraseDictionaryMemory0= 0.4\r\n", b"PhraseDictionaryMemory0= 0.4 0\r\n"),
    )


def test_the_last_of_two_weight_lines_is_the_one_that_counts() -> None:
    # moses/Parameter.cpp, CreateWeightsMap: a later line replaces an earlier one.
    ini = MosesIni("moses.ini", SEVERAL)
    ini.add_scores(1, "new", old_table_path="d/other")
    assert ini.to_bytes() == edited(
        SEVERAL,
        (b"num-features=3 path=d/other.gz", b"num-features=4 path=new"),
        (b"PhraseDictionaryMemory1= 0.1 0.1 0.1", b"PhraseDictionaryMemory1= 0.1 0.1 0.1 0"),
    )


def test_an_untuneable_table_stays_untuneable() -> None:
    ini = MosesIni("moses.ini", SEVERAL)
    ini.add_scores(1, "b/new.gz", old_table_path="b/table.gz")
    assert b"num-features=2 path=b/new.gz tuneable=false\r\n" in ini.to_bytes()


def test_two_edits_add_up() -> None:
    twice, once = MosesIni("x", SEVERAL), MosesIni("x", SEVERAL)
    twice.add_scores(1, "new", old_table_path="a/table.gz")
    twice.add_scores(2, "newer", old_table_path="new")
    once.add_scores(3, "newer", old_table_path="a/table.gz")
    assert twice.to_bytes() == once.to_bytes()


def test_bytes_that_are_not_utf8_stay() -> None:
    content = SIMPLE.replace(b"# input factors", b"# caf\xe9").replace(b"model/", b"mod\xe8le/")
    ini = MosesIni("moses.ini", content)
    ini.add_scores(1, os.fsdecode(b"mod\xe8le/new"))
    assert b"# caf\xe9\n" in ini.to_bytes()
    assert b"num-features=5 path=mod\xe8le/new" in ini.to_bytes()


@pytest.mark.parametrize("kind", ["PhraseDictionaryCompact", "PhraseDictionaryOnDisk", "ProbingPT"])
def test_a_binary_table_is_not_given_a_text_table(kind: str) -> None:
    content = SIMPLE.replace(MEMORY.encode(), kind.encode())
    ini = MosesIni("moses.ini", content)
    assert refusal(lambda: ini.add_scores(1, "new.gz")) == (
        "moses.ini:21: [feature] TranslationModel0: expected class PhraseDictionaryMemory for a "
        f"text table, found {kind}; change the class, and path= to that table"
    )
    assert ini.to_bytes() == content


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"num-features=4", b"num-features=5", "21: [feature] TranslationModel0: expected num-fea"),
        (b"= 0.2 0.2 0.2 0.2\n", b"= 0.2 0.2 0.2\n", "32: [weight] TranslationModel0: expected 4 "),
        (b"TranslationModel0= 0.2", b"TranslationModel1= 0.2", " [weight] TranslationModel0: expe"),
        (b"input-factor=0", b"tuneable-components=1,1", "21: [feature] TranslationModel0: expecte"),
        (b"input-factor=0", b"path=x", "21: [feature] TranslationModel0: expected key=value with"),
        (b"input-factor=0", b"input-factor", "21: [feature] TranslationModel0: expected key=value"),
        (b"num-features=4", b"num-features=four", "21: [feature] TranslationModel0: expected a nu"),
    ],
)
def test_what_disagrees_is_an_error_with_its_line(old: bytes, new: bytes, message: str) -> None:
    content = edited(SIMPLE, (old, new))

    def add() -> None:
        ini = MosesIni("moses.ini", content)
        try:
            ini.add_scores(1, "new", num_scores=4)
        finally:
            assert ini.to_bytes() == content

    assert refusal(add).startswith(f"moses.ini:{message}")


@pytest.mark.parametrize("path", ["a b", "a#b", "a\tb", ""])
def test_a_path_that_the_file_cannot_hold_is_refused(path: str) -> None:
    message = refusal(lambda: MosesIni("moses.ini", SIMPLE).add_scores(1, path))
    assert f"expected a path without blanks and '#', found {path!r}; moses.ini" in message


@pytest.mark.skipif(not REAL.exists(), reason="needs the real moses.ini")
def test_a_file_written_by_mert_is_edited() -> None:
    ini = MosesIni.read(str(REAL))
    ini.add_scores(1, "new.gz", old_table_path="phrase-table.gz", num_scores=4)
    assert ini.to_bytes() == edited(
        REAL.read_bytes(),
        (b"num-features=4 path=phrase-table.gz", b"num-features=5 path=new.gz"),
        (b"0.0758568 -0.00360877", b"0.0758568 -0.00360877 0"),
    )


def read_ini(path: Path) -> MosesIni:
    return MosesIni.read(str(path))


def test_weights_are_replaced_where_they_stand_and_nothing_else_is() -> None:
    ini = read_ini(DATA / "several.moses.ini")
    before = ini.to_bytes().decode()
    old = ini.tuneable_weights()
    assert ini.set_weights({"LM0": (0.125,), "PhraseDictionaryMemory1": (1.5, -0.25, 1e-7)}) == []
    new = {**old, "LM0": (0.125,), "PhraseDictionaryMemory1": (1.5, -0.25, 1e-7)}
    assert ini.tuneable_weights() == new
    changed = [
        (one, other)
        for one, other in zip(before.split("\n"), ini.to_bytes().decode().split("\n"), strict=True)
        if one != other
    ]
    assert [other for _, other in changed] == [
        "PhraseDictionaryMemory1= 1.5 -0.25 0.0000001\r",
        "LM0= 0.125",
    ]
    assert ini.set_weights(old) == []
    assert ini.tuneable_weights() == old


def test_hidden_components_keep_their_weights() -> None:
    # First has tuneable-components=true,false.
    ini = read_ini(DATA / "several.moses.ini")
    hidden = next(line for line in ini.content_lines() if line.words[0].group() == "First=")
    assert ini.weight_overwrite({"First": (0.7,), "LM0": (1.0,)}) == "First= 0.7 x LM0= 1"
    ini.set_weights({"First": (0.7,)})
    assert ini.lines[hidden.row].split()[:3] == ["First=", "0.7", hidden.words[2].group()]


def test_a_weight_that_lists_omit_may_be_given_as_it_is() -> None:
    text = b"[feature]\nUnknownWordPenalty\n\n[weight]\nUnknownWordPenalty0= 1\n"
    ini = MosesIni("moses.ini", text)
    assert ini.set_weights({"UnknownWordPenalty0": (1.0,)}) == []
    assert ini.to_bytes() == text
    with pytest.raises(ConfigError, match="UnknownWordPenalty0: expected 1 weights"):
        ini.set_weights({"UnknownWordPenalty0": (2.0,)})


def test_weights_of_features_that_are_not_there_are_named_and_sparse_ones_added() -> None:
    ini = read_ini(DATA / "several.moses.ini")
    assert ini.set_weights({"LSTM0": (1.0,), "First_new": (2.0,), "Third_new": (1.0,)}) == [
        "LSTM0",
        "Third_new",
    ]
    assert ini.tuneable_weights()["First_new"] == (2.0,)
    weights = [line for line in ini.lines if "= " in line][-2:]
    assert [line.split("=")[0] for line in weights] == ["LM0", "First_new"]


def test_another_number_of_weights_is_refused() -> None:
    ini = read_ini(DATA / "several.moses.ini")
    with pytest.raises(ConfigError, match=r"LM0: expected 2 weights, one per value in the"):
        ini.set_weights({"LM0": (1.0, 2.0)})


@pytest.mark.parametrize("path", [".", "..", "/", "a/"])
def test_a_path_may_be_a_folder_which_is_for_the_decoder_to_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "moses.ini").write_text(f"[feature]\nKENLM path={path}\n")
    assert named_files(IniText.read("moses.ini")) == (Path(path),)

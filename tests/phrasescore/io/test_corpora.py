"""Promises of phrasescore.io.corpora."""

import gzip
import io
import sys
from pathlib import Path

import pytest

from phrasescore.errors import DataError
from phrasescore.io.corpora import read_monolingual_text, read_parallel_text
from phrasescore.records import PhrasePair


@pytest.fixture(name="paths")
def written_paths(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "train.en", tmp_path / "train.fr"


def read(paths: tuple[Path, Path]) -> list[PhrasePair]:
    return [line.pair for line in read_parallel_text(*map(str, paths))]


def test_lines_become_pairs_in_order(paths: tuple[Path, Path]) -> None:
    paths[0].write_text("a house\nthe\n")
    paths[1].write_text("une maison\nla\n")
    assert read(paths) == [(("a", "house"), ("une", "maison")), (("the",), ("la",))]
    assert [line.raw for line in read_parallel_text(*map(str, paths))] == [
        b"a house\nune maison",
        b"the\nla",
    ]


def test_only_blanks_separate_words_and_only_a_newline_lines(paths: tuple[Path, Path]) -> None:
    # U+00A0, U+3000, U+2028 and U+0085 are parts of words; several blanks are one.
    paths[0].write_bytes("a\u00a0b c\u3000d\v \fe \0 f\t\u2028\n\rg\r\n".encode())
    paths[1].write_bytes("x\u0085y\n|||\n".encode())
    assert read(paths) == [
        (("a\u00a0b", "c\u3000d", "e", "f", "\u2028"), ("x\u0085y",)),
        (("g",), ("|||",)),
    ]


@pytest.mark.parametrize("mark", ["<s>", "</s>"])
def test_sentence_marks_in_training_text_are_refused(paths: tuple[Path, Path], mark: str) -> None:
    paths[0].write_text(f"a\nb {mark}\n")
    paths[1].write_text("x\ny <s>x\n")
    problem = rf"train\.en:2: expected text without <s> and </s>, found {mark} as a word"
    with pytest.raises(DataError, match=problem):
        read(paths)
    with pytest.raises(DataError, match=problem):
        list(read_monolingual_text(str(paths[0])))
    # A text to translate, or translations, may have any word.
    assert len(list(read_parallel_text(*map(str, paths), allow_empty=True))) == 2
    assert list(read_monolingual_text(str(paths[1])))


def test_fields_are_those_of_another_file(paths: tuple[Path, Path]) -> None:
    paths[0].write_text("a\nb\n")
    paths[1].write_text("x ||| 0.5\ny\n")
    with pytest.raises(DataError, match=r"train\.fr:1: .* is it a phrase table, or an n-best list"):
        read(paths)


def test_a_carriage_return_at_the_end_is_not_part_of_the_last_word(
    paths: tuple[Path, Path],
) -> None:
    paths[0].write_bytes(b"a b\r\n")
    paths[1].write_bytes(b"x \r")  # and without a last newline
    assert read(paths) == [(("a", "b"), ("x",))]


def test_each_side_may_be_compressed(paths: tuple[Path, Path]) -> None:
    paths[0].write_bytes(gzip.compress(b"a\nb\n"))
    paths[1].write_bytes(b"x\ny\n")
    assert read(paths) == [(("a",), ("x",)), (("b",), ("y",))]


def test_one_side_may_be_stdin(paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    paths[1].write_bytes(b"x\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n")))
    assert [line.pair.source for line in read_parallel_text("-", str(paths[1]))] == [("a",)]


def test_lines_without_words_are_read_where_they_are_allowed(paths: tuple[Path, Path]) -> None:
    paths[0].write_bytes(b"a\n\n\n")
    paths[1].write_bytes(b" \r\nx\n\n")
    found = [line.pair for line in read_parallel_text(*map(str, paths), allow_empty=True)]
    assert found == [(("a",), ()), ((), ("x",)), ((), ())]


def test_pairs_are_read_lazily(paths: tuple[Path, Path]) -> None:
    paths[0].write_bytes(b"a\n\n")
    paths[1].write_bytes(b"x\ny\n")
    lines = read_parallel_text(*map(str, paths))
    assert next(lines).pair.source == ("a",)


@pytest.mark.parametrize(
    ("source", "target", "where", "problem"),
    [
        (b"a\nb\n", b"x\n", "train.fr:2", "expected as many lines as {en} has, found the end"),
        (b"a\n", b"x\ny\n", "train.en:2", "expected as many lines as {fr} has, found the end"),
        (b"", b"x\n", "train.en:1", "expected as many lines as {fr} has, found the end"),
        (b"", b"", "train.en", "expected parallel text, found an empty file"),
        (b"a\n\xff\n", b"x\ny\n", "train.en:2", "expected UTF-8, found byte 0xff at byte 1"),
        (b"a\nb\n", b"x\ny \xc3\n", "train.fr:2", "expected UTF-8, found byte 0xc3 at byte 3"),
        (b"a\n\nc\n", b"x\ny\nz\n", "train.en:2", "expected a sentence, found an empty line"),
        (b"a\nb\n", b"x\n  \n", "train.fr:2", "expected a sentence, found an empty line"),
        (b"a\n\r\n", b"x\n\r\n", "train.en:2", "expected a sentence, found an empty line"),
        (b"\n", b"\n", "train.en:1", "expected a sentence, found an empty line"),
        (b"\x1f\x8b", b"x\n", "train.en", "gzip"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(
    paths: tuple[Path, Path], source: bytes, target: bytes, where: str, problem: str
) -> None:
    paths[0].write_bytes(source)
    paths[1].write_bytes(target)
    with pytest.raises(DataError) as caught:
        read(paths)
    message = str(caught.value)
    assert message.startswith(f"{paths[0].with_name(where)}: ")
    assert problem.format(en=paths[0], fr=paths[1]) in message


def test_a_missing_file_is_named(paths: tuple[Path, Path]) -> None:
    paths[0].write_bytes(b"a\n")
    with pytest.raises(DataError, match=r"train\.fr: cannot open"):
        read(paths)


def test_lines_are_split_at_spaces_and_an_empty_one_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress("un  chien \r\n\né\u00a0té\n".encode()))
    lines = list(read_monolingual_text(str(path)))
    assert [line.words for line in lines] == [("un", "chien"), (), ("é\u00a0té",)]
    assert lines[0].raw == b"un  chien \r"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected a tokenised text, found no word"),
        (b"\n \n", "expected a tokenised text, found no word"),
        (b"a\n\xff\n", r"text:2: .*UTF-8"),
        (b"a ||| b\nc\n", r"text:1: .*found '\|\|\|' among its words: is it a phrase table"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "text"
    path.write_bytes(data)
    with pytest.raises(DataError, match=message):
        list(read_monolingual_text(str(path)))

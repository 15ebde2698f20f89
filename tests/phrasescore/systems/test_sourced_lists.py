"""N-best lists go with their sentences, line by line."""

from pathlib import Path

import pytest

from phrasescore.errors import DataError
from phrasescore.systems.sourced_lists import SourcedList, read_sourced_lists


def write(folder: Path, *lines: bytes, end: bytes = b"\n") -> str:
    path = folder / "nbest"
    path.write_bytes(b"\n".join(lines) + end)
    return str(path)


def line(number: int | str, *, fields: bytes = b"x ||| LM0= -2.5 ||| -3") -> bytes:
    return str(number).encode() + b" ||| " + fields


def source_file(folder: Path, text: str) -> str:
    (folder / "source").write_text(text, encoding="utf-8")
    return str(folder / "source")


def with_sources(lists: str, source: str, *, allow_missing: bool = False) -> list[SourcedList]:
    return list(read_sourced_lists(lists, source, (), allow_missing))


def test_each_list_gets_the_sentence_of_its_id(tmp_path: Path) -> None:
    source = source_file(tmp_path, "a  b\r\n\nc d\n")
    pairs = with_sources(write(tmp_path, line(0), line(1), line(2)), source)
    assert [(found.nbest.id, found.source) for found in pairs] == [
        (0, ("a", "b")), (1, ()), (2, ("c", "d"))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ids", "sentences", "message"),
    [
        ([0, 1, 2], 2, "nbest:3: id 2 is beyond the end of the source .*source"),
        ([0, 5], 2, "nbest:2: id 5 is beyond the end of the source .*source"),
        ([0, 2], 3, "nbest:2: expected id 1, found 2: a sentence has no hypotheses"),
        ([1], 2, "nbest:1: expected id 0, found 1: a sentence has no hypotheses"),
        ([0, 1], 4, "source:3: the n-best list ends before this sentence, with id 1"),
    ],
)
def test_a_list_that_does_not_fit_its_source_is_an_error(
    tmp_path: Path, ids: list[int], sentences: int, message: str
) -> None:
    source = source_file(tmp_path, "word\n" * sentences)
    path = write(tmp_path, *map(line, ids))
    allow = "beyond" in message  # what is beyond the source never fits
    with pytest.raises(DataError, match=message):
        with_sources(path, source, allow_missing=allow)


def test_a_source_with_markup_is_refused(tmp_path: Path) -> None:
    source = source_file(tmp_path, 'a <n translation="b">c</n>\n')
    with pytest.raises(DataError, match="source:1: expected words, found markup: '<n trans"):
        with_sources(write(tmp_path, line(0)), source)


def test_sentences_without_a_list_can_be_allowed(tmp_path: Path) -> None:
    source = source_file(tmp_path, "a\nb\nc\nd\n")
    pairs = with_sources(write(tmp_path, line(1), line(2)), source, allow_missing=True)
    assert [(found.place, found.source) for found in pairs] == [(0, ("b",)), (1, ("c",))]


@pytest.mark.parametrize(("links", "warnings"), [("", 1), ("0-0", 0)])
def test_lists_without_any_link_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, links: str, warnings: int
) -> None:
    line = "{} ||| le  ||| A= 1 ||| -1 ||| 0=0 ||| {}\n"
    lists, source = tmp_path / "lists", tmp_path / "source"
    lists.write_text(line.format(0, "") + line.format(1, links))
    source.write_text("the\nthe\n")
    read = read_sourced_lists(str(lists), str(source), (), allow_missing=False, aligned=True)
    affiliations = [found.block.affiliations for found in read]
    assert affiliations == [[(1,)], [(0 if links else 1,)]]
    assert sum("no hypothesis has a link" in text for text in caplog.messages) == warnings

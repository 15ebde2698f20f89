"""Promises of reading a text of one language: phrasescore.io.monolingual_text."""

import gzip
from pathlib import Path

import pytest

from phrasescore.errors import DataError
from phrasescore.io.monolingual_text import read_monolingual_text


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

"""Promises of phrasescore.vocabulary."""

import gzip
from pathlib import Path

import pytest

from phrasescore import vocabulary as vocabulary_module
from phrasescore.errors import DataError
from phrasescore.vocabulary import HEADER, Vocabulary


def test_words_are_numbered_from_two_by_falling_count() -> None:
    vocabulary = Vocabulary.from_counts({"rare": 1.0, "often": 3.5, "some": 2.0}, size=9)
    assert vocabulary.ids(("often", "some", "rare")) == [2, 3, 4]
    assert [vocabulary.word(number) for number in range(5)] == [
        "</s>",
        "<unk>",
        "often",
        "some",
        "rare",
    ]


def test_equal_counts_are_ordered_by_bytes() -> None:
    # UTF-8: "z" 7A, "é" C3 A9, "\uffee" EF BF AE, "\U0001f600" F0 9F 98 80 (in UTF-16 the last two
    # are the other way round).
    words = ["\U0001f600", "é", "\uffee", "z"]
    vocabulary = Vocabulary.from_counts(dict.fromkeys(words, 1.0), size=4)
    assert vocabulary.ids(("z", "é", "\uffee", "\U0001f600")) == [2, 3, 4, 5]


def test_the_shortlist_keeps_size_words_beside_the_two_symbols() -> None:
    vocabulary = Vocabulary.from_counts({"a": 3, "b": 2, "c": 1}, size=2)
    assert len(vocabulary) == 4
    assert "b" in vocabulary
    assert "c" not in vocabulary
    assert vocabulary.ids(("c", "unseen")) == [Vocabulary.UNKNOWN] * 2


def test_a_symbol_in_the_data_is_an_unknown_word() -> None:
    counts = {"</s>": 50.0, "<unk>": 40.0, "a": 10.0}
    vocabulary = Vocabulary.from_counts(counts, size=3)
    assert vocabulary.ids(("</s>", "<unk>", "a")) == [1, 1, 2]
    assert "</s>" not in vocabulary
    assert vocabulary.coverage(counts) == pytest.approx(0.1)


def test_coverage_is_the_share_of_running_words() -> None:
    vocabulary = Vocabulary(["a", "b"])
    assert vocabulary.coverage({"a": 6.0, "b": 1.5, "c": 2.5}) == pytest.approx(0.75)
    assert vocabulary.coverage({}) == 1.0


def test_a_saved_file_loads_equal_and_its_line_numbers_are_the_ids(tmp_path: Path) -> None:
    # None of these ends a line or separates words in Moses: \r, U+0085, U+2028, U+00A0, tab.
    words = ["la", "a\r", "b\u0085c", "d\u2028e", "f\u00a0g", "#", "h\ti", "&#124;", "\U0001f600"]
    vocabulary = Vocabulary(words)
    path = tmp_path / "source.vocab"
    vocabulary.save(path)
    assert Vocabulary.load(path) == vocabulary
    lines = path.read_bytes().decode().split("\n")
    assert lines[vocabulary.ids(("b\u0085c",))[0] - 1] == "b\u0085c"


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        (b"la\nle\n", 1, "expected the header"),
        (f"{HEADER}\nla\n\nle\n".encode(), 3, "expected a word, got ''"),
        (f"{HEADER}\nla\nle\nla\n".encode(), 4, "'la' is on line 2 already"),
        (f"{HEADER}\n<unk>\n".encode(), 2, "expected a word, got '<unk>'"),
        (f"{HEADER}\n".encode() + b"\xff\n", 2, ""),
        (b"", None, "empty file"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(
    tmp_path: Path, content: bytes, line: int | None, problem: str
) -> None:
    path = tmp_path / "bad.vocab"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        Vocabulary.load(path)
    assert caught.value.line == line
    assert problem in str(caught.value)


def test_what_a_packed_file_holds_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "packed.vocab"
    path.write_bytes(gzip.compress(f"{HEADER}\nla\nle\n".encode()))
    assert len(Vocabulary.load(path)) == 4
    monkeypatch.setattr(vocabulary_module, "MAX_WORDS", len(HEADER) + 2)
    with pytest.raises(DataError, match=r"\.vocab:3: expected at most 85 bytes, found"):
        Vocabulary.load(path)


@pytest.mark.parametrize("words", [["a", "a"], [""], ["a\nb"], ["</s>"]])
def test_words_that_cannot_be_numbered_or_saved_are_a_programming_error(words: list[str]) -> None:
    with pytest.raises(ValueError, match="a word"):
        Vocabulary(words)


@pytest.mark.parametrize("number", [-1, 3])
def test_an_id_outside_the_vocabulary_has_no_word(number: int) -> None:
    with pytest.raises(IndexError, match=f"from 0 to 2, got {number}"):
        Vocabulary(["a"]).word(number)

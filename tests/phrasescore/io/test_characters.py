"""Promises of phrasescore.io.characters: words are split into characters and joined exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasescore.errors import DataError
from phrasescore.io.characters import BOUNDARY, join_characters, split_characters, split_line

WORDS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters=BOUNDARY), min_size=1)
    | st.sampled_from(["&apos;", "&#124;x", "&#12", "a&b;", "&&amp;;", "e\u0301", "\U0001d51e"])
)


@given(WORDS)
def test_the_round_trip_is_exact(words: list[str]) -> None:
    assert join_characters(split_characters(words)) == words


@given(WORDS)
def test_a_token_is_a_code_point_an_escape_or_the_boundary(words: list[str]) -> None:
    tokens = split_characters(words)
    assert tokens.count(BOUNDARY) == (len(words) + 1 if words else 0)
    assert all(len(token) == 1 or (token[0], token[-1]) == ("&", ";") for token in tokens)


def test_escapes_of_moses_are_tokens_and_other_ampersands_are_not() -> None:
    assert split_characters(["&quot;a&#91;&amp;apos;&b;"]) == [
        *(BOUNDARY, "&quot;", "a", "&#91;", "&amp;", "a", "p", "o", "s", ";", "&", "b", ";"),
        BOUNDARY,
    ]


def test_a_translation_has_no_empty_words() -> None:
    assert join_characters([BOUNDARY, "a", "b", BOUNDARY, BOUNDARY, "c", BOUNDARY]) == ["ab", "c"]
    assert join_characters([]) == []


@pytest.mark.parametrize("words", [["a\u2581b"], ["\u2581"], ["a", "\u2581", "b"]])
def test_a_word_with_the_boundary_is_an_error_with_its_line(words: list[str]) -> None:
    with pytest.raises(DataError, match=r"^text\.de:3: expected words without U\+2581"):
        split_line("text.de", 3, words)

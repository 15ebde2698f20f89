"""A source of which networks know few words is warned of, and any other is not."""

import logging

import pytest

from moses_integration.nbest import NbestList
from phrasescore.cli.rescore_lists import Item
from phrasescore.cli.source_words import SourceWords, is_foreign
from phrasescore.vocabulary import Vocabulary


def warnings(caplog: pytest.LogCaptureFixture, *sources: str) -> list[str]:
    """Return what is warned of where one network knows a, b and c, and another all letters."""
    vocabularies = {"abc": Vocabulary("abc"), "all": Vocabulary("abcdefghijklmnopqrstuvwxyz")}
    nbest = NbestList("nbest", 0, 1, [], [], [], b"\n", [], {})
    items = [Item(nbest, tuple(source), {}) for source in sources]
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert list(SourceWords("text", vocabularies).reading(items)) == items
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("unknown", "words", "expected"),
    [(0, 0, False), (1, 1, True), (2, 3, False), (10, 20, False), (11, 20, True), (10, 19, False)],
)
def test_more_than_half_of_some_words_is_foreign(unknown: int, words: int, expected: bool) -> None:
    assert is_foreign(unknown, words) is expected


def test_the_network_that_does_not_know_the_source_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert warnings(caplog, "abcxyz", "", "aaaaabbbbbccccc") == []
    (line,) = warnings(caplog, "abcxyz" * 2, "", "xxxxxxxxabc")
    assert line.startswith("text: 14 of its first 23 words are unknown to abc: is it the source")


def test_a_long_text_is_warned_of_once_and_before_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (line,) = warnings(caplog, *["xyzab" * 10] * 100)
    assert "600 of its first 1,000 words are unknown to abc" in line
    # The half of the first thousand words are known, and nothing is said of what comes then.
    assert warnings(caplog, "ax" * 500, "x" * 5000) == []

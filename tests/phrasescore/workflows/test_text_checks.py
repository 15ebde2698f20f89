"""A text of which models know few words is warned of, and any other is not."""

import logging
from pathlib import Path

import pytest

from phrasescore.evaluation.sentences import Sentences, read_sentences
from phrasescore.vocabulary import Vocabulary
from phrasescore.workflows.text_checks import UnknownWordCounter, warn_of_lengths, warn_of_texts


def warnings(caplog: pytest.LogCaptureFixture, *sentences: str) -> list[str]:
    """Return the warnings where one model knows a, b and c, and another one all letters."""
    vocabularies = {"abc": Vocabulary("abc"), "all": Vocabulary("abcdefghijklmnopqrstuvwxyz")}
    caplog.clear()
    unknown_words = UnknownWordCounter("text", vocabularies)
    with caplog.at_level(logging.WARNING):
        for sentence in sentences:
            unknown_words.count(tuple(sentence))
        unknown_words.warn()
    return [record.getMessage() for record in caplog.records]


def test_the_model_that_does_not_know_the_text_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert warnings(caplog) == []
    assert warnings(caplog, "abcxyz", "") == []
    (line,) = warnings(caplog, "abcxyz" * 2, "", "xxxxxxxxabc")
    assert line.startswith("text: 14 of its first 23 words are unknown to abc: is it in the")


def test_a_long_text_is_warned_of_once_and_before_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (line,) = warnings(caplog, *["xyzab" * 10] * 100)
    assert "600 of its first 1,000 words are unknown to abc" in line
    # Half of the first thousand words are known; those that come then are not counted.
    assert warnings(caplog, "ax" * 500, "x" * 5000) == []


@pytest.mark.parametrize(
    ("words", "reference_words", "is_warned"),
    [(10, 20, False), (20, 10, False), (10, 21, True), (21, 10, True), (0, 0, False)],
)
def test_lengths_are_warned_of_beyond_a_factor_of_two(
    caplog: pytest.LogCaptureFixture, words: int, reference_words: int, is_warned: bool
) -> None:
    warn_of_lengths("out", words, reference_words)
    assert [record.getMessage()[:27] for record in caplog.records] == (
        [f"out has {words} words, the refere"[:27]] if is_warned else []
    )


def test_translations_of_another_length_and_missing_references_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def text(name: str, *lines: str) -> Sentences:
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return read_sentences(str(path))

    right, short, holes = text("r", "a b", "c d e"), text("s", "a b", ""), text("h", "", "c d e")
    for references, expected in (
        ((right,), ["s has 1 empty lines", "s has 2 words, the references 5: are"]),
        # A sentence needs one reference; lengths are compared with the first set.
        ((holes, right), ["s has 1 empty lines"]),
        ((holes,), ["s has 1 empty lines", "h: 1 lines are empty: no reference is there"]),
    ):
        caplog.clear()
        warn_of_texts([right, short], references)
        found = [record.getMessage() for record in caplog.records]
        assert len(found) == len(expected)
        for line, start in zip(found, expected, strict=True):
            assert line.startswith(f"{tmp_path}/{start}")

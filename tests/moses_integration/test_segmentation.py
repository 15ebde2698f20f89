"""Promises of moses_integration.alignments."""

import pytest

from moses_integration.alignments import PhraseSpan, format_segmentation, parse_segmentation
from phrasescore.errors import DataError

LINE = b"3 ||| a b c  ||| LM0= -1 ||| -2.5"


def test_a_line_of_moses_becomes_phrases_and_is_written_alike() -> None:
    # As Manager::OutputNBest writes it: source words 2 and 3, then 0, then 1.
    spans = parse_segmentation(LINE + b" ||| 2-3=0 0=1-2 1=3 ||| 2-0 0-1", 4, 4, "nbest", 1)
    assert spans == [PhraseSpan(2, 4, 0, 1), PhraseSpan(0, 1, 1, 3), PhraseSpan(1, 2, 3, 4)]
    assert format_segmentation(spans) == "2-3=0 0=1-2 1=3"


@pytest.mark.parametrize("text", ["0=0 1=0-2", "0=0-2 1=3", "0=0 1=0 2=0-2"])
def test_a_phrase_without_target_words_begins_where_the_next_one_does(text: str) -> None:
    size = len(text.split())
    spans = parse_segmentation(LINE + b" ||| " + text.encode(), size, 3, "nbest", 1)
    words = [span.target_end - span.target_start for span in spans]
    assert words == {"0=0 1=0-2": [0, 3], "0=0-2 1=3": [3, 0], "0=0 1=0 2=0-2": [0, 0, 3]}[text]


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        (b"", "after the total, made by decode --segmentation, or by Moses' -include-"),
        (b" ||| 0-0 1-1", "expected a segmentation into phrases"),
        (b" ||| 0=0 1=x", "expected a phrase as 0-1=0-2, found '1=x'"),
        (b" ||| 0-1=0-1", "expected phrases of 3 source and 3 target words, found '0-1=0-1'"),
        (b" ||| 0-1=0-1 1-2=2", "expected phrases of 3 source"),
        (b" ||| 0-2=1-2", "expected phrases of 3 source"),
        (b" ||| 0=2 1-2=0-1", "expected phrases of 3 source"),
        (b" ||| 0=0 1-2=4", "expected phrases of 3 source"),
    ],
)
def test_a_segmentation_that_is_none_or_of_other_words_is_refused(
    field: bytes, problem: str
) -> None:
    with pytest.raises(DataError) as caught:
        parse_segmentation(LINE + field, 3, 3, "nbest", 7)
    assert str(caught.value).startswith("nbest:7: ")
    assert problem in str(caught.value)

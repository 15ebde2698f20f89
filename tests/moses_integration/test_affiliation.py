"""Affiliations of target words, alignments and segmentations: what they are, and their files."""

import random

import pytest

from moses_integration.alignments import (
    PhraseSpan,
    affiliate,
    affiliate_hypothesis,
    affiliate_phrase,
    affiliate_sentence,
    format_segmentation,
    parse_links,
    parse_segmentation,
)
from phrasescore.errors import DataError
from tests.reference_joint import affiliate_in_phrase, affiliate_in_text


def test_an_aligned_word_has_the_middle_one_of_its_source_words() -> None:
    # By hand: of one the one, of two the first, of three the second, of four the second.
    linked = [[4], [3, 2], [9, 1, 5], [8, 6, 0, 7]]
    assert affiliate(linked) == (4, 2, 5, 6)
    assert affiliate([[2, 2, 5, 5, 5]]) == (2,)  # a link counts once


def test_another_word_has_that_of_the_nearest_one_the_right_one_of_two() -> None:
    # Word 1 is between 0 and 2, and takes 2's; 3 is next to 2, 5 to 6, and 4 between the two.
    linked: list[list[int]] = [[10], [], [20], [], [], [], [30]]
    assert affiliate(linked) == (10, 20, 20, 20, 30, 30, 30)
    assert affiliate([[], [], [7]]) == (7, 7, 7)
    assert affiliate([[7], [], []]) == (7, 7, 7)


def test_a_sentence_has_its_end_to_the_right_and_a_phrase_has_not() -> None:
    # The last word is unaligned: </s>, affiliated with the source's end, is as near as word 0.
    assert affiliate_sentence([[0], []], 5) == (0, 5)
    assert affiliate([[0], []]) == (0, 0)
    assert affiliate_sentence([[], []], 5) == (5, 5)
    assert affiliate([[], []]) is None


def test_both_rules_are_those_of_moses() -> None:
    draw = random.Random(3)
    for _ in range(300):
        source_size, size = draw.randrange(1, 7), draw.randrange(1, 9)
        pairs = [(s, t) for s in range(source_size) for t in range(size)]
        links = draw.sample(pairs, draw.randrange(min(len(pairs), 7)))
        field = " ".join(f"{s}-{t}" for s, t in links).encode()
        linked = parse_links(field, source_size, size, "f", 1)
        found, expected = affiliate(linked), affiliate_in_phrase(links, size)
        assert found == (None if expected is None else tuple(expected))
        whole = affiliate_sentence(linked, source_size)
        assert list(whole) == affiliate_in_text(links, source_size, size)


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        (b"0-0 x", "expected a word alignment, as '0-0 1-2', found '0-0 x'"),
        (b"0-0-S", "expected a word alignment"),
        (b"0-0\t1-1", "expected a word alignment"),
        (b"0-0 3-1", r"the alignment link 3-1 \(0-based\) is outside the pair of 3 and 2"),
        (b"0-" + b"9" * 5000, "expected a word alignment"),
        (b"0-2", "the alignment link 0-2"),
    ],
)
def test_links_of_another_form_or_sentence_are_refused(field: bytes, problem: str) -> None:
    with pytest.raises(DataError, match=f"text.align:7: {problem}"):
        parse_links(field, 3, 2, "text.align", 7)


def test_a_phrase_without_links_is_refused() -> None:
    assert affiliate_phrase(b"1-0", 2, 2, "table", 4) == (1, 1)
    with pytest.raises(DataError, match="table:4: expected a word alignment in the fourth field"):
        affiliate_phrase(b"", 2, 2, "table", 4)


# Four target words, of which the second and the third are unaligned.
LINE = b"0 ||| a b c d  ||| LM0= -1 ||| -2"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (b" ||| 2-0 0-3", (2, 2, 0, 0)),
        (b" ||| 2-0 0-3 \r", (2, 2, 0, 0)),
        # Something else; could its numbers end anywhere, there were 2^60 ways to read it.
        (b" ||| 0=" + b"111=" * 60 + b" ||| 2-0 0-3", (2, 2, 0, 0)),
        # As in the sentence, but within phrases of 1 and 3 words, and of 3 and 1.
        (b" ||| 2-3=0 0-1=1-3 ||| 2-0 0-3", (2, 0, 0, 0)),
        (b" ||| 2-3=0-2 0-1=3 ||| 2-0 0-3 ||| source words", (2, 2, 2, 0)),
        # An empty phrase begins where the next one does, and has no end.
        (b" ||| 2-3=0 1=1 0=1-3 ||| 2-0 0-3", (2, 0, 0, 0)),
        # A phrase without links: as in the sentence, whose end is nearest to the last two words.
        (b" ||| 0=0 1-3=1-3 ||| 0-0", (0, 0, 4, 4)),
        # No links at all, as Moses writes it: only the end is left.
        (b" ||| 0-3=0-3 ||| ", (4, 4, 4, 4)),
        (b" ||| ", (4, 4, 4, 4)),
        (b" |||", (4, 4, 4, 4)),
    ],
)
def test_a_hypothesis_has_its_alignment_after_its_total(
    fields: bytes, expected: tuple[int, ...]
) -> None:
    assert affiliate_hypothesis(LINE + fields, 4, 4, "nbest", 9) == expected


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (b"", "nbest:9: expected a word alignment after the total, found none: Moses writes it "),
        (b" ||| 0-3=0-3", "with -print-alignment-info-in-n-best, phrasescore translate with --al"),
        (b" ||| 0-4", "the alignment link 0-4"),
        (b" ||| 0=1 1=2 ||| 0-0", "expected phrases for 4 source and 4 target words, found '0=1"),
        (b" ||| 0=0 1=5 ||| 0-0", "expected phrases for 4 source"),
    ],
)
def test_a_hypothesis_without_one_is_refused(fields: bytes, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        affiliate_hypothesis(LINE + fields, 4, 4, "nbest", 9)


def test_an_empty_hypothesis_needs_none() -> None:
    assert affiliate_hypothesis(b"0 |||  ||| LM0= 0 ||| 0", 0, 0, "nbest", 1) == ()


def test_a_text_without_links_takes_time_in_proportion() -> None:
    num_words = 200_000  # counted word by word to the nearest aligned one: 20 billion steps
    found = affiliate([[1], *[[]] * num_words, [2]])
    assert found == (1,) * (num_words // 2 + 1) + (2,) * (num_words // 2 + 1)


SEGMENTED = b"3 ||| a b c  ||| LM0= -1 ||| -2.5"


def test_a_line_of_moses_becomes_phrases_and_is_written_alike() -> None:
    # As Manager::OutputNBest writes it: source words 2 and 3, then 0, then 1.
    spans = parse_segmentation(SEGMENTED + b" ||| 2-3=0 0=1-2 1=3 ||| 2-0 0-1", 4, 4, "nbest", 1)
    assert spans == [PhraseSpan(2, 4, 0, 1), PhraseSpan(0, 1, 1, 3), PhraseSpan(1, 2, 3, 4)]
    assert format_segmentation(spans) == "2-3=0 0=1-2 1=3"


@pytest.mark.parametrize("text", ["0=0 1=0-2", "0=0-2 1=3", "0=0 1=0 2=0-2"])
def test_a_phrase_without_target_words_begins_where_the_next_one_does(text: str) -> None:
    size = len(text.split())
    spans = parse_segmentation(SEGMENTED + b" ||| " + text.encode(), size, 3, "nbest", 1)
    words = [span.target_end - span.target_start for span in spans]
    assert words == {"0=0 1=0-2": [0, 3], "0=0-2 1=3": [3, 0], "0=0 1=0 2=0-2": [0, 0, 3]}[text]


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        (b"", "after the total, written by translate --segmentation or by Moses with"),
        (b" ||| 0-0 1-1", "expected a phrase segmentation"),
        (b" ||| 0=0 1=x", "expected a phrase like 0-1=0-2, found '1=x'"),
        (b" ||| 0-1=0-1", "expected phrases for 3 source and 3 target words, found '0-1=0-1'"),
        (b" ||| 0-1=0-1 1-2=2", "expected phrases for 3 source"),
        (b" ||| 0-2=1-2", "expected phrases for 3 source"),
        (b" ||| 0=2 1-2=0-1", "expected phrases for 3 source"),
        (b" ||| 0=0 1-2=4", "expected phrases for 3 source"),
    ],
)
def test_a_segmentation_that_is_none_or_of_other_words_is_refused(
    field: bytes, problem: str
) -> None:
    with pytest.raises(DataError) as caught:
        parse_segmentation(SEGMENTED + field, 3, 3, "nbest", 7)
    assert str(caught.value).startswith("nbest:7: ")
    assert problem in str(caught.value)

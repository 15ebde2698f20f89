"""The section of sentences and n-grams in which systems differ."""

import random

import pytest

from phrasescore.evaluation.comparison import ComparedSystem
from phrasescore.evaluation.sentences import Sentences
from phrasescore.report.blocks import Block, MarkedSentence, MarkedTexts, Section, Table
from phrasescore.report.differences import differences, mark_differences, mark_matches
from tests.phrasescore.report import report_blocks
from tuning.metrics import Bleu


def sentences(*texts: str) -> Sentences:
    return Sentences("text", list(texts), [tuple(text.split()) for text in texts])


def section_of(
    references: list[Sentences], source: Sentences | None = None, **systems: Sentences
) -> Section:
    compared = [ComparedSystem(name, [text]) for name, text in systems.items()]
    given = {"systems": compared, "references": references, "source": source}
    return report_blocks.section_of(differences, **given)


def block_of(section: Section, name: str) -> Block:
    return next(block for block in section.blocks if block.name == name)


def marked_of(section: Section) -> MarkedTexts:
    block = block_of(section, "differences-sentences")
    assert isinstance(block, MarkedTexts)
    return block


def lines_of(sentence: MarkedSentence) -> list[tuple[str, float]]:
    return [(line.name, line.score) for line in sentence.lines]


@pytest.mark.parametrize(
    ("words", "references", "matches"),
    [
        # "a b c" and "e" match; d does not.
        ("a b c d e", ["a b c x e"], "33301"),
        # Five words in a row are marked as four.
        ("a b c d e", ["a b c d e"], "44444"),
        # The reference has "the" once, and the second one is in a longer match.
        ("the the cat", ["the cat"], "022"),
        # Of equal matches, the first one counts.
        ("a x a", ["a"], "100"),
        ("a b c d", ["c d a b"], "2222"),
        # A word counts as often as in one reference, not in all together.
        ("a x a", ["a", "a y"], "100"),
        ("a b x y", ["a b", "x y"], "2222"),
        ("", ["a"], ""),
        ("a", [""], "0"),
    ],
)
def test_words_are_marked_with_their_longest_match(
    words: str, references: list[str], matches: str
) -> None:
    found = mark_matches(words.split(), [text.split() for text in references])
    assert "".join(map(str, found)) == matches


def test_the_longest_match_is_as_long_as_bleu_counts() -> None:
    draw = random.Random(1)
    for _ in range(300):
        texts = [draw.choices("abcd", k=draw.randint(1, 9)) for _ in range(3)]
        words, references = texts[0], texts[1:]
        statistics = Bleu([[text] for text in references]).statistics([words], [0])
        matches = mark_matches(words, references)
        # Each match of four words marks at least one word with 4, and so on.
        assert max(matches) == max((n for n in range(1, 5) if statistics[0, n - 1]), default=0)


@pytest.mark.parametrize(
    ("words", "others", "expected"),
    [
        ("a b c", "a b c", "000"),
        ("a x c", "a b c", "010"),
        ("a b", "", "11"),
        ("x a b", "a b c", "100"),
        ("b a", "a b", "10"),
        ("a " * 300, "a " * 300, "0" * 300),
    ],
)
def test_words_differ_that_are_not_at_this_place_in_the_other(
    words: str, others: str, expected: str
) -> None:
    found = mark_differences(words.split(), others.split())
    assert "".join(str(int(differs)) for differs in found) == expected


REFERENCE = sentences("a b c d e", "f g h i", "k l m n o p")
BASE = sentences("x", "f g h i", "k l m n o p")
# It gains the first sentence, and loses the second.
OTHER = sentences("a b c d e", "x", "k l m n o p")


def test_a_chosen_sentence_has_all_texts_and_systems_and_says_why() -> None:
    section = section_of([REFERENCE], sentences("s1", "s2", "s3"), base=BASE, other=OTHER)
    marked = marked_of(section)
    assert marked.baseline == "base"
    gains, losses = marked.groups
    assert (gains.title, gains.caption) == (
        "Where other gains most over base",
        "Sentences with gains: 1.",
    )
    assert (losses.title, losses.caption) == (
        "Where other loses most against base",
        "Sentences with losses: 1.",
    )
    (sentence,) = gains.sentences
    assert sentence.number == 1
    assert sentence.texts == (("source", "s1"), ("reference", "a b c d e"))
    assert lines_of(sentence) == [("base", 0.0), ("other", 100.0)]
    base, other = sentence.lines
    assert (base.words, base.matches, base.differs) == (("x",), (0,), (False,))
    assert other.words == ("a", "b", "c", "d", "e")
    assert other.matches == (4,) * 5
    assert other.differs == (True,) * 5
    assert [sentence.number for sentence in losses.sentences] == [2]


def test_a_sentence_stands_once_and_later_groups_say_so() -> None:
    third = sentences("a b c d y", "f g h i", "k l m n o")
    groups = marked_of(section_of([REFERENCE], base=BASE, other=OTHER, third=third)).groups
    assert [group.title for group in groups] == [
        "Where other gains most over base",
        "Where other loses most against base",
        "Where third gains most over base",
        "Where third loses most against base",
    ]
    numbers = [[sentence.number for sentence in group.sentences] for group in groups]
    assert numbers == [[1], [2], [], [3]]
    assert groups[2].caption == "Sentences with gains: 1. Shown above: 1."
    assert groups[0].sentences[0].texts == (("reference", "a b c d e"),)
    assert [name for name, _ in lines_of(groups[0].sentences[0])] == ["base", "other", "third"]


def test_at_most_ten_sentences_with_the_largest_first() -> None:
    references = sentences(*(" ".join(f"w{n}" for n in range(18 - at)) for at in range(15)))
    # The longer the sentence, the less is lost with its last word.
    cut = sentences(*(text.rpartition(" ")[0] for text in references.texts))
    groups = marked_of(section_of([references], base=cut, other=references)).groups
    (group,) = groups
    assert [sentence.number for sentence in group.sentences] == list(range(15, 5, -1))
    assert group.caption == "Sentences with gains: 15. The 10 largest gains are shown."


def test_systems_with_the_same_translations_have_no_differences() -> None:
    assert section_of([REFERENCE], base=BASE, other=BASE).blocks == ()


def test_several_references_are_numbered_and_all_of_them_match() -> None:
    references = [sentences("a b"), sentences("c d")]
    (group,) = marked_of(
        section_of(references, base=sentences("x y"), other=sentences("c d"))
    ).groups
    (sentence,) = group.sentences
    assert sentence.texts == (("reference 1", "a b"), ("reference 2", "c d"))
    assert sentence.lines[1].matches == (2, 2)


def test_escapes_of_moses_are_undone_and_controls_are_shown() -> None:
    base, other = sentences("x"), sentences("&lt;b&gt; \x1b[2J \u200fa")
    (group,) = marked_of(section_of([sentences("\u200fa")], base=base, other=other)).groups
    (sentence,) = group.sentences
    assert sentence.texts == (("reference", "\\u200fa"),)
    assert sentence.lines[1].words == ("<b>", "\\u001b[2J", "\\u200fa")
    assert sentence.lines[1].matches == (0, 0, 1)


def test_ngrams_are_counted_as_bleu_does_and_ordered_by_their_difference() -> None:
    references = [sentences("a b c", "a b", "d d e")]
    base = sentences("a b x", "a x", "d d e")
    other = sentences("a b c", "a b", "d d d")
    table = block_of(section_of(references, base=base, other=other), "differences-1-ngrams")
    assert isinstance(table, Table)
    assert table.columns == ("words", "correct in base", "correct in other", "difference")
    # Matches of base: a 2, b 1, "a b" 1, d 2, "d d" 1, e 1, "d e" 1, "d d e" 1.
    # Matches of other: a 2, b 2, c 1, "a b" 2, "b c" 1, "a b c" 1, d 2 (as in the reference),
    # "d d" 1. Of b and "a b" (1 and 2 in both), of "b c" and c, the longest stands for all; so do
    # "d d e" for "d e" and e.
    assert table.rows == (("a b c", 0, 1, 1), ("a b", 1, 2, 1), ("d d e", 1, 0, -1))

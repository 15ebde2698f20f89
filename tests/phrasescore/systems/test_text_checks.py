"""A text of which models know few words is warned of, and any other is not."""

import logging
from collections.abc import Container, Mapping
from pathlib import Path

import pytest

from phrasescore.evaluation.sentences import Sentences, read_sentences
from phrasescore.systems.text_checks import (
    UnknownWordCheck,
    warn_of_lengths,
    warn_of_texts,
    warn_of_tokenization,
)
from phrasescore.vocabulary import SubwordVocabulary, Vocabulary


def warnings(
    caplog: pytest.LogCaptureFixture, models: Mapping[str, Container[str]], *sentences: str
) -> list[str]:
    caplog.clear()
    unknown_words = UnknownWordCheck("text", models)
    with caplog.at_level(logging.WARNING):
        list(unknown_words.counted(tuple(sentence.split(" ")) for sentence in sentences))
    return [record.getMessage() for record in caplog.records]


HOUSE = {"net": Vocabulary(["la", "maison", "est", "Paris"])}


def test_the_model_that_does_not_know_the_text_is_named(caplog: pytest.LogCaptureFixture) -> None:
    models = {"abc": Vocabulary("abc"), "all": Vocabulary("abcdefghijklmnopqrstuvwxyz")}
    assert warnings(caplog, models) == []
    assert warnings(caplog, models, "a b c x y z") == []
    (line,) = warnings(caplog, models, "a b c x y z", "x x x a")
    assert line == (
        "text: 6 of 10 counted words are unknown to abc, such as 'x', 'y', 'z': is it in the "
        "model's language, tokenised and cased as in training?"
    )


@pytest.mark.parametrize(
    ("sentence", "unknown", "cause"),
    [
        ("la|DET maison|NOUN est|VERB", "'la|DET', 'maison|NOUN'", "words with factors (word|POS)"),
        ("la maison |0-1| est |2-2|", "'|0-1|', '|2-2|'", "phrase marks: omit -report-se"),
        ("la |0-0,wa=0-0 ,total=-1| est |1-1,wa=0-0|", "'|1-1,wa=0-0|'", "phrase marks"),
        ("la mai@@ son est la maison", "'mai@@'", "pieces of words (BPE): join them"),
        ("▁la ▁mai son ▁est", "'▁la', '▁mai'", "pieces of words (sentencepiece): join them"),
        ("La MAISON Est la", "'La', 'MAISON', 'Est'", "the model knows most of these in another"),
        ("paris paris", "'paris'", "the model knows most of these in another casing"),
    ],
)
def test_the_likely_cause_is_named(
    caplog: pytest.LogCaptureFixture, sentence: str, unknown: str, cause: str
) -> None:
    (line,) = warnings(caplog, HOUSE, sentence)
    assert f"are unknown to net, such as {unknown}" in line
    assert cause in line


def test_a_model_that_learned_such_words_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings(caplog, {"net": Vocabulary(["la|DET", "mai@@"])}, "la|DET mai@@ mai@@") == []


def test_a_model_of_pieces_that_knows_the_marks_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pieces = SubwordVocabulary.from_counts({"la|DET": 9, "maison": 9, "est": 9}, 20)
    assert "la|DET" in pieces
    assert warnings(caplog, {"net": pieces}, "la maison est") == []
    (line,) = warnings(caplog, {"net": pieces}, "la|DET maison")
    assert "words with factors" in line


def test_a_long_text_is_warned_of_once_and_its_later_lines_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (line,) = warnings(caplog, HOUSE, *["ma tu va la est"] * 3_000)
    assert "6,000 of 10,000 counted words are unknown to net" in line  # before the end
    (line,) = warnings(caplog, HOUSE, *["la maison"] * 6_000, *["ma tu va"] * 6_000)
    assert "18,000 of 30,000 counted words are unknown to net" in line
    # Of a million and more the first million.
    assert warnings(caplog, HOUSE, *["la maison"] * 500_000, *["ma tu va"] * 400_000) == []


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
        ((holes,), ["s has 1 empty lines", "h: 1 sentences have no reference"]),
    ):
        caplog.clear()
        warn_of_texts([right, short], references)
        found = [record.getMessage() for record in caplog.records]
        assert len(found) == len(expected)
        for line, start in zip(found, expected, strict=True):
            assert line.startswith(f"{tmp_path}/{start}")


def tokenization_warnings(caplog: pytest.LogCaptureFixture, *lines: str) -> list[str]:
    caplog.clear()
    words = [tuple(line.split(" ")) for line in lines]
    warn_of_tokenization(
        [Sentences("text", list(lines), words)], is_bleu_split=True, is_split=False
    )
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    "lines",
    [
        ["see https://example.org/a,b?c=1;d and mail@example.org , or call ."],
        ["it costs 1,000.50 , at 3.5 % or 10:30 .", "in 2.5 hours"],
        ["Mr. Smith lives in the U.S. , at No. 5", "at 5 p.m.", "i.e. , the U.S."],
        ["l&apos; homme dit : &quot; oui &quot; .", "rock &apos;n&apos;", "qu&apos;"],
        ["he said &quot; &#91; ... &#93; &quot; ...", ": - ) ;", "« oui » !"],
        ["我 喜欢 它 。", "是 的 ， 好 ！"],
        ["यह घर है ।", "هل هذا بيت ؟"],
        ["no punctuation at all", "in any line"],
        ["", "."],
        # One word a line, where abbreviations are few.
        [*["haus"] * 200, "usw.", "etc."],
    ],
)
def test_tokenised_text_is_not_warned_of(
    caplog: pytest.LogCaptureFixture, lines: list[str]
) -> None:
    assert tokenization_warnings(caplog, *lines) == []


@pytest.mark.parametrize(
    ("lines", "example", "cure"),
    [
        (["The house is small."], "small.", "13a"),
        (["He said: 'No, never!'", "- Yes..."], "said:", "13a"),
        (["Bonjour\u00a0!"], "Bonjour\\xa0!", "13a"),
        (['Et elle: "Non".', "Il dit «\u00a0oui\u00a0»."], "elle:", "13a"),
        (["我喜欢它。"], "我喜欢它。", "intl (zh for Chinese)"),
        (["यह घर है।"], "है।", "intl (zh for Chinese)"),
        (["هل هذا بيت؟"], "بيت؟", "intl (zh for Chinese)"),
    ],
)
def test_untokenised_text_is_warned_of_in_every_script(
    caplog: pytest.LogCaptureFixture, lines: list[str], example: str, cure: str
) -> None:
    (line,) = tokenization_warnings(caplog, *lines)
    assert line == (
        "text looks untokenised: punctuation is attached to words, such as "
        f"'{example}': use --tokenize {cure}"
    )


def test_real_texts_are_told_apart(shared_data: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokenised = [*shared_data.glob("*.en"), *shared_data.glob("*.fr")]
    raw = list((shared_data.parent / "low-resource").glob("*/*.*"))
    assert (len(tokenised), len(raw)) == (6, 12)
    for path in (*tokenised, *raw):
        text = read_sentences(str(path))
        warn_of_tokenization([text], is_bleu_split=True, is_split=False)
    assert [line.partition(" looks untokenised: ")[0] for line in caplog.messages] == (
        list(map(str, raw))
    )

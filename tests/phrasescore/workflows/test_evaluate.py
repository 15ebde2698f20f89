"""Sentences from Python are evaluated as the same sentences in files."""

import math
from pathlib import Path
from typing import Any

import pytest

import phrasescore
from phrasescore.errors import ArgumentError, DataError

REFERENCE = ["la maison est petite .", "un chien dort", "le chat mange une souris"]
BASELINE = ["la maison est petite .", "un chat dort", "le chat mange"]
SOURCE = ["the house is small .", "a dog sleeps", "the cat eats a mouse"]
# Of BASELINE, by hand: 10 of 11 words match, 6 of 8 bigrams, 4 of 5 trigrams, 2 of 2 4-grams; 13
# words in the reference.
BY_HAND = math.exp(1 - 13 / 11) * (10 / 11 * 6 / 8 * 4 / 5 * 1) ** 0.25


def test_sentences_are_strings_or_words_and_have_the_scores_of_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {"base": BASELINE, "new": REFERENCE, "ref": REFERENCE, "src": SOURCE}
    for name, text in texts.items():
        Path(name).write_text("".join(f"{sentence} \n" for sentence in text))
    settings = phrasescore.Evaluating(
        metrics=["multi-bleu", "bleu", "chrf", "ter"],
        paired="approximate",
        by_length=["source", "reference"],
    )
    expected = phrasescore.evaluate(["base", "new"], ["ref"], settings=settings, source="src")
    found = phrasescore.evaluate(
        {"base": [text.split() for text in BASELINE], "new": [f"{text} \n" for text in REFERENCE]},
        [tuple(REFERENCE)],
        settings=settings,
        source=SOURCE,
    )
    assert found.to_text() == expected.to_text() == repr(found)
    assert (expected.references, found.references) == (("ref",), ("references 1",))
    assert found.systems[0].multi_bleu is not None
    assert found.systems[0].multi_bleu.bleu == pytest.approx(BY_HAND)


def test_files_and_sentences_may_be_mixed_and_names_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "base").write_text("".join(f"{text}\n" for text in BASELINE))
    found = phrasescore.evaluate([tmp_path / "base", BASELINE], [REFERENCE, REFERENCE])
    assert [system.path for system in found.systems] == [str(tmp_path / "base"), "translations 2"]
    assert found.references == ("references 1", "references 2")
    assert found.systems[0].scores == found.systems[1].scores
    named = phrasescore.evaluate({"mine": tmp_path / "base"}, [REFERENCE])
    assert named.systems[0].path == "mine"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((BASELINE[0], [REFERENCE]), ArgumentError, "hypotheses: expected a sequence, got"),
        (([BASELINE], REFERENCE[0]), ArgumentError, "references: expected a sequence, got"),
        (([[]], [REFERENCE]), ArgumentError, "translations 1: expected sentences, got none"),
        (([BASELINE], [[*BASELINE[:2], 3]]), TypeError, r"references 1\[2\]: expected words"),
        (([BASELINE], [[["a b"]]]), TypeError, r"references 1\[0\]: expected single words"),
        (
            ([BASELINE, BASELINE[:2]], [REFERENCE]),
            *(DataError, "translations 2:2: the text ends with this line, but references 1 has 3"),
        ),
        (({"x": ["a ||| b ||| c ||| d"]}, [["a"]]), DataError, "x:1: .* found an n-best list"),
    ],
)
def test_wrong_sentences_are_named(
    arguments: tuple[Any, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^{message}"):
        phrasescore.evaluate(*arguments)

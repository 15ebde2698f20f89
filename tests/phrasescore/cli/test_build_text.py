"""``phrasescore build``: how a text becomes the words of a system."""

from dataclasses import replace

import pytest

from moses_integration.ini_text import IniText
from moses_integration.text_settings import TextSettings
from phrasescore.io.moses_text import load_tokenizer
from tests.log import warnings
from tests.phrasescore.cli.test_build import build, folder, refused, text, write

__all__ = ["folder"]  # a fixture


def test_tokenised_and_lowercased_text_is_escaped_and_recorded() -> None:
    write("s", ["The house's [door] <b>|", "I see it."])
    write("t", ["La porte de l'hôtel, <s>.", "Je la vois."])
    write("more", ["L'été !"])
    build("--tokenize", "en", "fr", "--lowercase", "--lm-text", "more", "--lm-order", "2")
    # By the rules of tokenizer.perl: English splits before 's, French after l'.
    assert text("corpus.source.gz").splitlines() == [
        "the house &apos;s &#91; door &#93; &lt; b &gt; &#124;",
        "i see it .",
    ]
    assert text("corpus.target.gz").splitlines() == [
        "la porte de l&apos; hôtel , &lt; s &gt; .",
        "je la vois .",
    ]
    assert "\tl&apos;\t" in text("lm1.arpa.gz")
    settings = IniText.read("model/moses.ini").text_settings()
    assert settings == TextSettings(tokenize="en fr", lowercase=True)


def test_a_truecaser_gives_first_words_their_usual_case() -> None:
    write("s", ["The house", "Paris saw the house", "So the Paris house", "House !"])
    write("t", ["La maison", "Paris vit la maison", "Ainsi la maison de Paris", "Maison !"])
    build("--truecase", "--lm-order", "1")
    assert text("corpus.source.gz").splitlines() == [
        *("the house", "Paris saw the house", "So the Paris house", "house !")
    ]
    assert text("truecase-model.source").splitlines() == [
        *("house (3/3)", "saw (1/1)", "the (2/2)", "Paris (1/1)")
    ]
    settings = IniText.read("model/moses.ini").text_settings()
    models = [f"truecase-model.{side}" for side in ("source", "target")]
    recorded = TextSettings(truecase_source=models[0], truecase_target=models[1])
    assert settings == replace(recorded, keeps_known_case=True)


def test_words_that_a_truecaser_knows_stay_within_sentences() -> None:
    # By hand, as truecase.perl: the first word and the one after ":" get their usual case.
    lines = ["give us the US", "give us the US", "now us us us", "Us : US ( US Us US"]
    write("s", lines)
    write("t", ["a b"] * 4)
    build("--truecase", "--lm-order", "1")
    assert text("truecase-model.source").splitlines()[0] == "us (5/10) US (4) Us (1)"
    assert text("corpus.source.gz").splitlines() == [*lines[:3], "us : us ( US Us US"]


@pytest.mark.parametrize("language", ["", "en gb", "english", "e", "12"])
def test_what_is_no_language_is_refused(language: str) -> None:
    refused("--tokenize: expected the code of a language", "--tokenize", "en", language, code=2)


def test_languages_are_recorded_by_their_codes(caplog: pytest.LogCaptureFixture) -> None:
    load_tokenizer.cache_clear()
    write("s", ["It's the U.S."])
    write("t", ["L'avion, s'il..."])
    build("--tokenize", "EN", "fr-CA", "--lm-order", "1")
    assert text("corpus.source.gz") == "It &apos;s the U.S .\n"
    assert text("corpus.target.gz") == "L&apos; avion , s&apos; il ...\n"
    assert IniText.read("model/moses.ini").text_settings().tokenize == "en fr"
    assert not [line for line in warnings(caplog) if "the language" in line]


def test_languages_without_rules_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    load_tokenizer.cache_clear()
    build("--tokenize", "xx", "zh", "--workers", "2", "--lm-order", "1")
    unknown, unsegmented = (line for line in warnings(caplog) if "the language" in line)
    assert "Moses has no rules for the language xx" in unknown
    assert "the language zh has no blanks between words" in unsegmented

"""Moses' words as the pieces of a foreign model."""

from pathlib import Path

import pytest

from phrasescore.errors import ArgumentError, DataError
from phrasescore.foreign import ForeignText, PieceText
from tests.tiny_translator import train_pieces


@pytest.fixture(scope="module")
def spm(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("spm") / "model.spm"
    train_pieces(path)
    return str(path)


# By hand: on the left as Moses' tokenizer.perl writes the text on the right. In French, a space
# goes before the marks ? ! : ; as in detokenizer.perl, and l' is joined to its noun.
@pytest.mark.parametrize(
    ("language", "words", "text"),
    [
        ("en", "it &apos;s the Jones &apos; house .", "it's the Jones' house."),
        ("en", "x &amp; y &#124; z &lt; &#91; a &#93;", "x & y | z < [a]"),
        ("en", "he said , &quot; no &quot; .", 'he said, "no".'),
        ("en", "a well @-@ known 5 % ( $ 3 )", "a well-known 5% ($3)"),
        ("fr", "l&apos; eau d&apos; une maison ; où ?", "l'eau d'une maison ; où ?"),
        ("en", "l&apos; eau", "l' eau"),
        ("de", "Haus .", "Haus."),
        ("en", "", ""),
    ],
)
def test_escapes_are_undone_and_tokens_joined(
    spm: str, language: str, words: str, text: str
) -> None:
    side = PieceText(spm, language)
    assert side.text(words.split()) == text
    assert "".join(side.pieces(words.split())).replace("▁", " ").strip() == text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("the house . this is no .", "The house. This is no."),
        ("&quot; the house", '"The house'),
        ("l&apos; eau ? élan : x", "L'eau ? Élan : X"),
    ],
)
def test_words_that_begin_a_sentence_get_a_capital(spm: str, words: str, text: str) -> None:
    assert PieceText(spm, "fr", detruecase=True).text(words.split()) == text
    assert PieceText(spm, "fr").text(words.split())[0] in 'tl"'


def test_moses_tokens_stay_as_they_are(spm: str) -> None:
    side = PieceText(spm, "fr", moses_tokens=True)
    assert side.text(["l&apos;", "eau", "."]) == "l&apos; eau ."


def test_without_sentencepiece_the_words_are_the_pieces() -> None:
    side = PieceText(None, "fr")
    assert side.pieces(["l&apos;", "eau"]) == ["l&apos;", "eau"]
    assert side.pieces([]) == []


def test_languages_are_known_by_their_codes() -> None:
    text = ForeignText(source_language="EN", target_language="pt-BR")
    assert (text.source_language, text.target_language) == ("en", "pt")
    with pytest.raises(ArgumentError, match="target_language: expected the code of a language"):
        ForeignText(target_language="en gb")


def test_what_is_no_model_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "file"
    for text in ("no model\n", ""):
        path.write_text(text)
        with pytest.raises(DataError, match=r"file: expected a sentencepiece model"):
            PieceText(str(path), "en")
    assert capfd.readouterr().err == ""  # of sentencepiece's own code
    with pytest.raises(DataError, match=r"nothing: cannot open: No such file"):
        PieceText(str(tmp_path / "nothing"), "en")


def test_what_pieces_depend_on_is_in_the_fingerprint(spm: str, tmp_path: Path) -> None:
    other = tmp_path / "other.spm"
    train_pieces(other, seed=2)
    sides = [
        PieceText(spm, "en"),
        PieceText(str(other), "en"),
        PieceText(None, "en"),
        PieceText(spm, "fr"),
        PieceText(spm, "en", detruecase=True),
        PieceText(spm, "en", moses_tokens=True),
    ]
    assert len({side.fingerprint for side in sides}) == len(sides)
    assert PieceText(spm, "en").fingerprint == sides[0].fingerprint

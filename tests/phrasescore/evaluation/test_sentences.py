"""Translations and references as they are compared: phrasescore.evaluation.sentences."""

from pathlib import Path

from phrasescore.evaluation.sentences import read_sentences


def test_only_spaces_separate_words_and_newlines_sentences(tmp_path: Path) -> None:
    path = tmp_path / "text"
    content = "a\v \f  \x1cb\u00a0c\r\n\u2028 \u0085 \u3000d\t e\n"
    path.write_bytes(content.encode())
    assert read_sentences(str(path)).words == [
        ("a\v", "\f", "\x1cb\u00a0c"),
        ("\u2028", "\u0085", "\u3000d\t", "e"),
    ]

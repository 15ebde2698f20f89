"""Lexical translation tables as train-model.perl writes them."""

import gzip
from pathlib import Path

import pytest

from phrasescore.errors import DataError
from phrasescore.features.lexicon import read_lexicon

# Lines of lex.f2e that Moses' LexicalTranslationModel.pm wrote for a real text.
LINES = "brillant glossy 1.0000000\nsnowboard snowboarding 0.9500000\nde NULL 0.1000000\n"


def test_lines_are_predicted_word_given_word_and_probability(tmp_path: Path) -> None:
    expected = [
        ("brillant", "glossy", 1.0),
        ("snowboard", "snowboarding", 0.95),
        ("de", "NULL", 0.1),
    ]
    (tmp_path / "lex.f2e").write_text(LINES)
    assert list(read_lexicon(str(tmp_path / "lex.f2e"))) == expected
    (tmp_path / "lex.crlf").write_bytes(LINES.encode().replace(b"\n", b"\r\n"))
    assert list(read_lexicon(str(tmp_path / "lex.crlf"))) == expected
    (tmp_path / "lex.gz").write_bytes(gzip.compress(LINES.encode()))
    assert list(read_lexicon(str(tmp_path / "lex.gz"))) == expected


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"a b", "expected 'word word probability', found 'a b'"),
        (b"a b 0.5 7", "expected 'word word probability'"),
        (b"a  0.5", "expected 'word word probability'"),
        (b"", "expected 'word word probability'"),
        (b"a b x", "expected a number, found 'x'"),
        (b"a b nan", "expected a number"),
        (b"a b 1.5", "expected a probability from 0 to 1, found '1.5'"),
        (b"a b -0.5", "expected a probability from 0 to 1"),
        (b"a \xff 0.5", "expected UTF-8"),
        (b"a ||| b ||| 0.5 0.5", "expected 'word word probability'"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: bytes, problem: str) -> None:
    path = tmp_path / "lex.e2f"
    path.write_bytes(LINES.encode() + line + b"\n")
    with pytest.raises(DataError) as caught:
        list(read_lexicon(str(path)))
    assert str(caught.value).startswith(f"{path}:4: {problem}")

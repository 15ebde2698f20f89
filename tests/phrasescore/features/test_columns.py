"""Columns as text: what is read, and what is refused with one line."""

from pathlib import Path

import pytest

from phrasescore.errors import ArgumentError
from phrasescore.features.columns import Column, as_columns, check_columns, parse_column
from phrasescore.features.foreign import CTranslate2Model
from phrasescore.features.given_scores import GivenScores
from phrasescore.features.lexicon import ReverseLexicon
from phrasescore.features.model import Network
from phrasescore.features.named import NamedFeature
from phrasescore.features.program import Command

COLUMNS = [
    ('model = "joint"', Network("joint")),
    (
        '{ model = "joint", unnormalized = true, name = "J" }',
        Network("joint", unnormalized=True, name="J"),
    ),
    ("feature = 'length_ratio'", NamedFeature("length_ratio")),
    ('feature = "unknown_words", model = "folder"', NamedFeature("unknown_words", model="folder")),
    ("command = 'python \"q e.py\"', timeout = 60", Command('python "q e.py"', timeout=60)),
    ('reverse_lexicon = "lex.e2f"', ReverseLexicon("lex.e2f")),
    ('scores = "file", name = "QE"', GivenScores("file", name="QE")),
    (
        'ctranslate2 = "gpt", prompt = "{source}\\n", target_language = "FR"',
        CTranslate2Model("gpt", prompt="{source}\n", target_language="fr"),
    ),
]


@pytest.mark.parametrize(("text", "column"), COLUMNS)
def test_a_column_is_read_and_written(text: str, column: Column) -> None:
    assert parse_column(text) == column
    assert parse_column(column.to_toml()) == column


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('model = "m", timeout = 3', "unknown key 'timeout'; expected one of: name, model, unno"),
        ('command = "x", timout = 3', "unknown key 'timout'; did you mean 'timeout'?"),
        ('modell = "m"', "unknown kind of column 'modell'; did you mean 'model'?"),
        ("unnormalized = true", "unknown kind of column 'unnormalized'; expected one of: model, c"),
        ("", "expected one of model, ctranslate2, command, feature, lm, lexicon, reverse_lexicon"),
        ('model = "m", lm = "l"', "found model and lm"),
        ("model = 3", "model: expected a string, got 3"),
        ('model = "m", unnormalized = 1', "unnormalized: expected true or false, got 1"),
        ('command = "x", timeout = 0', "timeout: expected a number above 0, got 0.0"),
        ('command = "x", timeout = "1"', "timeout: expected a number, got '1'"),
        ('ctranslate2 = "m", source_language = "x y"', "source_language: expected the code"),
        ('feature = "length_ratio", model = "m"', "this feature does not depend on a model"),
        ('model = "m", model = "n"', "expected TOML such as"),
        ("joint", "expected TOML such as"),
        ('model = "m" }\nother = { model = "n"', "expected one column"),
    ],
)
def test_what_is_no_column_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        parse_column(text)
    assert problem in str(raised.value)
    assert str(raised.value).startswith(f"--column {text!r}: ")
    assert ": :" not in str(raised.value)


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        (Command("x"), "a program scores sentences: use it for n-best lists"),
        (Network("m", name="N"), "model 'm': name: a column of a phrase table has no name"),
        (NamedFeature("length_ratio"), "feature length_ratio is only for rescore: the ratios"),
    ],
)
def test_what_no_phrase_table_can_have_is_refused(column: Column, problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        check_columns([column], of_phrases=True)
    check_columns([column], of_phrases=False)


def test_a_path_stands_for_a_model() -> None:
    assert as_columns([Path("m"), "n", Command("x")]) == (Network("m"), Network("n"), Command("x"))
    with pytest.raises(ArgumentError, match="got the string 'm'"):
        as_columns("m")

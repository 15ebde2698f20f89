"""The columns of ``rescore`` and ``annotate`` that are no networks', as a user asks for them."""

import math
from pathlib import Path

import pytest
from click.testing import Result

from moses_integration.nbest_lines import parse_features
from phrasescore.features.named import NamedFeature
from tests.command_line import check_refusal, column_options, run, succeeded
from tests.doubles import RandomModel
from tests.tiny_arpa import TINY_ARPA

NBEST = """0 ||| la maison ||| LM0= -1 ||| -1
0 ||| maison ! 7 ||| LM0= -2 ||| -2
0 ||| la maison ||| LM0= -3 ||| -3
1 |||  ||| LM0= -4 ||| -4
"""
SOURCE = "the house\nof\n"
TABLE = """the house ||| la maison ||| 0.5 ||| 0-0 1-1 ||| 1 1 1
of 7 ||| rue ! ||| 0.25 ||| 0-0 ||| 1 1 1
"""
LEX_F2E = "la the 0.5\nmaison house 0.75\nla NULL 0.25\n"
LEX_E2F = "the la 0.5\nhouse maison 1.0\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {
        "lm": TINY_ARPA,
        "nbest": NBEST,
        "source": SOURCE,
        "table": TABLE,
        "lex.f2e": LEX_F2E,
        "lex.e2f": LEX_E2F,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_models() -> list[str]:
    """Make one that lacks ``maison``, and one that predicts the source and lacks ``la``."""
    RandomModel(Path("one"), ["the", "house"], ["la"])
    RandomModel(Path("two"), ["the"], ["maison"], reverse=True)
    return ["--model", "one", "--model", "two"]


def rescore(*arguments: str) -> Result:
    return run("rescore", "nbest", "--source", "source", *arguments)


def annotate(*arguments: str) -> Result:
    return run("annotate", "table", *arguments)


def added(result: Result) -> list[dict[str, float]]:
    assert result.exit_code == 0, result.output
    lines = [parse_features(raw) for raw in result.stdout_bytes.split(b"\n")[:-1]]
    return [{name: v for name, (v,) in line.items() if name != "LM0"} for line in lines]


# rescore


def test_columns_without_a_network_come_in_the_order_of_the_options() -> None:
    options = ["--feature", "target_length", "--lm", "lm", "--reverse-lexicon", "lex.e2f"]
    more = ["--lexicon", "lex.f2e", "--lm", "lm", "--feature", "length_ratio"]
    marks = ["--feature", "number_mismatch"]
    result = rescore(*options, *more, *marks)
    first, second, third, empty = added(result)
    assert list(first) == [
        "TargetLength0",
        "KenLM0",
        "ReverseLexicon0",
        "Lexicon0",
        "KenLM1",
        "LengthRatio0",
        "NumberMismatch0",
    ]
    # By hand: log10 sums; means over NULL and the given words, with floors; counts.
    log10 = math.log(10)
    assert first["KenLM0"] == pytest.approx((-0.2 - 0.3 - 0.4) * log10, rel=1e-6)
    assert empty["KenLM0"] == pytest.approx((-0.25 - 1) * log10, rel=1e-6)
    assert first["Lexicon0"] == pytest.approx(math.log(0.75 / 3) * 2, rel=1e-6)
    expected = math.log(0.5 / 3) + math.log(1 / 3)
    assert first["ReverseLexicon0"] == pytest.approx(expected, rel=1e-6)
    assert second["Lexicon0"] == pytest.approx(math.log(0.75 / 3) + 2 * math.log(1e-7), rel=1e-6)
    assert [line["TargetLength0"] for line in (first, second, empty)] == [2, 3, 0]
    assert second["LengthRatio0"] == pytest.approx(math.log(4 / 3), rel=1e-6)
    assert second["NumberMismatch0"] == 1
    assert third == first
    assert "KenLM1: 2 words unknown to a 2-gram model" in result.stderr
    assert "TargetLength0: 5 target words" in result.stderr


def test_columns_stand_among_those_of_networks_in_the_order_of_the_options() -> None:
    one, two = make_models()[1::2]
    line = added(rescore("--lm", "lm", "--model", one, "--lexicon", "lex.f2e", "--model", two))[0]
    assert list(line) == ["KenLM0", "EncoderDecoder0", "Lexicon0", "ReverseEncoderDecoder0"]


def test_unknown_words_are_those_of_all_models_or_of_one() -> None:
    given = make_models()
    columns = [NamedFeature("unknown_words", model=folder) for folder in (None, *given[1::2])]
    options = [word for column in columns for word in column_options(column)]
    first, second, _, empty = added(rescore(*given, *options))
    del first["EncoderDecoder0"], first["ReverseEncoderDecoder0"]
    assert list(first) == ["UnknownWords0", "UnknownWords1", "UnknownWords2"]
    # "la maison" from "the house": any model, the first, the second.
    assert list(first.values()) == [2, 1, 1]
    # "maison ! 7" from "the house", and nothing from "of".
    assert list(second.values())[2:] == [3, 3, 2]
    assert list(empty.values())[2:] == [0, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to add: give a model"),
        (["--feature", "unknown_words"], "feature unknown_words requires at least one model"),
        (["--feature", "target_unknown_words"], "expected one of length_ratio, "),
        (["--feature", "length"], "expected one of length_ratio, number_mismatch, "),
        (["--feature", "neural"], "expected one of length_ratio"),
        (["--column", "lm = 'lm', timeout = 1"], "unknown key 'timeout'; expected one of: name"),
        (["--lm", "lm", "--normalize"], "--normalize is gone: the weight of"),
        (["--lm", "lm", "--cache", "cache"], "--cache requires a network"),
        (["--lm", "lm", "--ensemble"], "--ensemble requires at least two models"),
        (["--lexicon", "-", "--reverse-lexicon", "-"], "two files cannot share stdin"),
    ],
)
def test_a_wrong_command_line_is_refused(arguments: list[str], message: str) -> None:
    check_refusal(rescore(*arguments), message, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lm", "nbest"], "nbest:1: expected an ARPA file, which"),
        (["--lm", "nothing"], "nothing: cannot open: No such file"),
        (["--lm", "lm", "--lexicon", "lm"], "lm:1: expected 'word word probability', found"),
        (["--reverse-lexicon", "source"], "source:1: expected 'word word probability'"),
        (["--lm", "lm", "-o", "lm"], "lm: would overwrite another file"),
        (["--lexicon", "lex.f2e", "-o", "lex.f2e"], "lex.f2e: would overwrite another file"),
    ],
)
def test_a_wrong_file_is_one_line_and_leaves_no_file(
    folder: Path, arguments: list[str], message: str
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    check_refusal(rescore("-o", "out", *arguments), f"Error: {message}")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


# annotate


def test_a_table_gets_columns_of_lexicons_and_numbers_without_a_network() -> None:
    numbers = ["--feature", "number_mismatch"]
    result = succeeded(annotate("--lexicon", "lex.f2e", *numbers, "--reverse-lexicon", "lex.e2f"))
    lines = [line.split(" ||| ")[2].split(" ") for line in result.stdout.split("\n")[:-1]]
    first, second = ([float(score) for score in line] for line in lines)
    # Probabilities and e to the counts, by hand.
    expected = [0.5, 0.75 / 3 * 0.75 / 3, 1, 0.5 / 3 * 1 / 3]
    assert first == pytest.approx(expected, rel=1e-5)
    assert second == pytest.approx([0.25, 1e-14, math.e, 1e-14], rel=1e-5)


def test_a_table_s_unknown_words_are_of_one_model_or_of_all() -> None:
    given = make_models()
    column = NamedFeature("unknown_words", model=given[1])
    options = [*column_options(column), "--feature", "unknown_words"]
    result = succeeded(annotate(*given, *options))
    scores = [line.split(" ||| ")[2].split(" ")[-2:] for line in result.stdout.split("\n")[:-1]]
    counts = [[round(math.log(float(score))) for score in line] for line in scores]
    assert counts == [[1, 2], [2, 2]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lm", "lm"], "No such option '--lm'"),
        (["--feature", "target_length"], "target_length is only for rescore: Moses already has it"),
        (["--feature", "length_ratio"], "length_ratio is only for rescore: the ratios of phr"),
        (["--feature", "unknown_words"], "requires at least one model"),
        ([], "nothing to add"),
    ],
)
def test_what_says_nothing_of_phrases_is_refused(arguments: list[str], message: str) -> None:
    check_refusal(annotate(*arguments), message, 2)

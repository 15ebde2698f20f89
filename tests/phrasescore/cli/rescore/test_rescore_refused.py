"""``phrasescore rescore``: the names of features, and what it refuses."""

from pathlib import Path

import pytest

from tests.doubles import RandomModel
from tests.random_lists import SOURCE_WORDS, TARGET_WORDS, Lists, features, run

# Names


def test_names_are_given_in_the_order_of_the_columns(
    tmp_path: Path, lists: Lists, model: RandomModel
) -> None:
    out = tmp_path / "out"
    names = [word for name in ("A0", "B", "C7") for word in ("--name", name)]
    options = ["--feature", "unknown_words", "--model", model.path, "--model", model.path]
    assert run(lists, *options, *names, "--normalize", "-o", out).exit_code == 0
    assert list(features(out)[0]) == ["LM0", "A0", "B", "BNorm", "C7", "C7Norm"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["A"], "--name: expected one for each of 2 columns, got 1"),
        (["A", "B", "C"], "--name: expected one for each of 2 columns, got 3"),
        (["A", "A"], "feature name A: two new features have this name"),
        (["A", "ANorm"], "feature name ANorm: two new features have this name"),
        (["A", "B_1"], "feature name B_1: expected a letter, then letters and digits"),
        (["A", "1B"], "feature name 1B: expected a letter"),
        (["A", "B="], "feature name B=: expected a letter"),
    ],
)
def test_names_that_moses_would_misread_are_refused(
    tmp_path: Path, lists: Lists, model: RandomModel, names: list[str], message: str
) -> None:
    options = [word for name in names for word in ("--name", name)]
    models = ["--model", model.path, "--model", model.path, "--normalize"]
    result = run(lists, *models, *options, "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr


def test_features_that_are_there_are_refused_unless_they_are_to_be_replaced(
    tmp_path: Path, lists: Lists, model: RandomModel
) -> None:
    first, again, fresh = (tmp_path / name for name in ("first", "again", "fresh"))
    other = RandomModel(tmp_path / "other", SOURCE_WORDS, TARGET_WORDS, seed=9)
    assert run(lists, "--model", model.path, "-o", first).exit_code == 0
    assert run(lists, "--model", other.path, "-o", fresh).exit_code == 0
    options = ["--source", lists.source, "--model", other.path, "-o", again]
    result = run(None, first, *options)
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: {first}:1: has the feature RNN0 already; give the new one another --name, or "
        "write it anew with --replace\n"
    )
    assert not again.exists()
    assert run(None, first, *options, "--replace").exit_code == 0
    assert again.read_bytes() == fresh.read_bytes()


# What is wrong


@pytest.mark.parametrize(
    ("lines", "sentences", "message"),
    [
        ("0 ||| la ||| LM0= 1 ||| 1\n0 ||| la\n", 1, "nbest:2: expected at least 4 fields"),
        ("0 ||| la ||| LM0= 1 ||| 1\n1 ||| la ||| LM0= 1 ||| 1\n", 1, "nbest:2: id 1 is beyond"),
        ("0 ||| la ||| LM0= 1 ||| 1\n2 ||| la ||| LM0= 1 ||| 1\n", 3, "nbest:2: expected id 1"),
        ("0 ||| la ||| LM0= 1 ||| 1\n", 2, "source:2: the n-best list ends before this sentence"),
        ("0 ||| la ||| LM0= 1 ||| 1\n", 0, "nbest:1: id 0 is beyond the source"),
        ("", 1, "nbest: expected an n-best list, found no lines"),
    ],
)
def test_bad_input_is_one_line_with_its_place_and_leaves_no_file(
    tmp_path: Path, model: RandomModel, lines: str, sentences: int, message: str
) -> None:
    (tmp_path / "nbest").write_text(lines)
    (tmp_path / "source").write_text("the house\n" * sentences)
    options = ["--source", tmp_path / "source", "--model", model.path, "-o", tmp_path / "out"]
    result = run(None, tmp_path / "nbest", *options, "--word-scores", tmp_path / "words")
    assert result.exit_code == 1, result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert message in line
    assert {path.name for path in tmp_path.iterdir()} == {"model", "nbest", "source"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--feature", "unknown_words"], "at least one model is needed"),
        (["--model", "MODEL", "--ensemble"], "--ensemble averages at least two models"),
        (["--model", "MODEL", "--word-scores", "-"], "two files cannot share stdin or stdout"),
        (["--model", "MODEL", "--cache", "-"], "--cache needs a file"),
        (["--model", "MODEL", "--cache-size", "0"], "--cache-size"),
    ],
)
def test_a_wrong_command_line_is_refused(
    lists: Lists, model: RandomModel, arguments: list[str], message: str
) -> None:
    result = run(lists, *[str(model.path) if word == "MODEL" else word for word in arguments])
    assert result.exit_code == 2
    assert message in result.stderr


def test_models_of_both_directions_are_no_ensemble(
    lists: Lists, model: RandomModel, reverse: RandomModel
) -> None:
    result = run(lists, "--model", model.path, "--model", reverse.path, "--ensemble")
    assert result.exit_code == 1
    assert "an ensemble is of models of one direction" in result.stderr


@pytest.mark.parametrize("option", ["-o", "--word-scores", "--cache"])
def test_no_input_is_overwritten(
    tmp_path: Path, lists: Lists, model: RandomModel, option: str
) -> None:
    for path in (lists.path, lists.source):
        before = Path(path).read_bytes()
        result = run(lists, "--model", model.path, option, path)
        assert result.exit_code == 1
        assert result.stderr == f"Error: {path}: would overwrite another file; name another one\n"
        assert Path(path).read_bytes() == before
    result = run(
        lists, "--model", model.path, "-o", tmp_path / "x", "--word-scores", tmp_path / "x"
    )
    assert result.exit_code == 1

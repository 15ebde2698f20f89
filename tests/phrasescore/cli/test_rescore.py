"""``phrasescore rescore`` as a user runs it: what it writes, names, caches, and refuses."""

import gzip
import re
from pathlib import Path

import pytest

from moses_integration.nbest_lines import parse_features
from phrasescore.features.model import Network
from phrasescore.features.named import NamedFeature
from tests.command_line import check_refusal, column_options, succeeded
from tests.doubles import RandomModel
from tests.feature_values import count_scores
from tests.random_lists import SOURCE_WORDS, TARGET_WORDS, Lists, features, rescore
from tests.tiny_lists import remove_features

ODD_LIST = Path(__file__).parents[2] / "data" / "odd.nbest"


@pytest.fixture
def model(tmp_path: Path) -> RandomModel:
    return RandomModel(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS)


@pytest.fixture
def reverse(tmp_path: Path) -> RandomModel:
    return RandomModel(tmp_path / "back", ["the"], ["la", "maison"], seed=1, reverse=True)


@pytest.fixture
def lists(tmp_path: Path) -> Lists:
    return Lists(tmp_path)


# What it writes


def test_a_source_that_a_network_does_not_know_is_warned_of(
    tmp_path: Path, lists: Lists, model: RandomModel
) -> None:
    # A reverse model knows the source as what it predicts.
    back = RandomModel(tmp_path / "right", SOURCE_WORDS, TARGET_WORDS, seed=1, reverse=True)
    foreign = RandomModel(tmp_path / "wrong", TARGET_WORDS, SOURCE_WORDS, seed=1, reverse=True)
    sources = "".join(f"{' '.join(SOURCE_WORDS * 9)}\n" for _ in lists.sources)
    Path(lists.source).write_text(sources)
    options = [word for each in (model, back, foreign) for word in ("--model", each.path)]
    result = succeeded(rescore(lists, *options, "-o", tmp_path / "out"))
    # The second one is of the hypotheses.
    line, _ = [line for line in result.stderr.splitlines() if "warning: " in line]
    # All but "!", which both languages have: 4 of 5.
    assert f"{lists.source}: 216 of 270 counted words are unknown to {foreign.path}, such" in line


def test_networks_of_each_direction_and_order_have_names_of_their_own(
    tmp_path: Path, lists: Lists, model: RandomModel
) -> None:
    orders = [(False, True), (True, True), (False, True), (True, False), (False, False)]
    models = [model] + [
        RandomModel(
            *(tmp_path / str(seed), SOURCE_WORDS, TARGET_WORDS),
            seed=seed,
            reverse=reverse,
            right_to_left=right_to_left,
        )
        for seed, (reverse, right_to_left) in enumerate(orders, start=1)
    ]
    out = tmp_path / "out"
    options = [option for each in models for option in ("--model", each.path)]
    assert rescore(lists, *options, "-o", out).exit_code == 0
    names = [
        "EncoderDecoder0",
        "RightToLeftEncoderDecoder0",
        "ReverseRightToLeftEncoderDecoder0",
        "RightToLeftEncoderDecoder1",
    ]
    names += ["ReverseEncoderDecoder0", "EncoderDecoder1"]
    for found, (number, words) in zip(features(out), lists.hypotheses, strict=True):
        assert list(found) == ["LM0", *names]
        for name, each in zip(names, models, strict=True):
            wanted = each.log_prob(lists.sources[number], words)
            assert found[name] == pytest.approx((wanted,), abs=1e-4)


def test_an_ensemble_of_different_shortlists_is_warned_of_once(
    tmp_path: Path, lists: Lists, model: RandomModel
) -> None:
    words = ["la", "rue"]
    small = [RandomModel(tmp_path / str(n), SOURCE_WORDS, words, seed=n) for n in range(2)]
    warning = "warning: the ensemble's models have different shortlists"
    of_two = [option for other in small for option in ("--model", other.path)]
    result = rescore(lists, "--model", model.path, *of_two, "--ensemble", "-o", tmp_path / "out")
    assert result.stderr.count(warning) == 1
    # With </s> and <unk>.
    assert f"{warning} (8, 4, 4 words): with a smaller one, <unk>" in result.stderr
    assert warning not in rescore(lists, *of_two, "--ensemble", "-o", tmp_path / "same").stderr
    pair = rescore(lists, "--model", model.path, *of_two, "-o", tmp_path / "single")
    assert warning not in pair.stderr


def test_removing_the_new_features_gives_back_odd_lines_byte_for_byte(
    tmp_path: Path, model: RandomModel
) -> None:
    out, source = tmp_path / "out", tmp_path / "source"
    source.write_text("the house\n\nx\nrare words\n" + "!\n" * 8)
    options = ["--source", source, "--model", model.path, "--allow-missing", "-o", out]
    succeeded(rescore(None, ODD_LIST, *options))
    lines = out.read_bytes().split(b"\n")
    restored = [remove_features(line, ["EncoderDecoder0"]) for line in lines]
    assert b"\n".join(restored) == ODD_LIST.read_bytes()
    # The third line is what Moses writes for an empty one: only </s> is predicted, from nothing.
    expected = model.log_prob((), ())
    assert parse_features(lines[2])["EncoderDecoder0"] == pytest.approx((expected,), abs=1e-4)


def test_pieces_of_the_lists_end_to_end_are_the_bytes_of_one_run(
    tmp_path: Path, lists: Lists, model: RandomModel
) -> None:
    options = ("--model", model.path, "--feature", "target_length", "--threads", 1)
    assert rescore(lists, *options, "-o", tmp_path / "whole").exit_code == 0
    lines = Path(lists.path).read_bytes().splitlines(keepends=True)
    made = b""
    for piece, numbers in enumerate(((b"0", b"1"), (b"2",), (b"3", b"4", b"5"))):
        path, out = tmp_path / f"piece.{piece}", tmp_path / f"piece.{piece}.gz"
        path.write_bytes(b"".join(line for line in lines if line.split()[0] in numbers))
        succeeded(
            rescore(None, path, "--source", lists.source, *options, "--allow-missing", "-o", out)
        )
        made += out.read_bytes()
    assert gzip.decompress(made) == (tmp_path / "whole").read_bytes()


def test_the_end_says_what_was_done(tmp_path: Path, lists: Lists, model: RandomModel) -> None:
    options = ["--model", model.path, "--feature", "unknown_words", "-o", tmp_path / "out"]
    result = rescore(lists, *options)
    distinct = len({(number, tuple(words)) for number, words in lists.hypotheses})
    assert "rescore: 180 hypotheses in " in result.stderr
    assert f"{distinct} different hypotheses in 6 lists; {distinct} scored in " in result.stderr
    assert re.search(r"UnknownWords0: \d+ unknown target words", result.stderr)


# The cache


def test_what_is_in_the_cache_is_not_scored_again(
    tmp_path: Path, lists: Lists, model: RandomModel
) -> None:
    distinct = len({(number, tuple(words)) for number, words in lists.hypotheses})
    options = ["--model", model.path, "--cache", tmp_path / "cache", "-o", tmp_path / "out"]
    assert "; 0 found in the cache" in rescore(lists, *options).stderr
    result = rescore(lists, *options)
    assert "; 0 scored in 0 decoder steps; " in result.stderr
    assert "; added EncoderDecoder0\n" in result.stderr
    assert f"; {distinct} found in the cache" in result.stderr
    # Another model's scores are others.
    other = RandomModel(tmp_path / "other", SOURCE_WORDS, TARGET_WORDS, seed=9)
    assert "; 0 found in the cache" in rescore(lists, *options, "--model", other.path).stderr
    assert count_scores(tmp_path / "cache") == 2 * distinct


# Names


def test_a_column_may_have_a_name_of_its_own(
    tmp_path: Path, lists: Lists, model: RandomModel
) -> None:
    out = tmp_path / "out"
    columns = [
        NamedFeature("unknown_words", name="A0"),
        Network(str(model.path), name="B"),
        Network(str(model.path)),
    ]
    options = [word for column in columns for word in column_options(column)]
    assert rescore(lists, *options, "-o", out).exit_code == 0
    assert list(features(out)[0]) == ["LM0", "A0", "B", "EncoderDecoder0"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["A", "B C"], "feature name B C: expected a letter, then letters and digits"),
        (["A", "A"], "feature name A: two new features have this name"),
        (["A", "B_1"], "feature name B_1: expected a letter, then letters and digits"),
        (["A", "1B"], "feature name 1B: expected a letter"),
        (["A", "B="], "feature name B=: expected a letter"),
    ],
)
def test_names_that_moses_would_misread_are_refused(
    tmp_path: Path, lists: Lists, model: RandomModel, names: list[str], message: str
) -> None:
    columns = [Network(str(model.path), name=name) for name in names]
    options = [word for column in columns for word in column_options(column)]
    check_refusal(rescore(lists, *options, "-o", tmp_path / "out"), message, 2)


def test_features_that_are_there_are_refused(
    tmp_path: Path, lists: Lists, model: RandomModel
) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    assert rescore(lists, "--model", model.path, "-o", first).exit_code == 0
    options = ["--source", lists.source, "--model", model.path, "-o", again]
    result = rescore(None, first, *options)
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: {first}:1: already has the feature EncoderDecoder0; name the new one differently\n"
    )
    assert not again.exists()


# What is wrong


def test_a_cache_is_no_stream(lists: Lists, model: RandomModel) -> None:
    result = rescore(lists, "--model", model.path, "--cache", "-")
    check_refusal(result, "--cache requires a file", 2)


def test_no_input_is_overwritten(lists: Lists, model: RandomModel) -> None:
    for path in (lists.path, lists.source):
        before = Path(path).read_bytes()
        result = rescore(lists, "--model", model.path, "--cache", path)
        assert result.exit_code == 1
        assert result.stderr == f"Error: {path}: would overwrite another file; name another one\n"
        assert Path(path).read_bytes() == before

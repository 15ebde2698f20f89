"""Promises of `list_features`: new scores by hand, and refusals with file and line."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from moses_integration.list_features import WeightedSum, feature_matrix, totals, with_total
from moses_integration.moses_ini import load_weights
from moses_integration.nbest import NbestList, read_nbest
from phrasescore.errors import DataError
from phrasescore.records import Weights

LIST = """\
0 ||| la maison  ||| LM0= -2 TM0= -0.5 -1 LSTM0= -9 ||| -3.5
0 ||| le maison  ||| LM0= -3 TM0= -0.25 0 LSTM0= -6 ||| -4 ||| 0-0 1-1
"""
SPARSE = """\
0 ||| a ||| LM0= -2 ||| -2
0 ||| b ||| LM0= -1 WT_b= 2 ||| -3
"""


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], NbestList]:
    def read_text(text: str) -> NbestList:
        path = tmp_path / "nbest"
        path.write_text(text, encoding="utf-8")
        (found,) = read_nbest(str(path))
        return found

    return read_text


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value)


Read = Callable[[str], NbestList]


def test_features_of_uniform_lines_become_columns(read: Read) -> None:
    matrix = feature_matrix(read(LIST))
    assert matrix.sizes == {"LM0": 1, "TM0": 2, "LSTM0": 1}
    assert matrix.values.tolist() == [[-2, -0.5, -1, -9], [-3, -0.25, 0, -6]]
    assert matrix.missing is None


def test_features_that_some_lines_lack_are_0_there(read: Read) -> None:
    matrix = feature_matrix(read(SPARSE))
    assert matrix.sizes == {"LM0": 1, "WT_b": 1}
    assert matrix.values.tolist() == [[-2, 0], [-1, 2]]
    assert matrix.missing is not None
    assert matrix.missing.tolist() == [[False, True], [False, False]]


def test_lines_with_other_orders_and_spacing_are_read_line_by_line(read: Read) -> None:
    text = "0 ||| a ||| A= 1  B= 2 3 ||| 1\n0 ||| b ||| B= 5 6 A= 4 ||| 2\n"
    assert feature_matrix(read(text)).values.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_lines_of_as_many_tokens_with_other_names_are_not_mixed_up(read: Read) -> None:
    text = "0 ||| a ||| A= 1 B= 2 ||| 1\n0 ||| b ||| B= 3 A= 4 ||| 2\n"
    assert feature_matrix(read(text)).values.tolist() == [[1, 2], [4, 3]]


def test_the_weighted_sum_is_the_one_by_hand(read: Read) -> None:
    weights: Weights = {"LM0": (0.5,), "TM0": (1.0, 2.0), "LSTM0": (0.25,)}
    # -1 - 0.5 - 2 - 2.25 and -1.5 - 0.25 + 0 - 1.5
    assert WeightedSum(weights)(read(LIST)).tolist() == [-5.75, -3.25]


def test_equal_values_give_equal_sums_wherever_they_stand(read: Read) -> None:
    # A matrix product may round the last rows of a block otherwise than the first.
    lines = "0 ||| a ||| A= 0.1 0.7 0.3 0.9 0.11 0.13 0.17 ||| 1\n" * 37
    scores = WeightedSum({"A": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)})(read(lines))
    assert len(set(scores.tolist())) == 1


def test_a_feature_without_weights_is_refused_by_name(read: Read) -> None:
    nbest = read(LIST)
    weights: Weights = {"LM0": (0.5,)}
    assert refusal(lambda: WeightedSum(weights)(nbest)) == (
        f"{nbest.path}:1: these features have no weight: TM0, LSTM0 "
        "(a line 'TM0= 0' in the weights ignores it)"
    )


def test_weights_without_a_feature_are_refused_by_name(read: Read) -> None:
    nbest = read(SPARSE)
    weights: Weights = {"LM0": (1.0,), "WT_b": (1.0,), "Gone0": (1.0, 2.0)}
    assert refusal(lambda: WeightedSum(weights)(nbest)) == (
        f"{nbest.path}:1: this hypothesis lacks features that have weights: Gone0; "
        "add them as to the lists of the development text, or remove their weights"
    )


def test_the_line_that_lacks_a_feature_is_named(read: Read) -> None:
    nbest = read("0 ||| b ||| LM0= -1 WT= 2 ||| -3\n0 ||| a ||| LM0= -2 ||| -2\n")
    assert refusal(lambda: WeightedSum({"LM0": (1.0,), "WT": (1.0,)})(nbest)) == (
        f"{nbest.path}:2: this hypothesis lacks features that have weights: WT; "
        "add them as to the lists of the development text, or remove their weights"
    )


def test_the_line_that_has_a_feature_without_weights_is_named(read: Read) -> None:
    nbest = read(SPARSE.replace("WT_b", "WT"))
    assert refusal(lambda: WeightedSum({"LM0": (1.0,)})(nbest)) == (
        f"{nbest.path}:2: these features have no weight: WT "
        "(a line 'WT= 0' in the weights ignores it)"
    )


def test_a_sparse_feature_is_0_where_it_is_not_and_so_is_its_weight(read: Read) -> None:
    # As in Moses: names with '_'.
    nbest = read("0 ||| a ||| LM0= -1 WT_a= 3 WT_b= 2 ||| 0\n0 ||| b ||| LM0= -2 WT_b= 5 ||| 0\n")
    score = WeightedSum({"LM0": (1.0,), "WT_b": (2.0,), "WT_never": (7.0,)})
    assert score(nbest).tolist() == [-1 + 2 * 2, -2 + 2 * 5]
    assert score.unweighted == {"WT_a"}
    assert score.used == {"LM0", "WT_b"}


def test_in_a_list_of_joshua_every_feature_needs_a_weight_and_may_be_0(read: Read) -> None:
    nbest = read("0 ||| a ||| lm_0=-2 Glue=1 ||| 1\n0 ||| b ||| lm_0=-1 ||| 1\n")
    assert WeightedSum({"lm_0": (0.5,), "Glue": (2.0,)})(nbest).tolist() == [1.0, -0.5]
    assert "have no weight: lm_0 (" in refusal(lambda: WeightedSum({"Glue": (2.0,)})(nbest))


def test_a_hypothesis_of_joshua_without_features_may_come_first(read: Read) -> None:
    nbest = read("0 ||| b |||  ||| 1\n0 ||| a ||| lm_0=-2 ||| 1\n")
    assert nbest.style == b"="
    assert WeightedSum({"lm_0": (0.5,)})(nbest).tolist() == [0.0, -1.0]


def test_another_number_of_weights_than_values_is_refused(read: Read) -> None:
    nbest = read(LIST)
    weights: Weights = {"LM0": (1.0,), "TM0": (1.0,), "LSTM0": (1.0,)}
    expected = f"{nbest.path}:1: TM0 has 2 values but 1 weights"
    assert refusal(lambda: WeightedSum(weights)(nbest)) == expected


def test_another_number_of_values_than_before_is_refused(read: Read) -> None:
    nbest = read("0 ||| a ||| A= 1 2 ||| 1\n0 ||| b ||| A= 1 ||| 2\n")
    expected = f"{nbest.path}:2: expected 2 values for A as before, found 1"
    assert refusal(lambda: feature_matrix(nbest)) == expected


@pytest.mark.parametrize("bad", ["1.2.3", "-", "1e999"])
def test_a_total_that_is_no_number_is_refused_with_its_line(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "nbest"
    path.write_text(f"0 ||| a ||| A= 1 ||| -1.5\n0 ||| a ||| A= 1 ||| {bad}\n")
    message = refusal(lambda: [totals(found) for found in read_nbest(str(path))])
    assert message == f"{path}:2: expected a number, found {bad!r}"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"0 ||| a ||| A= 1 ||| -3.5", b"0 ||| a ||| A= 1 ||| 0.25"),
        (b"0 ||| a ||| A= 1  ||| -3.5 ||| 0-0 ", b"0 ||| a ||| A= 1  ||| 0.25 ||| 0-0 "),
        (b"0|||a|||A= 1|||-3.5|||x", b"0|||a|||A= 1|||0.25|||x"),
        (b"0 ||| a ||| A= 1 |||   -3.5  \r", b"0 ||| a ||| A= 1 |||   0.25  \r"),
    ],
)
def test_only_the_total_changes_in_a_line(raw: bytes, expected: bytes) -> None:
    assert with_total(raw, raw.index(b"A= 1") + 4, 0.25) == expected


def test_the_real_weights_give_the_real_totals(shared_data: Path) -> None:
    score = WeightedSum(load_weights(str(shared_data / "moses.tuned.ini")).lists)
    for number, nbest in enumerate(read_nbest(str(shared_data / "val.1000best.gz"))):
        found = score(nbest)
        # What lists do not show, the unknown words, is the same throughout a list; values and
        # totals are written with 6 digits.
        difference = found - totals(nbest)
        np.testing.assert_allclose(difference, difference[0], atol=2e-3)
        assert abs(difference[0] - 100 * round(difference[0] / 100)) < 2e-3
        if number == 20:
            break

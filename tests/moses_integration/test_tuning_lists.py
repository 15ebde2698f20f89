"""Promises of moses_integration.list_features: values in the columns of all lists."""

from pathlib import Path

import pytest

from moses_integration.list_features import FeatureColumns
from moses_integration.nbest import read_every_list
from phrasescore.errors import DataError


class Lists:
    """Reads texts of n-best lists, one after the other, into the same columns."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "nbest"
        self.columns = FeatureColumns()

    def read(self, *lines: str, num_segments: int = 1) -> list[list[list[float]]]:
        text = "".join(f"{line} ||| -1\n" for line in lines)
        self.path.write_text(text)
        found = read_every_list(str(self.path), num_segments)
        return [self.columns.arrange(nbest).tolist() for nbest in found]

    def refusal(self, *lines: str, num_segments: int = 1) -> str:
        with pytest.raises(DataError) as caught:
            self.read(*lines, num_segments=num_segments)
        return str(caught.value).removeprefix(str(self.path))


@pytest.fixture
def lists(tmp_path: Path) -> Lists:
    return Lists(tmp_path)


def test_values_stand_in_the_order_of_the_first_hypothesis(lists: Lists) -> None:
    found = lists.read("0 ||| a ||| LM0= 1 TM0= 2 3", "1 ||| a ||| TM0= 5 6 LM0= 4", num_segments=2)
    assert found == [[[1, 2, 3]], [[4, 5, 6]]]
    assert lists.columns.labels == (("LM0", 0), ("TM0", 0), ("TM0", 1))


def test_sparse_features_are_0_where_they_are_not_and_get_columns_as_they_come(
    lists: Lists,
) -> None:
    first = lists.read("0 ||| a ||| LM0= 1", "0 ||| b ||| LM0= 2 WT_b= 5")
    assert first == [[[1, 0], [2, 5]]]
    assert lists.read("0 ||| c ||| WT_c= 7 LM0= 3") == [[[3, 0, 7]]]
    assert lists.columns.labels == (("LM0", 0), ("WT_b", 0), ("WT_c", 0))


def test_any_feature_of_a_list_of_joshua_is_0_where_it_is_not(lists: Lists) -> None:
    found = lists.read("0 ||| a ||| lm_0=1 OOVPenalty=-100", "0 ||| b ||| lm_0=2 Glue=3")
    assert found == [[[1, -100, 0], [2, 0, 3]]]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["0 ||| a ||| LM0= 1 TM0= 1", "0 ||| a ||| LM0= 1"], ":2: this hypothesis lacks the feat"),
        (["0 ||| a ||| LM0= 1", "0 ||| a ||| LM0= 1 TM0= 1"], ":2: this hypothesis has the featur"),
        (["0 ||| a ||| LM0= 1", "1 ||| a ||| TM0= 1"], ":2: this hypothesis has the feature TM0, "),
        (["0 ||| a ||| LM0= 1 TM0= 1", "1 ||| a ||| LM0= 1"], ":2: this hypothesis lacks the feat"),
        (["0 ||| a ||| LM0= 1 2", "1 ||| a ||| LM0= 1"], ":2: expected 2 values for LM0 as before"),
        (["0 ||| a ||| W_a= 1 2"], ":1: the feature W_a has '_' in its name, so Moses treats"),
        (["0 ||| a ||| A\tB= 1"], ":1: expected a feature's name without blanks, '#' or '[' "),
        (["0 ||| a ||| Two words= 1"], ":1: expected the name of a feature, as 'LM0=', found"),
        (["0 ||| a ||| LM0= nan"], ":1: expected a number, found 'nan'"),
        (["0 ||| a ||| LM0= 1", "1 ||| a ||| LM0= -inf"], ":2: expected a number, found '-inf'"),
        (["1 ||| a ||| LM0= 1"], ":1: expected id 0, found 1: a sentence has no hypotheses"),
        (["0 ||| a ||| LM0= 1"], ": expected lists of 2 sentences, found 1"),
        (
            ["0 ||| a ||| LM0= 1", "1 ||| a ||| LM0= 1", "2 ||| a ||| LM0= 1"],
            ":3: expected lists of 2 sentences, found id 2",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_with_its_line(
    lists: Lists, lines: list[str], problem: str
) -> None:
    assert lists.refusal(*lines, num_segments=2).startswith(problem)


def test_a_sentence_without_a_list_may_have_an_empty_hypothesis(lists: Lists) -> None:
    lists.path.write_text("1 ||| a ||| LM0= 1 ||| -1\n3 ||| b ||| LM0= 2 ||| -1\n")
    found = list(read_every_list(str(lists.path), 5, allow_missing=True))
    assert [(nbest.id, nbest.hypotheses) for nbest in found] == [
        (0, [b""]),
        (1, [b" a "]),
        (2, [b""]),
        (3, [b" b "]),
        (4, [b""]),
    ]
    values = [lists.columns.arrange(nbest).tolist() for nbest in found]
    assert values == [[[]], [[1.0]], [[0.0]], [[2.0]], [[0.0]]]

"""Promises of moses_integration.combining; every expected line is worked out by hand."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from moses_integration.combining import ListCombiner
from moses_integration.nbest import NbestList, read_nbest
from phrasescore.errors import DataError

# The lowest total is neither the last one nor that of the lowest value of a feature.
DECODER = """\
0 ||| la maison  ||| LM0= -2 TM0= -1 -9 ||| -3 ||| 0-0 1-1
0 ||| la maison  ||| LM0= -2 TM0= -1.50 -8 ||| -4
0 ||| le maison  ||| LM0= -5.25 TM0= -3 -4 ||| -7.5
0 ||| une maison  ||| LM0= -6 TM0= -1 -1 ||| -6
"""


def combine(folder: Path, *texts: str, votes: bool = False) -> tuple[ListCombiner, list[str]]:
    lists: list[NbestList] = []
    for number, text in enumerate(texts):
        path = folder / f"list{number}"
        path.write_text(text, encoding="utf-8")
        lists.extend(read_nbest(str(path)))
    combiner = ListCombiner(votes=votes)
    return combiner, [b"".join(lines).decode() for lines in combiner(lists)]


def test_each_hypothesis_says_who_has_it_and_what_is_new_gets_the_bound_of_the_list(
    tmp_path: Path,
) -> None:
    network = """\
0 ||| la  maison ||| Attention0= -0.5 ||| -0.5
0 ||| cette maison ||| Attention0= -0.75 ||| -0.75
"""
    combiner, (decoder, new) = combine(tmp_path, DECODER, network)
    assert (
        decoder
        == """\
0 ||| la maison  ||| LM0= -2 TM0= -1 -9 Made0= 1 Made1= 1 ||| -3 ||| 0-0 1-1
0 ||| la maison  ||| LM0= -2 TM0= -1.50 -8 Made0= 1 Made1= 1 ||| -4
0 ||| le maison  ||| LM0= -5.25 TM0= -3 -4 Made0= 1 Made1= 0 ||| -7.5
0 ||| une maison  ||| LM0= -6 TM0= -1 -1 Made0= 1 Made1= 0 ||| -6
"""
    )
    assert new == "0 ||| cette maison ||| LM0= -5.25 TM0= -3 -4 Made0= 0 Made1= 1 ||| -7.5\n"
    assert (combiner.filled, combiner.left_out) == ({"LM0", "TM0"}, {"Attention0"})


def test_a_hypothesis_with_all_features_keeps_them_and_its_total(tmp_path: Path) -> None:
    other = """\
0 ||| cette maison  ||| TM0= -1 -2.50 LM0= -3 Own0= 4 sparse_a= 2 ||| -1.250 ||| 0-0
0 ||| cette maison  ||| TM0= -1 -2 LM0= -3 ||| -1
0 ||| ma maison ||| LM0= -3 sparse_b= 1 ||| -1 ||| 0-1
"""
    combiner, (_, new) = combine(tmp_path, DECODER, other)
    assert (
        new
        == """\
0 ||| cette maison  ||| LM0= -3 TM0= -1 -2.50 sparse_a= 2 Made0= 0 Made1= 1 ||| -1.250 ||| 0-0
0 ||| cette maison  ||| LM0= -3 TM0= -1 -2 Made0= 0 Made1= 1 ||| -1
0 ||| ma maison ||| LM0= -3 TM0= -3 -4 sparse_b= 1 Made0= 0 Made1= 1 ||| -7.5 ||| 0-1
"""
    )
    assert (combiner.filled, combiner.left_out) == ({"TM0"}, {"Own0"})


def test_what_is_filled_in_a_list_of_joshua_has_its_style(tmp_path: Path) -> None:
    decoder = "0 ||| la maison ||| lm_0=-3.0 WordPenalty=-0.87 ||| -2.1\n"
    _, (old, new) = combine(tmp_path, decoder, "0 ||| le chat ||| Attention0= -0.5 ||| -0.5\n")
    assert old == decoder.replace(" ||| -2.1", " Made0=1 Made1=0 ||| -2.1")
    made = " Made0=0 Made1=1"
    assert new == f"0 ||| le chat ||| lm_0=-3.0 WordPenalty=-0.87{made} ||| -2.1\n"


def test_sparse_features_of_the_decoder_are_not_filled(tmp_path: Path) -> None:
    decoder = "0 ||| la ||| LM0= -1 tm_a= 1 ||| -1\n"
    combiner, (_, new) = combine(tmp_path, decoder, "0 ||| le ||| RNN0= -1 ||| -1\n")
    assert new == "0 ||| le ||| LM0= -1 Made0= 0 Made1= 1 ||| -1\n"
    assert combiner.filled == {"LM0"}


def test_of_three_systems_the_earliest_keeps_a_hypothesis(tmp_path: Path) -> None:
    lists = [
        "0 ||| a ||| LM0= -1 ||| -1\n",
        "0 ||| b ||| LM0= -2 ||| -2\n0 ||| a ||| LM0= -9 ||| -9\n",
        "0 ||| c ||| LM0= -3 ||| -3\n0 ||| b ||| LM0= -8 ||| -8\n",
    ]
    assert combine(tmp_path, *lists)[1] == [
        "0 ||| a ||| LM0= -1 Made0= 1 Made1= 1 Made2= 0 ||| -1\n",
        "0 ||| b ||| LM0= -2 Made0= 0 Made1= 1 Made2= 1 ||| -2\n",
        "0 ||| c ||| LM0= -3 Made0= 0 Made1= 0 Made2= 1 ||| -3\n",
    ]


def test_votes_are_counted_by_hand(tmp_path: Path) -> None:
    lists = [
        "0 ||| a b a b ||| LM0= -1 ||| -1\n0 ||| x ||| LM0= -2 ||| -2\n",
        "0 ||| a b c ||| LM0= -1 ||| -1\n0 ||| a b a b ||| LM0= -3 ||| -3\n",
        "0 ||| b a ||| LM0= -1 ||| -1\n0 ||| ||| LM0= -1 ||| -1\n0 ||| x ||| LM0= -1 ||| -1\n",
    ]
    found = [
        line.partition("Made0")[2]
        for text in combine(tmp_path, *lists, votes=True)[1]
        for line in text.splitlines()
    ]
    # "a b a b" is in two files. The others' best hypotheses are "a b c", which votes for a, b and
    # "a b", and "b a", which votes for a, b and "b a". Each of a, b, a, b has 2 votes;
    # "a b" has one vote and occurs twice, "b a" has one.
    rows = [re.findall(r"= (\d+)", line) for line in found]
    names = ["Made1", "Made2", "Votes0", *(f"NgramVotes{order}" for order in range(1, 5))]
    assert [re.findall(r"(\w+)=", line) for line in found] == [names] * 5
    assert [[int(value) for value in row] for row in rows] == [
        [1, 1, 0, 2, 8, 3, 0, 0],
        [1, 0, 1, 2, 0, 0, 0, 0],  # "x"
        # "a b a b" and "b a" vote for a and b of "a b c"; only the first for "a b".
        [0, 1, 0, 1, 4, 1, 0, 0],
        [0, 0, 1, 1, 4, 1, 0, 0],  # "b a" is in "a b a b" and not in "a b c"
        [0, 0, 1, 1, 0, 0, 0, 0],  # the empty hypothesis
    ]


def test_long_n_grams_are_voted_for_and_the_own_best_does_not_vote(tmp_path: Path) -> None:
    lists = ["0 ||| a b c d e ||| LM0= -1 ||| -1\n", "0 ||| z b c d e ||| LM0= -1 ||| -1\n"]
    for text in combine(tmp_path, *lists, votes=True)[1]:
        votes = "NgramVotes1= 4 NgramVotes2= 3 NgramVotes3= 2 NgramVotes4= 1"
        assert f" Votes0= 1 {votes} ||| -1\n" in text


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [b"0 ||| a ||| LM0= -1 ||| 1", b"0 ||| b ||| TM0= -1 ||| 1"],
            "list1:2: expected 2 values for TM0 as in .*list0, found 1",
        ),
        (
            [b"0 ||| a ||| LM0= -1 ||| 1", b"0 ||| \xff ||| LM0= -1 ||| 1"],
            "list1:2: expected UTF-8, found byte 0xff",
        ),
    ],
)
def test_a_line_that_does_not_go_with_the_others_is_named(
    tmp_path: Path, lines: Sequence[bytes], message: str
) -> None:
    (tmp_path / "list0").write_text(DECODER)
    (tmp_path / "list1").write_bytes(b"\n".join(lines))
    lists = [found for name in ("list0", "list1") for found in read_nbest(str(tmp_path / name))]
    with pytest.raises(DataError, match=message):
        list(ListCombiner()(lists))

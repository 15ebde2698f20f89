"""Promises of moses_integration.nbest_values."""

from pathlib import Path

import phrasescore
from phrasescore import Hypothesis

LINES = """\
0 ||| the house  ||| LM0= -1 TM0= -0.5 -2 ||| -3.5 ||| 0-0 1-1
0 ||| house the  ||| LM0= -2 TM0= -0.25 -1 ||| -3.25 ||| 0-1 1-0
1 ||| the street  ||| LM0= -3 TM0= -1 0 sparse_a= 1 ||| -4 ||| 0-0 1-1
2 |||   ||| LM0= 0 TM0= 0 0 ||| 0 ||| \n"""


def test_lists_are_read_as_hypotheses_by_sentence(tmp_path: Path) -> None:
    (tmp_path / "lists").write_text(LINES)
    first, second, third = phrasescore.read_lists(tmp_path / "lists")
    features = {"LM0": (-1.0,), "TM0": (-0.5, -2.0)}
    assert first[0] == Hypothesis(("the", "house"), features, -3.5, "0-0 1-1")
    assert [str(each) for each in first] == ["the house", "house the"]
    assert second[0].features["sparse_a"] == (1.0,)
    assert third == [Hypothesis((), {"LM0": (0.0,), "TM0": (0.0, 0.0)}, 0.0)]

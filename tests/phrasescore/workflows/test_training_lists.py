"""Promises of phrasescore.workflows.training_lists."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.records import FeatureLabel
from phrasescore.training.stores import ListStore
from phrasescore.workflows.training_lists import find_feature, read_training_lists
from tests.doubles import RandomModel

# Two sentences; "a b" twice, the second time better by LM0; an empty sentence between.
NBEST = [
    "0 ||| A B  ||| LM0= -3 TM0= -1 -7 S_x= 1 ||| -9 ||| 0=0 1=1",
    "0 ||| A B ||| LM0= -2 TM0= -1 -7 ||| -9 ||| 0-1=0-1",
    "0 ||| C  ||| LM0= -1 TM0= -2 -7 ||| -9 ||| 1=0 0=1",
    "1 |||  ||| LM0= 0 TM0= 0 0 ||| 0",
    "2 ||| B  ||| LM0= -4 TM0= 0 0 ||| -9 ||| 0=0",
]
WEIGHTS = {"LM0": (2.0,), "TM0": (1.0, 0.5), "S_x": (3.0,)}
SOURCE = ["a b", "", "b"]
REFERENCES = ["A B", "", "B"]


def read(
    folder: Path,
    nbest: Sequence[str] = NBEST,
    *,
    source: Sequence[str] = SOURCE,
    references: Sequence[str] = REFERENCES,
    reverse: bool = False,
    right_to_left: bool = False,
    **weights: tuple[float, ...],
) -> ListStore:
    sides = (["a", "b"], ["A", "B", "C"])
    RandomModel(folder / "model", *sides, reverse=reverse, right_to_left=right_to_left)
    for name, lines in (("nbest", nbest), ("source", source), ("references", references)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    known = {**WEIGHTS, **weights}
    return read_training_lists(
        *([str(folder / "nbest")], str(folder / "source"), [str(folder / "references")], known),
        *(find_feature(known, "TM0_1", "W"), load_checkpoint(folder / "model")),
        where="W",
    )


def test_a_hypothesis_counts_once_with_its_best_derivation(tmp_path: Path) -> None:
    store = read(tmp_path)
    assert len(store) == 2  # a sentence without words has no choice
    batch = store.batch(np.arange(2))
    # By hand, without the network's TM0_1: C has 2 * -1 - 2 = -4; of A B the first line has
    # 2 * -3 - 1 + 3 = -4 and the second 2 * -2 - 1 = -5; B has -8.
    assert batch.scores.model_scores.tolist() == [-4.0, -4.0, -8.0]
    # A B is the reference, with all n-grams; of C no word is.
    assert batch.scores.gains.tolist() == [1.0, 0.0, 1.0]
    assert batch.scores.lists.tolist() == [0, 0, 1]


@pytest.mark.parametrize("reverse", [False, True])
def test_phrases_are_pairs_as_the_network_reads_them(tmp_path: Path, reverse: bool) -> None:
    store = read(tmp_path, reverse=reverse)
    batch = store.batch(np.arange(2))
    # A B: a with A (ids 2 and 2), b with B (3 and 3); C: b with C (3 and 4), a with nothing; B: b
    # with B again. Four distinct pairs.
    lower = [[2, 0], [3, 0], [3, 0], [2, 0]]
    upper = [[2, 0], [3, 0], [4, 0], [0]]
    sides = (upper, lower) if reverse else (lower, upper)
    for side, wanted in zip(batch.pairs, sides, strict=True):
        assert side.ids.tolist() == [number for ids in wanted for number in ids]
    assert batch.part_pairs.tolist() == [0, 1, 2, 3, 1]
    assert batch.part_hypotheses.tolist() == [0, 0, 1, 1, 2]
    assert batch.taught is None


@pytest.mark.parametrize("reverse", [False, True])
def test_the_last_word_is_predicted_first_where_the_network_was_trained_so(
    tmp_path: Path, reverse: bool
) -> None:
    store = read(
        *(tmp_path, NBEST[1:2]),
        source=SOURCE[:1],
        references=REFERENCES[:1],
        reverse=reverse,
        right_to_left=True,
    )
    pairs = store.batch(np.arange(1)).pairs
    assert pairs.source.ids.tolist() == [2, 3, 0]
    assert pairs.target.ids.tolist() == [3, 2, 0]


def test_a_feature_is_a_name_or_one_of_several_values() -> None:
    found = find_feature({"LSTM0": (0.5,), "TM0": (1.0, 2.0)}, "LSTM0", "W")
    assert (found.label, found.weight) == (FeatureLabel("LSTM0", 0), 0.5)
    found = find_feature({"LSTM0": (0.5,), "TM0": (1.0, 2.0)}, "TM0_1", "W")
    assert (found.label, found.weight) == (FeatureLabel("TM0", 1), 2.0)


@pytest.mark.parametrize(
    "name", ["EncoderDecoder0", "TM0", "TM0_2", "TM0_x", "_", "LM0_1", "TM0_" + "1" * 5000]
)
def test_a_network_without_one_weight_is_refused(name: str) -> None:
    problem = f"W: expected one weight for {name}: name the network's feature with --feature"
    with pytest.raises(PhrasescoreError, match=problem):
        find_feature(WEIGHTS, name, "W")


def test_a_network_with_the_weight_0_is_refused() -> None:
    with pytest.raises(PhrasescoreError, match="W: the weight of LM0 is 0"):
        find_feature({"LM0": (0.0,)}, "LM0", "W")


def test_features_without_weights_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    read(tmp_path, [line.replace("LM0=", "X0= 5 LM0=") for line in NBEST])
    assert "features without a weight in W, for which 0 is used: X0" in caplog.text


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"EncoderDecoder0": (1.0,)}, "nbest:1: expected the features EncoderDecoder0, which have"),
        ({"LM0": (1.0, 1.0)}, "nbest:1: LM0 has 1 values, and 2 weights in W"),
        ({"source": ["a b", ""]}, "source:2: the text ends with this line, but"),
        ({"references": ["A B"]}, "references:1: the text ends with this line, but"),
        ({"nbest": NBEST[:4]}, "nbest: expected lists of the 3 sentences of"),
        ({"nbest": [*NBEST, "3 ||| A  ||| LM0= 0 TM0= 0 0 ||| 0"]}, "nbest:6: expected lists of"),
        ({"nbest": NBEST[:3] + NBEST[4:]}, "nbest:4: expected id 1, found 2: a sentence has no"),
        ({"nbest": ["0 ||| A B"]}, "nbest:1: expected at least 4 fields"),
        ({"nbest": [*NBEST[:4], NBEST[4][:-8]]}, "nbest:5: expected a phrase segmentation"),
    ],
)
def test_bad_input_is_said_with_its_line(
    tmp_path: Path, changed: dict[str, object], problem: str
) -> None:
    with pytest.raises(PhrasescoreError) as caught:
        read(tmp_path, **changed)  # type: ignore[arg-type]
    assert str(caught.value).removeprefix(f"{tmp_path}/").startswith(problem)

"""Promises of moses_integration.decoder.options: what a sentence is to the search."""

import math
from itertools import product
from pathlib import Path

import kenlm
import numpy as np
import pytest

from moses_integration.decoder.language_model import read_arpa
from moses_integration.decoder.options import OptionTable, Sentence, make_sentence
from moses_integration.decoder.phrase_tables import read_tables
from tests.moses_integration.decoder.small_decoder import ORDER, TARGETS, SmallDecoder

TOKENS = "bedface"


def make(folder: Path, weight: float) -> tuple[Sentence, list[str], kenlm.Model]:
    small = SmallDecoder(folder, seed=3, targets=6)
    model = read_arpa(str(folder / "lm.arpa"))
    configuration = small.configuration()
    table = OptionTable(configuration, model, read_tables(configuration, [TOKENS]))
    weighted = configuration.with_weights({"LM0": (weight,)})
    sentence = make_sentence(table.sentence(TOKENS), weighted, model.tables, keep_words=False)
    return sentence, table.words, kenlm.Model(str(folder / "lm.arpa"))


def log_prob(model: kenlm.Model, history: tuple[str, ...], words: list[str]) -> float:
    state, after = kenlm.State(), kenlm.State()
    model.NullContextWrite(state)
    total = 0.0
    for place, word in enumerate([*history, *words]):
        score = model.BaseScore(state, word, after)
        total += score if place >= len(history) else 0.0
        state, after = after, state
    return total * math.log(10)


def test_no_history_gives_a_phrase_more_than_its_bound(tmp_path: Path) -> None:
    sentence, words, model = make(tmp_path, 0.7)
    reached = 0
    for option, bound in enumerate(sentence.bound):
        ids = sentence.target[sentence.offsets[option] : sentence.offsets[option + 1]]
        phrase = [words[number] for number in ids]
        scores = [
            0.7 * log_prob(model, history, phrase) for history in product(TARGETS, repeat=ORDER - 1)
        ]
        assert max(scores) <= bound + 1e-6
        # The words that no history reaches, as kenlm scores them.
        inner = log_prob(model, tuple(phrase[: ORDER - 1]), phrase[ORDER - 1 :])
        assert bound == pytest.approx(0.7 * inner, abs=1e-6)
        reached += bound < 0
    assert 0 < reached < len(sentence.bound)


def test_a_negative_weight_leaves_no_bound(tmp_path: Path) -> None:
    sentence, _, _ = make(tmp_path, -0.7)
    assert np.isposinf(sentence.bound).all()

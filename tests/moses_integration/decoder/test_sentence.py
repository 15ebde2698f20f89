"""What a sentence and the tables of a model are to the search."""

import math
from itertools import product
from pathlib import Path
from typing import Any

import kenlm
import numpy as np
import pytest

from moses_integration.decoder.configuration import read_language_models
from moses_integration.decoder.options import make_sentence
from moses_integration.decoder.search_tables import add_row, find_row, grow, make_tables
from moses_integration.decoder.stack_search import Sentence
from phrasescore.io.hashing import find, mix
from tests.moses_integration.decoder.small_decoder import ORDER, TARGETS, SmallDecoder, options_of

TOKENS = "bedface"


def make(folder: Path, weight: float) -> tuple[Sentence, list[str], kenlm.Model]:
    small = SmallDecoder(folder, seed=3, targets=6)
    configuration = small.configuration()
    model = read_language_models(configuration)
    table = options_of(configuration, model, [TOKENS])
    weighted = configuration.with_weights({"LM0": (weight,)})
    sentence = make_sentence(table.sentence(TOKENS), weighted, model.tables, keep_words=False)
    return sentence, table.words, small.kenlm[0]


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


ROWS = 8
# Of 100 words, which are two numbers of 64 bits.
TABLES = make_tables(100, 3, ROWS, ROWS, ROWS, ROWS)


@pytest.mark.parametrize(
    ("table", "keys"),
    [
        (TABLES.coverages, np.array([[1 << 63, row] for row in range(9)], np.uint64)),
        (TABLES.states, np.array([[row, -1, 1] for row in range(9)], np.int32)),
        (TABLES.pool, np.array([[1, row, 2] for row in range(9)], np.int32)),
    ],
    ids=["coverages", "states", "pool"],
)
def test_rows_are_found_when_there_are_more_of_them(table: Any, keys: Any) -> None:
    assert [add_row(table, key) for key in keys[:ROWS]] == [(row, True) for row in range(ROWS)]
    assert add_row(table, keys[3]) == (3, False)
    number = next(name for name in ("future", "end_score", "score") if name in table._fields)
    getattr(table, number)[3] = -1.5
    longer = grow(table, ROWS + 1)
    assert [find_row(longer, key) for key in keys[:ROWS]] == list(range(ROWS))
    assert find_row(longer, keys[ROWS]) < 0
    assert getattr(longer, number)[3] == -1.5
    assert len(longer.keys) == 2 * ROWS
    assert add_row(longer, keys[ROWS]) == (ROWS, True)


def test_scores_of_the_end_that_were_not_asked_for_are_not_known() -> None:
    longer = grow(make_tables(100, 3, ROWS, ROWS, ROWS, ROWS).states, ROWS + 1)
    assert np.isnan(longer.end_score).all()


def test_the_memo_has_its_scores_when_there_are_more_of_them() -> None:
    memo = TABLES.memo
    keys = [np.uint64(mix(np.uint64(number))) for number in (5, 6 << 40, 7)]
    for number, key in enumerate(keys):
        slot = -1 - find(memo.keys, key)
        memo.keys[slot, 0], memo.values[slot, 1], memo.keys[slot, 2] = key, number / 2, number
    longer = grow(memo, 100)
    for number, key in enumerate(keys):
        slot = find(longer.keys, key)
        assert (longer.values[slot, 1], longer.keys[slot, 2]) == (number / 2, number)
    assert find(longer.keys, np.uint64(mix(np.uint64(8)))) < 0


@pytest.mark.parametrize("table", [TABLES.arcs, TABLES.hypotheses])
def test_rows_stay_when_there_are_more_of_them(table: Any) -> None:
    table.score[:] = np.arange(ROWS)
    longer = grow(table, ROWS + 1)
    assert longer.score[:ROWS].tolist() == list(range(ROWS))
    assert len(longer.score) == 2 * ROWS


def test_a_table_with_enough_room_stays() -> None:
    assert grow(TABLES.arcs, ROWS) is TABLES.arcs

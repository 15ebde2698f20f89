"""Scores of n-best lists, with networks whose scores are known by hand."""

import math
import sqlite3
import struct
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasescore.errors import ModelError, PhrasescoreError
from phrasescore.features.model import Network
from phrasescore.features.score_cache import ScoreCache
from phrasescore.models.checkpoint import Checkpoint, TrainingRecord, direction_of
from phrasescore.records import HypothesisList
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import KINDS
from phrasescore.vocabulary import Vocabulary
from tests.doubles import BigramDecoder, BigramNetwork, RandomCslm
from tests.sentence_scores import ListScores, SentenceScores

CPU = torch.device("cpu")
# Of </s>, <unk>, a, b after each of them; e^x / 8 are probabilities: each row of e^x sums to 8.
WEIGHTS = [[1, 1, 4, 2], [5, 1, 1, 1], [2, 1, 1, 4], [4, 2, 1, 1]]
LOGITS = [[math.log(x) for x in row] for row in WEIGHTS]
OTHER = [[math.log(x) for x in row] for row in ([4, 2, 1, 1], [1, 1, 5, 1], [1, 5, 1, 1], [2] * 4)]


@pytest.fixture(autouse=True)
def bigrams(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = "tests.doubles:BigramDecoder"
    monkeypatch.setitem(KINDS, "lstm", replace(KINDS["lstm"], decoder=decoder))


def checkpoint(
    logits: list[list[float]] = LOGITS,
    *,
    words: str = "ab",
    reverse: bool = False,
    right_to_left: bool = False,
    name: str = "m",
) -> Checkpoint:
    direction = direction_of(reverse=reverse, right_to_left=right_to_left)
    record = TrainingRecord(direction=direction)
    config = Config.from_dict({"kind": "lstm"}, "test")
    vocabulary = Vocabulary(words)
    return Checkpoint(
        BigramNetwork(logits), config, vocabulary, vocabulary, record, fingerprint=name
    )


def hypothesis_list(source: str, *hypotheses: str) -> HypothesisList:
    """Return a list; each letter is a word."""
    return HypothesisList(tuple(source), [tuple(hypothesis) for hypothesis in hypotheses])


def eighths(*numerators: int) -> float:
    return sum(math.log(number / 8) for number in numerators)


def columns(scores: ListScores) -> list[list[float]]:
    return [column.tolist() for column in scores.columns]


def test_a_score_is_the_sum_over_the_words_and_the_end() -> None:
    lists = [hypothesis_list("x", "", "a", "ab", "aab", "?", "ab")]
    (found,) = SentenceScores([checkpoint()], CPU).values(lists)
    # By hand: p(</s>); p(a) p(</s> | a); p(a) p(b | a) p(</s> | b) ...; ? is <unk>.
    wanted = [
        eighths(1),
        eighths(4, 2),
        eighths(4, 4, 4),
        eighths(4, 1, 4, 4),
        eighths(1, 5),
        eighths(4, 4, 4),
    ]
    assert found.columns[0] == pytest.approx(wanted, abs=1e-6)


def test_lists_keep_their_order_and_their_number_of_hypotheses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("phrasescore.features.networks.SentenceScore.group_size", {"cpu": 3})
    lists = [hypothesis_list("x", *("ab"[: n % 3] for n in range(size))) for size in range(9)]
    found = list(SentenceScores([checkpoint()], CPU, engine=Compute(workers=2)).values(lists))
    assert [len(scores.columns[0]) for scores in found] == list(range(9))
    wanted = [eighths(1), eighths(4, 2), eighths(4, 4, 4)] * 3
    assert found[8].columns[0] == pytest.approx(wanted[:8], abs=1e-6)
    assert list(SentenceScores([checkpoint()], CPU).values([])) == []


def test_lists_are_read_as_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasescore.features.networks.SentenceScore.group_size", {"cpu": 1})
    read = []

    def endless() -> Iterator[HypothesisList]:
        while True:
            read.append(1)
            yield hypothesis_list("x", "a")

    # Closed here, so that no thread of it computes rows that another test counts.
    scores = SentenceScores([checkpoint()], CPU)
    next(scores.values(endless()))
    scores.close()
    assert len(read) <= 4


def test_a_shared_beginning_is_computed_once() -> None:
    scores = SentenceScores([checkpoint()], CPU)
    BigramDecoder.rows_made = 0
    lists = [hypothesis_list("x", "aab", "aaa", "ab", "aab"), hypothesis_list("y", "a")]
    list(scores.values(lists))
    # Two roots; a, aa, aab, aaa, ab of the first list, a of the second.
    assert BigramDecoder.rows_made == 8
    assert scores.work.steps == 8
    assert scores.work.scored == 4


def test_a_reverse_model_predicts_the_source_after_each_hypothesis() -> None:
    # A bigram does not look at what it reads: every hypothesis gives the source the same score.
    scores = SentenceScores([checkpoint(reverse=True)], CPU)
    BigramDecoder.rows_made = 0
    first, second = scores.values([hypothesis_list("ab", "b", "a", "b"), hypothesis_list("", "a")])
    assert first.columns[0] == pytest.approx([eighths(4, 4, 4)] * 3, abs=1e-6)
    assert second.columns[0] == pytest.approx([eighths(1)], abs=1e-6)
    # a, ab after each of two distinct hypotheses, three roots.
    assert BigramDecoder.rows_made == 7


def test_a_right_to_left_model_predicts_the_last_word_first_and_computes_shared_ends_once() -> None:
    scores = SentenceScores([checkpoint(right_to_left=True)], CPU)
    BigramDecoder.rows_made = 0
    lists = [hypothesis_list("x", "baa", "aaa", "ba", "baa"), hypothesis_list("y", "ab", "")]
    first, second = scores.values(lists)
    # By hand: p(a) p(a | a) p(b | a) p(</s> | b), ...
    baa, aaa = eighths(4, 1, 4, 4), eighths(4, 1, 1, 2)
    assert first.columns[0] == pytest.approx([baa, aaa, eighths(4, 4, 4), baa], abs=1e-6)
    # p(b) p(a | b) p(</s> | a); p(</s>).
    assert second.columns[0] == pytest.approx([eighths(2, 1, 2), eighths(1)], abs=1e-6)
    # Two roots; a, aa, baa, aaa, ba as ends of the first list, b, ab of the second.
    assert BigramDecoder.rows_made == 9
    assert scores.work.scored == 5


def test_a_reverse_right_to_left_model_predicts_the_last_word_of_the_source_first() -> None:
    scores = SentenceScores([checkpoint(reverse=True, right_to_left=True)], CPU)
    (found,) = scores.values([hypothesis_list("ab", "b", "a")])
    assert found.columns[0] == pytest.approx([eighths(2, 1, 2)] * 2, abs=1e-6)


def test_each_model_has_a_column_with_its_own_shortlist() -> None:
    models = [checkpoint(), checkpoint(words="b", logits=[row[:3] for row in LOGITS[:3]])]
    (found,) = SentenceScores(models, CPU).values([hypothesis_list("x", "ab")])
    # To the second, a is <unk>, and b the third word: its rows sum to 6, 7 and 4.
    second = math.log(1 / 6) + math.log(1 / 7) + math.log(2 / 4)
    assert columns(found) == [
        pytest.approx([eighths(4, 4, 4)], abs=1e-6),
        pytest.approx([second], abs=1e-6),
    ]


def test_an_ensemble_averages_the_probability_of_each_word() -> None:
    models = [checkpoint(), checkpoint(OTHER)]
    (found,) = SentenceScores(models, CPU, ensemble=True).values([hypothesis_list("x", "ab", "")])
    # p(a) = (4 + 1)/16, p(b | a) = (4 + 1)/16, p(</s> | b) = (4 + 2)/16; p(</s>) = (1 + 4)/16.
    wanted = [math.log(5 / 16 * 5 / 16 * 6 / 16), math.log(5 / 16)]
    assert len(found.columns) == 3
    assert found.columns[2] == pytest.approx(wanted, abs=1e-6)


def test_an_ensemble_averages_the_scores_of_both_orders() -> None:
    models = [checkpoint(), checkpoint(right_to_left=True), checkpoint(OTHER)]
    (found,) = SentenceScores(models, CPU, ensemble=True).values([hypothesis_list("x", "ab", "")])
    # From the left the mean of two at each word, as above; from the right one alone.
    left = [math.log(5 / 16 * 5 / 16 * 6 / 16), math.log(5 / 16)]
    right = [eighths(2, 1, 2), eighths(1)]
    wanted = [(2 * one + other) / 3 for one, other in zip(left, right, strict=True)]
    assert found.columns[3] == pytest.approx(wanted, abs=1e-6)


def test_a_right_to_left_ensemble_averages_the_probability_of_each_word() -> None:
    models = [checkpoint(right_to_left=True), checkpoint(OTHER, right_to_left=True)]
    (found,) = SentenceScores(models, CPU, ensemble=True).values([hypothesis_list("x", "ba")])
    # p(a) = 5/16, p(b | a) = 5/16, p(</s> | b) = 6/16.
    assert found.columns[2] == pytest.approx([math.log(5 / 16 * 5 / 16 * 6 / 16)], abs=1e-6)


def test_an_ensemble_is_of_one_direction() -> None:
    with pytest.raises(ModelError, match="the same direction"):
        SentenceScores([checkpoint(), checkpoint(reverse=True)], CPU, ensemble=True)


letters = st.text("ab?", max_size=5)


@settings(max_examples=30)
@given(st.lists(st.tuples(letters, st.lists(letters, max_size=6)), max_size=6))
def test_a_cache_changes_no_value(lists: list[tuple[str, list[str]]]) -> None:
    given_lists = [hypothesis_list(source, *hypotheses) for source, hypotheses in lists]
    models = [checkpoint(name="one"), checkpoint(OTHER, name="two")]
    plain = list(SentenceScores(models, CPU, ensemble=True).values(given_lists))
    with tempfile.TemporaryDirectory() as folder, ScoreCache(f"{folder}/scores") as cache:
        for _ in range(2):
            cached = SentenceScores(models, CPU, ensemble=True, cache=cache)
            found = list(cached.values(given_lists))
            assert list(map(columns, found)) == list(map(columns, plain))
        assert cached.work.scored == 0


def test_only_what_is_new_is_scored(tmp_path: Path) -> None:
    with ScoreCache(str(tmp_path / "scores")) as cache:
        old = SentenceScores([checkpoint()], CPU, cache=cache)
        list(old.values([hypothesis_list("x", "a", "ab")]))
        new = SentenceScores([checkpoint()], CPU, cache=cache)
        (found,) = new.values([hypothesis_list("x", "ab", "b", "a")])
        assert (new.work.scored, new.work.cached) == (1, 2)
        wanted = [eighths(4, 4, 4), eighths(2, 4), eighths(4, 2)]
        assert found.columns[0] == pytest.approx(wanted, abs=1e-6)
        # Another source, another precision or another model is another score.
        for source, model in (("y", checkpoint()), ("x", checkpoint(OTHER, name="other"))):
            other = SentenceScores([model], CPU, cache=cache)
            list(other.values([hypothesis_list(source, "a")]))
            assert other.work.cached == 0


def test_a_cached_score_above_0_is_damage(tmp_path: Path) -> None:
    lists = [hypothesis_list("x", "a", "ab")]
    with ScoreCache(str(tmp_path / "scores")) as cache:
        list(SentenceScores([checkpoint()], CPU, cache=cache).values(lists))
        with closing(sqlite3.connect(tmp_path / "scores")) as database:
            database.execute("UPDATE scores SET value = ?", (struct.pack("<d", 0.5),))
            database.commit()
        message = "scores: the score cache is damaged: found the score 0.5; remove it"
        with pytest.raises(PhrasescoreError, match=message):
            list(SentenceScores([checkpoint()], CPU, cache=cache).values(lists))


def test_a_cached_score_without_log_z_may_be_above_0(tmp_path: Path) -> None:
    lists = [hypothesis_list("", "a", "b", "ab", "ba", "")]
    models = [RandomCslm("ab", seed=seed).checkpoint for seed in (0, 2)]
    column = Network("", unnormalized=True)
    with ScoreCache(str(tmp_path / "scores")) as cache:
        plain, cached = (
            list(
                SentenceScores(models, CPU, ensemble=True, cache=cache, column=column).values(lists)
            )
            for _ in range(2)
        )
    assert columns(cached[0]) == columns(plain[0])
    assert [max(column) > 0 for column in columns(plain[0])] == [True] * 3


def test_a_probability_above_one_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = SentenceScores([replace(checkpoint(), folder="net")], CPU)
    monkeypatch.setattr(
        "phrasescore.scoring.word_probabilities.WordProbabilities.log_normalizers",
        lambda _self, rows, **_: torch.full((len(rows),), -9.0, dtype=torch.float64),
    )
    with pytest.raises(
        ModelError, match=r"^net: a word.*log-probability, in the block that begins with line 1$"
    ):
        list(scores.values([hypothesis_list("x", "a")]))


def test_the_normaliser_survives_logits_that_overflow() -> None:
    # e^200 is no float32. By hand: the next word is certain but for e^-200.
    logits = [[0.0, 0.0, 200.0, 0.0], [0.0] * 4, [-200.0, -200.0, -200.0, -190.0], [0.0] * 4]
    (found,) = SentenceScores([checkpoint(logits)], CPU).values([hypothesis_list("x", "a")])
    wanted = -200 - (-190 + math.log1p(3 * math.exp(-10)))
    assert found.columns[0] == pytest.approx([wanted], rel=1e-5)
    assert np.isfinite(found.columns[0]).all()

"""Promises of the scores of n-grams: of a network alone, of lists, inside a search."""

from pathlib import Path

import numpy as np
import pytest
import torch

from phrasescore.errors import ModelError
from phrasescore.features.score_cache import ScoreCache
from phrasescore.features.search_network import SearchCslm
from phrasescore.kernels.precision import Precision
from phrasescore.language_models import context_scorer
from phrasescore.language_models.word_scorer import WordScorer
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.records import HypothesisList
from tests.doubles import RandomCslm
from tests.reference_cslm import logits, word_log_prob, word_log_probs
from tests.sentence_scores import SentenceScores

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
EXACT = Precision("float32", CPU)
ORDER = 4
WORDS = ["a", "b", "c", "d"]


@pytest.fixture(name="model")
def random_model() -> RandomCslm:
    return RandomCslm(WORDS, order=ORDER)


def test_log_probs_are_those_of_the_reference(model: RandomCslm) -> None:
    generator = np.random.default_rng(1)
    contexts = generator.integers(0, 6, (300, ORDER - 1)).astype(np.int32)
    words = generator.integers(0, 6, 300).astype(np.int32)
    scorer = WordScorer(model.checkpoint, CPU, EXACT)
    found = scorer.log_probs_of_ids(contexts, words)
    expected = [
        word_log_prob(model.parameters, context, word)
        for context, word in zip(contexts.tolist(), words.tolist(), strict=True)
    ]
    assert found.tolist() == pytest.approx(expected, abs=1e-5)
    assert scorer.contexts_scored == len(np.unique(contexts, axis=0)) < 300
    assert scorer.log_probs_of_ids(contexts[:0], words[:0]).tolist() == []


def test_contexts_beyond_what_is_held_at_once_come_in_parts(
    model: RandomCslm, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = np.random.default_rng(4).integers(0, 6, (100, ORDER - 1)).astype(np.int32)
    words = np.arange(100, dtype=np.int32) % 6
    whole = WordScorer(model.checkpoint, CPU, EXACT).log_probs_of_ids(contexts, words)
    # 84 distinct contexts: the last part has fewer than the others.
    monkeypatch.setitem(context_scorer._CONTEXTS, "cpu", 19)
    parts = WordScorer(model.checkpoint, CPU, EXACT).log_probs_of_ids(contexts, words)
    assert len(np.unique(contexts, axis=0)) % 19 > 0
    assert np.array_equal(parts, whole)


def test_a_value_depends_on_its_n_gram_alone_to_the_last_bit(model: RandomCslm) -> None:
    generator = np.random.default_rng(2)
    contexts = generator.integers(0, 6, (200, ORDER - 1)).astype(np.int32)
    words = generator.integers(0, 6, 200).astype(np.int32)
    together = WordScorer(model.checkpoint, CPU, EXACT).log_probs_of_ids(contexts, words)
    # Another order, and one that has scored nothing before each.
    scorer = WordScorer(model.checkpoint, CPU, EXACT)
    shuffled = generator.permutation(200)
    alone = np.empty(200)
    for place in shuffled:
        part = slice(place, place + 1)
        alone[place] = scorer.log_probs_of_ids(contexts[part], words[part])[0]
    assert np.array_equal(together, alone)


def test_probabilities_sum_to_one_over_the_shortlist(model: RandomCslm) -> None:
    scorer = WordScorer(model.checkpoint, CPU, EXACT)
    contexts = np.repeat(np.array([[0, 2, 3]], dtype=np.int32), 6, axis=0)
    log_probs = scorer.log_probs_of_ids(contexts, np.arange(6, dtype=np.int32))
    assert np.exp(log_probs).sum() == pytest.approx(1.0, abs=1e-6)


def test_without_log_z_a_value_is_the_logit(model: RandomCslm) -> None:
    scorer = WordScorer(model.checkpoint, CPU, EXACT, normalized=False)
    contexts = np.repeat(np.array([[0, 2, 3]], dtype=np.int32), 6, axis=0)
    found = scorer.log_probs_of_ids(contexts, np.arange(6, dtype=np.int32))
    assert found == pytest.approx(logits(model.parameters, [0, 2, 3]), abs=1e-5)


SENTENCES = ["a b c", "a b", "", "x a b c d", "a b c", "e e e e e e", "d"]


def sentence_score(model: RandomCslm, words: list[str]) -> float:
    return sum(word_log_probs(model.parameters, ORDER, model.vocabulary.ids(words)))


def test_lists_get_the_sums_over_their_words_and_end(model: RandomCslm) -> None:
    hypotheses = [tuple(text.split()) for text in SENTENCES]
    lists = [HypothesisList(("some", "source"), hypotheses), HypothesisList((), hypotheses[:3])]
    scores = SentenceScores([model.checkpoint], CPU, words=True)
    found = list(scores.values(lists))
    expected = [sentence_score(model, list(words)) for words in hypotheses]
    assert found[0].columns[0].tolist() == pytest.approx(expected, abs=1e-5)
    # The source is not looked at.
    assert found[1].columns[0].tolist() == found[0].columns[0].tolist()[:3]
    assert found[0].words is not None
    ids = model.vocabulary.ids(hypotheses[3])
    assert found[0].words[0][3].tolist() == pytest.approx(
        word_log_probs(model.parameters, ORDER, ids), abs=1e-5
    )
    assert scores.work.unknown_read == 0


def test_a_cache_tells_scores_without_log_z_apart(model: RandomCslm, tmp_path: Path) -> None:
    lists = [HypothesisList(("s",), [("a", "e"), ("b",)])]
    found = []
    for normalized in (True, False) * 2:
        with ScoreCache(str(tmp_path / "cache")) as cache:
            scores = SentenceScores([model.checkpoint], CPU, cache=cache, normalized=normalized)
            found.append(next(scores.values(lists)).columns[0].tolist())
            cached = scores.work.cached
        assert cached == (2 if len(found) > 2 else 0)
    assert found[:2] == found[2:]
    assert found[0] != found[1]


def search_request(
    rows: list[tuple[list[int], list[int], bool]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    lengths = [len(phrase) for _, phrase, _ in rows]
    return (
        np.array([history for history, _, _ in rows], np.int32),
        np.array([word for _, phrase, _ in rows for word in phrase], np.int32),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.array([end for _, _, end in rows]),
    )


def test_a_search_gets_the_score_of_each_phrase_after_its_history(model: RandomCslm) -> None:
    feature = SearchCslm(model.checkpoint, CPU)
    assert (feature.name, feature.context) == ("CSLM0", ORDER - 1)
    words = ["<unk>", "<s>", "</s>", "a", "b"]
    feature.begin([*words, "c", "rare", "b", "a"])
    feature.begin(words)  # another list: another numbering begins
    words += ["rare", "c"]
    feature.begin(words)
    a, b, rare, c = 3, 4, 5, 6
    rows = [
        ([-1, -1, 1], [a, b], False),
        ([-1, 1, a], [b, rare, c], True),
        ([1, a, b], [], True),
        ([-1, -1, 1], [a, b], False),
        ([a, b, 0], [c], False),
    ]
    found = feature.scores(*search_request(rows)).tolist()
    ids = {-1: 0, 1: 0, 0: 1, rare: 1, a: 2, b: 3, c: 4}
    for value, (history, phrase, ends) in zip(found, rows, strict=True):
        text = [ids[word] for word in history + phrase] + [0] * ends
        expected = sum(
            word_log_prob(model.parameters, text[place - ORDER + 1 : place], text[place])
            for place in range(ORDER - 1, len(text))
        )
        assert value == pytest.approx(expected, abs=1e-5)
    assert found[0] == found[3]
    # What is asked for alone has the same bits, by one that knows no context and by one that does.
    for row, value in zip(rows, found, strict=True):
        fresh = SearchCslm(model.checkpoint, CPU)
        fresh.begin(words)
        for asked in (fresh, feature):
            assert asked.scores(*search_request([row]))[0] == value
    # By hand, with ids: 000, 002, 023, 231 and 314.
    assert feature.contexts_scored == 5


def test_phrases_of_a_whole_translation_add_up_to_its_score(model: RandomCslm) -> None:
    feature = SearchCslm(model.checkpoint, CPU, normalized=False)
    feature.begin(["<unk>", "<s>", "</s>", "a", "b", "e", "x"])
    rows = [([-1, -1, 1], [3, 5], False), ([1, 3, 5], [6, 4, 5], True)]
    whole = SentenceScores([model.checkpoint], CPU, normalized=False)
    lists = [HypothesisList((), [("a", "e", "x", "b", "e")])]
    expected = next(whole.values(lists)).columns[0][0]
    assert feature.scores(*search_request(rows)).sum() == pytest.approx(expected, abs=1e-9)


def test_checkpoints_of_other_kinds_are_refused(tmp_path: Path) -> None:
    from phrasescore.models.checkpoint import load_checkpoint
    from tests.doubles import RandomModel

    RandomModel(tmp_path / "model", ["a"], ["b"])
    checkpoint: Checkpoint = load_checkpoint(tmp_path / "model")
    with pytest.raises(ModelError, match="expected a language model"):
        WordScorer(checkpoint, CPU, EXACT)

"""Promises of the scores of n-grams: of a network alone, backed off, of lists, inside a search."""

import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.features.model import Network
from phrasescore.features.score_cache import ScoreCache
from phrasescore.features.search_network import load_search_network
from phrasescore.kernels.precision import Precision
from phrasescore.language_models import context_scorer
from phrasescore.language_models.ngram_scorer import load_ngrams
from phrasescore.language_models.word_scorer import BOUNDARY, WordScorer
from phrasescore.records import HypothesisList
from tests.counted_contexts import count_contexts
from tests.doubles import RandomCslm
from tests.reference_cslm import logits, word_log_prob, word_log_probs
from tests.sentence_scores import SentenceScores

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
EXACT = Precision("float32", CPU)
ORDER = 4
WORDS = ["a", "b", "c", "d"]
# The model below knows neither d nor x; e and f are in no shortlist.
LM_WORDS = ["a", "b", "c", "e", "f"]


@pytest.fixture(name="model")
def random_model() -> RandomCslm:
    return RandomCslm(WORDS, order=ORDER)


@pytest.fixture(name="lm")
def written_lm(tmp_path: Path) -> str:
    """A trigram model whose probabilities sum to one, with its backoff weights worked out here."""
    unigrams = {
        "<unk>": 0.05, "</s>": 0.15, "a": 0.3, "b": 0.2, "c": 0.1, "e": 0.15, "f": 0.05
    }  # fmt: skip
    bigrams = {("<s>", "a"): 0.5, ("a", "b"): 0.4, ("a", "e"): 0.3, ("e", "</s>"): 0.6}
    trigrams = {("<s>", "a", "b"): 0.7, ("a", "e", "f"): 0.2}

    def backoff(context: tuple[str, ...]) -> float:
        table: dict = bigrams if len(context) == 1 else trigrams
        seen = {key[-1]: p for key, p in table.items() if key[:-1] == context}
        lower = sum(_lower(context, word, unigrams, bigrams, backoff) for word in seen)
        return (1 - sum(seen.values())) / (1 - lower)

    lines = ["\\data\\", f"ngram 1={len(unigrams) + 1}", "ngram 2=4", "ngram 3=2", "", "\\1-grams:"]
    # lmplz gives <s> the probability 1; it is never predicted all the same.
    lines.append(f"0\t<s>\t{math.log10(backoff(('<s>',))):.7f}")
    for word, p in unigrams.items():
        lines.append(f"{math.log10(p):.7f}\t{word}\t{math.log10(backoff((word,))):.7f}")
    lines += ["", "\\2-grams:"]
    for pair, p in bigrams.items():
        weight = "" if pair[1] == "</s>" else f"\t{math.log10(backoff(pair)):.7f}"
        lines.append(f"{math.log10(p):.7f}\t{' '.join(pair)}{weight}")
    lines += ["", "\\3-grams:"]
    lines += [f"{math.log10(p):.7f}\t{' '.join(words)}" for words, p in trigrams.items()]
    path = tmp_path / "lm.arpa"
    path.write_text("\n".join([*lines, "", "\\end\\", ""]))
    return str(path)


def _lower(context, word, unigrams, bigrams, backoff):  # type: ignore[no-untyped-def]
    if len(context) == 1:
        return unigrams[word]
    pair = (context[-1], word)
    return bigrams.get(pair, backoff(context[1:]) * unigrams[word])


def all_contexts() -> np.ndarray:
    found = []
    for length in range(ORDER):
        for words in itertools.product(range(5), repeat=length):
            found.append([BOUNDARY] * (ORDER - 1 - length) + list(words))
    return np.array(found, dtype=np.int32)


def test_log_probs_are_those_of_the_reference(
    model: RandomCslm, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = count_contexts(monkeypatch)
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
    assert sum(counts) == len(np.unique(contexts, axis=0)) < 300
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


def test_the_n_gram_model_of_this_test_sums_to_one(lm: str) -> None:
    model: Any = load_ngrams(lm)
    every_word = model.number(["<unk>", "</s>", *LM_WORDS])
    for context in all_contexts():
        words = model.number([LM_WORDS[word] for word in context if word >= 0])
        state = model.state(words, begins=bool((context < 0).any()))
        assert np.exp(model.log_probs(state, every_word)).sum() == pytest.approx(1.0, abs=1e-5)


def test_backed_off_probabilities_sum_to_one_over_the_n_gram_model_s_vocabulary(
    model: RandomCslm, lm: str
) -> None:
    scorer = WordScorer(model.checkpoint, CPU, EXACT, backoff=lm)
    numbering = scorer.number([*LM_WORDS, "d"])
    contexts = all_contexts()
    # The five words, one that is <unk> to the n-gram model alone, and </s>.
    words = np.array([0, 1, 2, 3, 4, 5, BOUNDARY], dtype=np.int32)
    log_probs = scorer.log_probs(
        numbering, np.repeat(contexts, len(words), axis=0), np.tile(words, len(contexts))
    )
    totals = np.exp(log_probs).reshape(len(contexts), len(words)).sum(axis=1)
    assert totals == pytest.approx(np.ones(len(contexts)), abs=1e-5)


def test_a_backed_off_word_has_schwenk_s_probability(model: RandomCslm, lm: str) -> None:
    scorer = WordScorer(model.checkpoint, CPU, EXACT, backoff=lm)
    numbering = scorer.number(["a", "b", "e", "unheard", "d"])
    contexts = np.array([[BOUNDARY, BOUNDARY, 0]] * 5, dtype=np.int32)
    found = np.exp(scorer.log_probs(numbering, contexts, np.array([0, 1, 2, 3, 4], np.int32)))
    # After <s> a: p(b) = 0.7 of the trigram; e, </s>, ... by the backoff of "<s> a", which is
    # (1 - 0.7) / (1 - 0.4), to the bigrams of "a": e has 0.3.
    backoff = (1 - 0.7) / (1 - 0.4)
    assert found[2] == pytest.approx(backoff * 0.3, rel=1e-4)
    # To the unigrams: (1 - 0.4 - 0.3) / (1 - 0.2 - 0.15) of a, c, </s> and <unk>.
    lower = backoff * (1 - 0.4 - 0.3) / (1 - 0.2 - 0.15)
    assert found[3] == pytest.approx(lower * 0.05, rel=1e-4)
    assert found[4] == found[3]  # in the network's shortlist, and unknown to the n-gram model
    mass = 0.7 + lower * (0.3 + 0.1 + 0.15)  # b; a, c and </s>
    # Ids: </s> 0, a 2, b 3, c 4; d, which is 5, and <unk> take no part.
    scores = np.exp(logits(model.parameters, [0, 0, 2]))
    share = scores / scores[[0, 2, 3, 4]].sum()
    assert found[0] == pytest.approx(share[2] * mass, rel=1e-4)
    assert found[1] == pytest.approx(share[3] * mass, rel=1e-4)


def test_a_backoff_weight_beyond_all_numbers_is_refused(model: RandomCslm, lm: str) -> None:
    path = Path(lm)
    path.write_text(re.sub(r"(?m)^0\t<s>\t.*", "0\t<s>\t500", path.read_text()))
    scorer = WordScorer(model.checkpoint, CPU, EXACT, backoff=lm)
    with pytest.raises(PhrasescoreError, match=r"lm\.arpa: expected probabilities that sum to one"):
        scorer.log_probs(
            scorer.number(["a"]), np.full((1, ORDER - 1), BOUNDARY, np.int32), np.zeros(1, np.int32)
        )


def test_backoff_refuses_what_cannot_share(model: RandomCslm, lm: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="at most the network's order 2, found order 3"):
        WordScorer(RandomCslm(WORDS, order=2).checkpoint, CPU, EXACT, backoff=lm)
    with pytest.raises(PhrasescoreError, match="knows no word of the shortlist"):
        WordScorer(RandomCslm(["d"], order=ORDER).checkpoint, CPU, EXACT, backoff=lm)
    with pytest.raises(DataError, match="cannot open"):
        WordScorer(model.checkpoint, CPU, EXACT, backoff=str(tmp_path / "nothing"))


SENTENCES = ["a b c", "a b", "", "x a b c d", "a b c", "e e e e e e", "d"]


def sentence_score(model: RandomCslm, words: list[str]) -> float:
    return sum(word_log_probs(model.parameters, ORDER, model.vocabulary.ids(words)))


def test_lists_get_the_sums_over_their_words_and_end(model: RandomCslm) -> None:
    hypotheses = [tuple(text.split()) for text in SENTENCES]
    lists = [HypothesisList(("some", "source"), hypotheses), HypothesisList((), hypotheses[:3])]
    scores = SentenceScores([model.checkpoint], CPU)
    found = list(scores.values(lists))
    expected = [sentence_score(model, list(words)) for words in hypotheses]
    assert found[0].columns[0].tolist() == pytest.approx(expected, abs=1e-5)
    # The source is not looked at.
    assert found[1].columns[0].tolist() == found[0].columns[0].tolist()[:3]


def test_a_cache_tells_scores_of_other_options_apart(
    model: RandomCslm, lm: str, tmp_path: Path
) -> None:
    lists = [HypothesisList(("s",), [("a", "e"), ("b",)])]
    found = []
    for column in (Network(""), Network("", unnormalized=True), Network("", backoff_lm=lm)) * 2:
        with ScoreCache(str(tmp_path / "cache")) as cache:
            scores = SentenceScores([model.checkpoint], CPU, cache=cache, column=column)
            found.append(next(scores.values(lists)).columns[0].tolist())
            cached = scores.work.cached
        assert cached == (2 if len(found) > 3 else 0)
    assert found[:3] == found[3:]
    assert len({tuple(values) for values in found}) == 3


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


def test_a_search_gets_the_score_of_each_phrase_after_its_history(
    model: RandomCslm, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = count_contexts(monkeypatch)
    feature = load_search_network(model.checkpoint, CPU, Network(""))
    assert feature.context == ORDER - 1
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
        fresh = load_search_network(model.checkpoint, CPU, Network(""))
        fresh.begin(words)
        for asked in (fresh, feature):
            assert asked.scores(*search_request([row]))[0] == value
    # By hand, the first search computes the contexts 000, 002, 023, 231 and 314 (ids of words).
    # A new search computes only the contexts of its row.
    assert counts == [5, 2, 4, 1, 2, 1]


def test_phrases_of_a_whole_translation_add_up_to_its_score(model: RandomCslm, lm: str) -> None:
    column = Network("", backoff_lm=lm)
    feature = load_search_network(model.checkpoint, CPU, column)
    feature.begin(["<unk>", "<s>", "</s>", "a", "b", "e", "x"])
    rows = [([-1, -1, 1], [3, 5], False), ([1, 3, 5], [6, 4, 5], True)]
    whole = SentenceScores([model.checkpoint], CPU, column=column)
    lists = [HypothesisList((), [("a", "e", "x", "b", "e")])]
    expected = next(whole.values(lists)).columns[0][0]
    assert feature.scores(*search_request(rows)).sum() == pytest.approx(expected, abs=1e-9)

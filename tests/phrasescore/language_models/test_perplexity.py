"""Promises of perplexities: phrasescore.language_models.perplexity."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import phrasescore
from phrasescore.io.corpora import read_monolingual_text
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.ngram_scorer import load_ngrams
from phrasescore.language_models.perplexity import (
    TextScores,
    measure,
    mixture,
    mixture_weight,
    score_with_network,
    score_with_ngrams,
)
from phrasescore.language_models.word_scorer import WordScorer
from phrasescore.progress import Progress
from phrasescore.settings.compute import Compute
from tests.doubles import RandomCslm
from tests.reference_cslm import word_log_probs

CPU = torch.device("cpu")


def test_perplexities_are_those_of_their_definition() -> None:
    found = measure(
        TextScores(np.log([0.5, 0.25, 0.001, 0.125]), np.array([False, False, True, False]))
    )
    assert (found.tokens, found.unknown) == (4, 1)
    product = 0.5 * 0.25 * 0.125
    assert found.including_unknown == pytest.approx((product * 0.001) ** (-1 / 4))
    assert found.excluding_unknown == pytest.approx(product ** (-1 / 3))


def test_a_text_of_unknown_words_alone_has_no_perplexity_without_them() -> None:
    found = measure(TextScores(np.log([0.5]), np.array([True])))
    assert found.including_unknown == pytest.approx(2.0)
    assert math.isnan(found.excluding_unknown)


def test_a_text_that_is_beyond_all_numbers_has_the_largest_perplexity() -> None:
    found = measure(TextScores(np.array([-1e6, -1e5]), np.array([False, False])))
    assert found.including_unknown == found.excluding_unknown == math.exp(700)


def test_a_mixture_is_of_probabilities() -> None:
    first, second = np.array([0.5, 1e-30, 0.1]), np.array([0.1, 0.3, 1e-300])
    mixed = np.exp(mixture(np.log(first), np.log(second), 0.25))
    assert mixed == pytest.approx(0.25 * first + 0.75 * second, rel=1e-12)
    assert mixture(np.log(first), np.log(second), 1.0) == pytest.approx(np.log(first))
    assert mixture(np.log(first), np.log(second), 0.0) == pytest.approx(np.log(second))


# Two models that are nearly the same: of these the slope is nearly nothing.
@example([(0.609375, 0.609375), (0.609375, 0.61328125)])
@given(st.lists(st.tuples(st.floats(1e-6, 1.0), st.floats(1e-6, 1.0)), min_size=1, max_size=30))
def test_the_weight_is_the_best_of_a_grid(pairs: list[tuple[float, float]]) -> None:
    first, second = np.log(np.array(pairs).T)
    weight = mixture_weight(first, second)
    assert 0.0 <= weight <= 1.0
    best = max(mixture(first, second, x).mean() for x in np.linspace(0, 1, 101))
    assert mixture(first, second, weight).mean() >= best - 1e-9


def test_the_weight_of_two_coins_is_worked_out_by_hand() -> None:
    # Heads 3 times of 4; p1(heads) = 1, p2(heads) = 0.5. w + (1 - w) / 2 = 3/4 at w = 1/2 ...
    heads, tails = (0.0, math.log(0.5)), (-1e9, math.log(0.5))
    first, second = np.array([heads, heads, heads, tails]).T
    assert mixture_weight(first, second) == pytest.approx(0.5, abs=1e-8)
    # ... and 1 of 8 tails: 1 - (1 - w) / 2 = 7/8 at w = 3/4.
    first, second = np.array([heads] * 7 + [tails]).T
    assert mixture_weight(first, second) == pytest.approx(0.75, abs=1e-8)


@pytest.mark.usefixtures("one_thread")
def test_a_network_predicts_every_word_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    model = RandomCslm(["a", "b"])
    text = [("a", "b", "x"), (), ("b",)]
    scorer = WordScorer(model.checkpoint, CPU, Precision("float32", CPU))
    found = score_with_network(scorer, text)
    expected = [
        log_prob
        for words in text
        for log_prob in word_log_probs(model.parameters, 4, model.vocabulary.ids(words))
    ]
    assert found.log_probs.tolist() == pytest.approx(expected, abs=1e-5)
    assert found.unknown.tolist() == [False, False, True, False, False, False, False]
    monkeypatch.setattr("phrasescore.language_models.perplexity._SENTENCES", 1)
    assert score_with_network(scorer, text).log_probs.tolist() == found.log_probs.tolist()


def test_kenlm_s_perplexities_are_those_that_its_query_prints(shared_data: Path) -> None:
    # query -v summary lm.fr.arpa.gz < test_2016_flickr.fr, KenLM in Moses 2025.
    text = shared_data / "test_2016_flickr.fr"
    sentences = [line.words for line in read_monolingual_text(str(text))]
    found = measure(score_with_ngrams(load_ngrams(str(shared_data / "lm.fr.arpa.gz")), sentences))
    assert (found.tokens, found.unknown) == (14988, 151)
    assert found.including_unknown == pytest.approx(22.319274498746218, rel=1e-6)
    assert found.excluding_unknown == pytest.approx(20.233733083810822, rel=1e-6)


@pytest.mark.usefixtures("one_thread")
def test_a_backed_off_network_counts_the_unknown_words_of_the_n_gram_model(
    shared_data: Path,
) -> None:
    lm = str(shared_data / "lm.fr.arpa.gz")
    text = shared_data / "test_2016_flickr.fr"
    sentences = [line.words for line in read_monolingual_text(str(text))][:40]
    model = RandomCslm(["un", "une", "homme", "femme", ".", "nonesuch"])
    scorer = WordScorer(model.checkpoint, CPU, Precision("float32", CPU), backoff=lm)
    of_ngrams = score_with_ngrams(load_ngrams(lm), sentences)
    found = score_with_network(scorer, sentences)
    assert found.unknown.tolist() == of_ngrams.unknown.tolist()
    # Words outside the shortlist have the n-gram model's own probability.
    outside = [
        not (word in model.vocabulary or word == "</s>")
        for words in sentences
        for word in (*words, "</s>")
    ]
    assert any(outside)
    assert found.log_probs[outside] == pytest.approx(of_ngrams.log_probs[outside], abs=1e-6)
    # And so have the words of the shortlist together: their mass is divided anew.
    assert not np.allclose(found.log_probs, of_ngrams.log_probs)


def test_results_are_in_the_order_of_the_texts_and_each_model_s_sentences_are_counted(
    tmp_path: Path,
) -> None:
    RandomCslm("uvw", path=tmp_path / "cslm")
    for name, text in (("one", "u v\nw\n"), ("two", "u\n")):
        (tmp_path / name).write_text(text)
    seen: list[Progress] = []
    paths = [tmp_path / "one", tmp_path / "two"]
    done = phrasescore.perplexity(
        paths, model=tmp_path / "cslm", compute=Compute(threads=1), progress=seen.append
    )
    assert [(text.text, text.sentences) for text in done.texts] == [
        (str(tmp_path / "one"), 2),
        (str(tmp_path / "two"), 1),
    ]
    assert (seen[-1].task, seen[-1].done, seen[-1].finished) == ("perplexity", 3, True)

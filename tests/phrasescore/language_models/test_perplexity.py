"""Promises of perplexities: phrasescore.language_models.perplexity."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import phrasescore
from phrasescore.io.corpora import read_monolingual_text
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.ngram_scorer import load_ngrams
from phrasescore.language_models.perplexity import (
    TextScores,
    measure,
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
    assert [(text.text, text.sentences) for text in done] == [
        (str(tmp_path / "one"), 2),
        (str(tmp_path / "two"), 1),
    ]
    assert (seen[-1].task, seen[-1].done, seen[-1].finished) == ("perplexity", 3, True)

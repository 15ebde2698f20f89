"""Scores of words that networks have in pieces, against the slow references and slow splitting."""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from phrasescore.features.model import Network
from phrasescore.features.neural import NeuralScore, PieceNumbers
from phrasescore.features.search_network import load_search_network
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.perplexity import measure, score_with_network
from phrasescore.language_models.word_scorer import WordScorer
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.records import HypothesisList, PhraseBlock, PhrasePair
from tests import reference_grconv, reference_lstm, reference_rnnsearch, reference_subwords
from tests.doubles import RandomCslm, RandomModel
from tests.random_networks import RandomNetwork
from tests.reference_cslm import word_log_probs
from tests.sentence_scores import SentenceScores

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
# Two sides that split words in other places.
READ, PREDICTED = reference_subwords.vocabulary(30), reference_subwords.vocabulary(45)
REFERENCES = {
    "rnnsearch": reference_rnnsearch.log_prob,
    "grconv": reference_grconv.log_prob,
    "lstm": reference_lstm.log_prob,
}
# Words that begin alike, of one piece and of several, and with new characters.
LISTS = [
    HypothesisList(
        ("les", "petitettes", "maisons", "xyz"),
        [
            tuple(text.split())
            for text in (
                "la maison",
                "la maisons",
                "la maisonette rues",
                "",
                "les grand漢 maisonettes &apos; la",
                "la maisonette rue",
                "▁la </s> <unk>",
                "la maison",
            )
        ],
    ),
    HypothesisList((), [("la",), ()]),
    HypothesisList(("rue",), [("la", "maison")]),
]


def references(
    network: RandomNetwork, source: Sequence[str], target: Sequence[str], *, right_to_left: bool
) -> float:
    read = reference_subwords.ids(READ, source)
    predicted = reference_subwords.ids(PREDICTED, target)
    step = -1 if right_to_left else 1
    score = REFERENCES[network.checkpoint.config.kind]
    return score(network.parameters, read, predicted[::step])


@pytest.mark.parametrize("kind", sorted(REFERENCES))
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("right_to_left", [False, True])
def test_a_hypothesis_is_scored_as_its_pieces(
    kind: str, reverse: bool, right_to_left: bool
) -> None:
    network = RandomNetwork(kind, READ, PREDICTED, reverse=reverse, right_to_left=right_to_left)
    lists = LISTS[::2] if kind == "grconv" else LISTS  # which reads at least a word
    if kind == "grconv" and reverse:
        lists = [each._replace(hypotheses=[h for h in each.hypotheses if h]) for each in lists]
    scores = SentenceScores([network.checkpoint], CPU)
    for item, found in zip(lists, scores.values(lists), strict=True):
        wanted = [
            references(
                network,
                *((hypothesis, item.source) if reverse else (item.source, hypothesis)),
                right_to_left=right_to_left,
            )
            for hypothesis in item.hypotheses
        ]
        assert found.columns[0].tolist() == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("kind", ["rnnsearch", "lstm"])
def test_a_score_depends_on_its_pair_alone_to_the_last_bit(kind: str) -> None:
    network = RandomNetwork(kind, READ, PREDICTED)
    scores = SentenceScores([network.checkpoint], CPU)
    for item, found in zip(LISTS, scores.values(LISTS), strict=True):
        for place, hypothesis in enumerate(item.hypotheses):
            (alone,) = scores.values([HypothesisList(item.source, [hypothesis])])
            assert alone.columns[0].tolist() == found.columns[0].tolist()[place : place + 1]


def word_sums(
    network: RandomNetwork, source: Sequence[str], target: Sequence[str]
) -> NDArray[np.float64]:
    """Return log p of each word, the sum over its pieces, and of ``</s>``."""
    read, ids = (reference_subwords.ids(*side) for side in ((READ, source), (PREDICTED, target)))
    pieces = reference_lstm.word_log_probs(network.parameters, read, ids)
    sizes = [len(reference_subwords.ids(PREDICTED, [word])) for word in target]
    return np.array([part.sum() for part in np.split(np.array(pieces), np.cumsum(sizes))])


def test_steps_are_pieces() -> None:
    network = RandomNetwork("lstm", READ, PREDICTED)
    item = HypothesisList(("les", "漢"), [("la", "maison"), ("la", "maisonx"), ("la",)])
    scores = SentenceScores([network.checkpoint], CPU)
    list(scores.values([item]))
    work = scores.work
    prefixes = {
        tuple(pieces[: end + 1])
        for words in item.hypotheses
        for pieces in [reference_subwords.ids(PREDICTED, words)]
        for end in range(len(pieces))
    }
    assert work.steps == len(prefixes) + 1


def test_an_ensemble_of_subwords_and_words_averages_the_probabilities_of_words() -> None:
    pieces = RandomNetwork("lstm", READ, PREDICTED, seed=1)
    whole = RandomNetwork("lstm", ["les"], ["la", "maison", "rue"], seed=2)
    sides = whole.checkpoint.source_vocabulary, whole.checkpoint.target_vocabulary
    models = [pieces.checkpoint, whole.checkpoint]
    item = LISTS[0]
    (found,) = SentenceScores(models, CPU, ensemble=True).values([item])
    wanted = []
    for hypothesis in item.hypotheses:
        first = word_sums(pieces, item.source, hypothesis)
        read, ids = sides[0].ids(item.source), sides[1].ids(hypothesis)
        second = reference_lstm.word_log_probs(whole.parameters, read, ids)
        wanted.append(np.log((np.exp(first) + np.exp(second)) / 2).sum())
    assert found.columns[2].tolist() == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("right_to_left", [False, True])
def test_phrase_pairs_are_scored_as_their_pieces(
    tmp_path: Path, reverse: bool, right_to_left: bool
) -> None:
    sides = (PREDICTED, READ) if reverse else (READ, PREDICTED)
    model = RandomModel(tmp_path / "m", *sides, reverse=reverse, right_to_left=right_to_left)
    assert model.vocabularies == [READ, PREDICTED]
    pairs = [
        PhrasePair(item.source, hypothesis) for item in LISTS for hypothesis in item.hypotheses
    ]
    score = NeuralScore(load_checkpoint(model.path), CPU)
    wanted = [model.log_prob(*pair) for pair in pairs]
    values = score.score(PhraseBlock.of(pairs)).values[0]
    assert values == pytest.approx(wanted, abs=1e-5)
    assert READ.ids(LISTS[0].source) == reference_subwords.ids(READ, LISTS[0].source)


def test_pieces_of_words_that_are_bytes_of_a_text() -> None:
    numbers = PieceNumbers(READ)
    # Known and new words in several calls; phrases without words.
    for text in ("la maison", "", "la  rustig 漢字 la", "maisons la", "maisons la x"):
        raw = f"#{text} la".encode()
        end = len(raw) - len(" la")
        found = numbers.number(raw, np.array([[1, end], [end, end]]))
        words = text.split()
        assert found.values.tolist() == reference_subwords.ids(READ, words)
        assert found.lengths.tolist() == [len(found.values), 0]


def test_a_language_model_scores_words_as_their_pieces() -> None:
    model = RandomCslm(PREDICTED, order=4)
    scores = SentenceScores([model.checkpoint], CPU)
    for item, found in zip(LISTS, scores.values(LISTS), strict=True):
        wanted = [
            sum(word_log_probs(model.parameters, 4, reference_subwords.ids(PREDICTED, hypothesis)))
            for hypothesis in item.hypotheses
        ]
        assert found.columns[0].tolist() == pytest.approx(wanted, abs=1e-5)


def test_perplexity_is_per_word() -> None:
    model = RandomCslm(PREDICTED, order=4)
    sentences = LISTS[0].hypotheses
    scorer = WordScorer(model.checkpoint, CPU, Precision("float32", CPU))
    found = measure(score_with_network(scorer, sentences))
    total = sum(
        sum(word_log_probs(model.parameters, 4, reference_subwords.ids(PREDICTED, words)))
        for words in sentences
    )
    assert found.tokens == sum(map(len, sentences)) + len(sentences)
    assert found.including_unknown == pytest.approx(math.exp(-total / found.tokens), rel=1e-5)
    # grand漢, ▁la, and the angle brackets of the two literal symbols.
    assert found.unknown == 4


def test_a_search_has_the_scores_of_whole_sentences_phrase_by_phrase() -> None:
    order = 4
    model = RandomCslm(PREDICTED, order=order)
    search = load_search_network(model.checkpoint, CPU, Network(""))
    words = ["<unk>", "<s>", "</s>", "la", "maisonette"]
    search.begin([*words, "rue", "grandes", "rues", "la", "les"])
    search.begin(words)  # another list: another numbering begins
    words += ["rues", "grand漢", "les"]
    search.begin(words)
    sentence = [3, 4, 5, 6, 3, 7]
    text = tuple(words[number] for number in sentence)
    wanted = sum(word_log_probs(model.parameters, order, reference_subwords.ids(PREDICTED, text)))
    for cuts in ([0, 6], [0, 1, 3, 6], [0, 2, 2, 5, 6], [0, 1, 2, 3, 4, 5, 6]):
        spans = list(pairwise(cuts))
        before = [[-1] * order + [1] + sentence[:start] for start, _ in spans]
        found = search.scores(
            np.array([history[1 - order :] for history in before], np.int32),
            np.array(sentence, np.int32),
            np.array(cuts, np.int64),
            np.array([end == 6 for _, end in spans]),
        )
        assert found.sum() == pytest.approx(wanted, abs=1e-5)

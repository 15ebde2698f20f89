"""Random targets, against exact distributions and against the scores of rescoring."""

import math
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import chisquare, kstest

from phrasescore.errors import ModelError, PhrasescoreError
from phrasescore.generation.generator import Generated, Generator
from phrasescore.generation.sampling import (
    BATCH_SAMPLES,
    SampleSettings,
    count_samples,
    draw_words,
    random_numbers,
    sample_targets,
    sample_work,
)
from phrasescore.models.checkpoint import Checkpoint, TrainingRecord, load_checkpoint
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import KINDS
from phrasescore.vocabulary import Vocabulary
from tests.doubles import BigramNetwork, RandomCslm, RandomModel
from tests.random_networks import RandomNetwork

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
# Of </s>, <unk>, a, b after each of them, in eighths.
EIGHTHS = [[1, 1, 4, 2], [5, 1, 1, 1], [2, 1, 1, 4], [4, 2, 1, 1]]


def bigrams(monkeypatch: pytest.MonkeyPatch) -> Generator:
    decoder = "tests.doubles:BigramDecoder"
    monkeypatch.setitem(KINDS, "lstm", replace(KINDS["lstm"], decoder=decoder))
    network = BigramNetwork([[math.log(x) for x in row] for row in EIGHTHS])
    config = Config.from_dict({"kind": "lstm"}, "test")
    vocabulary = Vocabulary("ab")
    return Generator([Checkpoint(network, config, vocabulary, vocabulary, TrainingRecord())], CPU)


def bigram_probabilities(limit: int) -> dict[tuple[str, ...], float]:
    """Return the probability of every target of at most ``limit`` words, by enumeration.

    A target that is cut counts with its words up to the limit.
    """
    shares = np.array(EIGHTHS) / 8
    names = ["</s>", "<unk>", "a", "b"]
    found: defaultdict[tuple[str, ...], float] = defaultdict(float)

    def visit(words: tuple[int, ...], probability: float) -> None:
        last = words[-1] if words else 0
        if len(words) == limit:
            found[tuple(names[word] for word in words)] += probability
            return
        found[tuple(names[word] for word in words)] += probability * shares[last][0]
        for word in (1, 2, 3):
            visit((*words, word), probability * shares[last][word])

    visit((), 1.0)
    return dict(found)


def test_samples_come_as_often_as_they_are_probable(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 20_000
    generator = bigrams(monkeypatch)
    settings = SampleSettings(count, seed=3, max_length=3)
    (samples,) = sample_targets(generator, [("x",)], settings)
    wanted = bigram_probabilities(3)
    found = Counter(sample.words for sample in samples)
    assert set(found) <= set(wanted)
    frequencies = [found[words] for words in wanted]
    expected = [probability * count for probability in wanted.values()]
    # The seed is fixed: a p below this says that the distribution is another one.
    assert chisquare(frequencies, expected).pvalue > 0.01


def test_a_samples_score_is_the_networks_own(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SampleSettings(200, max_length=2)
    (samples,) = sample_targets(bigrams(monkeypatch), [("x",)], settings)
    by_hand = {("a",): 4 * 2, ("b",): 2 * 4, ("a", "b"): 4 * 4 * 4, (): 1, ("<unk>",): 1 * 5}
    seen = set()
    for sample in samples:
        if sample.finished and sample.words in by_hand:
            eighths = len(sample.words) + 1
            wanted = math.log(by_hand[sample.words] / 8**eighths)
            assert sample.log_prob == pytest.approx(wanted, abs=1e-6)
            seen.add(sample.words)
        if not sample.finished:
            # Two words, and no end: p(ab...) = 4/8 * 4/8.
            assert len(sample.words) == 2
            if sample.words == ("a", "b"):
                assert sample.log_prob == pytest.approx(math.log(16 / 64), abs=1e-6)
        assert sample.unknown_words == sample.words.count("<unk>")
    assert seen == set(by_hand)


def test_without_unknown_words_the_rest_keeps_its_proportions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = SampleSettings(7000, unknown=False, max_length=0, seed=5)
    (samples,) = sample_targets(bigrams(monkeypatch), [("x",)], settings)
    # No word is allowed: what is drawn is the end, 1/7, or is cut.
    ended = sum(sample.finished for sample in samples)
    assert ended == pytest.approx(1000, abs=4 * math.sqrt(7000 / 7 * 6 / 7))
    (samples,) = sample_targets(bigrams(monkeypatch), [("x",)], SampleSettings(300, unknown=False))
    assert not any("<unk>" in sample.words for sample in samples)


SOURCES = [("u", "v"), ("w",), (), ("v", "v", "w", "u"), ("nowhere", "u")]


@pytest.fixture
def random_generator(tmp_path: Path) -> Generator:
    """Two networks with random weights as an ensemble."""
    models = [RandomModel(tmp_path / str(seed), "uvw", "abc", seed=seed) for seed in range(2)]
    return Generator([load_checkpoint(model.path) for model in models], CPU)


def test_a_sample_does_not_depend_on_what_is_drawn_beside_it(
    random_generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = sample_targets(random_generator, SOURCES, SampleSettings(40, seed=7))
    monkeypatch.setitem(BATCH_SAMPLES, "cpu", 1)
    for number, source in enumerate(SOURCES):
        (alone,) = sample_targets(random_generator, [source], SampleSettings(40, seed=7), [number])
        assert alone == together[number]
        (fewer,) = sample_targets(random_generator, [source], SampleSettings(11, seed=7), [number])
        assert fewer == together[number][:11]
    assert sample_targets(random_generator, SOURCES, SampleSettings(40, seed=7)) == together


def test_other_seeds_and_other_numbers_give_other_samples(random_generator: Generator) -> None:
    source = SOURCES[3]
    (first,) = sample_targets(random_generator, [source], SampleSettings(40, seed=7))
    (other,) = sample_targets(random_generator, [source], SampleSettings(40, seed=8))
    later, same = sample_targets(random_generator, [source] * 2, SampleSettings(40, seed=7), [1, 0])
    assert first != other
    assert first != later
    assert first == same


def test_random_numbers_are_uniform_and_of_their_place_alone() -> None:
    numbers = random_numbers(11, [0, 1, 2**64 - 1], 50, 20)
    assert kstest(numbers.ravel(), "uniform").pvalue > 0.01
    assert len(np.unique(numbers)) == numbers.size
    np.testing.assert_array_equal(random_numbers(11, [1], 3, 5), numbers[1:2, :3, :5])


def test_random_numbers_are_those_that_numpy_gives_for_seed_source_and_sample() -> None:
    # The documentation promises this key and this counter.
    philox = np.random.Philox(key=[11, 5], counter=[0, 0, 0, 2])
    wanted = np.random.Generator(philox).random(7)
    assert random_numbers(11, [5], 3, 7)[0, 2].tolist() == wanted.tolist()


def test_counts_are_sorted_by_score_and_ties_by_the_first() -> None:
    drawn = [("a", -2.0), ("b", -1.0), ("a", -2.0), ("c", -2.0), ("c", -2.0), ("c", -2.0)]
    counted = count_samples([Generated((word,), log_prob) for word, log_prob in drawn])
    assert [(item.target.words, item.times) for item in counted] == [
        (("b",), 1),
        (("a",), 2),
        (("c",), 3),
    ]


def test_a_source_has_its_number_in_a_stream(
    random_generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BATCH_SAMPLES, "cpu", 2)  # windows of 4 sources
    sources = [("u", "v"), (), *[("w", "u")] * 7]
    settings = SampleSettings(2, seed=3)
    found = list(sample_work(random_generator, settings).targets(sources, Compute(workers=1)))
    wanted = sample_targets(random_generator, sources, settings)
    assert found == [wanted[0], [], *wanted[2:]]


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_refused(seed: int) -> None:
    with pytest.raises(PhrasescoreError, match="seed: expected a number from 0"):
        SampleSettings(1, seed=seed)


def test_models_that_cannot_generate_together_are_refused(tmp_path: Path) -> None:
    language_model = RandomCslm("ab").checkpoint
    with pytest.raises(ModelError, match=r"cslm reads no source.* expected one of the kinds enc"):
        Generator([language_model], CPU)
    models = [
        load_checkpoint(RandomModel(tmp_path / str(reverse), "uv", "ab", reverse=reverse).path)
        for reverse in (False, True)
    ]
    with pytest.raises(ModelError, match="the same direction"):
        Generator(models, CPU)
    turned = RandomModel(tmp_path / "turned", "uv", "ab", right_to_left=True)
    with pytest.raises(ModelError, match="the same order; some were trained with --right-to-l"):
        Generator([models[0], load_checkpoint(turned.path)], CPU)


def test_a_right_to_left_model_s_samples_are_those_of_its_weights_turned_round() -> None:
    found = [
        sample_targets(
            Generator([RandomNetwork("lstm", "uv", "abcd", right_to_left=order).checkpoint], CPU),
            [("u", "v")],
            SampleSettings(20),
        )[0]
        for order in (False, True)
    ]
    assert len({target.words for target in found[0]}) > 5
    for plain, turned in zip(*found, strict=True):
        assert turned == plain._replace(words=plain.words[::-1])


# Random words, in a compiled loop and by torch as on a GPU


@pytest.mark.usefixtures("way")
def test_a_number_points_at_the_word_whose_share_it_lies_in() -> None:
    # Shares of 0.25, 0, 0.5, 0.25; and one word that is certain.
    log_probs = torch.tensor([[0.25, 0.0, 0.5, 0.25], [0.0, 0.0, 1.0, 0.0]]).log()
    numbers = np.array([0.0, 0.24, 0.26, 0.74, 0.76, 1 - 2**-53, 0.0, 1 - 2**-53])
    found = draw_words(log_probs, np.array([0, 6, 8]), numbers)
    assert found.tolist() == [0, 0, 2, 2, 3, 3, 2, 2]


@pytest.mark.usefixtures("way")
def test_rows_without_numbers_are_passed_over() -> None:
    log_probs = torch.tensor([[0.0, -50.0], [-50.0, 0.0], [0.0, -50.0]])
    found = draw_words(log_probs, np.array([0, 0, 2, 2]), np.array([0.5, 0.9]))
    assert found.tolist() == [1, 1]


@pytest.mark.usefixtures("way")
def test_improbable_words_are_not_drawn_and_overflow_nothing() -> None:
    log_probs = torch.tensor([[-1900.0, -800.0, -1850.0]])
    numbers = np.linspace(0, 1, 50, endpoint=False)
    assert set(draw_words(log_probs, np.array([0, 50]), numbers).tolist()) == {1}

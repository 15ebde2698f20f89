"""The sampled softmax and label smoothing of training."""

import math

import numpy as np
import pytest
import torch

from phrasescore.models.layers import WordLogProb
from phrasescore.models.lstm import LstmNetwork
from phrasescore.models.softmax import SampledLogProb, WordSample, WordSampler
from phrasescore.settings.kinds import LstmConfig
from phrasescore.training.draw import stream_key

CPU = torch.device("cpu")
WORDS, WIDTH = 300, 7


def draw(sampler: WordSampler, number: int) -> WordSample:
    return sampler.draw(stream_key(1, number), CPU)


def make_softmax() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return rows, weights, biases and words, some of them in every sample."""
    generator = torch.Generator().manual_seed(3)
    rows, weight = (torch.randn(n, WIDTH, generator=generator).double() for n in (40, WORDS))
    bias = torch.randn(WORDS, generator=generator).double()
    words = torch.randint(WORDS, (40,), generator=generator)
    return rows.requires_grad_(), weight.requires_grad_(), bias.requires_grad_(), words


@pytest.mark.parametrize("size", [1, 20, 299])
def test_a_sample_has_its_size_and_words_as_often_as_their_weights_say(size: int) -> None:
    counts = np.random.default_rng(0).permutation(np.arange(WORDS) ** 2)
    sampler = WordSampler(counts, size)
    draws, drawn, weights = 4000, np.zeros(WORDS), np.zeros(WORDS)
    for number in range(draws):
        sample = draw(sampler, number)
        words, log_weights = sample.words, sample.log_weights
        assert len(words) == size
        assert (words.diff() > 0).all()
        drawn[words] += 1
        weights[words] = log_weights.exp()
    probabilities = 1 / weights[drawn > 0]
    # A share of n draws deviates by less than 1 / (2 sqrt(n)).
    np.testing.assert_allclose(drawn[drawn > 0] / draws, probabilities, atol=5 / (2 * draws**0.5))
    # The more frequent, the more probable.
    ranked = weights[np.argsort(-counts)]
    assert (np.diff(ranked[ranked > 0]) >= 0).all()


def test_the_seed_alone_decides_a_sample() -> None:
    first, second = (WordSampler(np.arange(WORDS), 30) for _ in range(2))
    assert torch.equal(draw(first, 5).words, draw(second, 5).words)
    assert not torch.equal(draw(first, 5).words, draw(first, 6).words)


def test_autocast_takes_a_sample_as_it_is() -> None:
    rows, weight, bias, words = (each.detach() for each in make_softmax())
    sample = draw(WordSampler(np.arange(WORDS), 50), 0)
    inputs = (rows.float(), weight.float(), bias.float(), words, sample)
    expected = SampledLogProb.apply(*inputs)
    # Only the types are cast, so no GPU is needed.
    torch.set_autocast_enabled("cuda", True)
    try:
        assert torch.equal(SampledLogProb.apply(*inputs), expected)
    finally:
        torch.set_autocast_enabled("cuda", False)


def test_values_and_gradients_are_those_of_the_weighted_sum_over_the_sample() -> None:
    rows, weight, bias, words = inputs = make_softmax()
    sample = draw(WordSampler(np.arange(WORDS), 50), 0)
    sample = WordSample(sample.words, sample.log_weights.double())
    words[:2] = sample.words[[0, -1]]
    values = SampledLogProb.apply(*inputs, sample)
    logits = rows @ weight.t() + bias
    own = logits.gather(1, words.unsqueeze(1))
    others = logits[:, sample.words] + sample.log_weights
    others = others.masked_fill(sample.words == words.unsqueeze(1), -math.inf)
    expected = own.squeeze(1) - torch.cat([own, others], dim=1).logsumexp(1)
    torch.testing.assert_close(values, expected)
    upper = torch.linspace(-1, 2, len(rows), dtype=torch.float64)
    tensors = (rows, weight, bias)
    found = torch.autograd.grad(values, tensors, upper)
    for gradient, plain in zip(found, torch.autograd.grad(expected, tensors, upper), strict=True):
        torch.testing.assert_close(gradient, plain)


def test_the_normaliser_is_estimated_without_bias() -> None:
    rows, weight, bias, words = make_softmax()
    sampler = WordSampler(np.arange(WORDS), 50)
    own = (rows * weight[words]).sum(1) + bias[words]
    with torch.no_grad():
        exact = (own - WordLogProb.apply(rows, weight, bias, words)).exp()
        sums = [
            (own - SampledLogProb.apply(rows, weight, bias, words, draw(sampler, number))).exp()
            for number in range(3000)
        ]
    mean, error = torch.stack(sums).mean(0), torch.stack(sums).std(0) / math.sqrt(3000)
    assert ((mean - exact).abs() < 5 * error).all()


@pytest.mark.parametrize("sampled", [False, True])
def test_smoothed_labels_give_each_word_its_share(sampled: bool) -> None:
    network = LstmNetwork(LstmConfig(1, WIDTH, 3), 5, WORDS)
    network.initialize(torch.Generator().manual_seed(1))
    rows, _, _, words = make_softmax()
    rows = rows.detach().float()
    sample = draw(WordSampler(np.arange(WORDS), WORDS - 1), 0) if sampled else None
    network.label_smoothing, network.sample = 0.2, sample
    log_probs = network.word_log_probs(rows, words)
    logits = network.output(rows)
    own = logits.gather(1, words.unsqueeze(1)).squeeze(1)
    log_normalizers = own - log_probs
    labels = torch.full((40, WORDS), 0.2 / WORDS)
    labels[torch.arange(40), words] += 0.8
    expected = (labels * (logits - log_normalizers.unsqueeze(1))).sum(1)
    torch.testing.assert_close(network.smooth(log_probs, rows, words), expected)
    # Not outside of training.
    assert network.eval().smooth(log_probs, rows, words) is log_probs

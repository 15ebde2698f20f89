"""The LSTM against an independent implementation, and its gradients against differences."""

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch

from phrasescore.config.settings import LstmConfig
from phrasescore.models.batches import batch_pairs
from phrasescore.models.lstm import LstmNetwork
from tests.reference_lstm import log_prob, random_parameters

SOURCE_SIZE, TARGET_SIZE = 11, 9


def make_model(
    seed: int, layers: int, *, size: int = 7, reverse_source: bool = True
) -> tuple[LstmNetwork, dict[str, np.ndarray]]:
    """Return a float64 network and its parameters as the reference takes them."""
    parameters = random_parameters(
        np.random.default_rng(seed),
        layers=layers,
        hidden_size=size,
        embedding_size=size - 2,
        source_size=SOURCE_SIZE,
        target_size=TARGET_SIZE,
    )
    config = LstmConfig(
        layers=layers, hidden_size=size, embedding_size=size - 2, reverse_source=reverse_source
    )
    model = LstmNetwork(config, SOURCE_SIZE, TARGET_SIZE).double()
    model.load_state_dict({name: torch.from_numpy(value) for name, value in parameters.items()})
    return model, parameters


def make_pairs(seed: int, count: int = 40) -> list[tuple[list[int], list[int]]]:
    """Return pairs of 0 to 8 words a side, unknown words (id 1) among them."""
    generator = random.Random(seed)

    def words(size: int) -> list[int]:
        return [generator.randrange(1, size) for _ in range(generator.randrange(9))]

    return [(words(SOURCE_SIZE), words(TARGET_SIZE)) for _ in range(count)]


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("reverse_source", [True, False])
def test_scores_are_those_of_the_reference_in_mixed_padded_batches(
    layers: int, reverse_source: bool
) -> None:
    model, parameters = make_model(layers, layers, reverse_source=reverse_source)
    pairs = make_pairs(layers)
    assert [] in [source for source, _ in pairs]
    assert [] in [target for _, target in pairs]
    expected = [log_prob(parameters, *pair, reverse_source=reverse_source) for pair in pairs]
    assert model(batch_pairs(pairs)).tolist() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "pairs",
    [[([], [])], [([], []), ([], [2])], [([3], [])], [([1], [1])], [([2, 3], [4]), ([], [])]],
    ids=str,
)
def test_empty_sides_have_a_score(pairs: list[tuple[list[int], list[int]]]) -> None:
    model, parameters = make_model(5, 2)
    scores = model(batch_pairs(pairs)).tolist()
    assert scores == pytest.approx([log_prob(parameters, *pair) for pair in pairs], abs=1e-9)


@pytest.mark.parametrize("layers", [1, 3])
def test_float32_scores_are_those_of_the_reference_to_1e_5(layers: int) -> None:
    model, parameters = make_model(1, layers)
    pairs = make_pairs(1)
    expected = [log_prob(parameters, *pair) for pair in pairs]
    assert model.float()(batch_pairs(pairs)).tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("layers", [1, 2])
def test_gradients_are_those_of_finite_differences(layers: int) -> None:
    model, _ = make_model(2, layers, size=4)
    batch = batch_pairs([([2, 3, 4], [3, 2]), ([], [5]), ([6], []), ([1, 2], [2, 3, 4, 5])])
    names = [name for name, _ in model.named_parameters()]

    def scores(*parameters: torch.Tensor) -> torch.Tensor:
        values = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(model, values, (batch,))

    assert torch.autograd.gradcheck(scores, tuple(model.parameters()))


def test_the_paper_s_sizes_have_the_number_of_parameters_that_section_3_4_says() -> None:
    # "384M parameters of which 64M are pure recurrent connections": 160M + 80M of embeddings, 80M
    # of the softmax, 2 x 32M. Ours has 4 symbols more and the biases, which the paper leaves out:
    # 8 layers x 4,000 and 80,002.
    with torch.device("meta"):
        model = LstmNetwork(LstmConfig(), 160_002, 80_002)
    symbols = 2 * 1000 + 2 * (1000 + 1000)
    biases = 8 * 4000 + 80_002
    total = sum(parameter.numel() for parameter in model.parameters())
    assert total == 384_000_000 + symbols + biases


def test_all_start_weights_are_uniform_in_the_paper_s_range() -> None:
    model = LstmNetwork(LstmConfig(layers=2, hidden_size=60, embedding_size=50), 200, 300)
    model.initialize(torch.Generator().manual_seed(0))
    for name, parameter in model.named_parameters():
        assert parameter.abs().max().item() <= 0.08, name
        # A uniform distribution has the standard deviation range / sqrt(3).
        assert parameter.std().item() == pytest.approx(0.08 / 3**0.5, rel=0.1), name
        assert parameter.mean().item() == pytest.approx(0.0, abs=0.01), name


def test_the_start_weights_are_those_of_the_seed() -> None:
    model = LstmNetwork(LstmConfig(layers=1, hidden_size=4, embedding_size=3), 6, 7)
    runs = []
    for seed in (1, 1, 2):
        model.initialize(torch.Generator().manual_seed(seed))
        runs.append(torch.cat([parameter.flatten().clone() for parameter in model.parameters()]))
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


def make_dropping(dropout: float) -> LstmNetwork:
    config = LstmConfig(layers=2, hidden_size=6, embedding_size=5, dropout=dropout, init_range=0.8)
    model = LstmNetwork(config, 6, 7)
    model.initialize(torch.Generator().manual_seed(0))
    return model


def test_dropout_is_for_training_alone_and_drawn_from_torch_s_seed() -> None:
    model = make_dropping(0.3)
    batch = batch_pairs([([2, 3], [4, 5])] * 20)
    scores = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        scores.append(model(batch))
    assert torch.equal(scores[0], scores[1])
    assert not torch.equal(scores[0], scores[2])
    assert len(set(scores[0].tolist())) > 1
    assert len(set(model.eval()(batch).tolist())) == 1


def test_dropout_leaves_the_recurrent_connections_whole() -> None:
    # All that comes from embeddings and from the layer below is dropped (or nearly: at 0.9 of 5 or
    # 6 units by far most). Were the last h dropped as well, a long copy of one state would differ
    # from row to row; with embeddings, weights from below and the softmax' weights at 0 only the
    # recurrent connections are left, and every row is the same.
    model = make_dropping(0.9)
    with torch.no_grad():
        model.source_embedding.zero_()
        model.target_embedding.zero_()
        for stack in (model.encoder, model.decoder):
            stack.get_parameter("layers.1.input.weight").zero_()
    batch = batch_pairs([([2, 3, 4, 5], [])] * 20)
    torch.manual_seed(0)
    steps_seen: list[torch.Tensor] = []
    model.decoder.register_forward_hook(lambda _module, _inputs, out: steps_seen.append(out[1]))
    model(batch)
    hidden = steps_seen[0]  # (layers, batch, hidden)
    assert torch.equal(hidden, hidden[:, :1].expand_as(hidden))
    assert hidden.abs().min().item() > 0


UPDATES = 300


def learn(task: Callable[[list[int]], list[int]]) -> float:
    """Return the perplexity a word of sequences not trained on, after a short training."""
    words, generator = 6, random.Random(0)

    def draw(count: int) -> list[tuple[list[int], list[int]]]:
        made = []
        for _ in range(count):
            source = [generator.randrange(2, words + 2) for _ in range(generator.randrange(1, 5))]
            made.append((source, task(source)))
        return made

    config = LstmConfig(layers=2, hidden_size=40, embedding_size=16, init_range=0.15)
    model = LstmNetwork(config, words + 2, words + 2)
    model.initialize(torch.Generator().manual_seed(1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for _ in range(UPDATES):
        (-model(batch_pairs(draw(64))).mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        optimizer.zero_grad()
    torch.set_num_threads(threads)
    test = draw(300)
    with torch.no_grad():
        total = model(batch_pairs(test)).sum().item()
    return float(np.exp(-total / sum(len(target) + 1 for _, target in test)))


@pytest.mark.parametrize("task", [list, lambda source: source[::-1]], ids=["copy", "reversal"])
def test_a_small_network_learns_to_copy_and_to_reverse(
    task: Callable[[list[int]], list[int]],
) -> None:
    # A guess that knows nothing has a perplexity of about 6.
    assert learn(task) < 1.2

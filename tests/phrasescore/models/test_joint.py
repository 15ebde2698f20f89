"""The joint model: contexts, log p, the penalty and the start; see also test_networks."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from phrasescore.models.batches import batch_pairs, batch_sequences
from phrasescore.models.feed_forward import JointNetwork
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import JointConfig
from tests.doubles import RandomJoint
from tests.reference_joint import context, logits

WORDS = ["a", "b", "c"]
PAIRS = [(["x", "y", "z"], ["a", "b", "d", "a"]), ([], ["c"]), (["z", "y"], []), (["y"], ["b"])]
AFFILIATIONS = [(0, 2, 2, 1), (0,), (), (1,)]


def test_windows_hold_begin_and_end_where_the_sentence_has_no_word() -> None:
    # T = 4, S = 5: source word s is 4 + s, </s> is 4, <s> is 9.
    network = JointNetwork(JointConfig(3, 2, 2, 2, 2), 5, 4)
    windows = network.source_windows(batch_sequences([[2, 3, 4], []]))
    assert windows.tolist() == [
        [9, 9, 6, 7, 8],
        [9, 6, 7, 8, 4],
        [6, 7, 8, 4, 4],
        [7, 8, 4, 4, 4],  # around the end of the first sentence
        [9, 9, 4, 4, 4],  # and of the empty one
    ]


@pytest.mark.parametrize(("upper_size", "window", "order"), [(6, 2, 3), (0, 0, 2), (4, 5, 4)])
def test_log_p_is_that_of_an_independent_implementation(
    upper_size: int, window: int, order: int
) -> None:
    model = RandomJoint("xy", WORDS, order=order, window=window, upper_size=upper_size)
    network = model.checkpoint.model.double()
    network.load_state_dict({k: torch.from_numpy(v) for k, v in model.parameters.items()})
    source, target = model.vocabularies
    ids = [(source.ids(read), target.ids(words)) for read, words in PAIRS]
    found = network(batch_pairs(ids, AFFILIATIONS))
    expected = [
        model.log_prob(read, words, places)
        for (read, words), places in zip(PAIRS, AFFILIATIONS, strict=True)
    ]
    assert found.tolist() == pytest.approx(expected, rel=1e-12)


def test_ngrams_that_hypotheses_have_in_common_are_computed_once() -> None:
    model = RandomJoint("xy", WORDS)
    network = model.checkpoint.model.double().eval().requires_grad_()
    assert isinstance(network, JointNetwork)
    source, target = model.vocabularies
    pairs = [(source.ids(read), target.ids(words)) for read, words in PAIRS]
    rows: list[int] = []
    network.lower.register_forward_hook(lambda _, __, found: rows.append(len(found)))

    def gradient(values: Tensor) -> Tensor:
        return torch.autograd.grad(values.sum(), [network.embedding])[0]

    # Six times the same list of hypotheses; the hypotheses one by one.
    values = network(batch_pairs(pairs * 6, AFFILIATIONS * 6))
    alone = torch.cat(
        [
            network(batch_pairs([pair], [places]))
            for pair, places in zip(pairs, AFFILIATIONS, strict=True)
        ]
    )
    ngrams = sum(len(words) + 1 for _, words in PAIRS)
    assert rows[0] <= ngrams == sum(rows[1:])
    assert values.tolist() == pytest.approx(alone.tolist() * 6, rel=1e-12)
    assert torch.allclose(gradient(values), 6 * gradient(alone), rtol=1e-10)


def test_training_takes_alpha_times_the_square_of_log_z_away() -> None:
    model = RandomJoint("xy", WORDS, self_normalization=0.5)
    source, target = (voc.ids(side) for voc, side in zip(model.vocabularies, PAIRS[0], strict=True))
    sizes = len(model.vocabularies[0]), len(model.vocabularies[1])
    penalty = 0.0
    for at, place in enumerate([*AFFILIATIONS[0], 3]):
        rows = context(source, target[:at], place, order=3, window=2, sizes=sizes)
        penalty += 0.5 * np.log(np.exp(logits(model.parameters, rows)).sum()) ** 2
    found = model.checkpoint.model.train()(batch_pairs([(source, target)], AFFILIATIONS[:1]))
    expected = model.log_prob(*PAIRS[0], AFFILIATIONS[0]) - penalty
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_a_batch_without_alignments_is_refused() -> None:
    network = RandomJoint("xy", WORDS).checkpoint.model
    with pytest.raises(ValueError, match="needs the affiliations"):
        network(batch_pairs([([2], [2])]))


def test_it_starts_uniformly_with_a_softmax_that_is_nearly_normalised() -> None:
    network = JointNetwork(JointConfig(4, 5, 30, 40, 50), 200, 300)
    network.initialize(torch.Generator().manual_seed(0))
    for name, parameter in network.named_parameters():
        if name == "output.bias":
            assert parameter.tolist() == pytest.approx([-math.log(300)] * 300)
        else:
            assert parameter.abs().max().item() <= 0.05, name
            assert parameter.std().item() == pytest.approx(0.05 / 3**0.5, rel=0.15), name
    rows = network.hidden(torch.randint(0, 200, (20, 14), generator=torch.Generator()))
    log_z = network.output(rows).logsumexp(1)
    assert log_z.abs().max().item() < 0.05


def test_the_preset_of_the_paper_has_its_sizes() -> None:
    config = Config.preset("devlin2014")
    assert config.model == JointConfig()
    # "n = 4, m = 11", "192-dimensional", "two 512-dimensional hidden layers", "alpha = 10^-1".
    with torch.device("meta"):
        network = JointNetwork(config.model, 16_002, 32_002)
    expected = (32_002 + 16_003) * 192 + (14 * 192 + 1) * 512 + 513 * 512 + 513 * 32_002
    assert sum(parameter.numel() for parameter in network.parameters()) == expected


def test_dropout_is_for_training_alone() -> None:
    network = JointNetwork(JointConfig(3, 1, 12, 16, 16, 0.8, 0.4), 6, 6)
    network.initialize(torch.Generator().manual_seed(0))
    batch = batch_pairs([([2, 3], [4, 5])] * 20, [(0, 1)] * 20)
    assert len(set(network(batch).tolist())) > 1
    assert len(set(network.eval()(batch).tolist())) == 1

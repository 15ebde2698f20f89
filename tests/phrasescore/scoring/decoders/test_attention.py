"""RNNsearch over trees, against the network itself and the independent implementation."""

import random

import numpy as np
import pytest
import torch

from phrasescore.config.settings import AttentionConfig
from phrasescore.kernels import precision as precisions
from phrasescore.kernels.precision import Precision, PrecisionName
from phrasescore.models import alignment
from phrasescore.models.attention import AttentionNetwork
from phrasescore.models.batches import batch_pairs
from phrasescore.scoring.prefix_tree import Sequences, build_prefix_tree
from phrasescore.scoring.products import FixedProducts
from phrasescore.scoring.tree_scorer import TreeLogProbs, TreeScorer
from tests.reference_attention import log_probs, random_parameters

WORDS = {"source_size": 30, "target_size": 25}
CPU = torch.device("cpu")

Lists = list[tuple[list[int], list[list[int]]]]


def make_network(hidden: int = 21, seed: int = 1) -> tuple[AttentionNetwork, dict[str, np.ndarray]]:
    parameters = random_parameters(
        np.random.default_rng(seed),
        hidden_size=hidden,
        embedding_size=10,
        maxout_units=13,
        alignment_size=19,
        **WORDS,
        std=0.4,
    )
    config = AttentionConfig(hidden, embedding_size=10, maxout_size=13, alignment_size=19)
    network = AttentionNetwork(config, **WORDS)
    network.load_state_dict({name: torch.from_numpy(value) for name, value in parameters.items()})
    return network.eval(), parameters


def make_lists(seed: int, count: int = 12, longest: int = 12) -> Lists:
    """Return sources, each with targets that begin alike; some of either are empty."""
    generator = random.Random(seed)

    def words(size: int, most: int) -> list[int]:
        return [generator.randrange(1, size) for _ in range(generator.randrange(most + 1))]

    lists: Lists = [([], [[], [2]]), ([1, 1], [[]])]
    for _ in range(count):
        whole = words(WORDS["target_size"], longest)
        targets = [
            whole[: generator.randrange(len(whole) + 1)] + words(WORDS["target_size"], 3)
            for _ in range(generator.randrange(1, 9))
        ]
        lists.append((words(WORDS["source_size"], longest), targets))
    return lists


def sequences(rows: list[list[int]]) -> Sequences:
    ids = np.array([word for row in rows for word in row], np.int64)
    return Sequences(ids, np.array([len(row) for row in rows], np.int64))


def score(scorer: TreeScorer, lists: Lists) -> list[list[np.ndarray]]:
    """Return the log-probabilities of all words of each list's targets."""
    targets = [target for _, row in lists for target in row]
    roots = np.array([place for place, (_, row) in enumerate(lists) for _ in row])
    tree = build_prefix_tree(sequences(targets), roots, len(lists))
    sources = sequences([source for source, _ in lists])
    found: TreeLogProbs = scorer.score(sources, tree)
    words = iter(found.words())
    return [[next(words) for _ in row] for _, row in lists]


def make_scorer(network: AttentionNetwork, precision: PrecisionName = "float32") -> TreeScorer:
    return TreeScorer("attention", network, FixedProducts(Precision(precision, CPU), CPU))


@pytest.mark.parametrize("seed", [1, 2])
def test_every_word_scores_as_in_the_reference(seed: int) -> None:
    network, parameters = make_network(seed=seed)
    lists = make_lists(seed)
    scored = score(make_scorer(network), lists)
    for (source, targets), found in zip(lists, scored, strict=True):
        for target, values in zip(targets, found, strict=True):
            expected = log_probs(parameters, source, target)
            assert values.tolist() == pytest.approx(expected, abs=2e-5)


def test_targets_score_as_in_the_network() -> None:
    network, _ = make_network()
    lists = make_lists(7)
    pairs = [(source, target) for source, targets in lists for target in targets]
    with torch.inference_mode():
        expected = network(batch_pairs(pairs)).tolist()
    scored = [values.sum() for row in score(make_scorer(network), lists) for values in row]
    assert scored == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_value_has_the_same_bits_alone_and_among_others(precision: PrecisionName) -> None:
    # Enough sources, targets and units for several blocks of rows and for vector instructions.
    network, _ = make_network(hidden=48)
    scorer = make_scorer(network, precision)
    lists = make_lists(3, count=90)
    together = score(scorer, lists)
    backwards = score(scorer, lists[::-1])[::-1]
    for place, (source, targets) in enumerate(lists):
        assert all(map(np.array_equal, together[place], backwards[place]))
        if place % 9 == 0:
            for number, target in enumerate(targets):
                alone = score(scorer, [(source, [target])])[0][0]
                assert np.array_equal(alone, together[place][number])


def test_plain_torch_computes_the_same_as_the_compiled_loops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network, _ = make_network()
    lists = make_lists(4)
    compiled = score(make_scorer(network), lists)
    for module in (alignment, precisions):
        monkeypatch.setattr(module, "FUSED_DEVICES", ())
    plain = score(make_scorer(network), lists)
    for first, second in zip(compiled, plain, strict=True):
        for values, others in zip(first, second, strict=True):
            np.testing.assert_allclose(values, others, rtol=0, atol=2e-5)


def test_large_sums_leave_gates_and_alignments_finite() -> None:
    # Beyond where e^x overflows float32, both ways.
    network, parameters = make_network()
    for name in (
        "forward_encoder.input_update.bias",
        "decoder.input_reset.bias",
        "alignment.annotation.bias",
        "alignment.energy",
    ):
        parameters[name] *= 1000
    network.load_state_dict({name: torch.from_numpy(value) for name, value in parameters.items()})
    values = score(make_scorer(network), [([2, 3], [[4, 5]])])[0][0]
    assert values.tolist() == pytest.approx(log_probs(parameters, [2, 3], [4, 5]), abs=1e-4)

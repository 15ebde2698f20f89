"""The LSTM's decoder over trees, against the network itself and the independent implementation."""

import random

import numpy as np
import pytest
import torch

from phrasescore.config.settings import LstmConfig
from phrasescore.kernels import precision as precisions
from phrasescore.kernels.precision import Precision, PrecisionName
from phrasescore.models.batches import batch_pairs
from phrasescore.models.lstm import LstmNetwork
from phrasescore.scoring.decoders.lstm import LstmDecoder
from phrasescore.scoring.prefix_tree import Sequences, build_prefix_tree
from phrasescore.scoring.products import FixedProducts
from phrasescore.scoring.tree_scorer import TreeLogProbs, TreeScorer
from tests.reference_lstm import random_parameters, word_log_probs

SOURCE_SIZE, TARGET_SIZE = 30, 25
CPU = torch.device("cpu")

Lists = list[tuple[list[int], list[list[int]]]]


def make_network(
    layers: int = 2, *, reverse_source: bool = True, hidden: int = 21
) -> tuple[LstmNetwork, dict[str, np.ndarray]]:
    parameters = random_parameters(
        np.random.default_rng(layers),
        layers=layers,
        hidden_size=hidden,
        embedding_size=10,
        source_size=SOURCE_SIZE,
        target_size=TARGET_SIZE,
        std=0.4,
    )
    config = LstmConfig(layers, hidden, 10, reverse_source)
    network = LstmNetwork(config, SOURCE_SIZE, TARGET_SIZE)
    network.load_state_dict({name: torch.from_numpy(value) for name, value in parameters.items()})
    return network.eval(), parameters


def make_lists(seed: int, count: int = 12, longest: int = 12) -> Lists:
    """Return sources, each with targets that begin alike; some of either are empty."""
    generator = random.Random(seed)

    def words(size: int, most: int) -> list[int]:
        return [generator.randrange(1, size) for _ in range(generator.randrange(most + 1))]

    lists: Lists = [([], [[], [2]]), ([1, 1], [[]])]
    for _ in range(count):
        whole = words(TARGET_SIZE, longest)
        targets = [
            whole[: generator.randrange(len(whole) + 1)] + words(TARGET_SIZE, 3)
            for _ in range(generator.randrange(1, 9))
        ]
        lists.append((words(SOURCE_SIZE, longest), targets))
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


def make_scorer(network: LstmNetwork, precision: PrecisionName = "float32") -> TreeScorer:
    return TreeScorer("lstm", network, FixedProducts(Precision(precision, CPU), CPU))


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("reverse_source", [True, False])
def test_every_word_scores_as_in_the_reference(layers: int, reverse_source: bool) -> None:
    network, parameters = make_network(layers, reverse_source=reverse_source)
    lists = make_lists(layers)
    scored = score(make_scorer(network), lists)
    for (source, targets), found in zip(lists, scored, strict=True):
        for target, values in zip(targets, found, strict=True):
            expected = word_log_probs(parameters, source, target, reverse_source=reverse_source)
            assert values.tolist() == pytest.approx(expected, abs=1e-5)


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


def test_plain_torch_computes_the_same_as_the_compiled_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network, _ = make_network()
    lists = make_lists(4)
    compiled = score(make_scorer(network), lists)
    monkeypatch.setattr(precisions, "FUSED_DEVICES", ())
    plain = score(make_scorer(network), lists)
    for first, second in zip(compiled, plain, strict=True):
        for values, others in zip(first, second, strict=True):
            np.testing.assert_allclose(values, others, rtol=0, atol=1e-5)


def test_a_table_that_would_be_too_large_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    network, _ = make_network()
    lists = make_lists(4)
    with_table = score(make_scorer(network), lists)
    monkeypatch.setattr("phrasescore.scoring.decoders.lstm.TABLE_SIZE", TARGET_SIZE * 4 * 21 - 1)
    products = FixedProducts(Precision("float32", CPU), CPU)
    assert not LstmDecoder(network, products)._decoder._has_table
    without = score(make_scorer(network), lists)
    for first, second in zip(with_table, without, strict=True):
        for values, others in zip(first, second, strict=True):
            np.testing.assert_allclose(values, others, rtol=0, atol=1e-5)


def test_large_sums_leave_the_gates_finite() -> None:
    # Beyond where e^x overflows float32, both ways.
    network, parameters = make_network(1)
    for name in ("encoder", "decoder"):
        parameters[f"{name}.layers.0.input.bias"] *= 1000
    network.load_state_dict({name: torch.from_numpy(value) for name, value in parameters.items()})
    values = score(make_scorer(network), [([2, 3], [[4, 5]])])[0][0]
    assert values.tolist() == pytest.approx(word_log_probs(parameters, [2, 3], [4, 5]), abs=1e-4)

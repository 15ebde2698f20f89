"""Promises of every decoder over trees: phrasescore.scoring.decoders."""

import random
from typing import Any

import numpy as np
import pytest
import torch

from phrasescore.arguments import PrecisionName
from phrasescore.io.ragged import RaggedArray
from phrasescore.kernels import precision as precisions
from phrasescore.kernels.gates import TreeStep
from phrasescore.kernels.precision import Precision
from phrasescore.models.batches import batch_pairs
from phrasescore.models.checkpoint import empty_network
from phrasescore.models.layers import PairNetwork
from phrasescore.scoring.decoders.lstm import LstmDecoder
from phrasescore.scoring.decoders.transformer import TransformerDecoder
from phrasescore.scoring.prefix_tree import build_prefix_tree
from phrasescore.scoring.products import Products
from phrasescore.scoring.tree_scorer import TreeScorer
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import (
    EncoderDecoderConfig,
    GrconvConfig,
    LstmConfig,
    RnnsearchConfig,
    TransformerConfig,
)
from tests import reference_lstm, reference_rnnsearch, reference_transformer
from tests.sentence_scores import words_of

SOURCE_SIZE, TARGET_SIZE = 30, 25
CPU = torch.device("cpu")
# No size is a multiple of the 16 numbers of a vector register.
NETWORKS: dict[str, Any] = {
    "rnnsearch": RnnsearchConfig(21, 10, 13, 19),
    "encoder-decoder": EncoderDecoderConfig(21, 10, 13, 7),
    "grconv": GrconvConfig(23, 21, 10, 13, 7),
    "lstm": LstmConfig(2, 21, 10),
    "transformer": TransformerConfig(2, 22, 2, 13),
}
# Enough units for vector instructions.
LARGE: dict[str, Any] = {
    "rnnsearch": RnnsearchConfig(48, 10, 13, 19),
    "encoder-decoder": EncoderDecoderConfig(61, 10, 13, 7),
    "grconv": GrconvConfig(63, 61, 10, 13, 7),
    "lstm": LstmConfig(2, 48, 10),
    "transformer": TransformerConfig(2, 96, 3, 61, "pre"),
}

Lists = list[tuple[list[int], list[list[int]]]]
Parameters = dict[str, np.ndarray]


def make_network(
    kind: str, config: Any | None = None, seed: int = 1
) -> tuple[PairNetwork, Parameters]:
    full = Config(kind=kind, model=config or NETWORKS[kind])
    network = empty_network(full, SOURCE_SIZE, TARGET_SIZE).to_empty(device="cpu").eval()
    generator = np.random.default_rng(seed)
    parameters = {
        name: generator.normal(0, 0.25, parameter.shape)
        for name, parameter in network.named_parameters()
    }
    set_weights(network, parameters)
    return network, parameters


def set_weights(network: PairNetwork, parameters: Parameters) -> None:
    network.load_state_dict({name: torch.from_numpy(value) for name, value in parameters.items()})


def make_lists(seed: int, count: int = 12, longest: int = 12) -> Lists:
    """Return sources, each with targets that begin alike; some are empty, or equal."""
    generator = random.Random(seed)

    def words(size: int, most: int) -> list[int]:
        return [generator.randrange(1, size) for _ in range(generator.randrange(most + 1))]

    lists: Lists = [([], [[], [2]]), ([1, 1], [[]]), ([4], [[2, 2], [2, 2, 5], [2, 2]])]
    for _ in range(count):
        whole = words(TARGET_SIZE, longest)
        targets = [
            whole[: generator.randrange(len(whole) + 1)] + words(TARGET_SIZE, 3)
            for _ in range(generator.randrange(1, 9))
        ]
        lists.append((words(SOURCE_SIZE, longest), targets))
    return [*lists, lists[3]]


def make_scorer(
    kind: str, network: PairNetwork, precision: PrecisionName = "float32"
) -> TreeScorer:
    return TreeScorer(kind, network, Products(Precision(precision, CPU), CPU))


def score(scorer: TreeScorer, lists: Lists) -> list[list[np.ndarray]]:
    targets = [target for _, row in lists for target in row]
    roots = np.array([place for place, (_, row) in enumerate(lists) for _ in row])
    tree = build_prefix_tree(RaggedArray.from_rows(targets), roots, len(lists))
    sources = RaggedArray.from_rows([source for source, _ in lists])
    words = iter(words_of(scorer.score(sources, tree)))
    return [[next(words) for _ in row] for _, row in lists]


def totals(scored: list[list[np.ndarray]]) -> list[float]:
    return [float(values.sum()) for row in scored for values in row]


def assert_close(first: list[list[np.ndarray]], second: list[list[np.ndarray]]) -> None:
    for row, others in zip(first, second, strict=True):
        for values, expected in zip(row, others, strict=True):
            np.testing.assert_allclose(values, expected, rtol=0, atol=2e-5)


def reference_words(
    kind: str, network: PairNetwork, parameters: Parameters, source: list[int], target: list[int]
) -> list[float]:
    if kind == "rnnsearch":
        return reference_rnnsearch.log_probs(parameters, source, target)
    if kind == "transformer":
        pre_norm = network.config.norm == "pre"
        heads = network.config.heads
        return reference_transformer.log_probs(
            parameters, source, target, heads=heads, pre_norm=pre_norm
        )
    reverse = network.config.reverse_source
    return reference_lstm.word_log_probs(parameters, source, target, reverse_source=reverse)


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("rnnsearch", NETWORKS["rnnsearch"]),
        ("lstm", LstmConfig(1, 21, 10, reverse_source=True)),
        ("lstm", LstmConfig(3, 21, 10, reverse_source=True)),
        ("lstm", LstmConfig(1, 21, 10, reverse_source=False)),
        ("lstm", LstmConfig(3, 21, 10, reverse_source=False)),
        ("transformer", TransformerConfig(2, 22, 2, 13)),
        ("transformer", TransformerConfig(3, 22, 1, 13, "pre", tied_embeddings=False)),
    ],
    ids=str,
)
def test_every_word_scores_as_in_the_reference(kind: str, config: Any) -> None:
    network, parameters = make_network(kind, config)
    lists = make_lists(1)
    expected = [
        [np.array(reference_words(kind, network, parameters, source, each)) for each in targets]
        for source, targets in lists
    ]
    assert_close(score(make_scorer(kind, network), lists), expected)


@pytest.mark.parametrize("kind", NETWORKS)
def test_targets_score_as_in_the_network(kind: str) -> None:
    network, _ = make_network(kind)
    lists = make_lists(7)
    pairs = [(source, target) for source, targets in lists for target in targets]
    with torch.inference_mode():
        expected = network(batch_pairs(pairs)).tolist()
    assert totals(score(make_scorer(kind, network), lists)) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("sizes", [NETWORKS, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_a_value_has_the_same_bits_alone_and_among_others(
    kind: str, sizes: dict[str, Any], precision: PrecisionName
) -> None:
    # Enough sources and targets for several blocks of rows.
    network, _ = make_network(kind, sizes[kind])
    scorer = make_scorer(kind, network, precision)
    lists = make_lists(3, count=90)
    together = score(scorer, lists)
    backwards = score(make_scorer(kind, network, precision), lists[::-1])[::-1]
    for place, (source, targets) in enumerate(lists):
        assert all(map(np.array_equal, together[place], backwards[place]))
        if place % 30 == 0:
            for number, target in enumerate(targets):
                alone = score(scorer, [(source, [target])])[0][0]
                assert np.array_equal(alone, together[place][number])


@pytest.mark.parametrize("kind", NETWORKS)
def test_plain_torch_computes_the_same_as_the_compiled_loops(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, _ = make_network(kind)
    lists = make_lists(4)
    compiled = score(make_scorer(kind, network), lists)
    monkeypatch.setattr(precisions, "FUSED_DEVICES", ())
    assert_close(score(make_scorer(kind, network), lists), compiled)


@pytest.mark.parametrize("kind", NETWORKS)
def test_rounded_products_change_scores_by_little(kind: str) -> None:
    network, _ = make_network(kind)
    lists = make_lists(12)
    exact = totals(score(make_scorer(kind, network), lists))
    rounded = totals(score(make_scorer(kind, network, "bfloat16"), lists))
    assert rounded != exact
    # A factor in bfloat16 is good to 2^-9 of its value; scores here are about -20.
    assert rounded == pytest.approx(exact, abs=1.0)


@pytest.mark.parametrize(
    ("kind", "enlarged"),
    [
        (
            "rnnsearch",
            [
                "forward_encoder.input_update.bias",
                "decoder.input_reset.bias",
                "alignment.annotation.bias",
                "alignment.energy",
            ],
        ),
        ("lstm", ["encoder.layers.0.input.bias", "decoder.layers.0.input.bias"]),
    ],
)
def test_large_sums_leave_gates_and_alignments_finite(kind: str, enlarged: list[str]) -> None:
    # Beyond where e^x overflows float32, both ways.
    network, parameters = make_network(kind)
    for name in enlarged:
        parameters[name] *= 1000
    set_weights(network, parameters)
    values = score(make_scorer(kind, network), [([2, 3], [[4, 5]])])[0][0]
    expected = reference_words(kind, network, parameters, [2, 3], [4, 5])
    assert values.tolist() == pytest.approx(expected, abs=1e-4)


# Few nodes: the search forgets the nodes that no prefix has any more, and gets more room.
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_search_of_the_transformer_has_the_rows_of_the_whole_tree(
    precision: PrecisionName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phrasescore.scoring.decoders.transformer._FIRST_NODES", 8)
    network, _ = make_network("transformer", LARGE["transformer"])
    lists = make_lists(5)
    sources = RaggedArray.from_rows([source for source, _ in lists])
    targets = [target for _, row in lists for target in row]
    roots = np.array([place for place, (_, row) in enumerate(lists) for _ in row])
    tree = build_prefix_tree(RaggedArray.from_rows(targets), roots, len(lists))
    numbers = torch.arange(len(lists))
    with torch.inference_mode():
        decoder = TransformerDecoder(network, Products(Precision(precision, CPU), CPU))  # type: ignore[arg-type]
        whole = decoder.tree_rows(decoder.encode(sources), numbers, tree)
        state, rows = decoder.start(decoder.encode(sources), numbers)
        found, at = [rows.clone()], numbers.numpy()
        for level in tree.levels:
            at = at[level.parents]
            step = TreeStep.of(level.parents, level.words, at, CPU)
            state, rows = decoder.advance(state, step)
            found.append(rows.clone())
        assert torch.equal(torch.cat(found), whole)
        assert len(state.parents) < len(whole)  # nodes were forgotten


def test_a_table_that_would_be_too_large_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    network, _ = make_network("lstm")
    lists = make_lists(4)
    with_table = score(make_scorer("lstm", network), lists)
    monkeypatch.setattr("phrasescore.scoring.decoders.lstm.TABLE_SIZE", TARGET_SIZE * 4 * 21 - 1)
    decoder = LstmDecoder(network, Products(Precision("float32", CPU), CPU))  # type: ignore[arg-type]
    assert not decoder._decoder._has_table
    assert_close(score(make_scorer("lstm", network), lists), with_table)

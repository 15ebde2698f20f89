"""Promises of the gated decoder over trees: phrasescore.scoring.decoders.gated."""

import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from phrasescore.config.settings import EncoderDecoderConfig, GrconvConfig
from phrasescore.kernels import precision as precisions
from phrasescore.kernels.precision import Precision, PrecisionName
from phrasescore.models.batches import batch_pairs
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.models.gated_decoder import GatedDecoderNetwork
from phrasescore.models.grconv import GrconvNetwork
from phrasescore.scoring.prefix_tree import Sequences, build_prefix_tree
from phrasescore.scoring.products import FixedProducts
from phrasescore.scoring.tree_scorer import TreeScorer
from tests import reference_encoder_decoder, reference_grconv

KINDS = ("encoder-decoder", "grconv")
CPU = torch.device("cpu")
SOURCE_SIZE, TARGET_SIZE = 11, 9
Lists = list[tuple[list[int], list[list[int]]]]


def make_network(
    kind: str, *, size: int = 9
) -> tuple[GatedDecoderNetwork, Mapping[str, np.ndarray]]:
    """Return a float32 network, and its weights for the reference."""
    # No size is a multiple of the 16 numbers of a vector register.
    sizes: dict[str, int] = {"hidden_size": size, "embedding_size": 5, "output_rank": 4}
    words = {"source_size": SOURCE_SIZE, "target_size": TARGET_SIZE}
    rng, units = np.random.default_rng(7), 6
    network: GatedDecoderNetwork
    parameters: Mapping[str, np.ndarray]
    std = 1.5 / size**0.5
    if kind == "grconv":
        sizes["encoder_size"] = size + 2
        parameters = reference_grconv.random_parameters(
            rng, **sizes, **words, maxout_units=units, std=std
        )
        config = GrconvConfig(**sizes, maxout_size=units)
        network = GrconvNetwork(config, SOURCE_SIZE, TARGET_SIZE)
    else:
        parameters = reference_encoder_decoder.random_parameters(
            rng, **sizes, **words, maxout_units=units, std=std
        )
        plain = EncoderDecoderConfig(**sizes, maxout_size=units)
        network = EncoderDecoder(plain, SOURCE_SIZE, TARGET_SIZE)
    network.load_state_dict({name: torch.from_numpy(value) for name, value in parameters.items()})
    return network.eval(), parameters


def make_lists(count: int, size: int) -> Lists:
    """Return sources of 0 to 8 words with ``size`` targets each, empty and equal ones too."""
    generator = random.Random(count)

    def words(limit: int) -> list[int]:
        return [generator.randrange(1, limit) for _ in range(generator.randrange(9))]

    lists = [(words(SOURCE_SIZE), [words(TARGET_SIZE) for _ in range(size)]) for _ in range(count)]
    return [*lists, ([], [[], [3]]), ([4], [[2, 2], [2, 2, 5], []]), lists[0]]


def make_scorer(
    kind: str, network: GatedDecoderNetwork, precision: PrecisionName = "float32"
) -> TreeScorer:
    return TreeScorer(kind, network, FixedProducts(Precision(precision, CPU), CPU))


def sequences(rows: Sequence[Sequence[int]]) -> Sequences:
    ids = np.array(list(itertools.chain(*rows)), dtype=np.int64)
    return Sequences(ids, np.array([len(row) for row in rows], dtype=np.int64))


def score(scorer: TreeScorer, lists: Lists) -> list[float]:
    """Return log p of each target of each list, computed together."""
    targets = [target for _, targets in lists for target in targets]
    roots = np.repeat(np.arange(len(lists)), [len(targets) for _, targets in lists])
    tree = build_prefix_tree(sequences(targets), roots, len(lists))
    sources = sequences([source for source, _ in lists])
    return scorer.score(sources, tree).totals().tolist()


def pairs_of(lists: Lists) -> list[tuple[list[int], list[int]]]:
    return [(source, target) for source, targets in lists for target in targets]


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_network_and_of_the_reference(kind: str) -> None:
    network, parameters = make_network(kind)
    lists = make_lists(12, 6)
    scores = score(make_scorer(kind, network), lists)
    reference: Any = {"grconv": reference_grconv, "encoder-decoder": reference_encoder_decoder}
    expected = [reference[kind].log_prob(parameters, *pair) for pair in pairs_of(lists)]
    assert scores == pytest.approx(expected, abs=1e-4)
    with torch.no_grad():
        assert scores == pytest.approx(network(batch_pairs(pairs_of(lists))).tolist(), abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_plain_torch_code_gives_the_same_scores(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, _ = make_network(kind)
    lists = make_lists(12, 6)
    fused = score(make_scorer(kind, network), lists)
    monkeypatch.setattr(precisions, "FUSED_DEVICES", ())
    assert score(make_scorer(kind, network), lists) == pytest.approx(fused, abs=1e-5)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("size", [9, 61])
@pytest.mark.parametrize("kind", KINDS)
def test_a_score_has_the_same_bits_alone_and_among_others(
    kind: str, size: int, precision: PrecisionName
) -> None:
    network, _ = make_network(kind, size=size)
    scorer = make_scorer(kind, network, precision)
    # More rows than one fixed product has.
    lists = make_lists(70, 3)
    together = score(scorer, lists)
    firsts = np.cumsum([0, *(len(targets) for _, targets in lists[:-1])])
    for first, one in zip(firsts[::3], lists[::3], strict=True):
        assert score(scorer, [one]) == together[first : first + len(one[1])]
    some = [(source, targets[:1]) for source, targets in lists[::5]]
    assert score(scorer, some) == [together[first] for first in firsts[::5]]
    assert score(make_scorer(kind, network, precision), lists) == together


@pytest.mark.parametrize("kind", KINDS)
def test_rounded_products_change_scores_by_little(kind: str) -> None:
    network, _ = make_network(kind)
    lists = make_lists(12, 6)
    exact = score(make_scorer(kind, network), lists)
    rounded = score(make_scorer(kind, network, "bfloat16"), lists)
    assert rounded != exact
    # A factor in bfloat16 is good to 2^-9 of its value; scores here are about -20.
    assert rounded == pytest.approx(exact, abs=1.0)

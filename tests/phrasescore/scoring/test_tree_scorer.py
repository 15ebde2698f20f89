"""The scorer over prefix trees against the independent implementation."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from phrasescore.arguments import PrecisionName
from phrasescore.errors import ModelError, PhrasescoreError
from phrasescore.io.ragged import RaggedArray
from phrasescore.kernels import precision as precisions
from phrasescore.kernels.precision import Factor, Precision, Product
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.scoring import products
from phrasescore.scoring.decoders.gated import GatedDecoder
from phrasescore.scoring.products import Products
from phrasescore.scoring.tree_scorer import TreeScorer
from phrasescore.settings.kinds import EncoderDecoderConfig
from tests.reference_encoder_decoder import log_prob, random_parameters

CPU = torch.device("cpu")
SIZES = {
    "hidden_size": 19,
    "embedding_size": 6,
    "maxout_units": 11,
    "output_rank": 7,
    "source_size": 8,
    "target_size": 2500,  # more than two blocks of the normaliser
}
Pairs = list[tuple[list[int], list[int]]]


def make_model(std: float = 0.5) -> tuple[EncoderDecoder, dict[str, np.ndarray]]:
    parameters = random_parameters(np.random.default_rng(3), **SIZES, std=std)
    config = EncoderDecoderConfig(
        hidden_size=SIZES["hidden_size"],
        embedding_size=SIZES["embedding_size"],
        maxout_size=SIZES["maxout_units"],
        output_rank=SIZES["output_rank"],
    )
    model = EncoderDecoder(config, SIZES["source_size"], SIZES["target_size"])
    model.load_state_dict({name: torch.from_numpy(value) for name, value in parameters.items()})
    return model, {name: value.astype(np.float32) for name, value in parameters.items()}


def make_pairs(count: int = 120) -> Pairs:
    """Return pairs that share prefixes: sources of few words, targets of 6 frequent ones."""
    generator = np.random.default_rng(4)
    pairs: Pairs = [([], []), ([], [3]), ([2], [])]
    for _ in range(count):
        source = generator.integers(1, 4, generator.integers(0, 4)).tolist()
        target = generator.integers(1, 7, generator.integers(0, 5)).tolist()
        pairs.append((source, target))
    pairs += [([2, 3], [1, 2400, 2499]), ([2, 3], [2400])]
    return pairs


def score(scorer: TreeScorer, pairs: Pairs) -> list[float]:
    sides = [
        RaggedArray.from_lengths(
            np.array([word for pair in pairs for word in pair[side]], dtype=np.int64),
            np.array([len(pair[side]) for pair in pairs], dtype=np.int64),
        )
        for side in (0, 1)
    ]
    return scorer.score_pairs(*sides)[0].tolist()


def make_scorer(
    model: EncoderDecoder, precision: PrecisionName = "float32", piece_size: int = 2048
) -> TreeScorer:
    made = Products(Precision(precision, CPU), CPU)
    made.level_rows = piece_size
    return TreeScorer("encoder-decoder", model, made)


@pytest.mark.parametrize("piece_size", [1, 3, 50, 2048])
def test_values_are_those_of_the_reference_to_1e_5(piece_size: int) -> None:
    model, parameters = make_model()
    pairs = make_pairs()
    values = score(make_scorer(model, piece_size=piece_size), pairs)
    assert values == pytest.approx(
        [log_prob(parameters, *pair) for pair in pairs], rel=1e-6, abs=1e-5
    )


def test_values_do_not_depend_on_the_other_pairs_or_their_order() -> None:
    model, _ = make_model()
    scorer, pairs = make_scorer(model), make_pairs()
    values = score(scorer, pairs)
    assert score(scorer, pairs[::-1]) == pytest.approx(values[::-1], rel=1e-6, abs=1e-5)
    alone = [score(scorer, [pair])[0] for pair in pairs]
    assert alone == pytest.approx(values, rel=1e-6, abs=1e-5)
    assert score(scorer, []) == []


# A bias of 200 puts sums beyond the range of exp().
@pytest.mark.parametrize("shift", [0.0, 200.0])
def test_products_of_integers_make_values_that_depend_on_nothing_else(shift: float) -> None:
    model, _ = make_model()
    with torch.no_grad():
        model.output.bias.add_(shift)
    scorer, pairs = make_scorer(model, "int8"), make_pairs()
    values = score(scorer, pairs)
    assert score(scorer, pairs[::-1]) == values[::-1]
    assert [score(scorer, [pair])[0] for pair in pairs[::5]] == values[::5]
    assert score(make_scorer(model, "int8", piece_size=7), pairs) == values


def test_each_shared_step_is_done_once() -> None:
    model, _ = make_model()
    pairs = [([2, 3], [4, 5]), ([2, 3], [4, 6]), ([2, 3], [4]), ([2], [4])]
    sides = [
        RaggedArray.from_lengths(
            np.concatenate([p[s] for p in pairs]), np.array([len(p[s]) for p in pairs])
        )
        for s in (0, 1)
    ]
    _, work = make_scorer(model).score_pairs(*sides)
    # Encoder: 2, 2 3. Decoder under "2 3": empty, 4, 4 5, 4 6; under "2": empty, 4. Recurrent
    # products: of both initial states, and of the states empty, 4 and empty.
    assert (work.source_nodes, work.target_nodes) == (2, 6)


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_rounding_is_close_and_not_the_same(precision: PrecisionName) -> None:
    model, parameters = make_model()
    pairs = make_pairs()
    values = score(make_scorer(model, precision), pairs)
    expected = [log_prob(parameters, *pair) for pair in pairs]
    # 8 bits, sums of about 20 terms, up to 6 words: a few hundredths of the value.
    assert values == pytest.approx(expected, rel=0.03, abs=0.1)
    assert values != pytest.approx(expected, rel=1e-5, abs=1e-4)


@pytest.mark.usefixtures("uninitialized_memory_is_nan")
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_no_product_sees_memory_that_was_never_written(
    precision: PrecisionName, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some CPUs' bfloat16 kernels read beyond the end of a row, into rows that nobody asked about.
    model, parameters = make_model()
    scorer, multiply = make_scorer(model, precision), Precision.multiply
    seen = []

    def checked(self: Precision, rows: Factor, matrix: Factor, out: Tensor) -> Product:
        seen.append(bool(rows.values.isfinite().all()))
        if rows.scales is not None:
            seen.append(bool(rows.scales.isfinite().all()))
        return multiply(self, rows, matrix, out)

    monkeypatch.setattr(Precision, "multiply", checked)
    values = score(scorer, make_pairs())
    assert seen
    assert all(seen)
    expected = [log_prob(parameters, *pair) for pair in make_pairs()]
    assert values == pytest.approx(expected, rel=0.03, abs=0.1)


@pytest.mark.parametrize(
    ("precision", "kind"),
    [("float32", torch.float32), ("bfloat16", torch.bfloat16), ("int8", torch.bfloat16)],
)
def test_the_large_table_is_as_narrow_as_rounding_makes_worth_it(
    precision: PrecisionName, kind: torch.dtype
) -> None:
    assert make_decoder(precision)._words.dtype == kind


def make_decoder(precision: PrecisionName) -> GatedDecoder:
    return GatedDecoder(make_model()[0], Products(Precision(precision, CPU), CPU))


def test_tf32_needs_a_gpu() -> None:
    with pytest.raises(PhrasescoreError, match="tf32 needs a CUDA device"):
        Precision("tf32", CPU)


def test_logits_beyond_the_range_of_exp_are_normalised_all_the_same() -> None:
    model, parameters = make_model()
    with torch.no_grad():
        model.output.bias[:5] += 200.0
    parameters["output.bias"][:5] += 200.0
    pairs = make_pairs()
    expected = [log_prob(parameters, *pair) for pair in pairs]
    assert score(make_scorer(model), pairs) == pytest.approx(expected, rel=1e-5, abs=1e-4)
    with torch.no_grad():
        model.output.bias.sub_(400.0)
    assert score(make_scorer(model), pairs) == pytest.approx(expected, rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("value", [0.5, math.nan, -math.inf])
def test_a_value_that_is_no_log_probability_is_refused(
    value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = make_scorer(make_model()[0])
    walk = scorer._walk

    def walk_wrong(*arguments: Any, **options: Any) -> np.ndarray:
        values = walk(*arguments, **options)
        values[-1] = value
        return values

    monkeypatch.setattr(scorer, "_walk", walk_wrong)
    with pytest.raises(ModelError, match=f"a word's score is {value}, expected a log"):
        score(scorer, make_pairs())


def test_kernels_for_the_cpu_are_the_torch_code_for_other_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, _ = make_model()
    pairs = make_pairs()
    fused = score(make_scorer(model), pairs)
    monkeypatch.setattr(precisions, "FUSED_DEVICES", ())
    monkeypatch.setitem(products.SOFTMAX_ROWS, "cpu", 7)
    assert score(make_scorer(model), pairs) == pytest.approx(fused, rel=1e-6, abs=1e-5)


def test_a_phrase_of_500_words_is_scored() -> None:
    model, parameters = make_model(std=0.2)
    pairs = [([2, 3] * 250, [4, 5] * 250), ([2, 3], [4, 5])]
    expected = [log_prob(parameters, *pair) for pair in pairs]
    assert score(make_scorer(model), pairs) == pytest.approx(expected, rel=1e-6, abs=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("precision", "error", "shift"),
    [
        ("float32", 1e-4, 0.0),
        ("tf32", 0.1, 0.0),
        ("bfloat16", 0.5, 0.0),
        # Sums beyond the range of exp().
        ("float32", 1e-3, 200.0),
        ("float32", 1e-3, -400.0),
    ],
)
def test_cuda_gives_the_values_of_the_cpu(
    precision: PrecisionName, error: float, shift: float
) -> None:
    model, _ = make_model()
    with torch.no_grad():
        model.output.bias[: 5 if shift > 0 else None] += shift
    pairs = make_pairs()
    device = torch.device("cuda")
    made = Products(Precision(precision, device), device)
    made.level_rows = 7
    scorer = TreeScorer("encoder-decoder", model, made)
    with made.precision.active():
        values = score(scorer, pairs)
    assert values == pytest.approx(score(make_scorer(model), pairs), abs=error)


@pytest.mark.gpu
def test_a_gpu_is_waited_for_once_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = make_model()
    device = torch.device("cuda")
    made = Products(Precision("float32", device), device)
    made.level_rows = 7
    scorer = TreeScorer("encoder-decoder", model, made)
    # What is made when it is first needed.
    score(scorer, make_pairs())
    copy_to_cpu, waits = torch.Tensor.cpu, 0

    def count(values: torch.Tensor) -> torch.Tensor:
        nonlocal waits
        waits += 1
        torch.cuda.set_sync_debug_mode("default")
        copied = copy_to_cpu(values)
        torch.cuda.set_sync_debug_mode("error")
        return copied

    monkeypatch.setattr(torch.Tensor, "cpu", count)
    pairs = make_pairs()
    try:
        torch.cuda.set_sync_debug_mode("error")
        score(scorer, pairs)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert waits == math.ceil(len(pairs) / 7)

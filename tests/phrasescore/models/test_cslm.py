"""The feed-forward language model against an independent implementation, and its training."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from phrasescore.config.config import Config
from phrasescore.config.settings import CslmConfig
from phrasescore.models.batches import batch_pairs, batch_sequences
from phrasescore.models.cslm import CslmNetwork, all_ngrams
from phrasescore.records import PhrasePair
from phrasescore.training.pair_store_writer import CountedPair
from phrasescore.training.run import TrainingRun, train_model
from tests.reference_cslm import logits, random_parameters, word_log_probs

SIZE = 9


def make_model(
    seed: int = 0, *, order: int = 4, **settings: float
) -> tuple[CslmNetwork, dict[str, np.ndarray]]:
    """Return a float64 network and its parameters as the reference takes them."""
    sizes = {"embedding_size": 3, "hidden_size": 6, "upper_size": 5}
    parameters = random_parameters(np.random.default_rng(seed), order=order, size=SIZE, **sizes)
    config = CslmConfig(order=order, **sizes, **settings)  # type: ignore[arg-type]
    model = CslmNetwork(config, 2, SIZE).double()
    model.load_state_dict({name: torch.from_numpy(value) for name, value in parameters.items()})
    return model.eval(), parameters


def make_pairs(seed: int, count: int = 40) -> list[tuple[list[int], list[int]]]:
    """Return pairs without sources, of 0 to 8 words, unknown words (id 1) among them."""
    generator = random.Random(seed)
    lengths = [generator.randrange(9) for _ in range(count)]
    return [([], [generator.randrange(1, SIZE) for _ in range(length)]) for length in lengths]


@pytest.mark.parametrize("order", [2, 4, 7])
def test_scores_are_those_of_the_reference_in_batches(order: int) -> None:
    model, parameters = make_model(order, order=order)
    pairs = make_pairs(order)
    assert [] in [words for _, words in pairs]
    expected = [sum(word_log_probs(parameters, order, words)) for _, words in pairs]
    assert model(batch_pairs(pairs)).tolist() == pytest.approx(expected, abs=1e-9)


def test_float32_scores_are_those_of_the_reference_to_1e_5() -> None:
    model, parameters = make_model(1)
    pairs = make_pairs(1)
    expected = [sum(word_log_probs(parameters, 4, words)) for _, words in pairs]
    assert model.float()(batch_pairs(pairs)).tolist() == pytest.approx(expected, abs=1e-5)


def test_every_word_and_the_end_of_every_sentence_are_predicted() -> None:
    found = all_ngrams(batch_sequences([[2, 3], [], [4]]), 3)
    ngrams = zip(*(part.tolist() for part in found), strict=True)
    assert list(ngrams) == [
        ([0, 0], 2, 0),
        ([0, 2], 3, 0),
        ([2, 3], 0, 0),
        ([0, 0], 0, 1),
        ([0, 0], 4, 2),
        ([0, 4], 0, 2),
    ]


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_gradients_are_those_of_finite_differences(alpha: float) -> None:
    model, _ = make_model(2, self_normalization=alpha)
    model.train()
    batch = batch_pairs([([], [2, 3, 4]), ([], []), ([], [1])])
    names = [name for name, _ in model.named_parameters()]

    def scores(*parameters: torch.Tensor) -> torch.Tensor:
        values = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(model, values, (batch,))

    assert torch.autograd.gradcheck(scores, tuple(model.parameters()))


def test_self_normalisation_adds_alpha_times_the_square_of_log_z_in_training_only() -> None:
    model, parameters = make_model(3, self_normalization=0.5)
    words = [2, 5]
    log_prob = sum(word_log_probs(parameters, 4, words))
    contexts = [[0, 0, 0], [0, 0, 2], [0, 2, 5]]
    log_zs = [np.log(np.exp(logits(parameters, context)).sum()) for context in contexts]
    batch = batch_pairs([([], words)])
    assert model(batch).item() == pytest.approx(log_prob)
    penalty = 0.5 * sum(log_z**2 for log_z in log_zs)
    assert model.train()(batch).item() == pytest.approx(log_prob - penalty)


def test_the_preset_of_the_paper_has_the_sizes_of_section_4_1_2() -> None:
    config = Config.preset("schwenk2007")
    assert isinstance(config.model, CslmConfig)
    with torch.device("meta"):
        model = CslmNetwork(config.model, 2, 15_002)
    # 6 x 512 = 3072 -> 1536 -> 1024 -> 15,000 words and two symbols; each layer has biases.
    layers = 3072 * 1536 + 1536 + 1536 * 1024 + 1024 + 1024 * 15_002 + 15_002
    total = sum(parameter.numel() for parameter in model.parameters())
    assert total == 15_002 * 512 + layers
    training = config.training
    assert (training.validation_updates, training.patience) == (0, 10)


def test_all_start_weights_are_uniform_in_the_paper_s_range() -> None:
    model = CslmNetwork(CslmConfig(embedding_size=50, hidden_size=60, upper_size=70), 2, 300)
    model.initialize(torch.Generator().manual_seed(0))
    for name, parameter in model.named_parameters():
        assert parameter.abs().max().item() <= 0.01, name
        # A uniform distribution has the standard deviation range / sqrt(3).
        assert parameter.std().item() == pytest.approx(0.01 / 3**0.5, rel=0.15), name


def test_dropout_drops_in_training_and_never_else() -> None:
    model, _ = make_model(4, dropout=0.5)
    batch = batch_pairs(make_pairs(4))
    assert torch.equal(model(batch), model(batch))
    model.train()
    assert not torch.equal(model(batch), model(batch))


@pytest.mark.usefixtures("one_thread")
def test_training_validates_at_each_epoch_and_stops_after_ten_without_a_better_one(
    tmp_path: Path,
) -> None:
    config = Config.preset("schwenk2007").override(
        [
            "model.embedding_size=4",
            "model.hidden_size=5",
            "model.upper_size=5",
            "training.batch_size=4",
            "training.validation_share=0.2",
            "training.patience=2",
            # Steps this large soon make everything worse.
            "training.learning_rate=30",
        ]
    )
    sentences = [((f"a{i % 3}", "b") * (1 + i % 2)) for i in range(20)]
    run = TrainingRun(
        inputs=("text",),
        read=lambda: (
            CountedPair(" ".join(words).encode(), PhrasePair((), words), 1.0) for words in sentences
        ),
        model=tmp_path / "model",
        work=tmp_path / "work",
        config=config,
        device=torch.device("cpu"),
    )
    record = train_model(run)
    # Repeated sentences count as often as they come: 16 to train on, 4 batches an epoch.
    assert (record.training_pairs, record.validation_pairs, record.duplicates) == (16, 4, 0)
    assert record.stopped_by == "patience"
    assert [point.update for point in record.curve] == [
        4 * (epoch + 1) for epoch in range(len(record.curve))
    ]
    assert record.best_update == record.curve[-3].update

"""The feed-forward language model: n-grams, training and its penalty; see also test_networks."""

from pathlib import Path

import numpy as np
import pytest
import torch

from phrasescore.models.batches import batch_pairs, batch_sequences
from phrasescore.models.feed_forward import CslmNetwork, all_ngrams
from phrasescore.records import PhrasePair
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import CslmConfig
from phrasescore.training.objectives import PairRun
from phrasescore.training.pair_store_writer import CountedPair
from phrasescore.training.run import train_model
from tests.reference_cslm import logits, random_parameters, word_log_probs


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


def test_self_normalisation_adds_alpha_times_the_square_of_log_z_in_training_only() -> None:
    sizes = {"embedding_size": 3, "hidden_size": 6, "upper_size": 5}
    parameters = random_parameters(np.random.default_rng(3), order=4, size=9, **sizes)
    model = CslmNetwork(CslmConfig(4, 3, 6, 5, self_normalization=0.5), 2, 9).double().eval()
    model.load_state_dict({name: torch.from_numpy(value) for name, value in parameters.items()})
    words = [2, 5]
    log_prob = sum(word_log_probs(parameters, 4, words))
    contexts = [[0, 0, 0], [0, 0, 2], [0, 2, 5]]
    log_zs = [np.log(np.exp(logits(parameters, context)).sum()) for context in contexts]
    batch = batch_pairs([([], words)])
    assert model(batch).item() == pytest.approx(log_prob)
    penalty = 0.5 * sum(log_z**2 for log_z in log_zs)
    assert model.train()(batch).item() == pytest.approx(log_prob - penalty)


def test_the_preset_of_the_paper_has_its_sizes_and_its_patience() -> None:
    config = Config.preset("schwenk2007")
    assert config.model == CslmConfig()
    assert (config.training.validation_updates, config.training.patience) == (0, 10)


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
    run = PairRun(
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

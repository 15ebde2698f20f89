"""Promises of phrasescore.models.summary."""

import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch

from phrasescore.errors import ModelError
from phrasescore.models.checkpoint import (
    REVERSE,
    Checkpoint,
    CurvePoint,
    TrainingRecord,
    direction_of,
    empty_network,
    load_checkpoint,
    save_checkpoint,
)
from phrasescore.models.summary import model_report
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import EncoderDecoderConfig
from phrasescore.vocabulary import Vocabulary


@pytest.fixture(name="folder")
def saved_model(tmp_path: Path) -> Path:
    config = Config(model=EncoderDecoderConfig(4, 3, 2, 2))
    network = empty_network(config, 4, 5).to_empty(device="cpu")
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    record = TrainingRecord(
        direction=REVERSE,
        seed=3,
        data_fingerprint="f00d",
        training_pairs=1234,
        source_coverage=0.9312,
        target_coverage=1.0,
        best_update=10,
        curve=(CurvePoint(10, 0.5, 3.25, 20.5), CurvePoint(20, 1.0, 3.0, 21.0)),
    )
    words = Vocabulary(["a", "b"]), Vocabulary(["c", "d", "e"])
    save_checkpoint(tmp_path / "model", Checkpoint(network, config, *words, record))
    return tmp_path / "model"


def test_the_text_tells_sizes_coverage_quality_and_fingerprints(folder: Path) -> None:
    whole = model_report(folder).to_text()
    lines = whole.replace(str(folder), "model").splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert whole.count("\n\n") == 3  # network, data, training, fingerprints
    text = " ".join(whole.split())
    checkpoint = load_checkpoint(folder)
    for part in [
        "p(source | target)",
        "hidden_size=4",
        f"parameters {checkpoint.num_parameters:,}",
        "the target side: shortlist of 2 words, 93.12% of the training data's words",
        "the source side: shortlist of 3 words, 100.00% of the training data's words",
        "1,234 distinct",
        "f00d",
        checkpoint.fingerprint,
        "validation perplexity 20.500 after update 10",
    ]:
        assert part in text


def test_the_text_says_from_which_end_words_are_predicted(folder: Path) -> None:
    checkpoint = load_checkpoint(folder)
    assert "last word first" not in model_report(folder).to_text()
    direction = direction_of(reverse=True, right_to_left=True)
    record = dataclasses.replace(checkpoint.record, direction=direction)
    save_checkpoint(folder, dataclasses.replace(checkpoint, record=record))
    text = " ".join(model_report(folder).to_text().split())
    assert f"p(source | target) (direction {direction})" in text
    assert "the source side, the last word first: shortlist of 3 words" in text


def test_the_json_has_the_same_in_full(folder: Path) -> None:
    values = json.loads(model_report(folder).to_json())
    record = dataclasses.asdict(load_checkpoint(folder).record)
    assert values["training"] == json.loads(json.dumps(record))
    assert values["config"]["model"]["hidden_size"] == 4
    assert (values["source_words"], values["target_words"]) == (2, 3)


def test_json_that_would_be_none_is_never_written(folder: Path) -> None:
    report = model_report(folder)
    record = dataclasses.replace(report.checkpoint.record, source_coverage=math.nan)
    broken = dataclasses.replace(report.checkpoint, record=record)
    with pytest.raises(ValueError, match="JSON"):
        dataclasses.replace(report, checkpoint=broken).to_json()


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="expected the folder of a trained model"):
        model_report(tmp_path)

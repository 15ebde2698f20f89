"""The section about training."""

import dataclasses
import math

import pytest

from phrasescore.models.checkpoint import Checkpoint, CurvePoint, FineTuning, TrainingRecord
from phrasescore.report.blocks import Lines
from phrasescore.report.training import training
from tests.phrasescore.report.report_blocks import blocks_of, section_of, table_of
from tests.random_networks import RandomNetwork


def trained(*curve: CurvePoint) -> Checkpoint:
    made = RandomNetwork("lstm", ["a"], ["b", "c"]).checkpoint
    record = TrainingRecord(curve=curve, best_update=20, updates=30, minutes=1.26)
    return Checkpoint(
        made.model, made.config, made.source_vocabulary, made.target_vocabulary, record
    )


def test_curves_are_perplexities_by_update() -> None:
    points = (CurvePoint(10, 0.5, math.log(8.0), None), CurvePoint(20, 1.0, 0.0, 5.5))
    # What has diverged is not drawn.
    model = trained(CurvePoint(5, 0.1, 800.0, 2e6), *points)
    section = section_of(training, models=[("m", model), ("untrained", trained())])
    figure = blocks_of(section)["training-curves"]
    assert isinstance(figure, Lines)
    held_out, seen = figure.series
    assert (held_out.name, held_out.x, held_out.y) == ("m, held-out data", (20.0,), (5.5,))
    assert (seen.name, seen.x) == ("m, data of the updates", (10.0, 20.0))
    assert seen.y == pytest.approx((8.0, 1.0))
    assert figure.caption.endswith(" Points above 1,000,000 are left out.")
    rows = table_of(section, "training-models").rows
    assert rows[0][:3] == ("m", "lstm", "target")
    assert rows[0][4:6] == (1, 2)
    assert rows[0][7:11] == (30, 1.3, 20, 5.5)
    assert rows[1][10] is None


def test_the_loss_of_lists_is_not_drawn_as_a_perplexity() -> None:
    curve = (CurvePoint(5, 0.1, -0.5, None, expected_bleu=40.0),)
    model = trained(*curve)
    record = dataclasses.replace(
        model.record, fine_tuning=FineTuning("xbleu", "f00d", 9, 1, "LSTM0", 0.5, 2.0, 0.1)
    )
    assert len(blocks_of(section_of(training, models=[("m", model)]))) == 2
    section = section_of(training, models=[("m", dataclasses.replace(model, record=record))])
    assert list(blocks_of(section)) == ["training-models"]


def test_no_points_are_said_to_be_left_out_where_all_are_drawn() -> None:
    section = section_of(training, models=[("m", trained(CurvePoint(10, 0.5, 1.0, 5.5)))])
    figure = blocks_of(section)["training-curves"]
    assert "left out" not in figure.caption

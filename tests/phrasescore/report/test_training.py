"""The section about training."""

import dataclasses
import math

import pytest

from phrasescore.models.checkpoint import Checkpoint, CurvePoint, FineTuning, TrainingRecord
from phrasescore.report.blocks import Lines
from phrasescore.report.training import training_section
from tests.phrasescore.report.report_blocks import blocks_of, table_of
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
    section = training_section([("m", model), ("untrained", trained())])
    held_out, seen = (blocks_of(section)[f"training-{name}"] for name in ("held-out", "seen"))
    assert isinstance(held_out, Lines)
    assert isinstance(seen, Lines)
    assert [(one.name, one.x, one.y) for one in held_out.series] == [("m", (20.0,), (5.5,))]
    for lines in (held_out, seen):
        assert lines.caption.endswith(" Points above 1,000,000 are left out.")
    (line,) = seen.series
    assert line.y == pytest.approx((8.0, 1.0))
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
    section = training_section([("m", dataclasses.replace(model, record=record))])
    assert "training-seen" not in blocks_of(section)
    assert "training-seen" in blocks_of(training_section([("m", model)]))


def test_no_points_are_said_to_be_left_out_where_all_are_drawn() -> None:
    section = training_section([("m", trained(CurvePoint(10, 0.5, 1.0, 5.5)))])
    for name in ("held-out", "seen"):
        lines = blocks_of(section)[f"training-{name}"]
        assert isinstance(lines, Lines)
        assert "left out" not in lines.caption

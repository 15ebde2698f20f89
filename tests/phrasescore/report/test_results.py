"""Sections about tuned weights and training."""

import dataclasses
import math
from typing import Any

import msgspec
import pytest

from phrasescore.models.checkpoint import Checkpoint, CurvePoint, FineTuning, TrainingRecord
from phrasescore.report.blocks import Intervals, Lines
from phrasescore.report.results import (
    training_section,
    tuning_section,
)
from phrasescore.report.tuning import TuneReport
from tests.phrasescore.report.report_blocks import blocks_of, table_of
from tests.random_networks import RandomNetwork

TUNED = {
    "method": "mert",
    "metric": "BLEU",
    "seed": 3,
    "sentences": 1014,
    "hypotheses": 2000,
    "start": 57.0,
    "reached": 60.0,
    "features": [
        {"name": "LM0_0", "start": 0.5, "weight": 0.25, "contribution": 0.2, "share": 0.75,
         "left_out": 55.5},
        {"name": "TM0_0", "start": 0.5, "weight": 0.1, "contribution": -0.1, "share": 0.25,
         "left_out": None},
    ],
    "reliability": [{"sentences": 1014, "confidence": 0.25, "right": 0.5}],
    "rounds": [{"round": 1, "score": 58.0, "hypotheses": 10, "decoded": 57.5, "new": 5}],
}  # fmt: skip


def tuned(**more: Any) -> TuneReport:
    return msgspec.convert({**TUNED, **more}, TuneReport)


def test_weights_come_with_what_is_lost_without_them() -> None:
    section = tuning_section(tuned())
    assert table_of(section, "tuning-weights").rows == (
        ("LM0_0", 0.5, 0.25, 0.2, 75.0, 55.5, -4.5),
        ("TM0_0", 0.5, 0.1, -0.1, 25.0, None, None),
    )
    found = blocks_of(section)
    shares, losses, rounds = (found[f"tuning-{name}"] for name in ("shares", "ablations", "rounds"))
    assert isinstance(shares, Intervals)
    assert isinstance(losses, Intervals)
    assert isinstance(rounds, Lines)
    assert (shares.bars, shares.series[0].values) == (True, (75.0, 25.0))
    assert (losses.signed, losses.series[0].values) == (True, (-4.5, None))
    assert shares.rows == losses.rows == ("LM0_0", "TM0_0")
    assert (rounds.series[0].x, rounds.series[0].y) == ((1.0,), (58.0,))
    assert table_of(section, "tuning-reliability").rows == (("mert", 1014, 25.0, 50.0),)
    assert "BLEU 57.00 with the start weights, 60.00 with the new weights" in section.lead


def test_the_feature_that_moves_most_is_the_first_bar() -> None:
    features = [
        {"name": name, "start": 0.5, "weight": 0.1, "contribution": 0.1, "share": share}
        for name, share in (("small", 0.25), ("large", 0.75), ("unknown", None))
    ]
    shares = blocks_of(tuning_section(tuned(features=features)))["tuning-shares"]
    assert isinstance(shares, Intervals)
    assert shares.rows == ("large", "small")


def test_two_sets_of_weights_are_told_apart() -> None:
    features = [
        {"name": "LM0_0", "start": 0.5, "search": 0.4, "weight": 0.25},
        {"name": "Attention0_0", "start": 0.0, "search": None, "weight": 0.125},
    ]
    found = table_of(tuning_section(tuned(features=features)), "tuning-weights")
    assert found.columns[1:4] == ("weight before", "search weight", "list weight")
    assert [row[:4] for row in found.rows] == [
        ("LM0_0", 0.5, 0.4, 0.25),
        ("Attention0_0", 0.0, None, 0.125),
    ]


def test_weights_alone_are_enough() -> None:
    features = [{"name": "LM0_0", "start": 0.5, "weight": 0.25}]
    section = tuning_section(tuned(features=features, rounds=[], reliability=[]))
    assert set(blocks_of(section)) == {"tuning-weights"}


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

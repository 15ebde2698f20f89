"""Promises of tuning.metric: a mean of metrics is a metric."""

import numpy as np
import pytest

from tuning.bleu import Bleu, bleu
from tuning.chrf import Chrf, chrf
from tuning.metric import Interpolated, ReferenceMetric

REFERENCES = [[["the", "cat", "is", "here", "now"], ["a", "dog", "was", "there", "too"]]]
HYPOTHESES = [["the", "cat", "is", "here"], ["the", "dog", "was", "there", "too"]]


def test_an_interpolated_score_is_the_weighted_mean() -> None:
    parts: list[ReferenceMetric] = [Bleu(REFERENCES), Chrf(REFERENCES)]
    metric = Interpolated(parts, [3, 1])
    sums = metric.statistics(HYPOTHESES, [0, 1]).sum(axis=0)
    assert len(sums) == metric.num_stats == 9 + 18
    first, second = bleu(sums[:9]), chrf(sums[9:])
    assert 0 < first < second < 1
    assert float(metric.score(sums)) == pytest.approx(0.75 * first + 0.25 * second, rel=1e-15)
    assert metric.score(np.stack([sums, sums])).shape == (2,)
    assert metric.name == "0.75 BLEU + 0.25 chrF2"


def test_one_metric_alone_is_that_metric() -> None:
    metric = Interpolated([Bleu(REFERENCES)], [0.1])
    statistics = metric.statistics(HYPOTHESES, [0, 1])
    assert metric.score(statistics).tolist() == bleu(statistics).tolist()

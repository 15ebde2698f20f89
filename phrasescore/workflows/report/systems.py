"""BLEU of the systems of a report, and how significant their differences are."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from phrasescore.evaluation.breakdowns import Breakdown
from phrasescore.evaluation.metrics import build_metric, compare
from phrasescore.evaluation.sentences import Sentences
from phrasescore.report.translation_scores import GroupScores, SystemScore
from phrasescore.workflows.experiment.table import SEED, TRIALS
from tuning.bleu import Bleu, BleuScore, bleu
from tuning.metric import Statistics
from tuning.significance import randomization_p_value

# Samples of the bootstrap.
SAMPLES = 1000


class SystemText(NamedTuple):
    """The translations of a system."""

    name: str
    sentences: Sentences


class Measured(NamedTuple):
    """The scores of systems, and the statistics that they are made from."""

    metric: Bleu
    # (systems, sentences, statistics)
    statistics: Statistics
    # By system.
    scores: list[SystemScore]


def measure(systems: Sequence[SystemText], references: Sequence[Sentences]) -> Measured:
    """Return BLEU of systems, and the significance of their differences from the first one.

    The test is that of an experiment's table: one comparison has one p-value.
    """
    metric = Bleu([sentences.words for sentences in references])
    segments = range(metric.num_segments)
    statistics = np.array(
        [metric.statistics(system.sentences.words, segments) for system in systems]
    )
    scores = []
    for system, sums in zip(systems, statistics.sum(axis=1), strict=True):
        whole = BleuScore.of(sums)
        ratio = whole.length / whole.reference_length if whole.reference_length else 0.0
        scores.append(SystemScore(system.name, 100 * whole.bleu, ratio))
    if len(systems) == 1:
        return Measured(metric, statistics, scores)
    (bootstrap,) = compare(
        [build_metric("bleu", [sentences.texts for sentences in references], "none")],
        [system.sentences.texts for system in systems],
        "bootstrap",
        SAMPLES,
        SEED,
    )
    for place, drawn in enumerate(bootstrap.systems):
        p_value = None
        if place:
            other = statistics[place : place + 1]
            p_value = randomization_p_value(metric, statistics[:1], other, trials=TRIALS, seed=SEED)
        scores[place] = scores[place]._replace(p_value=p_value, confidence=drawn.confidence)
    return Measured(metric, statistics, scores)


def measure_groups(measured: Measured, breakdown: Breakdown, seed: int) -> GroupScores:
    """Return BLEU of each group of sentences, as if it were a corpus of its own."""
    scores, spreads = [], []
    for group in breakdown.groups:
        statistics = measured.statistics[:, group.members]
        scores.append((100 * bleu(statistics.sum(axis=1))).tolist())
        spreads.append(bootstrap_spread(measured.metric, statistics, seed))
    return GroupScores(breakdown, np.transpose(scores).tolist(), np.transpose(spreads).tolist())


def bootstrap_spread(metric: Bleu, statistics: Statistics, seed: int) -> list[float]:
    """Return half the width of the 95% interval of BLEU over bootstrap samples.

    :param statistics: those of a group of sentences, ``(systems, sentences, statistics)``.
    :return: by system, 1.96 standard deviations of the samples' BLEU, 0 to 100.
    """
    count = statistics.shape[1]
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), SAMPLES)
    sums = np.einsum("ds,nsk->ndk", drawn.astype(np.float64), statistics, optimize=True)
    found: list[float] = (196 * metric.score(sums).std(axis=1)).tolist()
    return found

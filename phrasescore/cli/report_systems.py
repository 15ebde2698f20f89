"""How good the systems of a report are, measured once for all sections."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from phrasescore.evaluation.metrics import build_metric, compare
from phrasescore.evaluation.sentences import Sentences
from phrasescore.report.translation_scores import SystemScore
from tuning.bleu import Bleu, BleuScore, Statistics
from tuning.significance import randomization_p_value

# Draws of approximate randomization, and samples of the bootstrap.
TRIALS, SAMPLES = 10_000, 1000


class System(NamedTuple):
    """Translations by a system."""

    name: str
    sentences: Sentences


class Measured(NamedTuple):
    """What was measured."""

    metric: Bleu
    # (systems, sentences, statistics)
    statistics: Statistics
    # Of each system.
    scores: list[SystemScore]


def measure(systems: Sequence[System], references: Sequence[Sentences], seed: int) -> Measured:
    """Return BLEU of systems, and how each differs from the first one.

    :param seed: of the tests, 1 or more.
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
    if len(systems) > 1:
        scores = _compared(Measured(metric, statistics, scores), systems, references, seed)
    return Measured(metric, statistics, scores)


def bootstrap_spread(metric: Bleu, statistics: Statistics, seed: int) -> list[float]:
    """Return half the width of the interval that 95% of samples of a group's BLEU are in.

    :param statistics: of its sentences, ``(systems, sentences, statistics)``.
    :return: of each system, 0 to 100; 1.96 standard deviations of the samples.
    """
    count = statistics.shape[1]
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), SAMPLES)
    sums = np.einsum("ds,nsk->ndk", drawn.astype(np.float64), statistics, optimize=True)
    found: list[float] = (196 * metric.score(sums).std(axis=1)).tolist()
    return found


def _compared(
    measured: Measured, systems: Sequence[System], references: Sequence[Sentences], seed: int
) -> list[SystemScore]:
    """Return the scores with what chance has to do with their differences."""
    metric, statistics, scores = measured
    (bootstrap,) = compare(
        [build_metric("bleu", [sentences.texts for sentences in references], "none")],
        [system.sentences.texts for system in systems],
        "bootstrap",
        SAMPLES,
        seed,
    )
    p_values: list[float | None] = [None]
    p_values += [
        randomization_p_value(
            metric, statistics[:1], statistics[place : place + 1], trials=TRIALS, seed=seed
        )
        for place in range(1, len(systems))
    ]
    return [
        score._replace(randomization=p_value, bootstrap=drawn.p_value, confidence=drawn.confidence)
        for score, p_value, drawn in zip(scores, p_values, bootstrap.systems, strict=True)
    ]

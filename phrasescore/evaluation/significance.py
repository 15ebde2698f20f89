"""Significance tests for differences between systems, and metrics that sacrebleu's tests lack.

Reports and experiments use `randomization_p_value`, which also supports systems that were tuned
several times. `run_paired_test` runs sacrebleu's tests with any metric.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sacrebleu import significance as sacrebleu
from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.metrics.base import Score, Signature

from phrasescore.arguments import PairedTestName
from phrasescore.records import split_words
from phrasescore.version import __version__
from tuning.metrics import Metric, ReferenceMetric, Statistics

SAMPLES = 1000  # number of bootstrap samples in `bootstrap_spread` and `difference_interval`
_BATCH = 250  # number of samples to compute at a time
_SACREBLEU_NAMES = {"bootstrap": "bs", "approximate": "ar"}

Row = tuple[str, ...]  # source, hypothesis and references of a sentence


class _OurSignature(Signature):
    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        package, _, version = args["package"].rpartition(" ")
        self.info |= {"tok": "none", "package": package, "version": version}


class _OwnMetric(SacrebleuMetric):
    """A metric that sacrebleu lacks, with statistics per sentence, for its paired tests."""

    _SIGNATURE_TYPE = _OurSignature

    def __init__(self, package: str, num_references: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.package, self.num_refs = package, num_references

    def _aggregate_and_compute(self, stats: Any) -> Score:
        score: Score = self._compute_score_from_stats(np.sum(stats, axis=0))
        return score

    # Abstract in the base class, which calls them only from `_extract_corpus_statistics`.
    _preprocess_segment: Any = None
    _extract_reference_info: Any = None
    _compute_segment_statistics: Any = None


class MeanMetric(_OwnMetric):
    """The mean of known scores of sentences.

    :param rows: returns the row of each sentence, by which its score is found.
    :param program: a description for the signature, with a version as its last word.
    """

    digits = 4  # learned metrics often give numbers from 0 to 1

    def __init__(
        self,
        name: str,
        scores: Mapping[Row, float],
        rows: Callable[[Sequence[str]], list[Row]],
        num_references: int,
        program: str,
    ) -> None:
        super().__init__(program, num_references)
        self._name, self._scores, self._rows = name, scores, rows

    def _extract_corpus_statistics(
        self, hypotheses: Sequence[str], _references: Sequence[Sequence[str]] | None
    ) -> Any:
        return np.array([(self._scores[row], 1.0) for row in self._rows(hypotheses)])

    def _compute_score_from_stats(self, stats: Any) -> Score:
        return Score(self._name, float(stats[0] / stats[1]))


class TuningMetric(_OwnMetric):
    """Adapts a metric for tuning to sacrebleu's paired tests; text is split only at blanks.

    :param error_rate: the name of an error rate: 1 - score is reported, and lower is better.
    """

    def __init__(
        self, metric: ReferenceMetric, num_references: int, error_rate: str | None = None
    ) -> None:
        super().__init__(f"phrasescore {__version__}", num_references)
        self._metric, self._error_rate = metric, error_rate
        # By text: the score and the paired test need the same statistics, which may be expensive.
        self._statistics: dict[tuple[str, ...], Any] = {}

    def _extract_corpus_statistics(
        self, hypotheses: Sequence[str], _references: Sequence[Sequence[str]] | None
    ) -> Any:
        text = tuple(hypotheses)
        if text not in self._statistics:
            words = [split_words(sentence) for sentence in text]
            self._statistics[text] = self._metric.statistics(words, range(len(words)))
        return self._statistics[text]

    def _compute_score_from_stats(self, stats: Any) -> Score:
        value = float(self._metric.score(np.asarray(stats, np.float64)))
        if self._error_rate is not None:
            return Score(self._error_rate, 100 * (1 - value))
        return Score(self._metric.name, 100 * value)


class SummedMetric:
    """A `tuning.metrics.Metric` that computes as one for sacrebleu's tests, divided by 100."""

    def __init__(self, metric: SacrebleuMetric) -> None:
        self.name, self.num_stats, self._metric = "", 0, metric

    def statistics(self, texts: Sequence[str]) -> Statistics:
        """Return the statistics of each sentence: (sentences, num_stats)."""
        return np.array(self._metric._extract_corpus_statistics(texts, None), np.float64)

    def score(self, sums: Statistics) -> Statistics:
        """Return the scores of sums of statistics."""
        compute = self._metric._compute_score_from_stats
        return np.apply_along_axis(lambda each: compute(each.tolist()).score / 100, -1, sums)


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Paired bootstrap (Koehn, 2004), or approximate randomization (Riezler and Maxwell, 2005)."""

    kind: PairedTestName
    trials: int  # number of samples
    seed: int  # sacrebleu's


class PairedSystem(NamedTuple):
    """A system in a paired test; scores are from 0 to 100."""

    score: float
    p_value: float | None  # of a difference this large by chance; None for the baseline
    # Mean over the samples, and half the width of the 95% interval; None for approximate
    # randomization.
    mean: float | None
    confidence: float | None


class PairedComparison(NamedTuple):
    """A paired test of all systems against the first one, with one metric."""

    metric: str
    signature: str
    systems: tuple[PairedSystem, ...]
    digits: int  # after the decimal point, to show scores


def digits_of(metric: SacrebleuMetric) -> int:
    """Return how many digits after the decimal point a score should be shown with."""
    return getattr(metric, "digits", 2)


def run_paired_test(
    test: PairedTest, metrics: Sequence[SacrebleuMetric], systems: Sequence[Sequence[str]]
) -> list[PairedComparison]:
    """Test each system against the first system, with each metric.

    The p-values are the same as in sacrebleu, with one exception: the p-value is 1 if a text is
    identical to the baseline. sacrebleu counts only samples with a larger difference than the real
    one. As there are none, it would report a significant difference.
    """
    names = [f"system {number}" for number in range(len(systems))]
    signatures, results = sacrebleu.PairedTest(
        list(zip(names, systems, strict=True)),
        {str(number): metric for number, metric in enumerate(metrics)},
        references=None,
        test_type=_SACREBLEU_NAMES[test.kind],
        n_samples=test.trials,
    )()
    comparisons = []
    for (name, signature), metric in zip(signatures.items(), metrics, strict=True):
        tested = []
        for result, lines in zip(results[name], systems, strict=True):
            assert isinstance(result, sacrebleu.Result)
            is_equal = result.p_value is not None and list(lines) == list(systems[0])
            optional = (1.0 if is_equal else result.p_value, result.mean, result.ci)
            values = [None if value is None else float(value) for value in optional]
            tested.append(PairedSystem(float(result.score), *values))
        comparisons.append(
            PairedComparison(name, signature.format(), tuple(tested), digits_of(metric))
        )
    return comparisons


def randomization_p_value(
    metric: Metric, baseline: Statistics, system: Statistics, *, trials: int, seed: int
) -> float:
    """Return the two-sided p-value for the difference between two systems.

    This is approximate randomization over sentences (Riezler and Maxwell, 2005): (r + 1) / (trials
    + 1), where r is the number of trials with a difference at least as large as the real one. The
    score of a system is the mean score of its replicas (Clark et al., 2011). A sentence's
    translations are exchanged in all replicas together. Replicas are very similar, and separate
    exchanges would treat them as independent sentences. sacrebleu draws the same exchanges with
    the same seed, so for single replicas sacrebleu finds the same p-value.

    :param baseline: ``(replicas, sentences, num_stats)``, like ``system``; the numbers of replicas
        may differ.
    """
    if len(baseline) != len(system):
        # Repeat the replicas, so that both systems have the same number.
        repeated = np.lcm(len(baseline), len(system))
        baseline, system = (
            np.repeat(stats, repeated // len(stats), axis=0) for stats in (baseline, system)
        )
    totals = [stats.sum(axis=1) for stats in (baseline, system)]  # (replicas, num_stats)
    difference = system - baseline  # (replicas, sentences, num_stats)
    observed = abs(_mean_score(metric, totals[1]) - _mean_score(metric, totals[0]))
    exchanged = np.random.default_rng(seed).integers(
        2, size=(trials, difference.shape[1]), dtype=bool
    )
    as_large = 0
    for start in range(0, trials, _BATCH):
        draws = exchanged[start : start + _BATCH].astype(np.float64)
        # Statistics are integers in float64, so sums are exact in any order.
        moved = np.einsum("ds,rsk->drk", draws, difference, optimize=True)
        drawn = _mean_score(metric, totals[1] - moved) - _mean_score(metric, totals[0] + moved)
        as_large += int((np.abs(drawn) >= observed).sum())
    return (as_large + 1) / (trials + 1)


def _mean_score(metric: Metric, totals: Statistics) -> Statistics:
    """Return the mean score over replicas, for totals with shape (..., replicas, num_stats)."""
    return np.asarray(metric.score(totals).mean(axis=-1))


def bootstrap_spread(metric: Metric, statistics: Statistics, seed: int) -> list[float]:
    """Return half the width of each system's 95% interval, from bootstrap samples of sentences.

    :param statistics: ``(systems, sentences, num_stats)``.
    :return: for each system, 1.96 standard deviations of the samples' scores, 0 to 100.
    """
    spreads: list[float] = (196 * _bootstrap_scores(metric, statistics, seed).std(axis=1)).tolist()
    return spreads


def difference_interval(
    metric: Metric, baseline: Statistics, system: Statistics, seed: int
) -> tuple[float, float]:
    """Return the 95% interval of the difference between two systems, 0 to 100.

    This is the paired bootstrap (Koehn, 2004): both systems are scored on the same samples of
    sentences, and the interval has the middle 95% of the differences. The score of a system is the
    mean score of its replicas.

    :param baseline: ``(replicas, sentences, num_stats)``, like ``system``.
    """
    before, after = (
        _bootstrap_scores(metric, statistics, seed).mean(axis=0)
        for statistics in (baseline, system)
    )
    low, high = np.percentile(100 * (after - before), (2.5, 97.5)).tolist()
    return low, high


def _bootstrap_scores(metric: Metric, statistics: Statistics, seed: int) -> Statistics:
    """Return the scores of ``(texts, sentences, num_stats)`` on samples: ``(texts, SAMPLES)``."""
    count = statistics.shape[1]
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), SAMPLES)
    sums = np.einsum("ds,nsk->ndk", drawn.astype(np.float64), statistics, optimize=True)
    return np.asarray(metric.score(sums))

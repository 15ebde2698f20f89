"""Metrics that sacrebleu lacks, with its interface, for its signatures and paired tests."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric, Score, Signature

from phrasescore.records import split_words
from phrasescore.version import __version__
from tuning.metrics import ReferenceMetric

Row = tuple[str, ...]  # source, hypothesis and references of a sentence


class _OurSignature(Signature):
    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        package, _, version = args["package"].rpartition(" ")
        self.info |= {"tok": "none", "package": package, "version": version}


class _OwnMetric(Metric):
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

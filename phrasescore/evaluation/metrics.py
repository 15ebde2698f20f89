"""BLEU, chrF and TER of sacrebleu, with their signatures.

Post (2018), A Call for Clarity in Reporting BLEU Scores. The scores have all the digits that
sacrebleu's command line prints for the same files and settings.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sacrebleu.metrics.base import Metric, Signature
from sacrebleu.metrics.base import Score as SacrebleuScore
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from phrasescore.evaluation.plugin_metric import PluginMetric
from phrasescore.io.text import split_words

# Decimals of a printed score.
DIGITS = 2


class Score(NamedTuple):
    """A system's score by one metric."""

    # sacrebleu's name (BLEU, chrF2, chrF2++, TER), or the name of a plug-in's metric.
    metric: str
    # 0 to 100; a lower TER is better.
    score: float
    # All settings that the score depends on.
    signature: str
    # The line that sacrebleu prints, with the signature.
    line: str


def build_metric(name: str, references: Sequence[Sequence[str]], tokenize: str) -> Metric:
    """Return sacrebleu's bleu, chrf, chrf++ or ter against references (by file and segment).

    :param tokenize: for BLEU; ``none`` for text that is already tokenised.
    """
    if name == "bleu":
        # force=True turns off the warning about text that is already tokenised.
        return BLEU(tokenize=tokenize, force=True, references=references)
    if name in ("chrf", "chrf++"):
        return CHRF(word_order=2 if name == "chrf++" else 0, references=references)
    if name == "ter":
        return TER(references=references)
    raise ValueError(f"unknown metric {name!r}")


class _PackageSignature(Signature):
    """A signature that names the plug-in's package and version instead of sacrebleu's."""

    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        package, _, version = args["package"].rpartition(" ")
        self.info |= {"tok": "none", "package": package, "version": version}


class PackageMetric(Metric):
    """A plug-in's metric for sacrebleu's paired tests; it splits text at blanks only."""

    _SIGNATURE_TYPE = _PackageSignature

    def __init__(self, metric: PluginMetric, num_references: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._metric = metric
        self.package = metric.package
        self.num_refs = num_references

    def _extract_corpus_statistics(
        self, hypotheses: Sequence[str], _references: Sequence[Sequence[str]] | None
    ) -> Any:
        words = [split_words(text) for text in hypotheses]
        return self._metric.statistics(words, range(len(words)))

    def _aggregate_and_compute(self, stats: Any) -> SacrebleuScore:
        return self._compute_score_from_stats(np.sum(stats, axis=0))

    def _compute_score_from_stats(self, stats: Any) -> SacrebleuScore:
        value = self._metric.score(np.asarray(stats, np.float64))
        return SacrebleuScore(self._metric.name, 100 * float(value))

    # Abstract in the base class, which calls them only from `_extract_corpus_statistics`.
    def _preprocess_segment(self, sent: str) -> str:
        raise NotImplementedError

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        raise NotImplementedError

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[Any]:
        raise NotImplementedError


def score(metric: Metric, hypotheses: Sequence[str]) -> Score:
    """Return a system's score by a metric."""
    result = metric.corpus_score(hypotheses, None)
    signature = metric.get_signature().format()
    return Score(result.name, result.score, signature, result.format(DIGITS, False, signature))

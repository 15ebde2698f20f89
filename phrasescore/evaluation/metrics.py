"""BLEU, chrF and TER with their signatures, and paired tests: all of them sacrebleu's.

Post (2018), A Call for Clarity in Reporting BLEU Scores. The figures are those that its command
line prints for the same files and settings, to the last digit.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
from sacrebleu.metrics.base import Metric, Signature
from sacrebleu.metrics.base import Score as SacrebleuScore
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

from phrasescore.evaluation.plugin_metric import PluginMetric
from phrasescore.io.text import split_words

# Digits behind the point.
DIGITS = 2

_TESTS: dict[str, str] = {"bootstrap": "bs", "approximate": "ar"}
# Where sacrebleu looks for the seed; it takes it from nowhere else.
_SEED_VARIABLE = "SACREBLEU_SEED"


class Score(NamedTuple):
    """A metric's figure for one system."""

    # sacrebleu's: BLEU, chrF2, chrF2++, TER; or the name of another package's.
    metric: str
    # 0 to 100; of TER, less is better.
    score: float
    # Everything that the figure depends on.
    signature: str
    # The whole line as sacrebleu prints it, signature and all.
    line: str


class Comparison(NamedTuple):
    """A system in a paired test: the first is the baseline, which has no p-value."""

    score: float
    # How often chance alone would give a difference this large; None for the baseline.
    p_value: float | None
    # The mean over the samples, and half the width of the interval that 95% of them are in; None
    # for approximate randomization, which draws none.
    mean: float | None
    confidence: float | None


class PairedComparison(NamedTuple):
    """A paired test of all systems against the first, by one metric."""

    metric: str
    signature: str
    systems: tuple[Comparison, ...]


def build_metric(name: str, references: Sequence[Sequence[str]], tokenize: str) -> Metric:
    """Return a metric of sacrebleu against references.

    :param name: bleu, chrf, chrf++ or ter.
    :param references: by file and segment.
    :param tokenize: how BLEU splits text, as in sacrebleu; ``none`` for text that is tokenised.
    """
    if name == "bleu":
        # force: no warning about tokenised text; ``tokenize`` says how the text is split.
        return BLEU(tokenize=tokenize, force=True, references=references)
    if name in ("chrf", "chrf++"):
        return CHRF(word_order=2 if name == "chrf++" else 0, references=references)
    if name == "ter":
        return TER(references=references)
    raise ValueError(f"unknown metric {name!r}")


class _PackageSignature(Signature):
    """The package of a metric and its version, in place of sacrebleu's."""

    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        package, _, version = args["package"].rpartition(" ")
        self.info |= {"tok": "none", "package": package, "version": version}


class OfPackage(Metric):
    """A metric of another package, in sacrebleu's figures and tests.

    It reads text as it is split, as multi-bleu.perl does.

    :param num_references: sets of references.
    """

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
        found = self._metric.score(np.asarray(stats, np.float64))
        return SacrebleuScore(self._metric.name, 100 * float(found))

    # sacrebleu's steps towards statistics, which are there already.
    def _preprocess_segment(self, sent: str) -> str:
        raise NotImplementedError

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        raise NotImplementedError

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[Any]:
        raise NotImplementedError


def score(metric: Metric, hypotheses: Sequence[str]) -> Score:
    """Return a metric's figure for a system."""
    found = metric.corpus_score(hypotheses, None)
    signature = metric.get_signature().format()
    return Score(found.name, found.score, signature, found.format(DIGITS, False, signature))


def compare(
    metrics: Sequence[Metric],
    systems: Sequence[Sequence[str]],
    test: Literal["bootstrap", "approximate"],
    trials: int,
    seed: int,
) -> list[PairedComparison]:
    """Test each system against the first one, by each metric.

    :param test: paired bootstrap (Koehn, 2004), or approximate randomization (Riezler and
        Maxwell, 2005).
    :param trials: samples drawn.
    :param seed: 1 or more; the same one gives the p-values that sacrebleu prints for it.
    """
    named: list[tuple[str, Sequence[str]]] = [
        (f"system {number}", lines) for number, lines in enumerate(systems)
    ]
    with _seed(seed):
        paired = PairedTest(
            named,
            {str(number): metric for number, metric in enumerate(metrics)},
            references=None,
            test_type=_TESTS[test],
            n_samples=trials,
        )
        signatures, results = paired()
    return [
        PairedComparison(
            name,
            signature.format(),
            tuple(
                _comparison(result, same=list(lines) == list(systems[0]))
                for result, lines in zip(results[name], systems, strict=True)
            ),
        )
        for name, signature in signatures.items()
    ]


def _comparison(result: str | Result, *, same: bool) -> Comparison:
    """Return sacrebleu's figures; the p-value of a text that equals the baseline's is 1.

    sacrebleu counts samples with a larger difference than the real one: for two equal texts there
    is no such sample, and its p-value says that they differ beyond all doubt.
    """
    assert isinstance(result, Result)
    p_value = 1.0 if same and result.p_value is not None else result.p_value
    optional = (p_value, result.mean, result.ci)
    return Comparison(float(result.score), *(None if x is None else float(x) for x in optional))


@contextmanager
def _seed(seed: int) -> Iterator[None]:
    """Set sacrebleu's seed, which only the environment can do."""
    if seed < 1:
        raise ValueError(f"expected a seed of 1 or more, which sacrebleu keeps to, got {seed}")
    before = os.environ.get(_SEED_VARIABLE)
    os.environ[_SEED_VARIABLE] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SEED_VARIABLE]
        else:
            os.environ[_SEED_VARIABLE] = before

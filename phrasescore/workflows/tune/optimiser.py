"""A method of tuning with its settings, which the user may stop."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from phrasescore.devices import usable_threads
from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.evaluation.plugin_metric import PluginMetric, find_metric, known_metrics
from phrasescore.evaluation.sentences import check_aligned, read_sentences
from phrasescore.records import FeatureLabel
from phrasescore.settings.tuning import TuningMethod
from phrasescore.signals import catching_signals, raise_signal
from tuning.methods import Optimise, Report, StopTuning, Tuned, load_method
from tuning.metrics import Bleu, Chrf, Interpolated, Metric, ReferenceMetric
from tuning.pool import Pool, Vector
from tuning.settings import METRICS, ReferenceLength, TuneSettings

_logger = logging.getLogger(__name__)


@dataclass
class Optimiser:
    """A method with its settings, which a user may stop.

    After Ctrl-C or SIGTERM a method returns the best weights that it has so far; a second Ctrl-C
    interrupts it.
    """

    tuning: TuningMethod
    # Number of threads; None for all cores.
    threads: int | None = None
    # Gets a line for each step.
    report: Report = _logger.debug
    # Features that may be fixed and that a pool may lack.
    others: Collection[str] = ()
    # The signal by which the user has stopped it.
    stopped_by: int | None = None
    _optimise: Optimise = field(init=False)

    def __post_init__(self) -> None:
        self._optimise = load_method(self.tuning.method)

    @property
    def stopped(self) -> bool:
        """Whether the user has stopped the search."""
        return self.stopped_by is not None

    def raise_stop(self) -> NoReturn:
        """Raise the signal that stopped the search; call it after all files are written."""
        assert self.stopped_by is not None
        raise_signal(self.stopped_by)

    def settings(self, labels: Sequence[FeatureLabel]) -> TuneSettings:
        """Return the settings for a pool of these features."""
        return TuneSettings(
            fixed=_fixed_labels(self.tuning.fixed, labels, self.others),
            threads=usable_threads(self.threads),
            starts=self.tuning.starts,
            neighbours=self.tuning.plateau_smoothing,
        )

    def __call__(self, pool: Pool, metric: Metric, start: Vector, seed: int) -> Tuned:
        """Return weights that are at least as good as the start."""
        settings = self.settings(pool.labels)
        with catching_signals() as caught:

            def report_or_stop(line: str) -> None:
                self.report(line)
                if caught:
                    raise StopTuning

            tuned = self._optimise(pool, metric, start, settings, seed=seed, report=report_or_stop)
            self.stopped_by = caught[0] if caught else None
        for note in tuned.notes:
            _logger.info("%s: %s", tuned.method, note)
        return tuned


def _fixed_labels(
    names: Sequence[str], labels: Sequence[FeatureLabel], others: Collection[str]
) -> tuple[FeatureLabel, ...]:
    """Return the labels of fixed features: all labels of a feature, or one.

    :param others: features that may be named and need not be there.
    :raises PhrasescoreError: if there is no feature of a name.
    """
    found: list[FeatureLabel] = []
    for name in names:
        chosen = [label for label in labels if name in (label.name, str(label))]
        if not chosen and name.rpartition("_")[0] not in others and name not in others:
            there = ", ".join(dict.fromkeys(label.name for label in labels))
            raise PhrasescoreError(f"--fix {name}: there is no such feature; there are {there}")
        found.extend(chosen)
    return tuple(dict.fromkeys(found))


def read_metric(
    paths: Sequence[str], metrics: Mapping[str, float], reference_length: ReferenceLength
) -> tuple[ReferenceMetric, list[list[tuple[str, ...]]]]:
    """Return the metric, and the words of the references by file and sentence.

    :param paths: the paths of the references.
    :param metrics: the weight of each metric: ``bleu``, ``chrf`` or other packages' metrics.
    :raises ArgumentError: if there is an unknown metric, or a weight is not above 0.
    :raises DataError: if the references cannot be read, or are not aligned.
    :raises PluginError: if a metric of another package cannot be used.
    """
    plugins = {name: find_metric(name) for name in metrics}
    for name, weight in metrics.items():
        if (name not in METRICS and plugins[name] is None) or not 0 < weight < float("inf"):
            known = " or ".join(known_metrics(METRICS))
            raise ArgumentError(f"--metric: expected {known}, and weights above 0")
    references = [read_sentences(path) for path in paths]
    check_aligned(references)
    words = [sentences.words for sentences in references]
    made: list[ReferenceMetric] = []
    for name, plugin in plugins.items():
        if plugin is not None:
            made.append(PluginMetric(plugin, words))
        elif name == "bleu":
            made.append(Bleu(words, reference_length=reference_length))
        else:
            made.append(Chrf(words))
    if len(made) == 1:
        return made[0], words
    return Interpolated(made, list(metrics.values())), words

"""How ``phrasescore tune`` calls a method: with settings, and so that Ctrl-C stops it."""

import logging
import signal
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from phrasescore.cli.ending import EndedBySignal
from phrasescore.cli.tune_options import TuneOptions
from phrasescore.devices import usable_threads
from phrasescore.errors import PhrasescoreError
from phrasescore.training.signals import catching_signals
from tuning.methods import Optimise, Report, StopTuning, Tuned, load_method
from tuning.metric import Metric
from tuning.pool import FeatureLabel, Pool, Vector
from tuning.settings import TuneSettings

_logger = logging.getLogger(__name__)


@dataclass
class Search:
    """A method with its settings: a `tuning.methods.Optimise` that a user may stop.

    After Ctrl-C or SIGTERM a method returns the best weights that it has so far; a second one ends
    it there.
    """

    options: TuneOptions
    # Features of the lists that a pool may lack.
    others: Collection[str] = ()
    # The signal by which the user has stopped it.
    stopped_by: int | None = None
    _optimise: Optimise = field(init=False)

    def __post_init__(self) -> None:
        self._optimise = load_method(self.options.method)

    @property
    def stopped(self) -> bool:
        """Whether the user has stopped it."""
        return self.stopped_by is not None

    def end(self) -> NoReturn:
        """End the command by what stopped the search, when all is written."""
        assert self.stopped_by is not None
        if self.stopped_by == signal.SIGINT:
            raise KeyboardInterrupt
        raise EndedBySignal(self.stopped_by)

    def settings(self, labels: Sequence[FeatureLabel]) -> TuneSettings:
        """Return the settings for a pool of these features; without any, none is fixed yet."""
        fixed = fixed_labels(self.options.fixed, labels, self.others) if labels else ()
        threads = usable_threads(self.options.threads)
        return TuneSettings(
            fixed=fixed,
            threads=threads,
            starts=self.options.starts,
            neighbours=self.options.plateau_smoothing,
        )

    def __call__(
        self,
        pool: Pool,
        metric: Metric,
        start: Vector,
        settings: TuneSettings,
        *,
        seed: int,
        report: Report = _logger.debug,
    ) -> Tuned:
        """Return weights that are at least as good as the start.

        :param settings: `settings` of this pool are taken instead, where features are fixed.
        """
        with catching_signals() as caught:

            def say(line: str) -> None:
                report(line)
                if caught:
                    raise StopTuning

            if self.options.fixed:
                settings = self.settings(pool.labels)
            tuned = self._optimise(pool, metric, start, settings, seed=seed, report=say)
            self.stopped_by = caught[0] if caught else None
        for note in tuned.notes:
            _logger.info("%s: %s", tuned.method, note)
        return tuned


def fixed_labels(
    names: Sequence[str], labels: Sequence[FeatureLabel], others: Collection[str] = ()
) -> tuple[FeatureLabel, ...]:
    """Return the values that ``--fix`` names: all of a feature, or one.

    :param others: features that may be named and need not be there.
    :raises PhrasescoreError: if there is none of a name.
    """
    found: list[FeatureLabel] = []
    for name in names:
        chosen = [label for label in labels if name in (label.name, str(label))]
        if not chosen and name.rpartition("_")[0] not in others and name not in others:
            there = ", ".join(dict.fromkeys(label.name for label in labels))
            raise PhrasescoreError(f"--fix {name}: there is no such feature; there are {there}")
        found.extend(chosen)
    return tuple(dict.fromkeys(found))

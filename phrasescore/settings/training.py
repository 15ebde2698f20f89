"""Options for training networks and tuning weights.

`phrasescore.settings.config` has all settings of a training run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from phrasescore.arguments import StrPath
from phrasescore.settings.declaration import SEED, Settings, option, optional, switch
from tuning.settings import MethodName, MetricName


@dataclass(frozen=True, kw_only=True)
class TrainingChanges(Settings, heading="Training"):
    """Changes to the settings of a training run; None keeps a setting."""

    minutes: float | None = optional(
        "Stop after this many minutes, including earlier parts of the run."
    )
    epochs: float | None = optional("Stop after this many passes over the pairs.")
    updates: int | None = optional("Stop after this many batches.", ge=1)
    changes: Sequence[str] = option(
        (),
        "Change a setting, such as training.batch_size=32. May be repeated.",
        flags="--set",
        metavar="TABLE.KEY=VALUE",
    )
    seed: int | None = optional(SEED, ge=0, shown="1")

    def limits(self) -> dict[str, Any]:
        """Return the training settings that have their own options, by name."""
        return {name: getattr(self, name) for name in ("updates", "epochs", "minutes", "seed")}


@dataclass(frozen=True, kw_only=True)
class NewNetwork(TrainingChanges):
    """Settings of `train`, which trains a new network."""

    preset: str | None = optional("The preset to start from.", shown="KIND-small")
    config: StrPath | None = optional(
        "A TOML file with the settings to start from, instead of a preset."
    )
    subwords: int | None = optional(
        "Use at most this many subwords on each side, instead of shortlists of words.", ge=1
    )
    characters: bool = switch("Use characters instead of shortlists of words.")
    reverse: bool = switch(
        "Learn p(source | target): read the target side, and predict the source side."
    )
    right_to_left: bool = switch(
        "Predict the last word first; the order of the other side does not change."
    )


@dataclass(frozen=True, kw_only=True)
class ListTraining(TrainingChanges):
    """Settings of `fine_tune`, which trains a network on n-best lists."""

    feature: str | None = optional(
        "The network's feature in --weights, whose values in the lists are ignored; "
        "TranslationModel0_4 is the fifth score of a table.",
        metavar="NAME",
        shown="the name that rescore gives it",
        heading="Training for BLEU",
    )
    likelihood: float = option(
        0.1,
        "The factor of -log p per word of the references or phrase pairs in the loss.",
        ge=0,
        heading="Training for BLEU",
    )


@dataclass(frozen=True, kw_only=True)
class UnfinishedRun(Settings, heading="Long runs"):
    """Whether to continue an unfinished run, and whether to keep its state at the end."""

    resume: bool = switch("Continue a run that was stopped or killed, if there is one.")
    keep_work: bool = switch(
        "Keep MODEL.work, the folder of the run's state, to train further with --resume."
    )


@dataclass(frozen=True, kw_only=True)
class TuningMethod(Settings, heading="Tuning"):
    """The tuning method and its metric."""

    method: MethodName = option(
        "mert", "The tuning method: mert for up to about twenty features; mira or xbleu for more."
    )
    metric: MetricName = option("bleu", "The metric to maximise.")
    fixed: Sequence[str] = option(
        (),
        "Keep the weight of this feature; NAME_0 is its first value.",
        flags="--fix",
        metavar="NAME",
    )
    seed: int = option(1, SEED, ge=0)
    starts: int = option(
        20, "Number of random starts of mert, in addition to the start weights.", ge=0
    )


@dataclass(frozen=True, kw_only=True)
class ListTuning(TuningMethod):
    """Settings of `tune`, which finds weights on existing n-best lists."""

    allow_missing: bool = switch(
        "Use an empty translation for sentences without an n-best list.", heading="Input"
    )


@dataclass(frozen=True, kw_only=True)
class RoundTuning(TuningMethod, heading="Rounds of a system"):
    """Settings of `tune_system`, which tunes in rounds as mert-moses.pl does."""

    iterations: int = option(25, "Maximum number of rounds.", ge=1)
    patience: int = option(5, "Stop after this many rounds without a better translation.", ge=1)

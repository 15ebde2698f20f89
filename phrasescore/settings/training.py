"""Options for training networks and tuning weights.

`phrasescore.settings.config` has all settings of a training run.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from phrasescore.arguments import Amount, AtLeastOne, Count, StrPath
from phrasescore.settings.declaration import SEED, Settings, option, optional, switch
from tuning.settings import MethodName, MetricName


@dataclass(frozen=True, kw_only=True)
class TrainingChanges(Settings, heading="Training"):
    """Changes to the settings of a training run; None keeps a setting."""

    minutes: Amount | None = optional(
        "Stop after this many minutes, including earlier parts of the run."
    )
    epochs: Amount | None = optional("Stop after this many passes over the pairs.")
    updates: AtLeastOne | None = optional("Stop after this many batches.")
    changes: Sequence[str] = option(
        (),
        "Change a setting, such as training.batch_size=32. May be repeated.",
        flags="--set",
        metavar="TABLE.KEY=VALUE",
    )
    seed: Count | None = optional(SEED, shown="1")

    def all_changes(self) -> list[str]:
        """Return the changes, and then the settings that have options of their own."""
        own = {name: getattr(self, name) for name in ("updates", "epochs", "minutes", "seed")}
        given = [f"training.{name}={value}" for name, value in own.items() if value is not None]
        return [*self.changes, *given]


@dataclass(frozen=True, kw_only=True)
class NewNetwork(TrainingChanges):
    """Settings of `train`, which trains a new network."""

    preset: str | None = optional("The preset to start from.", shown="KIND-small")
    config: StrPath | None = optional(
        "A TOML file with the settings to start from, instead of a preset."
    )
    subwords: AtLeastOne | None = optional(
        "Use at most this many subwords on each side, instead of shortlists of words."
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
    likelihood: Amount = option(
        0.1,
        "The factor of -log p per word of the references or phrase pairs in the loss.",
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
    seed: Count = option(1, SEED)
    starts: Count = option(20, "Number of random starts of mert, in addition to the start weights.")


@dataclass(frozen=True, kw_only=True)
class ListTuning(TuningMethod):
    """Settings of `tune`, which finds weights on existing n-best lists."""

    allow_missing: bool = switch(
        "Use an empty translation for sentences without an n-best list.", heading="Input"
    )


@dataclass(frozen=True, kw_only=True)
class RoundTuning(TuningMethod, heading="Rounds of a system"):
    """Settings of `tune_system`, which tunes in rounds as mert-moses.pl does."""

    iterations: AtLeastOne = option(25, "Maximum number of rounds.")
    patience: AtLeastOne = option(5, "Stop after this many rounds without a better translation.")

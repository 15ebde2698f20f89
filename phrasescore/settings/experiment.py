"""Settings of `init_experiment`, which writes the file for an experiment."""

from dataclasses import dataclass

from phrasescore.arguments import StrPath
from phrasescore.settings.declaration import Settings, optional


@dataclass(frozen=True, kw_only=True)
class ExperimentStart(Settings, heading="Input"):
    """What a new experiment may use."""

    alignments: StrPath | None = optional(
        "The word alignment of the training text, for a joint model.",
        shown="a file aligned.* beside the phrase table or MOSES_INI",
    )
    minutes: float | None = optional(
        "The time of the whole experiment: training, tuning and translating.",
        gt=0,
        heading="Time",
        shown="by the amount of text",
    )

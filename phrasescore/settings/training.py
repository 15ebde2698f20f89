"""A user's choices for one training run; `phrasescore.settings.config` has all settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from phrasescore.arguments import StrPath
from phrasescore.settings.declaration import Settings, option


@dataclass(frozen=True, kw_only=True)
class TrainingChanges(Settings, heading="Training"):
    """Changes to the settings of a run, which check the ranges; None keeps a setting."""

    changes: Annotated[
        Sequence[str],
        option(
            "Change a setting, as training.batch_size=32. May be repeated.",
            flags="--set",
            metavar="TABLE.KEY=VALUE",
        ),
    ] = ()
    updates: Annotated[int | None, option("Stop after this many batches.", ge=1)] = None
    epochs: Annotated[float | None, option("Stop after this many passes over the pairs.")] = None
    minutes: Annotated[
        float | None, option("Stop after this many minutes, all resumptions counted.")
    ] = None
    seed: Annotated[
        int | None,
        option(
            "Start of every random choice: the same seed gives the same result on a machine.",
            ge=0,
            shown="1",
        ),
    ] = None

    def limits(self) -> dict[str, Any]:
        """Return the training settings that have their own options, by name."""
        return {name: getattr(self, name) for name in ("updates", "epochs", "minutes", "seed")}


@dataclass(frozen=True, kw_only=True)
class NewNetwork(TrainingChanges):
    """Settings of `train`."""

    preset: Annotated[
        str | None, option("Settings to start from.", shown="small or KIND-small")
    ] = None
    config: Annotated[StrPath | None, option("A TOML file of settings, instead.")] = None
    # They are sentencepiece's; the only unknown words have characters that were never seen
    # (Sennrich et al., 2016).
    subwords: Annotated[
        int | None,
        option(
            "Learn from pieces of words, at most this many on each side, instead of shortlists.",
            ge=1,
        ),
    ] = None
    reverse: Annotated[bool, option("Learn p(source | target).")] = False
    right_to_left: Annotated[
        bool,
        option("Predict the last word first. The order of the other side does not change."),
    ] = False


@dataclass(frozen=True, kw_only=True)
class Shortlists(Settings, heading="Input"):
    """The sources of the shortlists; by default the words are counted in the input."""

    source_corpus: Annotated[
        StrPath | None, option("Take the source shortlist from this text.")
    ] = None
    target_corpus: Annotated[
        StrPath | None, option("Take the target shortlist from this text.")
    ] = None
    source_vocabulary: Annotated[StrPath | None, option("A source.vocab of another model.")] = None
    target_vocabulary: Annotated[StrPath | None, option("A target.vocab of another model.")] = None


@dataclass(frozen=True, kw_only=True)
class ListTraining(TrainingChanges):
    """Settings of `fine_tune`, which trains a network on n-best lists."""

    feature: Annotated[
        str | None,
        option(
            "The network's feature in --weights; TranslationModel0_4 is the fifth score of a "
            "table. Its values in the lists are ignored.",
            metavar="NAME",
            shown="as rescore names it",
            heading="Training for BLEU",
        ),
    ] = None
    likelihood: Annotated[
        float,
        option(
            "The factor of -log p per word of the references, or of the phrase pairs.",
            ge=0,
            heading="Training for BLEU",
        ),
    ] = 0.1


@dataclass(frozen=True, kw_only=True)
class UnfinishedRun(Settings, heading="Long runs"):
    """The folder of a run's state, and whether to continue that run."""

    resume: Annotated[
        bool, option("Continue a run that was stopped or killed, if there is one.")
    ] = False
    work_dir: Annotated[
        StrPath | None, option("For the run's state.", metavar="DIR", shown="MODEL.work")
    ] = None
    keep_work: Annotated[bool, option("Keep that folder, to train further by --resume.")] = False

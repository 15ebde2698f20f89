"""Settings for scoring n-best lists and parallel text."""

from dataclasses import dataclass

from phrasescore.arguments import StrPath
from phrasescore.settings.declaration import Settings, optional, switch


@dataclass(frozen=True, kw_only=True)
class TextScoring(Settings, heading="Networks and features"):
    """Settings of `score`, which scores parallel text."""

    # Right-to-left models are averaged among themselves; the column is then the mean of both
    # scores, weighted by the numbers of models.
    ensemble: bool = switch(
        "Add a column in which the models' probabilities are averaged at each word. If some models "
        "were trained with --right-to-left, it has the mean of the scores for both orders. The "
        "models should have the same shortlist: with a smaller shortlist, <unk> gets more "
        "probability than a rare word gets with a larger one."
    )
    cache: StrPath | None = optional(
        "Cache scores in this file, and reuse them in later runs.", heading="Devices and speed"
    )


@dataclass(frozen=True, kw_only=True)
class Rescoring(TextScoring):
    """Settings of `rescore`, which adds features to n-best lists."""

    allow_missing: bool = switch("Allow source sentences that have no hypotheses.", heading="Input")

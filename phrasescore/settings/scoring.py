"""Settings for scoring n-best lists and parallel text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from phrasescore.arguments import StrPath
from phrasescore.settings.declaration import Settings, option


@dataclass(frozen=True, kw_only=True)
class FeedForwardScoring(Settings, heading="Networks and features"):
    """Settings for scoring with models of the kinds cslm and joint."""

    backoff_lm: Annotated[
        StrPath | None,
        option(
            "An n-gram model, ARPA or a KenLM binary, for the words outside a cslm's shortlist, "
            "which are <unk> without it."
        ),
    ] = None
    unnormalized: Annotated[
        bool,
        option(
            "Leave log Z out of the scores of a cslm or joint; for one trained with "
            "self_normalization."
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class TextScoring(FeedForwardScoring):
    """Settings of `score`, which scores parallel text."""

    # Right-to-left models are averaged among themselves; the column is then the mean of both
    # scores, weighted by the numbers of models.
    ensemble: Annotated[
        bool,
        option(
            "One more column: the models' probabilities, averaged at each word; of both orders "
            "(train --right-to-left) the mean of their scores. They should have one shortlist: a "
            "smaller one gives <unk> more probability than a larger one any one rare word."
        ),
    ] = False
    cache: Annotated[
        StrPath | None,
        option("Keep scores in this file, and take them from it.", heading="Speed"),
    ] = None
    cache_size: Annotated[
        int,
        option(
            "Scores that the cache keeps, of about 65 bytes each; beyond, the oldest go.",
            ge=1,
            heading="Speed",
        ),
    ] = 10_000_000


@dataclass(frozen=True, kw_only=True)
class Rescoring(TextScoring):
    """Settings of `rescore`, which adds features to n-best lists."""

    names: Annotated[
        Sequence[str],
        option(
            "Name of a new feature: one per column in the order of the options, then the "
            "ensemble's.",
            flags="--name",
            metavar="NAME",
            shown="LSTM0, Attention0, RNN0, CSLM0, CT20, KenLM0, UnknownWords0 and so on",
        ),
    ] = ()
    normalize: Annotated[
        bool,
        option(
            "For each network one more column, NAMENorm: its score divided by predicted words and "
            "end symbol."
        ),
    ] = False
    replace: Annotated[
        bool,
        option("Remove features that have a new one's name, where they are.", heading="Output"),
    ] = False
    allow_missing: Annotated[
        bool, option("Allow source sentences without hypotheses.", heading="Input")
    ] = False

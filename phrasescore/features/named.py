"""Columns of features that are found by name: our own, and other packages'."""

import pkgutil
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from phrasescore.errors import ArgumentError
from phrasescore.features.columns import Column
from phrasescore.features.model import Network

if TYPE_CHECKING:
    from phrasescore.features.feature import Feature
    from phrasescore.features.packages import PackageClass
    from phrasescore.features.request import ScoringRequest

# The class of each feature; imported on request, because most features import numpy.
FEATURES = {
    "length_ratio": "phrasescore.features.word_counts:LengthRatio",
    "number_mismatch": "phrasescore.features.word_counts:NumberMismatch",
    "target_length": "phrasescore.features.word_counts:TargetLength",
    "unknown_words": "phrasescore.features.word_counts:UnknownWords",
}

# Features made from the target vocabularies of models; every other feature takes no argument.
OF_SHORTLISTS = {"unknown_words"}

# Features that are useless as a column of a phrase table, and the reason.
NOT_OF_PHRASES = {
    "length_ratio": "the ratios of phrases do not add up to a sentence's ratio",
    "target_length": "Moses already has it: WordPenalty is minus the number of words",
}


@dataclass(frozen=True)
class NamedFeature(Column):
    """A feature in :data:`FEATURES`, or of another package."""

    paths: ClassVar[tuple[str, ...]] = ("model",)

    feature: str  # type: ignore[misc]  # such as "length_ratio"
    _: KW_ONLY
    # The model whose shortlist a feature uses; None for all models in the request.
    model: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model is not None and self.feature not in OF_SHORTLISTS:
            raise self.error("model: this feature does not depend on a model")

    @property
    def label(self) -> str:
        return self.feature.title().replace("_", "")

    def find_class(self) -> "PackageClass | None":
        """Return the class of another package, or None for one of our features.

        :raises ArgumentError: if there is no such feature.
        """
        from phrasescore.features.packages import find_class, find_classes

        found = find_class(self.feature)
        if found is None and self.feature not in FEATURES:
            others = (each.name for each in find_classes() if not each.problem)
            known = ", ".join([*FEATURES, *others])
            raise ArgumentError(f"feature {self.feature!r}: expected one of {known}")
        return found

    def not_of_phrases(self) -> str | None:
        found = self.find_class()
        reason = NOT_OF_PHRASES.get(self.feature)
        if found is not None:
            reason = getattr(found.load(), "not_of_phrases", None)
        return reason and f"feature {self.feature} is only for rescore: {reason}"

    def check(self, columns: Sequence[Column], *, of_phrases: bool) -> None:
        super().check(columns, of_phrases=of_phrases)
        self.find_class()
        needs_model = self.feature in OF_SHORTLISTS and self.model is None
        if needs_model and not any(isinstance(column, Network) for column in columns):
            problem = "requires at least one model, whose shortlist it uses"
            raise ArgumentError(f"feature {self.feature} {problem}")

    def load(self, request: "ScoringRequest") -> "Feature":
        from phrasescore.features.feature import ScoreRow
        from phrasescore.features.packages import PackageFeature

        if (found := self.find_class()) is not None:
            return PackageFeature(found)
        make: Any = pkgutil.resolve_name(FEATURES[self.feature])
        if self.feature not in OF_SHORTLISTS:
            made: Feature = make()
            return made
        checkpoints = request.checkpoints_of(self.model)
        counts: Feature = make([each.table_target_vocabulary for each in checkpoints])
        counts.rows = (ScoreRow(" ".join(checkpoint.fingerprint for checkpoint in checkpoints)),)
        return counts

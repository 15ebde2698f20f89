"""The translation of a sentence by a system."""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from moses_integration.alignments import PhraseSpan
from moses_integration.nbest_values import Hypothesis, hypotheses_of

# The weights of source words and their ``</s>``, a row for each word of a translation and ``</s>``.
Attention = tuple[tuple[float, ...], ...]


class FeaturePart(NamedTuple):
    """A feature of a hypothesis: its values, their weights, and the sum of their products."""

    name: str
    values: tuple[float, ...]
    weights: tuple[float, ...]
    contribution: float


class ExplainedHypothesis(NamedTuple):
    """A hypothesis with everything that its score consists of."""

    words: str  # separated by spaces
    score: float
    features: tuple[FeaturePart, ...]
    # In target order; none from another decoder, or from a system of characters.
    phrases: tuple[PhraseSpan, ...]


@dataclass(frozen=True, slots=True)
class Translation:
    """The translation of a sentence by a system."""

    source: tuple[str, ...]  # the words that were translated
    text: str
    words: tuple[str, ...]  # the text before detokenising
    # The probability, 0 to 1, that no other hypothesis of the list is better (docs/translate.md).
    confidence: float | None
    nbest: bytes  # the n-best list in Moses' format with the system's features, if requested
    # The best hypotheses with their features, if requested.
    hypotheses: tuple[ExplainedHypothesis, ...]
    attention: tuple[Attention, ...] = ()  # of each hypothesis, if requested

    def __str__(self) -> str:
        return self.text

    def to_list(self) -> list[Hypothesis]:
        """Return the hypotheses of the n-best list, if it was requested."""
        return hypotheses_of(self.nbest)[0] if self.nbest else []

    def to_json(self) -> bytes:
        """Return the fields as a JSON object, except ``nbest`` and ``attention``."""
        names = [name for name in self.__slots__ if name not in ("nbest", "attention")]
        fields = {name: getattr(self, name) for name in names}
        fields["hypotheses"] = [
            {
                **each._asdict(),
                "features": [part._asdict() for part in each.features],
                "phrases": [span._asdict() for span in each.phrases],
            }
            for each in self.hypotheses
        ]
        return msgspec.json.encode(fields)

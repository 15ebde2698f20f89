"""Score translations under an n-gram language model."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from phrasescore.features.columns import Column
from phrasescore.features.feature import BlockScores, CountTally, Feature, ScoreRow
from phrasescore.io.journal import digest_content
from phrasescore.language_models.ngram_scorer import load_ngrams, score_sentences
from phrasescore.records import PhraseBlock

if TYPE_CHECKING:
    from phrasescore.features.request import ScoringRequest


@dataclass(frozen=True)
class LanguageModel(Column):
    """An n-gram model of the target: an ARPA file, also compressed, or a KenLM binary."""

    feature: ClassVar[str] = "KenLM"
    paths: ClassVar[tuple[str, ...]] = ("lm",)

    lm: str

    def load(self, _request: "ScoringRequest") -> Feature:
        return LanguageModelScore(self.lm)


class LanguageModelScore(Feature):
    """log p(target ``</s>`` | ``<s>``): natural logarithms, not divided by length.

    A word that the model does not know has the probability of its ``<unk>``, or 10^-100 where it
    has no ``<unk>``, as in Moses. The source is ignored.
    """

    def __init__(self, path: str) -> None:
        self._model = load_ngrams(path)
        self.rows = (ScoreRow(digest_content(path)),)
        self.known_words = None, self._model

    def score(self, block: PhraseBlock) -> BlockScores:
        targets = [pair.target for pair in block.pairs()]
        values = score_sentences(self._model, targets)
        tally = CountTally(f"scored by a {self._model.order}-gram model", len(values))
        return BlockScores(values.reshape(1, -1), tally)

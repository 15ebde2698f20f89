"""Score translations under an n-gram language model."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from phrasescore.features.columns import Column
from phrasescore.features.feature import BlockScores, CountTally, Feature, ScoreRow
from phrasescore.io.journal import digest_content
from phrasescore.language_models.ngram_scorer import load_ngrams, sum_words
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

    def score(self, block: PhraseBlock) -> BlockScores:
        targets = [pair.target for pair in block.pairs()]
        log_probs, unknown = self._model.score_words(targets)
        tally = CountTally(f"words unknown to a {self._model.order}-gram model", int(unknown.sum()))
        return BlockScores(sum_words(log_probs, targets).reshape(1, -1), tally)

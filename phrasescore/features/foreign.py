"""Score translations under a network from another toolkit, with CTranslate2."""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from phrasescore.features.columns import Column
from phrasescore.features.feature import BlockScores, CachedTally, Feature, ScoreRow
from phrasescore.foreign import ForeignText
from phrasescore.foreign.generator import GeneratorModel, is_generator
from phrasescore.foreign.model import ForeignModel
from phrasescore.records import PhraseBlock

if TYPE_CHECKING:
    from phrasescore.features.request import ScoringRequest

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CTranslate2Model(Column, ForeignText):
    """A model from another toolkit, converted for CTranslate2; `ForeignText` has its options."""

    feature: ClassVar[str] = "CT2"
    paths: ClassVar[tuple[str, ...]] = ("ctranslate2", "source_spm", "target_spm")
    is_on_device: ClassVar[bool] = True

    ctranslate2: str  # the folder

    def load(self, request: "ScoringRequest") -> Feature:
        return ForeignScore(self.ctranslate2, self, device=request.device, threads=request.callers)


@dataclass(frozen=True, slots=True)
class ForeignTally(CachedTally):
    """Counts from scoring with a foreign model."""

    by: str = "CTranslate2"
    # Number of pieces on both sides of the pairs that the cache lacked, and of unknown pieces.
    pieces: int = 0
    unknown: int = 0

    def __str__(self) -> str:
        scores = CachedTally.__str__(self)
        return f"{scores}; {self.unknown:,} of {self.pieces:,} pieces unknown"


class ForeignScore(Feature):
    """log p(target ``</s>`` | source) under a model converted by CTranslate2, or a language model.

    Values are natural logarithms, summed over the model's pieces and its end symbol, and not
    divided by length; the tokens before the target are not scored.
    :class:`phrasescore.foreign.PieceText` splits words into pieces. A piece that the model does
    not know is scored as its ``<unk>``. :class:`phrasescore.foreign.model.ConvertedModel`
    documents what a value depends on, and :mod:`phrasescore.foreign.generator` language models.
    """

    # With the distinct hypotheses of some forty lists, a batch of equal lengths has 80 of them on
    # average.
    group_size = {"cpu": 4096, "cuda": 4096}  # noqa: RUF012

    def __init__(
        self, folder: str, text: ForeignText | None = None, *, device: str = "cpu", threads: int = 1
    ) -> None:
        text = text or ForeignText()
        threads = threads if device == "cpu" else 1
        kind = GeneratorModel if is_generator(folder) else ForeignModel
        model = self._model = kind(folder, text, device, threads)
        self.rows = (ScoreRow(f"{model.fingerprint} {device.partition(':')[0]}", highest=0.0),)
        _logger.info("%s reads %s", folder, model.frame())

    def score(self, block: PhraseBlock) -> BlockScores:
        pairs = list(block.pairs())
        if not pairs:
            return BlockScores(np.empty((1, 0)), ForeignTally())
        scores = self._model.score(pairs)
        pieces, unknown = sum(pair.pieces for pair in scores), sum(pair.unknown for pair in scores)
        values = np.array([[pair.log_prob for pair in scores]])
        return BlockScores(values, ForeignTally(scores=len(scores), pieces=pieces, unknown=unknown))

"""Score translations under a network from another toolkit, with CTranslate2."""

import logging
from dataclasses import dataclass

import numpy as np

from phrasescore.features import BlockScores, Feature
from phrasescore.features.score_cache import score_keys
from phrasescore.foreign import ForeignText
from phrasescore.foreign.converted_folder import ConvertedFolder
from phrasescore.foreign.generator import GeneratorModel, GeneratorNetwork
from phrasescore.foreign.model import ForeignModel, ForeignNetwork
from phrasescore.records import PhraseBlock, Tally

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ForeignTally(Tally):
    """Counts from scoring with a foreign model."""

    scores: int = 0  # that were computed
    cached: int = 0  # that were found in the cache
    # Number of pieces on both sides of the pairs that the cache lacked, and of unknown pieces.
    pieces: int = 0
    unknown: int = 0

    def __str__(self) -> str:
        cached = f", {self.cached:,} of them from the cache" if self.cached else ""
        unknown = f"{self.unknown:,} of {self.pieces:,} pieces unknown"
        return f"{self.scores + self.cached:,} scores by CTranslate2{cached}; {unknown}"


class ForeignScore(Feature):
    """log p(target ``</s>`` | source) under a model converted by CTranslate2, or a language model.

    Values are natural logarithms, summed over the model's pieces and its end symbol, and not
    divided by length; the tokens before the target are not scored.
    :class:`phrasescore.foreign.PieceText` splits words into pieces. A piece that the model does
    not know is scored as its ``<unk>``. :class:`phrasescore.foreign.model.ConvertedNetwork`
    documents what a value depends on, and :mod:`phrasescore.foreign.generator` language models.
    """

    highest = (0.0,)
    # With the distinct hypotheses of some forty lists, a batch of equal lengths has 80 of them on
    # average.
    group_size = {"cpu": 4096, "cuda": 4096}  # noqa: RUF012

    def __init__(
        self, folder: str, text: ForeignText | None = None, *, device: str = "cpu", threads: int = 1
    ) -> None:
        text = text or ForeignText()
        threads = threads if device == "cpu" else 1
        model: ForeignModel | GeneratorModel
        self._network: ForeignNetwork | GeneratorNetwork
        if ConvertedFolder(folder).is_generator:
            model = GeneratorModel(folder, text)
            self._network = GeneratorNetwork(model, device, threads)
        else:
            model = ForeignModel(folder, text)
            self._network = ForeignNetwork(model, device, threads)
        self.known_words = model.known_words
        self.fingerprints = (f"{model.fingerprint} {device.partition(':')[0]}",)
        _logger.info("%s reads %s", folder, model.frame())

    def cache_keys(self, block: PhraseBlock) -> list[list[bytes]]:
        """Return the cache keys, which do not depend on alignments."""
        return [score_keys(self.fingerprints[0], block._replace(affiliations=None))]

    def score(self, block: PhraseBlock) -> BlockScores:
        pairs = list(block.pairs())
        if not pairs:
            return BlockScores(np.empty((1, 0)), ForeignTally())
        scores = self._network.score(pairs)
        pieces, unknown = sum(pair.pieces for pair in scores), sum(pair.unknown for pair in scores)
        values = np.array([[pair.log_prob for pair in scores]])
        return BlockScores(values, ForeignTally(len(scores), 0, pieces, unknown))

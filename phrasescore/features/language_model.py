"""The score of a translation under an n-gram language model, computed by KenLM."""

from dataclasses import dataclass

import numpy as np

from phrasescore.errors import ModelError
from phrasescore.features import BlockScores, Feature
from phrasescore.io.digests import digest_content
from phrasescore.io.text import shorten
from phrasescore.language_models.kenlm_model import LN_10, load_kenlm, score_sentence
from phrasescore.records import PhraseBlock


@dataclass(frozen=True, slots=True)
class ScoredTally:
    """The number of targets that were scored."""

    # The order of the n-gram model.
    order: int
    scored: int

    def __add__(self, other: "ScoredTally") -> "ScoredTally":
        return ScoredTally(self.order, self.scored + other.scored)

    def __str__(self) -> str:
        return f"{self.scored:,} scored by a {self.order}-gram model"


class LanguageModelScore(Feature):
    """log p(target ``</s>`` | ``<s>``): natural logarithms, not divided by length.

    A word that the model does not know has the probability of its ``<unk>``, or 10^-100 where it
    has no ``<unk>``, as in Moses. The source does not count.

    :param path: an ARPA file, plain or ``.gz``, or KenLM's binary of one.
    :raises DataError: if it is no such model, or of a higher order than kenlm was built for.
    """

    def __init__(self, path: str) -> None:
        self._model, self._path = load_kenlm(path), path
        self.fingerprints = (digest_content(path),)
        self.known_words = None, self._model

    def score(self, block: PhraseBlock) -> BlockScores:
        """Return the log-probability of each pair's target.

        :raises ModelError: if one is not finite.
        """
        targets = [pair.target for pair in block.pairs()]
        values = np.array([score_sentence(self._model, each) * LN_10 for each in targets])
        for index in np.flatnonzero(~np.isfinite(values))[:1].tolist():
            text = shorten(" ".join(targets[index]))
            raise ModelError(f"{self._path}: the log-probability of {text} is {values[index]}")
        return BlockScores(values.reshape(1, -1), ScoredTally(self._model.order, len(values)))

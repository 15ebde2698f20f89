"""The score of a translation under an n-gram language model, computed by KenLM."""

import math
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from phrasescore.errors import ModelError
from phrasescore.io.digests import digest_content
from phrasescore.io.text import shorten
from phrasescore.language_models.kenlm_model import LN_10, load_kenlm, score_sentence
from phrasescore.records import PhrasePair


@dataclass(frozen=True, slots=True)
class ScoredTally:
    """The number of targets that were scored."""

    # Of the model.
    order: int
    scored: int

    def __add__(self, other: "ScoredTally") -> "ScoredTally":
        return ScoredTally(self.order, self.scored + other.scored)

    def __str__(self) -> str:
        return f"{self.scored:,} scored by a {self.order}-gram model"


class LanguageModelScore:
    """log p(target ``</s>`` | ``<s>``): natural logarithms, not divided by length.

    A word that the model does not know has the probability of its ``<unk>``, or 10^-100 where it
    has no ``<unk>``, as in Moses. The source does not count.

    :param path: an ARPA file, plain or ``.gz``, or KenLM's binary of one.
    :raises DataError: if it is no such model, or of a higher order than kenlm was built for.
    """

    def __init__(self, path: str) -> None:
        self._model = load_kenlm(path)
        self._path = path
        self._scored = 0

    @property
    def tally(self) -> ScoredTally:
        """Those scored so far."""
        return ScoredTally(self._model.order, self._scored)

    @property
    def known_words(self) -> tuple[None, Container[str]]:
        """The words that the model knows: it does not look at the source."""
        return None, self._model

    @property
    def fingerprint(self) -> str:
        """Everything that values depend on besides the pairs, as text."""
        return digest_content(self._path)

    def values(self, pairs: Iterable[PhrasePair]) -> Iterator[float]:
        """Yield the log-probability of each pair's target.

        :raises ModelError: on reaching one that is not finite.
        """
        for pair in pairs:
            value = score_sentence(self._model, pair.target) * LN_10
            if not math.isfinite(value):
                text = shorten(" ".join(pair.target))
                raise ModelError(f"{self._path}: the log-probability of {text} is {value}")
            self._scored += 1
            yield value

"""The paper's word penalty (WP): how many words the networks do not know."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from phrasescore.config.settings import LANGUAGE_MODELS
from phrasescore.errors import ModelError
from phrasescore.records import PhrasePair
from phrasescore.vocabulary import Vocabulary

if TYPE_CHECKING:
    from phrasescore.models.checkpoint import Checkpoint


class UnknownWords:
    """The number of target words outside the networks' shortlists.

    Cho et al. (2014), section 4.2: "the number of unknown words (i.e. words which are not in the
    shortlist)". It is neither Moses' ``WordPenalty``, which is the target's length, nor its
    ``UnknownWordPenalty``, which is for words that the phrase table lacks.

    The values are counts, 0 or more, and a phrase table holds e to the count: Moses then has the
    count itself as the feature's value.

    :param vocabularies: the networks' vocabularies of the table's target side. A word counts once
        if at least one of them lacks it.
    """

    side: ClassVar[str] = "target"

    def __init__(self, vocabularies: Sequence[Vocabulary]) -> None:
        if not vocabularies:
            raise ValueError("unknown words are those of at least one vocabulary")
        self._vocabularies = vocabularies
        self._total = 0

    @classmethod
    def from_checkpoints(cls, checkpoints: "Sequence[Checkpoint]") -> "UnknownWords":
        """Return the feature for the words of a phrase table that these models do not know."""
        return cls([checkpoint.table_target_vocabulary for checkpoint in checkpoints])

    def values(self, pairs: Iterable[PhrasePair]) -> Iterator[float]:
        """Yield the number of unknown words of each pair."""
        unknown = Vocabulary.UNKNOWN
        for pair in pairs:
            words = self._words(pair)
            ids = [vocabulary.ids(words) for vocabulary in self._vocabularies]
            count = sum(unknown in word_ids for word_ids in zip(*ids, strict=True))
            self._total += count
            yield float(count)

    def _words(self, pair: PhrasePair) -> tuple[str, ...]:
        return pair.target

    def summary(self) -> str:
        """Return how many unknown words there were."""
        return f"{self._total:,} unknown {self.side} words"


class SourceUnknownWords(UnknownWords):
    """The number of source words outside the networks' shortlists.

    All translations of a sentence have the same source words, so that no linear model can choose
    by this one: it is for tables and lists that something else reads.

    :param vocabularies: the networks' vocabularies of the table's source side.
    """

    side: ClassVar[str] = "source"

    @classmethod
    def from_checkpoints(cls, checkpoints: "Sequence[Checkpoint]") -> "SourceUnknownWords":
        """Return the feature for the source words of a table that these models do not know.

        :raises ModelError: if they are language models all, which have no source.
        """
        vocabularies = [
            checkpoint.table_source_vocabulary
            for checkpoint in checkpoints
            if checkpoint.config.kind not in LANGUAGE_MODELS
        ]
        if not vocabularies:
            raise ModelError("source_unknown_words: a language model knows no source words")
        return cls(vocabularies)

    def _words(self, pair: PhrasePair) -> tuple[str, ...]:
        return pair.source

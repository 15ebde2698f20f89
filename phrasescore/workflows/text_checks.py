"""Warnings of texts and models that do not fit: unknown words, lengths, shortlists."""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from phrasescore.errors import shown_path
from phrasescore.evaluation.sentences import Sentences
from phrasescore.vocabulary import Vocabulary

if TYPE_CHECKING:
    from phrasescore.models.checkpoint import Checkpoint

_logger = logging.getLogger(__name__)

# Words that are enough to judge a text by: the warning comes before the long work.
_ENOUGH_WORDS = 1000


class UnknownWordCounter:
    """Counts the words of a text that models do not know, and warns once where half are unknown.

    :param path: of the text, for the message.
    :param vocabularies: of the side that each model reads, by the model's name.
    """

    def __init__(self, path: str, vocabularies: Mapping[str, Vocabulary]) -> None:
        self._path = path
        self._vocabularies = vocabularies
        self._words = 0
        self._unknown = dict.fromkeys(vocabularies, 0)
        self._judged = False

    def count(self, words: Sequence[str]) -> None:
        """Count the words of a sentence; warn as soon as there are enough of them."""
        if self._judged:
            return
        self._words += len(words)
        for model, vocabulary in self._vocabularies.items():
            self._unknown[model] += sum(word not in vocabulary for word in words)
        if self._words >= _ENOUGH_WORDS:
            self.warn()

    def warn(self) -> None:
        """Warn of the models that know less than half of the words; for the end of a short text."""
        if self._judged:
            return
        self._judged = True
        for model, unknown in self._unknown.items():
            if 2 * unknown > self._words:
                _logger.warning(
                    "%s: %s of its first %s words are unknown to %s: is it in the model's "
                    "language, tokenised and cased as in training?",
                    *(shown_path(self._path), f"{unknown:,}", f"{self._words:,}", model),
                )


def warn_of_alignments(path: str) -> None:
    """Warn of n-best lists in which no word of any hypothesis is aligned."""
    problem = "no hypothesis has a link in its word alignment, and so all words are unaligned"
    _logger.warning(
        "%s: %s: has the phrase table of the decoder alignments?", shown_path(path), problem
    )


def warn_of_lengths(path: str, words: int, reference_words: int) -> None:
    """Warn of translations that are less than half or more than twice as long as the references.

    :param path: of the translations, for the message.
    :param words: of all translations.
    :param reference_words: of all references of one set.
    """
    if reference_words > 2 * words or words > 2 * reference_words:
        _logger.warning(
            "%s has %s words, the references %s: are they of the same text, in the same language, "
            "tokenised alike?",
            *(shown_path(path), f"{words:,}", f"{reference_words:,}"),
        )


def warn_of_texts(systems: Sequence[Sentences], references: Sequence[Sentences]) -> None:
    """Warn of empty translations and references, and of translations of unlike length.

    :param systems: of the same number of lines as the references.
    :param references: sets of references, of which each sentence needs one.
    """
    for system in systems:
        if system.num_empty:
            path = shown_path(system.path)
            _logger.warning("%s has %s empty lines", path, f"{system.num_empty:,}")
    words = [sentences.words for sentences in references]
    missing = sum(not any(sentence) for sentence in zip(*words, strict=True))
    if missing:
        paths = ", ".join(shown_path(sentences.path) for sentences in references)
        _logger.warning("%s: %s lines are empty: no reference is there", paths, f"{missing:,}")
    for system in systems:
        warn_of_lengths(system.path, system.num_words, references[0].num_words)


def warn_of_shortlists(checkpoints: "Sequence[Checkpoint]") -> None:
    """Warn if the models of an ensemble predict different words."""
    vocabularies = [checkpoint.target_vocabulary for checkpoint in checkpoints]
    if all(vocabulary.is_subwords for vocabulary in vocabularies):
        return
    if any(vocabulary != vocabularies[0] for vocabulary in vocabularies):
        _logger.warning(
            "the ensemble's models predict words of different shortlists (of %s words): a smaller "
            "one gives <unk> more probability than the others give any one rare word",
            ", ".join(f"{len(vocabulary):,}" for vocabulary in vocabularies),
        )

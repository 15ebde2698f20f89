"""Words of a source that nobody knows: so many of them that it cannot be the right text."""

import logging
from collections.abc import Iterable, Iterator, Mapping

from phrasescore.cli.rescore_lists import Item
from phrasescore.errors import shown_path
from phrasescore.vocabulary import Vocabulary

_logger = logging.getLogger(__name__)

# Of fewer words, names and numbers may be the half.
_MIN_WORDS = 20
# Words after which it is known: the user need not wait for the end.
_ENOUGH_WORDS = 1000


def is_foreign(unknown: int, words: int) -> bool:
    """Return whether so many words of a text are unknown that it may be one of another language.

    >>> is_foreign(3, 3), is_foreign(3, 4), is_foreign(11, 20), is_foreign(10, 20)
    (True, False, True, False)
    """
    return unknown > 0 and (unknown == words or (words >= _MIN_WORDS and 2 * unknown > words))


class SourceWords:
    """Looks at the source of n-best lists as it is read, and warns where it is a foreign one.

    :param path: of the source, for messages.
    :param vocabularies: what each network knows of the source side, by its path.
    """

    def __init__(self, path: str, vocabularies: Mapping[str, Vocabulary]) -> None:
        self._path = path
        self._vocabularies = vocabularies
        self._words = 0
        self._unknown = dict.fromkeys(vocabularies, 0)
        self._said = False

    def reading(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the lists as they are."""
        for item in items:
            self._words += len(item.source)
            for path, vocabulary in self._vocabularies.items():
                self._unknown[path] += vocabulary.ids(item.source).count(Vocabulary.UNKNOWN)
            if self._words >= _ENOUGH_WORDS:
                self._warn()
            yield item
        self._warn()

    def _warn(self) -> None:
        """Warn, if there is a reason, of what was read so far; once."""
        if self._said:
            return
        self._said = self._words >= _ENOUGH_WORDS
        for path, unknown in self._unknown.items():
            if is_foreign(unknown, self._words):
                _logger.warning(
                    "%s: %s of its first %s words are unknown to %s: is it the source of these "
                    "lists, tokenised and cased as in training?",
                    shown_path(self._path),
                    f"{unknown:,}",
                    f"{self._words:,}",
                    path,
                )

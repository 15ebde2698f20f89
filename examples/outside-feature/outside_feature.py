"""Two features for phrasescore, in a package of their own."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

# Words of fewer letters are often the same in two languages by chance.
SHORTEST = 4
# A bracket that closes, and the one that it closes; the square ones as Moses escapes them.
CLOSES = {")": "(", "&#93;": "&#91;", "]": "[", "»": "«"}


class CopiedWords:
    """The number of source words that the translation has letter for letter.

    Moses copies the words that its phrase table lacks. Only words of small letters count, for names
    and numbers are rightly copied.
    """

    def values(self, pairs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> Iterator[float]:
        """Yield the number of each pair of a source and a target, which are words."""
        for source, target in pairs:
            common = Counter(self._counted(source)) & Counter(self._counted(target))
            yield float(common.total())

    def _counted(self, words: Sequence[str]) -> Iterator[str]:
        for word in words:
            if len(word) >= SHORTEST and word.isalpha() and word.islower():
                yield word


class UnevenBrackets:
    """The number of brackets in the translation that nothing opens, or nothing closes."""

    # Why it is no column of a phrase table.
    not_of_phrases = "a phrase may open a bracket that the next one closes"

    def values(self, pairs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> Iterator[float]:
        """Yield the number of each pair; the source does not matter."""
        for _, target in pairs:
            opened: list[str] = []
            wrong = 0
            for word in target:
                if word in CLOSES.values():
                    opened.append(word)
                elif word in CLOSES and opened and opened[-1] == CLOSES[word]:
                    opened.pop()
                elif word in CLOSES:
                    wrong += 1
            yield float(wrong + len(opened))

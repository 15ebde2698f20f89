"""Two features and two metrics for phrasescore, in a package of their own."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

# Words of fewer letters are often the same in two languages by chance.
SHORTEST = 4
# A bracket that closes, and the one that it closes; the square ones as Moses escapes them.
CLOSES = {")": "(", "&#93;": "&#91;", "]": "[", "»": "«"}


class CopiedWords:
    """The number of source words that the translation has letter for letter.

    Moses copies the words that its phrase table lacks. Only words of small letters count, for names
    and numbers are rightly copied.

    :param shortest: the number of letters of the shortest word that counts. All arguments come as
        strings.
    """

    def __init__(self, shortest: str = str(SHORTEST)) -> None:
        self._shortest = int(shortest)

    def values(self, pairs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> Iterator[float]:
        """Yield the number of each pair of a source and a target, which are words."""
        for source, target in pairs:
            common = Counter(self._counted(source)) & Counter(self._counted(target))
            yield float(common.total())

    def _counted(self, words: Sequence[str]) -> Iterator[str]:
        for word in words:
            if len(word) >= self._shortest and word.isalpha() and word.islower():
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


class WordF:
    """The F-score of words in any order: how many of them are right, and how many are there.

    :param references: words, by file and segment.
    """

    # Words that match, words of hypotheses, words of references.
    num_stats = 3

    def __init__(self, references: Sequence[Sequence[Sequence[str]]]) -> None:
        # The references of each segment.
        self._references = [
            [(Counter(words), len(words)) for words in segment]
            for segment in zip(*references, strict=True)
        ]

    def statistics(
        self, hypotheses: Sequence[Sequence[str]], segments: Sequence[int]
    ) -> np.ndarray:
        """Return the statistics of each hypothesis against the reference that is most like it."""
        found = np.zeros((len(hypotheses), self.num_stats))
        for row, words, segment in zip(found, hypotheses, segments, strict=True):
            counts = Counter(words)
            row[:] = max(
                (((counts & known).total(), len(words), size)
                 for known, size in self._references[segment]),
                key=lambda stats: float(self.score(np.array(stats))),
            )  # fmt: skip
        return found

    def score(self, sums: np.ndarray) -> np.ndarray:
        """Return the F-score, 0 to 1, of each sum of statistics."""
        matches, words = sums[..., 0], sums[..., 1] + sums[..., 2]
        return 2 * matches / np.maximum(words, 1)


class TranslatedWordF(WordF):
    """`WordF`, for which copied source words are wrong.

    :param sources: the words of each segment's source sentence.
    """

    def __init__(
        self, references: Sequence[Sequence[Sequence[str]]], sources: Sequence[Sequence[str]]
    ) -> None:
        copied = [set(words) for words in sources]
        super().__init__(
            [
                [[word for word in words if word not in source]
                 for words, source in zip(segments, copied, strict=True)]
                for segments in references
            ]
        )  # fmt: skip

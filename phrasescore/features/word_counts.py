"""Features based only on the words: lengths, unknown words, and numbers on only one side.

The numbers follow the word-level features of Och et al. (2004), *A Smorgasbord of Features for
Statistical Machine Translation*.
"""

import html
import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np

from phrasescore.features.feature import BlockScores, CountTally, Feature, ValueTally
from phrasescore.records import PhraseBlock, PhrasePair
from phrasescore.vocabulary import Vocabulary


class _Count(Feature):
    """Counts words in each pair; a table holds e to the count, whose logarithm Moses uses."""

    counted: ClassVar[str]  # what is counted, for the summary

    def score(self, block: PhraseBlock) -> BlockScores:
        counts = np.array([self._count(pair) for pair in block.pairs()], np.float64)
        return BlockScores(counts[None], CountTally(self.counted, int(counts.sum())))

    def _count(self, pair: PhrasePair) -> int:
        raise NotImplementedError


class TargetLength(Feature):
    """The number of target words, without ``</s>``.

    Moses' ``WordPenalty`` is minus this number. The feature helps with lists from decoders that do
    not print the penalty, and with networks whose log-probabilities favour short translations.
    """

    def score(self, block: PhraseBlock) -> BlockScores:
        spans = block.places[:, 2:].tolist()
        # Words are not read, but counted.
        counts = [block.text.count(b" ", begin, end) + (end > begin) for begin, end in spans]
        lengths = np.array(counts, np.float64)
        return BlockScores(lengths[None], CountTally("target words", int(lengths.sum())))


class LengthRatio(Feature):
    """log((target words + 1) / (source words + 1)), a natural logarithm, 0 for equal lengths."""

    def score(self, block: PhraseBlock) -> BlockScores:
        ratios = [(len(target) + 1) / (len(source) + 1) for source, target in block.pairs()]
        values = np.array([math.log(ratio) for ratio in ratios], np.float64)
        return BlockScores(values[None], ValueTally(len(values), math.fsum(values)))


class UnknownWords(_Count):
    """The number of target words outside the networks' shortlists.

    Cho et al. (2014), section 4.2: "the number of unknown words (i.e. words which are not in the
    shortlist)". Moses' ``WordPenalty`` is the target's length, and its ``UnknownWordPenalty``
    counts words that the phrase table lacks.

    :param vocabularies: the networks' vocabularies of the table's target side. A word counts once
        if at least one of them lacks it.
    """

    counted = "unknown target words"

    def __init__(self, vocabularies: Sequence[Vocabulary]) -> None:
        self._vocabularies = vocabularies

    def _count(self, pair: PhrasePair) -> int:
        vocabularies = self._vocabularies
        return sum(any(word not in known for known in vocabularies) for word in pair.target)


class NumberMismatch(_Count):
    """The number of numbers on either side that the other side lacks.

    A number is a word that contains a digit, and only its digits are compared: ``1,000.5`` equals
    ``1 000,5`` written as one word.
    """

    counted = "numbers on only one side"

    def _count(self, pair: PhrasePair) -> int:
        source, target = (list(filter(None, map(_digits, side))) for side in pair)
        if source == target:
            return 0
        first, second = Counter(source), Counter(target)
        return (first - second).total() + (second - first).total()


@lru_cache(maxsize=1 << 16)
def _digits(word: str) -> str:
    """Return the digits of a word as 0 to 9, or an empty string if it has none."""
    text = html.unescape(word) if word.startswith("&") else word
    return "".join(
        str(unicodedata.digit(c)) for c in text if unicodedata.digit(c, None) is not None
    )

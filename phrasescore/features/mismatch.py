"""What a translation should have as its source has it: punctuation and numbers.

Both are counts of what is on one side and not on the other, from 0 up; after the word-level
features of Och et al. (2004), *A Smorgasbord of Features for Statistical Machine Translation*.
"""

import html
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

from phrasescore.records import PhrasePair

# Punctuation that differs from language to language, by what it does. Spanish marks the beginning
# of a question, too, and Greek ends one with a semicolon: neither is undone here.
_KINDS = {
    **dict.fromkeys("\"'`´«»‹›“”„‟‘’‚‛「」『』″", '"'),
    **dict.fromkeys("-‐‑‒–—―−", "-"),
    **dict.fromkeys(".。．｡", "."),
    **dict.fromkeys(",،、，､", ","),
    **dict.fromkeys("?？؟", "?"),
    **dict.fromkeys("!！", "!"),
    **dict.fromkeys(":：", ":"),
    **dict.fromkeys(";；؛", ";"),
    **dict.fromkeys("([{（［【", "("),
    **dict.fromkeys(")]}）］】", ")"),
    "…": ".",
}


class _Mismatch:
    """Counts what one side of a pair has and the other has not."""

    kind = ""

    def __init__(self) -> None:
        self._total = 0

    def values(self, pairs: Iterable[PhrasePair]) -> Iterator[float]:
        """Yield the count of each pair."""
        last: tuple[str, ...] | None = None
        source: list[str] = []
        for pair in pairs:
            if pair.source is not last:
                last, source = pair.source, self._items(pair.source)
            target = self._items(pair.target)
            count = 0 if source == target else _difference(Counter(source), Counter(target))
            self._total += count
            yield float(count)

    def _items(self, words: tuple[str, ...]) -> list[str]:
        raise NotImplementedError

    def summary(self) -> str:
        """Return how much there was on one side alone."""
        return f"{self._total:,} {self.kind} on one side alone"


class PunctuationMismatch(_Mismatch):
    """The number of punctuation marks of either side that the other side lacks.

    A word counts if all its characters are punctuation or symbols, after Moses' escapes are undone
    (``&quot;``). Quotation marks of all kinds are one, as are dashes, brackets that open, brackets
    that close, and the marks of other scripts with those of Latin; ``...`` is a full stop.
    An apostrophe that belongs to a word (``l'``) is none.
    """

    kind = "punctuation marks"

    def _items(self, words: tuple[str, ...]) -> list[str]:
        return [mark for mark in map(_mark, words) if mark]


class NumberMismatch(_Mismatch):
    """The number of numbers of either side that the other side lacks.

    A number is a word with a digit in it, and only its digits are compared: ``1,000.5`` is
    ``1 000,5`` written as one word.
    """

    kind = "numbers"

    def _items(self, words: tuple[str, ...]) -> list[str]:
        return [digits for digits in map(_digits, words) if digits]


def _difference(first: Counter[str], second: Counter[str]) -> int:
    return (first - second).total() + (second - first).total()


@lru_cache(maxsize=1 << 16)
def _mark(word: str) -> str:
    """Return the kind of a punctuation mark; nothing for another word."""
    text = html.unescape(word) if word.startswith("&") else word
    if not text or any(unicodedata.category(character)[0] not in "PS" for character in text):
        return ""
    kinds = "".join(_KINDS.get(character, character) for character in text)
    return kinds[0] if len(set(kinds)) == 1 else kinds


@lru_cache(maxsize=1 << 16)
def _digits(word: str) -> str:
    """Return the digits of a word as 0 to 9; nothing for a word without."""
    if word.isalpha():
        return ""
    text = html.unescape(word) if word.startswith("&") else word
    return "".join(
        str(unicodedata.digit(c)) for c in text if unicodedata.digit(c, None) is not None
    )

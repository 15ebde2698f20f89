"""The tokens of systems that translate characters: split words into them and join them again.

A token is one Unicode code point or one escape of Moses, such as ``&apos;`` or ``&#124;``. The
token U+2581 stands before, between and after words, so that phrases know where words begin and end.
"""

import re
from collections.abc import Iterable

from phrasescore.errors import DataError

BOUNDARY = "\u2581"

# The escapes of escape-special-chars.perl, and three older ones that deescape-special-chars.perl
# also knows.
_TOKEN = re.compile(r"&(?:amp|lt|gt|apos|quot|bar|bra|ket|#124|#91|#93);|.", re.DOTALL)


def split_characters(words: Iterable[str]) -> list[str]:
    """Return the tokens of the words of a sentence.

    :raises ValueError: if a word contains U+2581; `split_line` names the file and line.

    >>> "".join(split_characters(["an", "2"])) == f"{BOUNDARY}an{BOUNDARY}2{BOUNDARY}"
    True
    """
    listed = list(words)
    if not listed:
        return []
    text = BOUNDARY.join(["", *listed, ""])
    if text.count(BOUNDARY) > len(listed) + 1:
        raise ValueError("expected words without U+2581, which separates words of characters")
    return _TOKEN.findall(text) if "&" in text else list(text)


def split_line(path: str, line: int, words: Iterable[str]) -> list[str]:
    """Return the tokens of the words of a line in a file; ``line`` is 1-based."""
    try:
        return split_characters(words)
    except ValueError as error:
        raise DataError(path, line, str(error)) from error


def join_characters(tokens: Iterable[str]) -> list[str]:
    """Return the words that tokens form; boundaries without a word between them are dropped.

    >>> join_characters(["l", "&apos;", "a", "n", BOUNDARY, "2"])
    ['l&apos;an', '2']
    """
    return [word for word in "".join(tokens).split(BOUNDARY) if word]

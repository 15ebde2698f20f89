"""The text that a search translates: a tokenised sentence a line."""

import re

from phrasescore.errors import DataError
from phrasescore.io.text import decode, read_lines, shorten

# What Moses separates words with (moses/Util.h, Tokenize); not a "\r" before a line's end.
_BLANKS = re.compile(r"[ \t]+")
# Markup that Moses follows with -xml-input (moses/XmlOption.cpp). A "<" by itself is a word.
_TAG = re.compile(r"</?[A-Za-z_][^<>]*>")

# Words of a sentence for the embedded search, whose time and memory grow with more than the square
# of their number: about a minute.
MAX_WORDS = 4000


def read_source(path: str, max_words: int | None = None) -> list[tuple[str, ...]]:
    """Return the words of each line; an empty line has none.

    :param path: text or gzip; ``-`` is stdin.
    :param max_words: of a line.
    :raises DataError: with file and line, for a line that is not UTF-8, has more words, has markup,
        or has the ``|`` that separates factors. Moses' tokenizer escapes ``<``, ``>`` and ``|``.
    """
    sentences = []
    for number, raw in enumerate(read_lines(path), start=1):
        line = decode(path, number, raw).removesuffix("\r")
        tag = _TAG.search(line)
        if tag is not None:
            problem = f"expected words, found markup: {shorten(tag.group())}"
            raise DataError(path, number, f"{problem}; as words it is escaped, &lt; and &gt;")
        words = tuple(filter(None, _BLANKS.split(line)))
        if max_words is not None and len(words) > max_words:
            problem = f"expected a sentence of {max_words:,} words at most, found {len(words):,}"
            raise DataError(path, number, problem)
        for word in words:
            if "|" in word:
                problem = f"expected words without factors, found {shorten(word)}"
                raise DataError(path, number, f"{problem}; '|' as a word is escaped, &#124;")
        sentences.append(words)
    return sentences

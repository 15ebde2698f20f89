"""The text that a search translates: a tokenised sentence a line."""

import re

from moses_integration.ini_text import IniLine, IniText
from phrasescore.errors import DataError
from phrasescore.io.text import MARKUP, Markup, decode, read_lines, shorten

# What Moses separates words with (moses/Util.h, Tokenize); not a "\r" before a line's end.
_BLANKS = re.compile(r"[ \t]+")

# Words of a sentence for the embedded search, whose time and memory grow with more than the square
# of their number: about a minute.
MAX_WORDS = 4000


def markup_of(ini: IniText) -> Markup:
    """Return the markup that a moses.ini speaks of, by its xml-brackets and xml-input."""
    values: dict[str, IniLine] = {}
    for line in ini.content_lines():
        values.setdefault(line.section, line)
    every_tag, brackets = False, ["<", ">"]
    if "xml-input" in values:
        every_tag = values["xml-input"].words[0].group() != "pass-through"
    if "xml-brackets" in values:
        line = values["xml-brackets"]
        brackets = [word.group() for word in line.words]
        if len(brackets) != 2:
            problem = "expected an opening and a closing bracket, with a blank between them"
            raise ini.error(line, "", f"{problem}, found {shorten(' '.join(brackets))}")
    return Markup(*brackets, every_tag=every_tag)


def read_source(
    path: str, max_words: int | None = None, markup: Markup = MARKUP
) -> list[tuple[str, ...]]:
    """Return the words of each line; an empty line has none.

    :param path: text or gzip; ``-`` is stdin.
    :param max_words: of a line.
    :param markup: that the decoder would follow.
    :raises DataError: with file and line, for a line that is not UTF-8, has more words, has markup,
        or has the ``|`` that separates factors.
    """
    sentences = []
    for number, raw in enumerate(read_lines(path), start=1):
        line = decode(path, number, raw).removesuffix("\r")
        markup.check(path, number, line)
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

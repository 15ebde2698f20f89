"""Read the text that a search translates: one tokenised sentence per line."""

import re

from moses_integration.ini_text import IniLine, IniText
from phrasescore.errors import DataError
from phrasescore.io.text import MARKUP, Markup, decode, read_lines, shorten

# Moses splits words here (moses/Util.h, Tokenize), but not at a "\r" at the end of the line.
_BLANKS = re.compile(r"[ \t]+")

# Longest sentence of the embedded search, in words; it takes about a minute. Time and memory grow
# faster than the square of the length.
MAX_WORDS = 4000


def markup_of(ini: IniText) -> Markup:
    """Return the markup that a moses.ini enables by xml-brackets and xml-input."""
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
    :param max_words: of a line; None for no limit.
    :param markup: the markup that the decoder would interpret; a line with markup is refused.
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

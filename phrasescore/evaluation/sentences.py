"""Texts of hypotheses, references and sources, aligned line by line."""

import os
from collections.abc import Sequence
from itertools import count, takewhile
from typing import NamedTuple

from phrasescore.arguments import StrPath
from phrasescore.errors import DataError, shown_path
from phrasescore.io.text import MARKUP, decode, read_lines, split_words


class Sentences(NamedTuple):
    """The lines of a file; a line may be empty."""

    path: str
    texts: list[str]  # without trailing blanks, as sacrebleu reads them
    words: list[tuple[str, ...]]  # the words of each line, split at blanks (U+0020)

    @property
    def num_words(self) -> int:
        """The total number of words in all lines."""
        return sum(map(len, self.words))

    @property
    def num_empty(self) -> int:
        """The number of lines without words."""
        return sum(not words for words in self.words)


def read_sentences(path: str, *, is_source: bool = False) -> Sentences:
    """Read the lines of a file; for a source text, lines with markup are rejected."""
    sentences = Sentences(path, [], [])
    for number, raw in enumerate(read_lines(path), start=1):
        text = decode(path, number, raw).removesuffix("\r")
        if is_source:
            MARKUP.check(path, number, text)
        sentences.texts.append(text.rstrip())
        sentences.words.append(split_words(text))
    if not sentences.texts:
        raise DataError(path, None, "expected sentences, one per line, found an empty file")
    return sentences


def find_references(paths: Sequence[StrPath]) -> list[str]:
    """Return the reference files: each path, or PATH0, PATH1 and so on if it does not exist.

    As in multi-bleu.perl and mert-moses.pl, PATH.ref0 and so on are used if there is no PATH0.
    """
    files: list[str] = []
    for path in [os.fspath(path) for path in paths]:
        is_stem = path != "-" and not os.path.exists(path)
        numbered = (_numbered(path) or _numbered(f"{path}.ref")) if is_stem else []
        files += numbered or [path]
    return files


def _numbered(stem: str) -> list[str]:
    return list(takewhile(os.path.exists, (f"{stem}{number}" for number in count())))


def check_aligned(files: Sequence[Sentences]) -> None:
    """Check that all files have the same number of lines."""
    longest = max(files, key=lambda sentences: len(sentences.texts))
    for sentences in files:
        if len(sentences.texts) < len(longest.texts):
            name = shown_path(longest.path)
            problem = f"the file ends with this line, but {name} has {len(longest.texts):,} lines"
            raise DataError(sentences.path, len(sentences.texts), problem)

"""Texts of hypotheses, references and sources, aligned line by line."""

import os
from collections.abc import Mapping, Sequence
from itertools import count, takewhile
from typing import NamedTuple

from phrasescore.arguments import StrPath
from phrasescore.errors import ArgumentError, DataError, shown_path
from phrasescore.io.text import check_markup, decode, read_lines
from phrasescore.records import BYTE_ORDER_MARK, Sentence, split_words, to_sentences

# A text: the path of a file with one sentence per line, or sentences.
Text = StrPath | Sequence[Sentence]


class Sentences(NamedTuple):
    """The lines of a file, or sentences from Python; a line may be empty."""

    path: str  # or a name for messages
    texts: list[str]  # without trailing blanks, as sacrebleu reads them
    words: list[tuple[str, ...]]  # the words of each line

    @property
    def num_words(self) -> int:
        """The total number of words in all lines."""
        return sum(map(len, self.words))

    @property
    def num_empty(self) -> int:
        """The number of lines without words."""
        return sum(not words for words in self.words)


def read_text(text: Text, name: str, *, is_source: bool = False) -> Sentences:
    """Return the sentences of a file, or sentences from Python with a name for messages.

    :raises ArgumentError: if there are no sentences.
    :raises TypeError: if a sentence is neither a string nor a sequence of words.
    """
    if isinstance(text, str | os.PathLike):
        return read_sentences(os.fspath(text), is_source=is_source)
    sentences = list(text)
    (words,) = to_sentences(**{name: sentences})
    if not words:
        raise ArgumentError(f"{name}: expected sentences, got none")
    texts = [
        text.removeprefix(BYTE_ORDER_MARK).rstrip() if isinstance(text, str) else " ".join(own)
        for text, own in zip(sentences, words, strict=True)
    ]
    return Sentences(name, texts, words)


def name_texts(kind: str, texts: Sequence[Text] | Mapping[str, Text]) -> list[tuple[str, Text]]:
    """Return texts with their names for messages: a key, a path, or the kind and a number."""
    if isinstance(texts, Mapping):
        return list(texts.items())
    return [
        (os.fspath(text) if isinstance(text, str | os.PathLike) else f"{kind} {number}", text)
        for number, text in enumerate(texts, start=1)
    ]


def read_sentences(path: str, *, is_source: bool = False) -> Sentences:
    """Read the lines of a file; for a source text, lines with markup are rejected."""
    sentences = Sentences(path, [], [])
    for number, raw in enumerate(read_lines(path), start=1):
        text = decode(path, number, raw)
        if is_source:
            check_markup(path, number, text)
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
            problem = f"the text ends with this line, but {name} has {len(longest.texts):,} lines"
            raise DataError(sentences.path, len(sentences.texts), problem)

"""The text of a system: lines become the words that it translates, and translations become text."""

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from moses_integration.ini_text import IniText
from moses_integration.source_text import parse_sentence
from moses_integration.text_settings import TextSettings
from phrasescore.errors import DataError
from phrasescore.io.characters import split_line
from phrasescore.io.corpora import plain_words
from phrasescore.io.moses_text import load_tokenizer, load_truecaser
from phrasescore.io.text import decode, shorten

# The longest sentence that the search accepts, in words or characters. It takes about a minute;
# time and memory grow faster than the square of the length.
MAX_WORDS = 4000


@dataclass(frozen=True)
class TextProcessing:
    """How a line of text becomes the words of a system; by default, a line already has them.

    The fields have the names of `moses_integration.text_settings.TextSettings`.
    """

    tokenize: str = ""  # the languages of source and target, "fr en"
    lowercase: bool = False
    truecase_source: Path | None = None  # Moses' truecasing models
    truecase_target: Path | None = None
    changes_known_case: bool = False  # as systems of version 0.3 were built

    @classmethod
    def of(cls, ini: IniText) -> "TextProcessing":
        """Return the processing that a moses.ini records."""
        settings = ini.text_settings()
        models = settings.truecase_source, settings.truecase_target
        source, target = (Path(ini.resolve(model)) if model else None for model in models)
        changes = bool(settings.truecase_source) and not settings.keeps_known_case
        return cls(settings.tokenize, settings.lowercase, source, target, changes)

    def __post_init__(self) -> None:
        source, target = (str(path or "") for path in (self.truecase_source, self.truecase_target))
        problem = TextSettings(False, self.tokenize, self.lowercase, source, target).problem()
        if problem is not None:
            raise ValueError(problem)


@dataclass(frozen=True)
class LineRules:
    """How a line of a file becomes a sentence.

    :ivar language: the language of Moses' tokeniser; None for words that are separated by spaces.
    :ivar truecaser: the file of a truecaser.
    :ivar changes_known_case: whether it also changes words that it knows within sentences.
    """

    path: str
    language: str | None = None
    lowercase: bool = False
    truecaser: str | None = None
    changes_known_case: bool = False
    characters: bool = False

    def load(self) -> Callable[[int, bytes], str]:
        """Return a function that maps a line, given by number and bytes, to its sentence."""
        split = self._words if self.language is None else self._tokenizer(self.language)
        truecase = None
        if self.truecaser is not None:
            truecase = load_truecaser(self.truecaser, changes_known=self.changes_known_case)

        def prepare(number: int, raw: bytes) -> str:
            words = split(number, raw)
            if self.lowercase:
                words = [word.lower() for word in words]
            if truecase is not None:
                words = truecase(words)
            if self.characters:
                words = split_line(self.path, number, words)
            return " ".join(words)

        return prepare

    def _words(self, number: int, raw: bytes) -> Sequence[str]:
        words = plain_words(self.path, number, raw)
        for word in words if b"|" in raw or b"[" in raw else ():
            if "|" in word or (word.startswith("[") and word.endswith("]")):
                problem = f"expected words, found {shorten(word)}, which Moses reads as factors or"
                cure = "as a label; write &#124; for | and &#91; for [, or let --tokenize do it"
                raise DataError(self.path, number, f"{problem} {cure}")
        return words

    def _tokenizer(self, language: str) -> Callable[[int, bytes], Sequence[str]]:
        tokenize = load_tokenizer(language)
        return lambda number, raw: tokenize(decode(self.path, number, raw))


class SystemSentence(NamedTuple):
    """A sentence to translate: its words, and its tokens in the search: words, or characters."""

    words: tuple[str, ...]
    tokens: tuple[str, ...]


def load_rules(text: TextProcessing, path: str, side: int) -> Callable[[int, bytes], str] | None:
    """Return the function that prepares lines of the source (0) or target (1), or None."""
    if text == TextProcessing():
        return None
    truecaser = (text.truecase_source, text.truecase_target)[side]
    return LineRules(
        path,
        TextSettings(tokenize=text.tokenize).languages()[side],
        text.lowercase,
        None if truecaser is None else str(truecaser),
        text.changes_known_case,
    ).load()


class TextConverter:
    """Converts the lines of a text, and translations of them.

    :param ini: the decoder's moses.ini, if there is one.
    :ivar characters: whether the system translates characters.
    """

    def __init__(self, path: str, text: TextProcessing, ini: IniText | None) -> None:
        self._path = path
        self.characters = ini is not None and ini.text_settings().characters
        _, target = TextSettings(tokenize=text.tokenize).languages()
        self._prepare = load_rules(text, path, 0)
        self._detokenize: Callable[[str], str] = str
        self._detruecase: Callable[[str], str] = str
        if text.truecase_target is not None:
            from sacremoses import MosesDetruecaser

            truecaser: Any = MosesDetruecaser()
            self._detruecase = lambda text: str(truecaser.detruecase(text, return_str=True))
        if target is not None:
            from sacremoses import MosesDetokenizer

            tokenizer: Any = MosesDetokenizer(lang=target)
            self._detokenize = lambda text: str(tokenizer.detokenize(text.split(" ")))

    def prepare(self, number: int, raw: bytes) -> SystemSentence:
        """Return the sentence in a line, given by its 1-based number and its bytes.

        A byte order mark at its beginning, as in a sentence from a file of its own, is left out.

        :raises DataError: if the line is not UTF-8, too long, or has markup or factors.
        """
        raw = raw.removeprefix(codecs.BOM_UTF8)
        if self._prepare is not None:
            raw = self._prepare(number, raw).encode()
        words = parse_sentence(self._path, number, raw)
        tokens = tuple(split_line(self._path, number, words)) if self.characters else words
        if len(tokens) > MAX_WORDS:
            limit = f"{MAX_WORDS:,} {'characters' if self.characters else 'words'}"
            problem = f"expected a sentence with at most {limit}, found {len(tokens):,}"
            raise DataError(self._path, number, problem)
        return SystemSentence(words, tokens)

    def restore(self, translation: str) -> str:
        """Return a translation, words separated by spaces, as text."""
        return self._detokenize(self._detruecase(translation)) if translation else ""

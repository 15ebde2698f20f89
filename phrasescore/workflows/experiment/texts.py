"""The texts of a new experiment: prepared as the system's own text, and checked with its table.

The monolingual text of any experiment is checked with the training text.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from moses_integration.alignments import parse_links
from moses_integration.decoder.phrase_tables import TableLines
from moses_integration.ini_text import IniText
from moses_integration.source_text import keys_of_sentences
from phrasescore.errors import DataError
from phrasescore.io.characters import split_line
from phrasescore.io.corpora import read_monolingual_text, read_together
from phrasescore.io.folders import writing_folder
from phrasescore.io.output import open_output
from phrasescore.io.text import decode, read_lines, same_file, shorten
from phrasescore.records import split_words
from phrasescore.systems.text import TextProcessing, load_rules
from phrasescore.systems.text_checks import in_other_casing, likely_cause, warn_of_form
from phrasescore.workflows.building.language_model import read_sentences
from phrasescore.workflows.building.preparation import CORPUS

_logger = logging.getLogger(__name__)

_LINES = 2_000  # of each text, whose words are looked up
_LONGEST = 10  # words of a phrase that is looked up: of `build --characters`
# A text is warned of if a larger share of its words is unknown, or unknown but known in another
# casing. With 1,000 sentence pairs of news, English with Luganda or Hausa, these were at most 28 %
# and 1.5 % of the words of other news, 70 % and more of another language's words, and 7 to 16 % in
# Luganda and its English if either the text or the training text was in lower case.
_MANY_UNKNOWN, _MANY_CASED = 0.5, 0.05
_FIRST = 1_000  # sentence pairs of a system's corpus that must be in the given training text

Text = tuple[Path, ...]  # the source, and the translations
MONOLINGUAL = "monolingual"  # the name of texts that all are translations


@dataclass(frozen=True)
class SystemText:
    """How the texts of a system are prepared; ``characters`` are the words of its table."""

    rules: TextProcessing
    characters: bool
    table: Path

    @classmethod
    def of(cls, ini: IniText, table: Path) -> "SystemText":
        """Return the text of the system of a moses.ini, which has the phrase table ``table``."""
        return cls(TextProcessing.of(ini), ini.text_settings().characters, table)

    def prepare(self, texts: Mapping[str, Text], folder: Path) -> dict[str, Text]:
        """Return the prepared texts, which are written to a new folder if they must be changed.

        :raises DataError: if the table lacks most of the words of a text.
        """
        for path in texts.get(MONOLINGUAL, ()):
            if not any(self._sentences(1, path)):
                raise DataError(str(path), None, "expected a text, found no word")
            if self.rules.tokenize:
                lines = (raw.decode(errors="replace").split() for raw in read_lines(str(path)))
                warn_of_form(str(path), lines, tokenizes=True, cures=("give it as raw text", ""))
        parallel = (text for name, text in texts.items() if name != MONOLINGUAL)
        self._check_words([side for text in parallel for side in enumerate(text)])
        corpus = tuple(self.table.parent / name for name in CORPUS)
        if self._is_cleaned(corpus, texts["train"]):
            texts = {name: text for name, text in texts.items() if name != "train"}
            return {"train": corpus, **self._write(texts, folder)}
        return self._write(texts, folder)

    def _sentences(self, side: int, path: Path) -> Iterator[Sequence[str]]:
        rules = load_rules(self.rules, str(path), min(side, 1))
        prepare = rules or (lambda *line: decode(str(path), *line))
        for number, line in enumerate(read_lines(str(path)), start=1):
            yield split_words(prepare(number, line).removesuffix("\r"))

    def _check_words(self, sides: Sequence[tuple[int, Path]]) -> None:
        samples: list[list[Sequence[str]]] = []
        for side, path in sides:
            sentences = list(islice(self._sentences(side, path), _LINES))
            if self.characters:
                sentences = [split_line(str(path), *line) for line in enumerate(sentences, start=1)]
            samples.append(sentences)
        known = set[str](), set[str]()
        phrases = keys_of_sentences(chain(*samples), _LONGEST)
        for number, line in TableLines(str(self.table), 1).find(phrases):
            fields = decode(str(self.table), number, line).split("|||", 2)
            for words, field in zip(known, fields, strict=False):
                words.update(field.split())
        for (side, path), sentences in zip(sides, samples, strict=True):
            words = known[min(side, 1)]
            unknown = Counter(word for word in chain(*sentences) if word not in words)
            if (total := sum(map(len, sentences))) == 0:
                raise DataError(str(path), None, "expected sentences, found no words")
            unit = "characters" if self.characters else "words"
            problem = f"{unknown.total():,} of {total:,} {unit} are not in {self.table.name}"
            if 2 * unknown.total() > total:
                examples = ", ".join(shorten(word) for word, _ in unknown.most_common(3))
                cause = f"{likely_cause(unknown, words)} are source and translation swapped?"
                raise DataError(str(path), None, f"{problem}, such as {examples}: {cause}")
            _logger.info("%s: %s", path, problem)

    def _is_cleaned(self, corpus: Text, train: Text) -> bool:
        if self.characters or not all(path.exists() for path in corpus):
            return False
        if all(map(same_file, map(str, corpus), map(str, train))):
            return True
        kept, total = (sum(1 for _ in read_lines(str(text[0]))) for text in (corpus, train))
        given = zip(*(self._sentences(*side) for side in enumerate(train)), strict=True)
        rows = islice(read_together(*map(str, corpus)), _FIRST)
        # A search in the iterator reads on to the pair that it looks for.
        if total > 2 * kept or not all(
            tuple(split_words(line.decode()) for line in row) in given for row in rows
        ):
            return False
        text = "%s: of the %s given sentence pairs, the %s that build kept are used"
        _logger.info(text, self.table.parent, f"{total:,}", f"{kept:,}")
        return True

    def _write(self, texts: Mapping[str, Text], folder: Path) -> dict[str, Text]:
        if self.rules == TextProcessing():
            return dict(texts)
        written = {}
        with writing_folder(folder) as new:
            for name, text in texts.items():
                written[name] = _files(folder, name, text)
                for output, (side, path) in zip(written[name], _sides(name, text), strict=True):
                    with open_output(str(new / output.name)) as stream:
                        for words in self._sentences(side, path):
                            stream.write(" ".join(words).encode() + b"\n")
        _logger.info("%s has the prepared texts", folder)
        return written


def check_words(texts: Sequence[Path], target: Path) -> None:
    """Warn about texts in another language, casing or tokenisation than the target side."""
    known = {word for line in read_monolingual_text(str(target)) for word in line.words}
    for path in texts:
        sentences = list(islice(read_sentences(str(path)), _LINES))
        words = Counter(chain.from_iterable(sentences))
        unknown = Counter({word: times for word, times in words.items() if word not in known})
        cased = in_other_casing(unknown, known)
        is_other = unknown.total() > _MANY_UNKNOWN * words.total()
        if is_other or cased.total() > _MANY_CASED * words.total():
            found = unknown if is_other else cased
            _logger.warning(
                "%s: %.0f%% of its first %s words are not in %s, such as %s: %s",
                path,
                100 * found.total() / words.total(),
                f"{words.total():,}",
                target,
                ", ".join(shorten(word) for word, _ in found.most_common(3)),
                likely_cause(found, known),
            )
        warn_of_form(
            str(path), sentences, tokenizes=False, cures=("", "tokenise it as in training")
        )


def write_sample(text: Text, size: int, folder: Path) -> Text:
    """Write some sentences, spread over a text for tuning, to a folder; return their files."""
    rows = list(read_together(*map(str, text)))
    chosen = [rows[place * len(rows) // size] for place in range(size)]
    written = _files(folder, "dev.sample", text)
    folder.mkdir(exist_ok=True)
    for path, lines in zip(written, zip(*chosen, strict=True), strict=True):
        with open_output(str(path)) as stream:
            stream.writelines(line + b"\n" for line in lines)
    return written


def count_sentences(sources: Mapping[Path, Sequence[Any]], monolingual: Text) -> dict[Path, int]:
    """Return how many sentences the sources and monolingual texts have; check the latter."""
    counts = {path: sum(1 for _ in read_sentences(str(path))) for path in monolingual}
    return {path: len(sentences) for path, sentences in sources.items()} | counts


def _sides(name: str, text: Text) -> Iterable[tuple[int, Path]]:
    return enumerate(text, start=int(name == MONOLINGUAL))


def _files(folder: Path, name: str, text: Text) -> Text:
    ends = (f"target{side - 1}" if side else "source" for side, _ in _sides(name, text))
    return tuple(folder / f"{name}.{end}" for end in ends)


def find_alignment(folders: Sequence[Path], train: Text) -> Path | None:
    """Return the file that fits the training text among Moses' names for its word alignment."""
    for path in (path for folder in folders for path in sorted(folder.glob("aligned.*"))):
        try:
            rows = read_together(*map(str, (*train, path)))
            for number, (source, target, links) in enumerate(rows, start=1):
                parse_links(links, len(source.split()), len(target.split()), str(path), number)
        except DataError:
            continue
        return path
    return None

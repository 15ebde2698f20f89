"""The texts of a new experiment: prepared as the system's own text, and checked with its table."""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from moses_integration.alignments import parse_links
from moses_integration.ini_text import TextSettings
from moses_integration.source_text import lines_of_phrases
from phrasescore.errors import ArgumentError, DataError
from phrasescore.io.characters import split_line
from phrasescore.io.corpora import read_parallel_text, read_together
from phrasescore.io.output import open_output
from phrasescore.io.text import decode, read_lines, same_file, shorten, split_words
from phrasescore.workflows.building.preparation import CORPUS, LineRules
from phrasescore.workflows.text_checks import likely_cause

_logger = logging.getLogger(__name__)

_LINES = 2_000  # of each text, whose words are looked up
_LONGEST = 10  # words of a phrase that is looked up: of `build --characters`
_FIRST = 1_000  # sentence pairs of a system's corpus that must be in the given training text

_Sample = Sequence[Sequence[str]]  # sentences of a text
Prepare = Callable[[int, bytes], str]  # returns the sentence of a line, given its number and bytes


@dataclass(frozen=True)
class GivenText:
    """A source text and its translations, as the user named them."""

    name: str  # --train, --dev or --test, for messages
    paths: tuple[Path, ...]  # the source first
    is_prepared: bool = True  # whether the files can be used as they are

    def written(self, folder: Path) -> "GivenText":
        """Return the text whose prepared files are in a folder."""
        name = self.name.removeprefix("--").replace(" ", ".")
        ends = ["source", *(f"target{number}" for number in range(len(self.paths) - 1))]
        return GivenText(self.name, tuple(folder / f"{name}.{end}" for end in ends))


class SystemText:
    """How the text of a system is prepared, and what its phrase table knows."""

    def __init__(self, settings: TextSettings, table: Path, folder: Path) -> None:
        """Record the settings; ``folder`` has the truecasers whose paths are relative."""
        self._settings, self._table = settings, table
        languages = settings.tokenize.split(" ") if settings.tokenize else (None, None)
        truecasers = settings.truecase_source, settings.truecase_target
        self._rules = [
            LineRules("", language, settings.lowercase, str(folder / model) if model else None)
            for language, model in zip(languages, truecasers, strict=True)
        ]
        self._changes = any((settings.tokenize, settings.lowercase, *truecasers))

    def _prepare(self, path: Path, side: int, *, is_changed: bool = True) -> Prepare:
        if not is_changed:
            return lambda number, raw: decode(str(path), number, raw).removesuffix("\r")
        return replace(self._rules[min(side, 1)], path=str(path)).load()

    def check(self, texts: Sequence[GivenText]) -> list[GivenText]:
        """Look up the words of all texts, and return which texts must be prepared.

        :raises DataError: if the table does not know most of the words of a text.
        """
        as_given = [self._read(text, is_changed=False) for text in texts]
        changed = as_given
        if self._changes:
            changed = [self._read(text, is_changed=True) for text in texts]
        sentences = [words for sides in (*as_given, *changed) for side in sides for words in side]
        sources, targets = self._look_up(sentences)

        def unknown(sides: Sequence[_Sample]) -> int:
            return sum(word not in sources for words in sides[0] for word in words)

        checked = []
        for text, old, new in zip(texts, as_given, changed, strict=True):
            # Text that is tokenised already has other words if it is tokenised again.
            is_prepared = old == new or unknown(old) < unknown(new)
            sides = old if is_prepared else new
            self._check_known(text.paths[0], sides[0], sources, sides[1])
            for path, side in zip(text.paths[1:], sides[1:], strict=True):
                self._check_known(path, side, targets)
            total = sum(map(len, sides[0]))
            problem = f"{unknown(sides):,} of {total:,} source words are not in the phrase table"
            how = "" if is_prepared else "it is prepared as the training text was; "
            _logger.info("%s: %s%s", text.name, how, problem)
            checked.append(replace(text, is_prepared=is_prepared))
        return checked

    def _read(self, text: GivenText, *, is_changed: bool) -> list[_Sample]:
        return [
            list(islice(self._sentences(path, side, is_changed), _LINES))
            for side, path in enumerate(text.paths)
        ]

    def _sentences(self, path: Path, side: int, is_changed: bool) -> Iterator[Sequence[str]]:
        prepare = self._prepare(path, side, is_changed=is_changed)
        for number, raw in enumerate(read_lines(str(path)), start=1):
            words = split_words(prepare(number, raw))
            yield split_line(str(path), number, words) if self._settings.characters else words

    def _look_up(self, sentences: Iterable[Sequence[str]]) -> tuple[set[str], set[str]]:
        """Return the words of both sides of the phrases that occur in the sentences."""
        sources, targets, path = set[str](), set[str](), str(self._table)
        for number, line in lines_of_phrases(path, sentences, _LONGEST):
            source, target, _ = decode(path, number, line).split("|||", 2)
            sources.update(source.split())
            targets.update(target.split())
        return sources, targets

    def _check_known(
        self, path: Path, side: _Sample, known: set[str], translation: _Sample = ()
    ) -> None:
        words = Counter(word for words in side for word in words)
        unknown = Counter({word: count for word, count in words.items() if word not in known})
        if not words:
            raise DataError(str(path), None, "expected sentences, found no words")
        if 2 * unknown.total() <= words.total():
            return
        cause = likely_cause(unknown, known)
        others = [word in known for words in translation for word in words]
        if 2 * sum(others) > len(others):
            cause = "are the source and its translation swapped?"
        examples = ", ".join(shorten(word) for word, _ in unknown.most_common(3))
        problem = f"{unknown.total():,} of {words.total():,} words are not in {self._table}"
        raise DataError(str(path), None, f"{problem}, such as {examples}: {cause}")

    def write(self, text: GivenText, folder: Path) -> GivenText:
        """Write the prepared files of a text to a folder."""
        new = text.written(folder)
        for side, (path, output) in enumerate(zip(text.paths, new.paths, strict=True)):
            prepare = self._prepare(path, side)
            with open_output(str(output)) as stream:
                for number, raw in enumerate(read_lines(str(path)), start=1):
                    stream.write(prepare(number, raw).encode() + b"\n")
        return new

    def own_corpus(self, train: GivenText) -> GivenText | None:
        """Return the training text in a folder of `build`, if it is the given text, cleaned."""
        corpus = tuple(self._table.parent / name for name in CORPUS)
        if self._settings.characters or not all(path.exists() for path in corpus):
            return None
        given = zip(
            *(
                (" ".join(words) for words in self._sentences(path, side, not train.is_prepared))
                for side, path in enumerate(train.paths)
            ),
            strict=True,
        )
        for row in islice(read_together(*map(str, corpus)), _FIRST):
            if tuple(map(bytes.decode, row)) not in given:  # reads on to the pair
                return None
        return GivenText(train.name, corpus)


def check_files(texts: Sequence[GivenText]) -> None:
    """Reject missing files, texts whose sides are the same file, and different lengths."""
    for text in texts:
        for path in text.paths:
            if not path.is_file():
                raise DataError(str(path), None, f"expected the file of {text.name}, found no file")
        if any(same_file(str(text.paths[0]), str(path)) for path in text.paths[1:]):
            raise ArgumentError(f"{text.name}: the source and its translation are the same file")
        for _ in read_together(*map(str, text.paths)):
            pass  # an error names the line where the shorter file ends


def count_pairs(train: GivenText) -> int:
    """Check the training text as training does, and return its number of sentence pairs."""
    pairs = same = 0
    for pairs, line in enumerate(read_parallel_text(*map(str, train.paths)), start=1):  # noqa: B007
        same += line.pair.source == line.pair.target
    if 2 * same > pairs:
        problem = f"expected translations, found {same:,} of {pairs:,} lines equal to their sources"
        raise DataError(str(train.paths[1]), None, problem)
    return pairs


def find_alignment(folders: Iterable[Path], train: GivenText, pairs: int) -> Path | None:
    """Return the file that fits the training text among Moses' names for its word alignment."""
    for path in (path for folder in folders for path in sorted(folder.glob("aligned.*"))):
        try:
            check_alignment(path, train, pairs)
        except DataError:
            continue
        return path
    return None


def check_alignment(path: Path, train: GivenText, pairs: int) -> None:
    """Check the length of a word alignment, and the links of its first lines."""
    lines = sum(1 for _ in read_lines(str(path)))
    if lines != pairs:
        problem = f"expected {pairs:,} lines, as {train.paths[0]} has, found {lines:,}"
        raise DataError(str(path), None, problem)
    rows = read_together(*map(str, (*train.paths, path)))
    for number, (source, target, links) in enumerate(islice(rows, _LINES), start=1):
        parse_links(links, len(source.split()), len(target.split()), str(path), number)


def text_name(path: Path) -> str:
    """Return the name of a test set: its file's name without ending."""
    stem = path.name.removesuffix(".gz")
    name = re.sub(r"[^\w.+-]", "_", stem.rpartition(".")[0] or stem)
    return f"test_{name}" if name in ("dev", "name", "rounds", "remarks") else name

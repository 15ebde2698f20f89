"""Check and prepare the texts of a system: tokenise, change the case, split words, and clean."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from moses_integration.alignments import parse_links
from moses_integration.ini_text import path_problem
from phrasescore.engines import open_pool
from phrasescore.errors import ArgumentError, DataError, PhrasescoreError, shown_path
from phrasescore.io.characters import BOUNDARY
from phrasescore.io.corpora import read_together
from phrasescore.io.journal import digest_content
from phrasescore.io.moses_text import load_tokenizer, train_truecaser
from phrasescore.io.output import check_files, open_output
from phrasescore.io.text import is_stream, read_lines, same_file
from phrasescore.language_models.ngram_scorer import read_ngram_order
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.settings.building import Building
from phrasescore.settings.compute import Compute
from phrasescore.settings.declaration import settings_of
from phrasescore.systems.text import LineRules
from phrasescore.systems.text_checks import warn_of_form
from phrasescore.version import __version__

CORPUS = ("corpus.source.gz", "corpus.target.gz")
TRUECASERS = ("truecase-model.source", "truecase-model.target")
MAX_RATIO = 9  # of the lengths of both sides, as in clean-corpus-n.perl
_BLOCK = 500  # lines
# For texts that are tokenised already, and for those that are not.
_CURES = ("give raw text, or leave out --tokenize", "tokenise it, or let --tokenize do it")


class _LineRows(NamedTuple):
    """Consecutive lines of several files, and the number of lines before them."""

    before: int
    rows: list[tuple[bytes, ...]]


@dataclass(frozen=True)
class _Preparing:
    """Work for an engine: prepare lines of files; lines of further files stay as they are."""

    rules: Sequence[LineRules]

    def load(self) -> Callable[[_LineRows], list[Sequence[Any]]]:
        """Return a function that prepares each row, which has a line of each file."""
        prepare = [rules.load() for rules in self.rules]

        def compute(lines: _LineRows) -> list[Sequence[Any]]:
            return [
                [
                    *(one(number, raw) for one, raw in zip(prepare, row, strict=False)),
                    *row[len(prepare) :],
                ]
                for number, row in enumerate(lines.rows, start=lines.before + 1)
            ]

        return compute


@dataclass(frozen=True)
class BuildInputs:
    """The files and settings of a system."""

    source: str
    target: str
    alignments: str | None
    lm: str | None
    lm_texts: tuple[str, ...]
    settings: Building

    def check(self, model: Path) -> None:
        """Check files and settings, and that the moses.ini in ``model`` can name all of them."""
        settings = self.settings
        paths = [*self._texts().values(), *([self.lm] if self.lm else [])]
        check_files(paths, ())
        for path in filter(is_stream, paths):
            raise ArgumentError(f"{shown_path(path)}: expected a file, as it is read twice")
        if same_file(self.source, self.target):
            raise ArgumentError("SOURCE and TARGET are the same file")
        if self.alignments and (settings.tokenize or settings.characters):
            problem = "--alignments cannot be combined with --tokenize or --characters"
            raise ArgumentError(f"{problem}, which change the words that are aligned")
        if self.lm is not None:
            read_ngram_order(self.lm)
            if reason := path_problem(name_in_ini(self.lm, model)):
                raise PhrasescoreError(f"{self.lm}: {reason}")

    def _texts(self) -> dict[str, str]:
        texts = {"SOURCE": self.source, "TARGET": self.target}
        if self.alignments:
            texts["--alignments"] = self.alignments
        return {**texts, **{f"--lm-text {path}": path for path in self.lm_texts}}

    def recorded(self) -> dict[str, str]:
        """Return everything that the result depends on, for the journal."""
        return {
            **{each.flag: str(getattr(self.settings, each.name)) for each in settings_of(Building)},
            **{name: digest_content(path) for name, path in self._texts().items()},
            "the version of phrasescore": __version__,
            "--lm": "" if self.lm is None else os.path.abspath(self.lm),
        }


def name_in_ini(path: str, model: Path) -> str:
    """Return the name of a file in the moses.ini of the folder ``model``.

    It is relative unless the path is absolute. A moses.ini cannot hold a blank or ``#``.
    """
    is_absolute = os.path.isabs(path) and not path_problem(path)
    return path if is_absolute else os.path.relpath(os.path.abspath(path), os.path.abspath(model))


@dataclass(frozen=True)
class TextPreparer:
    """Prepares the texts of a system, with ``workers`` processes."""

    inputs: BuildInputs
    workers: int
    progress: ProgressCallback | None

    def write(self, folder: Path, aligned: Path, work: Path, more: Path) -> tuple[int, int]:
        """Write the training text, its alignment, the truecasers and the further text.

        :param folder: where the files named `CORPUS` and `TRUECASERS` are written.
        :param aligned: the file for the given alignment of the training text.
        :param work: a folder for temporary files.
        :param more: the file for further text.
        :return: the number of sentence pairs in the training text, and of those left out.
        :raises DataError: if a line is malformed, the files have different lengths, or no sentence
            pair is left.
        """
        rules = self._rules()
        for each in rules if not self.inputs.settings.characters else ():
            lines = (raw.decode(errors="replace").split() for raw in read_lines(each.path))
            tokenizes = each.language is not None
            warn_of_form(each.path, lines, tokenizes=tokenizes, cures=_CURES)
        if self.inputs.settings.truecase:
            rules = self._train_truecasers(rules, folder, work)
        rules = [replace(each, characters=self.inputs.settings.characters) for each in rules]
        counts = self._write_corpus(rules[:2], folder, aligned)
        if self.inputs.lm_texts:
            longest = 0
            with open_output(str(more)) as stream:
                for each in rules[2:]:
                    length = 0
                    with self._prepared([each]) as rows:
                        for (sentence,) in rows:
                            stream.write(sentence.encode() + b"\n")
                            length = max(length, _num_tokens(sentence))
                    if length == 0:
                        raise DataError(each.path, None, "expected a text, found no word")
                    longest = max(longest, length)
                self._check_order(longest, self.inputs.lm_texts[0])
        return counts

    def _rules(self) -> list[LineRules]:
        inputs = self.inputs
        source, target = inputs.settings.tokenize or (None, None)
        for language in filter(None, (source, target)):
            load_tokenizer(language)  # warns once, before processes are forked
        lowercase, others = inputs.settings.lowercase, (inputs.target, *inputs.lm_texts)
        rules = [LineRules(path, target, lowercase) for path in others]
        return [LineRules(inputs.source, source, lowercase), *rules]

    def _train_truecasers(
        self, rules: Sequence[LineRules], folder: Path, work: Path
    ) -> list[LineRules]:
        """Write tokenised text, as tokenising is slow, and truecasers; return rules for both."""
        tokens = [work / f"tokens.{index}" for index in range(2)]
        with (
            self._prepared(rules[:2]) as rows,
            open_output(str(tokens[0])) as source,
            open_output(str(tokens[1])) as target,
        ):
            for first, second in rows:
                source.write(first.encode() + b"\n")
                target.write(second.encode() + b"\n")
        models = [folder / name for name in TRUECASERS]
        for text, model in zip(tokens, models, strict=True):
            sentences = (line.decode().split(" ") for line in read_lines(str(text)))
            with open_output(str(model)) as stream:
                stream.writelines(train_truecaser(sentences))
        return [
            *(LineRules(str(tokens[side]), truecaser=str(models[side])) for side in range(2)),
            *(replace(each, truecaser=str(models[1])) for each in rules[2:]),
        ]

    def _write_corpus(
        self, rules: Sequence[LineRules], folder: Path, aligned: Path
    ) -> tuple[int, int]:
        kept = number = longest = 0
        given = [self.inputs.alignments] if self.inputs.alignments else []
        with self._prepared(rules, given) as rows, ExitStack() as stack:
            source, target = (
                stack.enter_context(open_output(str(folder / name))) for name in CORPUS
            )
            links = stack.enter_context(open_output(str(aligned))) if given else None
            for number, row in enumerate(rows, start=1):
                lengths = _num_tokens(row[0]), _num_tokens(row[1])
                if not self._is_clean(row[0], row[1]):
                    continue
                if links is None and max(lengths) > self.inputs.settings.max_tokens:
                    continue
                if links is not None:
                    parse_links(row[2], *lengths, given[0], number)
                    links.write(row[2].removesuffix(b"\r") + b"\n")
                source.write(row[0].encode() + b"\n")
                target.write(row[1].encode() + b"\n")
                longest = max(longest, lengths[1])
                kept += 1
            if not kept:
                longest = self.inputs.settings.max_sentence_length
                problem = f"expected sentence pairs of 1 to {longest} words, found none"
                raise DataError(self.inputs.source, None, problem)
            if self.inputs.lm is None:
                self._check_order(longest, self.inputs.target)
        return kept, number - kept

    def _check_order(self, longest: int, path: str) -> None:
        """Check that the longest sentence, with <s> and </s>, has an n-gram of the order."""
        order = self.inputs.settings.order
        if longest + 2 < order:
            problem = f"expected a sentence of at least {order - 2} words, for {order}-grams, found"
            cure = f"--lm-order must be at most {longest + 2}"
            raise DataError(path, None, f"{problem} {longest}: {cure}")

    def _is_clean(self, source: str, target: str) -> bool:
        count = _count_joined_words if self.inputs.settings.characters else _num_tokens
        shorter, longer = sorted((count(source), count(target)))
        limit = min(self.inputs.settings.max_sentence_length, MAX_RATIO * shorter)
        return 1 <= longer <= limit

    @contextmanager
    def _prepared(
        self, rules: Sequence[LineRules], others: Sequence[str] = ()
    ) -> Iterator[Iterator[Sequence[Any]]]:
        """Yield the sentences of several files side by side, with the lines of others.

        On entering, this process is forked, so outputs must be opened later: they have threads.
        """
        paths = [*(each.path for each in rules), *others]
        engine = Compute(engine="processes" if self.workers > 1 else "here", workers=self.workers)
        with (
            Meter("prepare", "lines", self.progress, lines_of=paths[0]) as meter,
            open_pool(engine, _Preparing(rules)) as pool,
        ):
            blocks = pool.map(_in_blocks(read_together(*paths)))
            yield meter.track(row for rows in blocks for row in rows)


def _num_tokens(sentence: str) -> int:
    return sentence.count(" ") + 1 if sentence else 0


def _count_joined_words(sentence: str) -> int:
    return max(0, sentence.count(BOUNDARY) - 1)


def _in_blocks(rows: Iterator[tuple[bytes, ...]]) -> Iterator[_LineRows]:
    before = 0
    while block := list(islice(rows, _BLOCK)):
        yield _LineRows(before, block)
        before += len(block)

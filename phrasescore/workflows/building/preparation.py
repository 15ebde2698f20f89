"""Check and prepare the texts of a system: tokenise, change the case, split words, and clean."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from moses_integration.alignments import parse_links
from moses_integration.ini_text import path_problem
from phrasescore.engines import LoadedWork, open_pool
from phrasescore.errors import ArgumentError, DataError, PhrasescoreError, shown_path
from phrasescore.io.characters import BOUNDARY
from phrasescore.io.corpora import read_together
from phrasescore.io.journal import digest_content
from phrasescore.io.moses_text import train_truecaser
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


_Rows = list[tuple[int, tuple[bytes, ...]]]  # the number of each line, and the lines of all files


def _prepare(rules: Sequence[Callable[[int, bytes], str]], rows: _Rows) -> list[Sequence[Any]]:
    """Return the sentences of each row; lines of further files stay as they are."""
    return [
        [*(rule(number, raw) for rule, raw in zip(rules, row, strict=False)), *row[len(rules) :]]
        for number, row in rows
    ]


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
            with open_output(str(more)) as stream:
                for each in rules[2:]:
                    has_words = False
                    with self._prepared([each]) as rows:
                        for (sentence,) in rows:
                            stream.write(sentence.encode() + b"\n")
                            has_words = has_words or bool(sentence)
                    if not has_words:
                        raise DataError(each.path, None, "expected a text, found no word")
        return counts

    def _rules(self) -> list[LineRules]:
        inputs = self.inputs
        source, target = inputs.settings.tokenize or (None, None)
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
        kept = number = 0
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
                kept += 1
            if not kept:
                longest = self.inputs.settings.max_sentence_length
                problem = f"expected sentence pairs of 1 to {longest} words, found none"
                raise DataError(self.inputs.source, None, problem)
        return kept, number - kept

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
        paths, loaded = [*(each.path for each in rules), *others], [each.load() for each in rules]
        engine = Compute(engine="processes" if self.workers > 1 else "here", workers=self.workers)
        with (
            Meter("prepare", "lines", self.progress, lines_of=paths[0]) as meter,
            open_pool(engine, LoadedWork(partial(_prepare, loaded))) as pool,
        ):
            blocks = pool.map(_in_blocks(read_together(*paths)))
            yield meter.track(row for rows in blocks for row in rows)


def _num_tokens(sentence: str) -> int:
    return sentence.count(" ") + 1 if sentence else 0


def _count_joined_words(sentence: str) -> int:
    return max(0, sentence.count(BOUNDARY) - 1)


def _in_blocks(rows: Iterator[tuple[bytes, ...]]) -> Iterator[_Rows]:
    numbered = enumerate(rows, start=1)
    while block := list(islice(numbered, _BLOCK)):
        yield block

"""Translate text with a system, a sentence at a time."""

import logging
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Self

import msgspec

from moses_integration.decoder.moses import NbestRequest, translate_with_moses
from moses_integration.moses_ini import WeightsSource, load_weights, weights_path
from moses_integration.nbest import read_every_list
from moses_integration.nbest_values import Hypothesis, hypotheses_of
from moses_integration.source_text import markup_of
from phrasescore.arguments import StrPath, whole_number
from phrasescore.devices import choose_device, usable_threads
from phrasescore.engines import WorkerPool, open_pool
from phrasescore.errors import ArgumentError, DataError
from phrasescore.features.columns import Column, as_columns
from phrasescore.io.output import check_files, open_output, optional_path
from phrasescore.io.text import is_stream, read_lines
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import Weights, to_words
from phrasescore.settings.compute import Compute
from phrasescore.systems.text import SystemSentence, TextConverter, TextProcessing
from phrasescore.workflows.search_settings import SearchSettings, moses_limits
from phrasescore.workflows.translation.pipeline import (
    Attention,
    ExplainedHypothesis,
    SystemOutput,
    SystemTask,
    SystemWork,
    in_order,
)
from phrasescore.workflows.translation.sentences import OutputLines
from phrasescore.workflows.translation.system import TranslationSystem, read_system

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SystemTranslation:
    """The translation of a sentence by a system."""

    source: tuple[str, ...]  # the words that were translated
    text: str
    words: tuple[str, ...]  # the text before detokenising
    # The probability, 0 to 1, that no other hypothesis of the list is better (docs/translate.md).
    confidence: float | None
    nbest: bytes  # the n-best list in Moses' format with the system's features, if requested
    # The best hypotheses with their features, if requested.
    hypotheses: tuple[ExplainedHypothesis, ...]
    attention: tuple[Attention, ...] = ()  # of each hypothesis, if requested

    def __str__(self) -> str:
        return self.text

    def to_list(self) -> list[Hypothesis]:
        """Return the hypotheses of the n-best list, if it was requested."""
        return hypotheses_of(self.nbest)[0] if self.nbest else []

    def to_json(self) -> bytes:
        """Return the fields as a JSON object, except ``nbest`` and ``attention``."""
        names = [name for name in self.__slots__ if name not in ("nbest", "attention")]
        fields = {name: getattr(self, name) for name in names}
        fields["hypotheses"] = [
            {
                **each._asdict(),
                "features": [part._asdict() for part in each.features],
                "phrases": [span._asdict() for span in each.phrases],
            }
            for each in self.hypotheses
        ]
        return msgspec.json.encode(fields)


@dataclass(frozen=True, slots=True)
class TranslateSummary:
    """Counts from one run of `translate`."""

    sentences: int
    untranslated: int  # sentences without any translation within the limits


class SystemTranslator:
    """A system that is loaded once and translates any text; `load_system` returns it.

    A context manager, which starts and ends the workers.

    :param tokenized: whether texts and translations are the system's words.
    :param path: the name of the text in messages.
    """

    def __init__(
        self,
        system: TranslationSystem,
        compute: Compute = Compute(),
        *,
        tokenized: bool = False,
        path: str = "the text",
    ) -> None:
        compute.check_only("workers", "device")
        self.system, self._ini, self._path = system, system.read_ini(), path
        self._converter = TextConverter(
            path,
            TextProcessing() if tokenized else system.text,
            characters=self._ini.text_settings().characters,
            markup=markup_of(self._ini),
        )
        self._device = str(choose_device(compute.device))
        workers = usable_threads(compute.workers) if self._device == "cpu" else 1
        self._compute = Compute(engine="here" if workers == 1 else "processes", workers=workers)
        self._pool: WorkerPool[SystemTask, SystemOutput] | None = None
        self.untranslated = 0

    def __repr__(self) -> str:
        return f"<SystemTranslator of {self.system.path}>"

    def open(
        self,
        sentences: Sequence[SystemSentence] | None = None,
        *,
        apart: bool = False,
        closed: Iterable[int] = (),
    ) -> Self:
        """Load the system, and start the workers.

        :param sentences: the text, if it is known: only its lines of the tables are then kept.
        :param apart: whether a single worker on the CPU is a process of its own, too.
        :param closed: file descriptors that worker processes close.
        """
        system = self.system
        if system.search.models:
            system = replace(system, search=replace(system.search, device=self._device))
        work = SystemWork(system, sentences, self._device)
        apart = apart and self._device == "cpu"
        compute = replace(self._compute, engine="processes") if apart else self._compute
        self._pool = open_pool(compute, work, closed=closed).__enter__()
        return self

    def __enter__(self) -> Self:
        return self if self._pool is not None else self.open()

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.__exit__(*error)

    @property
    def pool(self) -> WorkerPool[SystemTask, SystemOutput]:
        """The workers; one thread submits the sentences."""
        if self._pool is None:
            raise ArgumentError("a SystemTranslator is a context manager: use it in a with block")
        return self._pool

    def prepare(self, number: int, raw: bytes) -> SystemSentence:
        """Return the sentence in a line of the text, given by its number from 1 and its bytes."""
        return self._converter.prepare(number, raw)

    def translate(
        self,
        sentences: Iterable[str | Sequence[str]],
        *,
        nbest: int = 0,
        confidence: bool = False,
        explain: bool = False,
    ) -> Iterator[SystemTranslation]:
        """Yield the translation of each sentence, in order; the sentences are read lazily.

        :param sentences: strings, or sequences of words, which are joined with spaces.
        :param nbest: number of hypotheses in the n-best lists and, with ``explain``, of those that
            are explained.
        """
        if isinstance(sentences, str):
            raise TypeError(f"expected a list of sentences, got the string {sentences!r}")
        return self.translate_prepared(
            self._prepared(sentences), nbest=nbest, confidence=confidence, explain=explain
        )

    def _prepared(self, sentences: Iterable[str | Sequence[str]]) -> Iterator[SystemSentence]:
        for number, sentence in enumerate(sentences, start=1):
            try:
                words = to_words(sentence)
            except ArgumentError as error:
                raise DataError(self._path, number, str(error)) from error
            is_text = isinstance(sentence, str)
            line = str(sentence).rstrip("\r\n") if is_text else " ".join(words)
            yield self.prepare(number, line.encode())

    def translate_prepared(
        self,
        sentences: Iterable[SystemSentence],
        *,
        nbest: int = 0,
        confidence: bool = False,
        explain: bool = False,
        is_live: bool = False,
    ) -> Iterator[SystemTranslation]:
        """Yield the translation of each sentence, which `prepare` has returned.

        :param is_live: whether to yield translations while the next sentence is awaited. Moses
            reads all sentences first.
        """
        nbest = whole_number(nbest=nbest)
        tasks: Iterator[SystemTask] = (
            SystemTask(number, sentence, nbest, confidence, explain)
            for number, sentence in enumerate(sentences)
        )
        pool = self.pool
        with ExitStack() as stack:
            if self.system.moses_bin is not None:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="phrasescore-"))
                tasks, is_live = self._decode(Path(folder), list(tasks)), False
            for task, output in in_order(pool, tasks, is_live=is_live):
                self.untranslated += output.counts["untranslated"]
                yield self.finish(task, output)

    def finish(self, task: SystemTask, output: SystemOutput) -> SystemTranslation:
        """Return the translation of a sentence, given what a worker returned."""
        return SystemTranslation(
            task.sentence.words,
            self._converter.restore(output.words),
            tuple(output.words.split(" ")) if output.words else (),
            output.confidence if task.confidence else None,
            output.nbest,
            output.explained,
            output.attention,
        )

    def _decode(self, folder: Path, tasks: Sequence[SystemTask]) -> Iterator[SystemTask]:
        """Yield the tasks with Moses' translations and lists."""
        system, output, nbest = self.system, folder / "output", folder / "nbest"
        assert system.moses_bin is not None
        size = tasks[0].list_size(system) if tasks else 0
        request = NbestRequest(str(nbest), size, distinct=True) if size else None
        translate_with_moses(
            str(system.moses_bin / "moses"),
            self._ini,
            {} if system.weights is None else self._known(system.weights.search),
            [task.sentence.tokens for task in tasks],
            str(output),
            request,
            threads=usable_threads(self._compute.workers),
            limits=moses_limits(system.search),
        )
        lists: Iterable[bytes] = repeat(b"")
        if request is not None:
            found = read_every_list(str(nbest), len(tasks), allow_missing=True)
            lists = (each.raw if each.data else b"" for each in found)
        for task, best, hypotheses in zip(tasks, read_lines(str(output)), lists, strict=False):
            yield task._replace(decoded=OutputLines(best, hypotheses, Counter()))

    def _known(self, weights: Weights) -> Weights:
        names = {feature.name for feature in self._ini.features}
        return {name: own for name, own in weights.items() if name.partition("_")[0] in names}


def load_system(
    system: StrPath, *, compute: Compute = Compute(), tokenized: bool = False
) -> SystemTranslator:
    """Return the translator of a system, a context manager.

    :param system: the file ``system.toml``.
    :param compute: ``workers`` and ``device``.
    :param tokenized: whether texts and translations are the system's words.
    """
    return SystemTranslator(read_system(system), compute, tokenized=tokenized)


def translate(
    system: StrPath,
    source: StrPath = "-",
    output: StrPath = "-",
    *,
    nbest: tuple[StrPath, int] | None = None,
    explain: StrPath | None = None,
    confidence: bool = False,
    tokenized: bool = False,
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> TranslateSummary:
    """Translate a text with a whole system: search, rescoring and reranking.

    The output has one line per line of the text, in order. A stream is translated line by line, as
    it is read. `decode`, `rescore` and `rerank` give the same translations.

    :param system: the file ``system.toml``, which an experiment writes for each of its rows.
    :param nbest: the file for n-best lists in Moses' format, with all features and the best
        hypothesis first, and the number of hypotheses per sentence.
    :param explain: a file of JSON objects, one per line: the features of each translation.
    :param confidence: append a tab and the probability that the hypothesis is the list's best one.
    :param tokenized: whether the text and the translations are the system's words.
    :param compute: ``workers`` and ``device``.
    """
    system, source, output = os.fspath(system), os.fspath(source), os.fspath(output)
    lists = None if nbest is None else os.fspath(nbest[0])
    read = read_system(system)
    check_files((source, system, *read.files()), (output, lists, optional_path(explain)))
    translator = SystemTranslator(read, compute, tokenized=tokenized, path=source)
    is_live = is_stream(source)
    numbered = enumerate(read_lines(source), start=1)
    sentences: Iterable[SystemSentence] = (translator.prepare(*line) for line in numbered)
    known = None if is_live else list(sentences)
    with ExitStack() as stack:
        stack.enter_context(translator.open(known))
        _logger.info("%s is loaded", system)
        target = stack.enter_context(open_output(output))
        list_file, json_file = (
            None if path is None else stack.enter_context(open_output(os.fspath(path)))
            for path in (lists, explain)
        )
        total = None if known is None else len(known)
        meter = stack.enter_context(Meter("translate", "sentences", progress, total=total))
        for found in translator.translate_prepared(
            sentences if known is None else known,
            nbest=0 if nbest is None else nbest[1],
            confidence=confidence,
            explain=explain is not None,
            is_live=is_live,
        ):
            shown = "" if found.confidence is None else f"\t{found.confidence:.4f}"
            target.write(f"{found.text}{shown}\n".encode())
            if list_file is not None:
                list_file.write(found.nbest)
            if json_file is not None:
                json_file.write(found.to_json() + b"\n")
            for file in (target, list_file, json_file) if is_live else ():
                if file is not None:
                    file.flush()
            meter.update()
    if translator.untranslated:
        _logger.warning(
            f"{translator.untranslated:,} sentences have empty translations: no phrase order "
            "within the distortion limit covers them"
        )
    return TranslateSummary(meter.done, translator.untranslated)


class Decoder(SystemTranslator):
    """The embedded search with the model of a moses.ini, which is loaded at once.

    It translates words as `decode` does; with ``columns``, as `decode`, `rescore` and `rerank` do.

    :param moses_ini: relative paths in it start at its folder.
    :param weights: weights that replace those in the moses.ini; with ``columns``, all weights.
    :param search: networks in the search, which need weights, and limits.
    :param columns: features of the n-best lists, as for `rescore`.
    :param compute: ``workers`` and ``device``; by default, this process translates.
    :raises ConfigError: if the weights do not fit the features.
    """

    def __init__(
        self,
        moses_ini: StrPath,
        *,
        weights: WeightsSource | None = None,
        search: SearchSettings = SearchSettings(),
        columns: Sequence[Column | StrPath] = (),
        nbest_size: int = 100,
        compute: Compute = Compute(workers=1),
    ) -> None:
        search.check()
        ini = Path(moses_ini)
        system = TranslationSystem(
            weights_path(weights) or os.fspath(moses_ini),
            ini,
            ini.absolute().parent,
            search=search,
            columns=as_columns(columns),
            weights=None if weights is None else load_weights(weights),
            nbest_size=whole_number(nbest_size=nbest_size),
        )
        super().__init__(system, compute, tokenized=True)
        self.open()

    def __repr__(self) -> str:
        names = [*self.system.read_ini().tuneable_weights(), *self.system.search.feature_names]
        names += [column.argument for column in self.system.columns]
        return f"Decoder({os.fspath(self.system.moses_ini)!r}): {', '.join(names)}"

"""The translator of a system, which is loaded once: for texts, streams and rounds of tuning."""

import logging
import os
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from operator import add
from pathlib import Path
from typing import Self

from moses_integration.decoder import ALGORITHMS
from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.moses import DecoderCommand, ListRequest
from moses_integration.moses_ini import WeightsSource, weights_path
from moses_integration.nbest import NbestList, parse_nbest, read_every_list
from moses_integration.source_text import markup_of
from phrasescore.arguments import StrPath, whole_number
from phrasescore.devices import choose_device, usable_threads
from phrasescore.engines import WorkerPool, open_pool
from phrasescore.errors import ArgumentError, DataError
from phrasescore.io.text import MARKUP
from phrasescore.records import Weights, to_words
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import Rescoring
from phrasescore.systems.ranking import (
    Ranking,
    TranslationOutput,
    TranslationTask,
    load_list_features,
    sourced_list,
)
from phrasescore.systems.scoring import Floats, Scoring
from phrasescore.systems.search import (
    DecoderFeatures,
    SearchOutput,
    SearchTask,
    SearchWork,
    read_configuration,
)
from phrasescore.systems.sourced_lists import SourcedList, rescored_lines
from phrasescore.systems.stream import StreamWork, in_order
from phrasescore.systems.system import Moses, System, read_system, read_weights
from phrasescore.systems.text import SystemSentence, TextConverter, TextProcessing
from phrasescore.systems.translation import Translation

_logger = logging.getLogger(__name__)

_AHEAD = 8  # sentences of a text queued per worker, so that all stay busy during a slow one


class Translator:
    """A system that is loaded; a context manager, which starts and ends the workers.

    A text that is known (`open` with sentences) is searched by the workers, for which the tables
    are read once, and its lists are scored here, for many sentences at once. Otherwise each worker
    translates whole sentences.

    :param compute: the engine of the search with its workers, and the device and the threads of the
        networks. The engine ``here`` stands for processes on this machine.
    :param tokenized: whether texts and translations are the system's words.
    :param path: the name of the text in messages.
    :param cache: a file for scores of lists.
    :ivar untranslated: the number of sentences without any translation within the limits so far.
    """

    def __init__(
        self,
        system: System,
        compute: Compute = Compute(),
        *,
        tokenized: bool = False,
        path: str = "the text",
        cache: StrPath | None = None,
    ) -> None:
        self.system, self._compute, self._path, self._cache = system, compute, path, cache
        ini = None if system.moses_ini is None else system.read_ini()
        self._characters = ini is not None and ini.text_settings().characters
        self._converter = TextConverter(
            path,
            TextProcessing() if tokenized else system.text,
            characters=self._characters,
            markup=MARKUP if ini is None else markup_of(ini),
        )
        self._configuration: DecoderConfiguration | None = None
        if system.decoder is None:
            self._configuration = read_configuration(system)
        names = [slot.name for slot in self._configuration.slots] if self._configuration else []
        self._names = frozenset((*names, *system.search_names))
        self.untranslated, self._counts = 0, (0, 0, 0)
        self._stack = ExitStack()
        self._search: WorkerPool[SearchTask | None, SearchOutput] | None = None
        self._stream: WorkerPool[TranslationTask, TranslationOutput] | None = None
        self._scoring: Scoring | None = None
        self._is_open = False

    def __repr__(self) -> str:
        return f"<Translator of {self.system.name}>"

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
        :param closed: file descriptors that worker processes close, such as a lock's.
        """
        if sentences is None and self.system.decoder is None:
            self._open_stream(apart=apart, closed=closed)
        else:
            # The search comes first: it forks, and the features of lists may start threads.
            if self._configuration is not None:
                self._open_search(self._configuration, sentences or (), closed)
            compute = Compute(device=self._compute.device, threads=self._compute.threads)
            scoring = load_list_features(self.system, compute, Rescoring(cache=self._cache))
            if scoring is not None:
                self._scoring = self._stack.enter_context(scoring)
        self._is_open = True
        return self

    def _open_stream(self, *, apart: bool, closed: Iterable[int]) -> None:
        device = str(choose_device(self._compute.device))
        workers = usable_threads(self._compute.workers) if device == "cpu" else 1
        is_here = workers == 1 and not (apart and device == "cpu")
        engine = Compute(engine="here" if is_here else "processes", workers=workers)
        pool = open_pool(engine, StreamWork(self.system, device), closed=closed)
        self._stream = self._stack.enter_context(pool)

    def _open_search(
        self,
        configuration: DecoderConfiguration,
        sentences: Sequence[SystemSentence],
        closed: Iterable[int],
    ) -> None:
        compute, threads, device = self._compute, 1, self._compute.device
        if compute.engine == "ray":
            engine = compute
            device = compute.on_workers().device
        else:
            workers = min(usable_threads(compute.workers), max(1, len(sentences)))
            engine = Compute(engine="here" if workers == 1 else "processes", workers=workers)
            threads = compute.threads or max(1, usable_threads(None) // workers)
        work = SearchWork.of(
            self.system,
            configuration,
            self.system.weights.search,
            sentences=[sentence.tokens for sentence in sentences],
            threads=threads,
            device=device if self.system.search else "cpu",
        )
        self._search = self._stack.enter_context(open_pool(engine, work, closed=closed))
        copied = int(self._search.submit(None).result().words)
        words = sum(len(sentence.tokens) for sentence in sentences)
        line = f"{copied:,} of {words:,} source words are not in the table, and are copied"
        if 2 * copied > words:
            _logger.warning("%s; is it a table for this language?", line)
        else:
            _logger.info("%s", line)

    def __enter__(self) -> Self:
        return self if self._is_open else self.open()

    def __exit__(self, *error: object) -> None:
        self._is_open = False
        self._stack.__exit__(*error)  # type: ignore[arg-type]
        for note in () if self._search is None else self._search.notes:
            _logger.warning("%s", note)
        requests, distinct, calls = self._counts
        if calls:
            _logger.info(
                f"the networks scored {requests:,} words in their contexts, "
                f"{distinct / max(1, requests):.0%} of them different, "
                f"{distinct / calls:.0f} at a time"
            )

    @property
    def list_names(self) -> tuple[str, ...]:
        """The names of the features that the system adds to the decoder's lists."""
        return () if self._scoring is None else self._scoring.names

    @property
    def pool(self) -> WorkerPool[TranslationTask, TranslationOutput]:
        """The workers for a stream; one thread submits the sentences."""
        if self._stream is None:
            raise ArgumentError("a Translator is a context manager: use it in a with block")
        return self._stream

    def check_words(self) -> None:
        """Reject a system of characters, whose lists have no alignments and phrases of words."""
        if self._characters:
            problem = "--alignment and --segmentation require a system of words"
            raise ArgumentError(f"{problem}, and {self.system.name} translates characters")

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
    ) -> Iterator[Translation]:
        """Yield the translation of each sentence, in order; the sentences are read lazily.

        :param sentences: strings, or sequences of words, which are joined with spaces.
        :param nbest: number of hypotheses in the n-best lists and, with ``explain``, of those that
            are explained.
        """
        if isinstance(sentences, str):
            raise TypeError(f"expected a list of sentences, got the string {sentences!r}")
        nbest = whole_number(nbest=nbest)
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
        lists: ListRequest | None = None,
    ) -> Iterator[Translation]:
        """Yield the translation of each sentence, which `prepare` has returned; see `translate`.

        :param lists: what the n-best lists have besides.
        """
        if not self._is_open:
            raise ArgumentError("a Translator is a context manager: use it in a with block")
        tasks = (
            TranslationTask(number, sentence, nbest, confidence, explain, lists=lists)
            for number, sentence in enumerate(sentences)
        )
        found = self._of_text(list(tasks)) if self._stream is None else in_order(self.pool, tasks)
        for task, output in found:
            if self._stream is not None:
                self.untranslated += output.untranslated
            yield self.finish(task, output)

    def finish(self, task: TranslationTask, output: TranslationOutput) -> Translation:
        """Return the translation of a sentence, given what a worker returned."""
        return Translation(
            task.sentence.words,
            self._converter.restore(output.words),
            tuple(output.words.split(" ")) if output.words else (),
            output.confidence if task.confidence else None,
            output.nbest,
            output.explained,
            output.attention,
        )

    def _of_text(
        self, tasks: Sequence[TranslationTask]
    ) -> Iterator[tuple[TranslationTask, TranslationOutput]]:
        """Yield the tasks of a known text with their outputs."""
        features = DecoderFeatures.of(self.system, self._configuration)
        search, lists = features.check(self.system, self.list_names)
        is_own = self._configuration is not None
        omitted = () if is_own or self._scoring is not None else features.omitted
        ranking = Ranking(self.system, self._scoring, lists, omitted=omitted, has_phrases=is_own)
        requests = [task.request(self.system) for task in tasks]
        searched = self._searched([task.sentence for task in tasks], search, requests, tasks)
        outputs = ranking.outputs(zip(tasks, searched, strict=True))
        yield from zip(tasks, outputs, strict=True)

    def lists(
        self, sentences: Sequence[SystemSentence], weights: Weights, prefix: str = ""
    ) -> Iterator[NbestList]:
        """Yield the n-best list of each sentence that has one, with the features of lists.

        Its hypotheses are distinct, and in the decoder's order.

        :param sentences: some of the sentences that `open` got.
        :param weights: the weights of the decoder's features; a missing weight is that of the
            moses.ini, or 0.
        :param prefix: the beginning of the names of another decoder's files; "" for temporary ones.
        """
        request = ListRequest(self.system.nbest_size, distinct=True)
        found = self._searched(sentences, weights, [request] * len(sentences), prefix=prefix)
        if self._scoring is None:
            for output in found:
                if output.nbest:
                    yield from parse_nbest([output.nbest], "the n-best list")
            return
        sourced = (
            sourced_list(number, sentence, output.nbest)
            for number, (sentence, output) in enumerate(zip(sentences, found, strict=True))
            if output.nbest
        )
        for each, scores in self._scoring.score(sourced, "the source", "the hypotheses"):
            yield self._with_features(each, scores.values)

    def _with_features(self, each: SourcedList, values: Floats) -> NbestList:
        assert self._scoring is not None
        (found,) = parse_nbest([rescored_lines(self._scoring, each, values)], "the n-best list")
        return found

    def _searched(
        self,
        sentences: Sequence[SystemSentence],
        weights: Weights,
        requests: Sequence[ListRequest | None],
        tasks: Sequence[TranslationTask] = (),
        prefix: str = "",
    ) -> Iterator[SearchOutput]:
        """Yield what the decoder finds for each sentence, in order."""
        if self._search is None:
            yield from self._decode(sentences, weights, requests, prefix)
            return
        known = {slot.name for slot in self._configuration.slots} if self._configuration else set()
        own = {
            name: weights[name] for name in weights if name in {*known, *self.system.search_names}
        }
        explained = [task.explain for task in tasks] or [False] * len(sentences)
        searched = (
            SearchTask(number, sentence.tokens, own, request, explain)
            for number, (sentence, request, explain) in enumerate(
                zip(sentences, requests, explained, strict=True)
            )
        )
        for output in self._search.map(searched, window=_AHEAD * self._search.workers):
            first, second, third = map(add, self._counts, output.counts)
            self._counts = first, second, third
            self.untranslated += output.untranslated
            yield output

    def _decode(
        self,
        sentences: Sequence[SystemSentence],
        weights: Weights,
        requests: Sequence[ListRequest | None],
        prefix: str,
    ) -> Iterator[SearchOutput]:
        """Yield what a program finds for each sentence of a text, which it reads as a whole."""
        with tempfile.TemporaryDirectory(prefix="phrasescore-") as folder:
            work = prefix or os.path.join(folder, "run")
            source, nbest = f"{work}.source", f"{work}.nbest.part"
            lines = (f"{' '.join(sentence.words)}\n".encode() for sentence in sentences)
            Path(source).write_bytes(b"".join(lines))
            # All sentences have the same request.
            request = next(iter(requests), None) or ListRequest(1, distinct=True)
            if sentences:
                self._command(len(sentences))(source, weights, request, nbest)
                for found in read_every_list(nbest, len(sentences), allow_missing=True):
                    if not found.data:
                        yield SearchOutput("")
                        continue
                    best = found.hypothesis(0).strip(b" ").decode()
                    yield SearchOutput(best, found.raw)

    def _command(self, num_sentences: int) -> DecoderCommand:
        """Return the command of a decoder, in which Moses gets the system's limits."""
        decoder, system = self.system.decoder, self.system
        ini = None if system.moses_ini is None else system.read_ini()
        if isinstance(decoder, DecoderCommand):
            return replace(decoder, ini=ini)
        assert isinstance(decoder, Moses)
        threads = min(usable_threads(self._compute.workers), max(1, num_sentences))
        words = [str(decoder.program), "-threads", str(threads)]
        for name, value in system.limits.items():
            number = ALGORITHMS.index(value) if name == "search-algorithm" else value
            words += [f"-{name}", str(number)]
        return DecoderCommand(shlex.join(words), ini)


def load_system(
    system: StrPath | System,
    *,
    weights: WeightsSource | None = None,
    compute: Compute = Compute(),
    tokenized: bool = False,
) -> Translator:
    """Return the translator of a system, a context manager.

    :param system: see `read_system`.
    :param weights: weights that replace the system's own: values, a file or another system.
    :param compute: see `Translator`.
    :param tokenized: whether texts and translations are the system's words.
    """
    read = system if isinstance(system, System) else read_system(system)
    if weights is not None:
        path = weights_path(weights)
        where = None if path is None else Path(path)
        read = replace(read, weights=read_weights(weights), weights_path=where)
    return Translator(read, compute, tokenized=tokenized)

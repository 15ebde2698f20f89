"""The translator of a system, which is loaded once: for texts, streams and rounds of tuning."""

import os
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Self

from moses_integration.decoder import ALGORITHMS
from moses_integration.decoder.moses import DecoderCommand, ListRequest, log_tail
from moses_integration.moses_ini import WeightsSource
from moses_integration.nbest import NbestList, read_every_list
from phrasescore.arguments import Count, StrPath, check_sequences
from phrasescore.devices import choose_device, usable_threads
from phrasescore.engines import LoadedWork, WorkerPool, open_pool
from phrasescore.errors import ArgumentError, ConfigError, DataError, PhrasescoreError
from phrasescore.io.text import decode
from phrasescore.records import Weights, to_words
from phrasescore.settings.compute import Compute
from phrasescore.settings.declaration import check
from phrasescore.settings.scoring import Rescoring
from phrasescore.systems.ranking import (
    Ranking,
    Translation,
    TranslationTask,
    featured_lists,
    load_list_features,
)
from phrasescore.systems.scoring import Scoring
from phrasescore.systems.search import (
    DecoderFeatures,
    SearchOutput,
    SearchTask,
    read_configuration,
)
from phrasescore.systems.system import Moses, System, read_system
from phrasescore.systems.text import SystemSentence, TextConverter, TextProcessing
from phrasescore.systems.workers import (
    AHEAD_IN_TEXT,
    SearchPool,
    StreamTranslator,
    in_order,
    log_copied,
    open_search,
)

_ONE_HYPOTHESIS = ListRequest(1, distinct=True)


class Translator:
    """A system that is loaded; a context manager, which starts and ends the workers.

    A text that is known (`open` with sentences) is searched by the workers, for which the tables
    are read once, and its lists are scored here, for many sentences at once. Otherwise each worker
    translates whole sentences.

    :param compute: the engine of the search of a known text with its workers (``here`` stands for
        processes on this machine), and the device and the threads of the networks.
    :ivar restore: the function that turns words of the system, separated by spaces, into text.
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
        text = TextProcessing() if tokenized else system.text
        self._converter = TextConverter(path, text, ini)
        self._characters, self.restore = self._converter.characters, self._converter.restore
        compute.check_only("engine", "workers", "device", "threads")
        is_own = system.decoder is None
        if compute.engine == "ray" and not is_own:
            raise ArgumentError("--engine ray requires the search of this package")
        if compute.engine == "ray" and compute.threads is not None and not system.lists:
            problem = "--threads has no effect with --engine ray: a worker has one thread"
            raise ArgumentError(problem)
        self._configuration = read_configuration(system) if is_own else None
        self.untranslated = 0
        self._stack = ExitStack()
        self._search: SearchPool | None = None
        self._stream: WorkerPool[TranslationTask, Translation] | None = None
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

        :param sentences: the whole text, if it is known. Only the table lines that it needs are
            kept then.
        :param apart: whether even a single worker on the CPU runs in a process of its own.
        :param closed: file descriptors that worker processes must close, such as that of a lock.
        """
        system, compute = self.system, self._compute
        is_stream = sentences is None and system.decoder is None
        if is_stream and compute.engine == "ray":
            raise ArgumentError("--engine ray requires a file: a stream is translated here")
        with ExitStack() as stack:  # Ctrl-C ends what has started
            if is_stream:
                self._stream = stack.enter_context(self._open_stream(apart, closed))
            else:
                # The search comes first: it forks, and the features of lists may start threads.
                if (own := self._configuration) is not None:
                    search = open_search(system, own, sentences or (), compute, closed)
                    self._search = stack.enter_context(search)
                    log_copied(search, sentences or (), characters=own.characters)
                compute = Compute(device=compute.device, threads=compute.threads)
                scoring = load_list_features(system, compute, Rescoring(cache=self._cache))
                if scoring is not None:
                    self._scoring = stack.enter_context(scoring)
            self._stack = stack.pop_all()
        self._is_open = True
        return self

    def _open_stream(
        self, apart: bool, closed: Iterable[int]
    ) -> WorkerPool[TranslationTask, Translation]:
        device = str(choose_device(self._compute.device))
        workers = usable_threads(self._compute.workers) if device == "cpu" else 1
        is_here = workers == 1 and not (apart and device == "cpu")
        engine = Compute(engine="here" if is_here else "processes", workers=workers)
        return open_pool(engine, LoadedWork(StreamTranslator(self.system, device)), closed=closed)

    def __enter__(self) -> Self:
        return self if self._is_open else self.open()

    def __exit__(self, *error: object) -> None:
        self._is_open = False
        self._stack.__exit__(*error)  # type: ignore[arg-type]

    @property
    def list_names(self) -> tuple[str, ...]:
        """The names of the features that the system adds to the decoder's lists."""
        return () if self._scoring is None else self._scoring.names

    @property
    def pool(self) -> WorkerPool[TranslationTask, Translation]:
        """The workers for a stream; one thread at a time uses them."""
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
        check_sequences(sentences=sentences)
        check(Count, nbest=nbest)
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
        for translation in found:
            self.untranslated += translation.untranslated
            yield self.finish(translation)

    def finish(self, found: Translation) -> Translation:
        """Return the translation that a worker returned, with its text detokenised."""
        return replace(found, text=self.restore(found.text))

    def _of_text(self, tasks: Sequence[TranslationTask]) -> Iterator[Translation]:
        if not tasks:
            return
        features = DecoderFeatures.of(self.system, self._configuration)
        search, lists = features.check(self.system, self.list_names)
        is_own = self._configuration is not None
        omitted = () if is_own or self._scoring is not None else features.omitted
        ranking = Ranking(self.system, self._scoring, lists, omitted=omitted, has_phrases=is_own)
        # All tasks want the same.
        request = tasks[0].request(self.system, characters=self._characters)
        sentences = [task.sentence for task in tasks]
        found = self._decode(sentences, search, request, explain=tasks[0].explain)
        yield from ranking.outputs(tasks, found)

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
        outputs = self._decode(sentences, weights, request, prefix=prefix)
        for _, found in featured_lists(self._scoring, sentences, outputs):
            if found is not None:
                yield found

    def _decode(
        self,
        sentences: Sequence[SystemSentence],
        weights: Weights,
        request: ListRequest | None,
        *,
        explain: bool = False,
        prefix: str = "",
    ) -> Iterator[SearchOutput]:
        if self._search is None:
            return self._run_program(sentences, weights, request or _ONE_HYPOTHESIS, prefix)
        tasks = (
            SearchTask(number, sentence.tokens, weights, request, explain)
            for number, sentence in enumerate(sentences)
        )
        return self._search.map(tasks, window=AHEAD_IN_TEXT * self._search.workers)

    def _run_program(
        self,
        sentences: Sequence[SystemSentence],
        weights: Weights,
        request: ListRequest,
        prefix: str,
    ) -> Iterator[SearchOutput]:
        """Yield what another decoder finds for each sentence of a text, which it reads as a whole.

        :param prefix: the beginning of the names of its files; "" for temporary ones.
        """
        if not sentences:
            return
        with tempfile.TemporaryDirectory(prefix="phrasescore-") as folder:
            work = prefix or os.path.join(folder, "run")
            source, nbest = f"{work}.source", f"{work}.nbest.part"
            threads = min(usable_threads(self._compute.workers), len(sentences))
            run = _command(self.system, threads)
            if run.is_moses and self._characters:
                problem = "a system of characters requires the search of this package"
                raise ConfigError(self.system.path, "decoder", problem)
            lines = (f"{' '.join(each.words)}\n".encode() for each in sentences)
            Path(source).write_bytes(b"".join(lines))
            run(source, weights, request, nbest, keeps_log=bool(prefix))
            if isinstance(self.system.decoder, Moses):
                found = Path(f"{work}.out").read_bytes().count(b"\n")
                if found != len(sentences):
                    problem = f"expected {len(sentences):,} translations from Moses, found"
                    tail = log_tail(f"{work}.log", is_named=bool(prefix))
                    raise PhrasescoreError(f"{problem} {found:,}{tail}")
            found_lists = read_every_list(nbest, len(sentences), allow_missing=True)
            for sentence, each in zip(sentences, found_lists, strict=True):
                if each.data:
                    words = decode(nbest, each.first_line, each.hypothesis(0).strip(b" "))
                    yield SearchOutput(words, each.raw)
                else:
                    yield SearchOutput("", untranslated=bool(sentence.words))


def _command(system: System, threads: int) -> DecoderCommand:
    """Return the command of a decoder, in which Moses gets the system's limits."""
    ini = None if system.moses_ini is None else system.read_ini()
    if isinstance(system.decoder, DecoderCommand):
        return replace(system.decoder, ini=ini)
    assert isinstance(system.decoder, Moses)
    words = [str(system.decoder.program), "-threads", str(threads)]
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

    :param weights: weights that replace the system's own: values, a file or another system.
    """
    read = system if isinstance(system, System) else read_system(system)
    if weights is not None:
        read = read.with_weights(weights)
    return Translator(read, compute, tokenized=tokenized)

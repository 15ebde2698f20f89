"""Translate sentences with a system: the search, the features of the list, and the best one."""

import queue
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from moses_integration.alignments import PhraseSpan, parse_segmentation
from moses_integration.decoder.configuration import UNKNOWN_WORDS
from moses_integration.decoder.moses import NbestRequest
from moses_integration.decoder.search import Derivation
from moses_integration.list_features import Values, WeightedSum
from moses_integration.nbest import NbestList, parse_nbest
from phrasescore.devices import torch_threads
from phrasescore.engines import Pending, WorkerPool
from phrasescore.errors import ArgumentError, ConfigError, PhrasescoreError
from phrasescore.records import Weights
from phrasescore.settings.compute import Compute
from phrasescore.systems.scoring import Scoring
from phrasescore.systems.sourced_lists import SourcedList, rescored_lines
from phrasescore.systems.text import SystemSentence
from phrasescore.workflows.rerank import sorted_lines
from phrasescore.workflows.translation.sentences import (
    OutputLines,
    SentenceTask,
    StreamTranslator,
    read_configuration,
)
from phrasescore.workflows.translation.system import TranslationSystem
from tuning.confidence import confidence

_LIST = "the n-best list"
_AHEAD = 4  # sentences queued per worker, so that all stay busy during a slow sentence
_END = object()  # after the last task

# The weights of source words and their ``</s>``, a row for each word of a translation and ``</s>``.
Attention = tuple[tuple[float, ...], ...]


class SystemTask(NamedTuple):
    """A sentence to translate, as sent to a worker."""

    number: int  # from 0, the id in n-best lists
    sentence: SystemSentence
    nbest: int = 0  # number of hypotheses to return
    confidence: bool = False
    explain: bool = False  # whether to return the features and the phrases
    attention: bool = False  # whether to return the attention of a network, with ``explain``
    decoded: OutputLines | None = None  # Moses' output, so that there is no search

    def list_size(self, system: TranslationSystem) -> int:
        """Return the size of the search's n-best list; 0 if none is needed.

        A system with features of lists has lists of one size, on which the translation depends.
        """
        if system.columns:
            return system.nbest_size
        is_needed = self.nbest or self.confidence or self.explain
        return max(self.nbest, system.nbest_size) if is_needed else 0


class FeaturePart(NamedTuple):
    """A feature of a hypothesis: its values, their weights, and the sum of their products."""

    name: str
    values: tuple[float, ...]
    weights: tuple[float, ...]
    contribution: float


class ExplainedHypothesis(NamedTuple):
    """A hypothesis with everything that its score consists of."""

    words: str  # separated by spaces
    score: float
    features: tuple[FeaturePart, ...]
    phrases: tuple[PhraseSpan, ...]  # in target order; none from Moses or a system of characters


class SystemOutput(NamedTuple):
    """What a worker returns for a sentence."""

    words: str  # separated by spaces
    confidence: float  # from 0 to 1; see `phrasescore.workflows.translation.translate`
    nbest: bytes  # the n-best list in Moses' format, best first
    explained: tuple[ExplainedHypothesis, ...]  # best first
    counts: Counter[str]
    attention: tuple[Attention, ...] = ()  # of each of ``explained``; none without such a network


@dataclass(frozen=True)
class SystemWork:
    """The work of translating with a system: a :class:`phrasescore.engines.Work`."""

    system: TranslationSystem
    sentences: Sequence[SystemSentence] | None  # None if they are not known in advance
    device: str

    def load(self) -> "SystemPipeline":
        """Read the models and the tables, and compile the search before a fork."""
        return SystemPipeline(self)


class SystemPipeline:
    """Translates sentences: everything is loaded, except the networks of the search."""

    def __init__(self, work: SystemWork) -> None:
        self._system = system = work.system
        self._scorer: Scoring | None = None
        self._stack = ExitStack()
        names: Sequence[str] = ()
        if system.columns:
            try:
                compute = Compute(workers=1, device=work.device)
                scorer = Scoring.of(system.columns, compute=compute, sets_threads=False)
            except ArgumentError as error:
                raise ConfigError(system.path, "rescore", str(error)) from error
            self._scorer, names = self._stack.enter_context(scorer), scorer.names
        self._translator: StreamTranslator | None = None
        self._omitted: list[str] = []  # features that are in Moses' scores, and not in its lists
        if system.moses_bin is None:
            configuration = read_configuration(
                str(system.moses_ini), system.search, system.paths_from
            )
            sizes = {slot.name: len(slot.weights) for slot in configuration.slots}
            sizes |= dict.fromkeys(system.search.feature_names, 1)
            counts = {slot.name: sum(configuration.shown(slot)) for slot in configuration.slots}
            shown = {name: count for name, count in counts.items() if count}
            shown |= dict.fromkeys(system.search.feature_names, 1)
            weights = system.check_weights(sizes, shown, names)
            own = {slot.name: slot.weights for slot in configuration.slots}
            tokens = None
            if work.sentences is not None:
                tokens = [each.tokens for each in work.sentences]
            self._translator = StreamTranslator(
                configuration, system.search, weights.search, tokens, threads=1
            )
            self._translator.compile()
        else:
            ini = system.read_ini()
            own = ini.tuneable_weights()
            if not names:
                self._omitted = [each.name for each in ini.features if each.name not in own]
            shown = {name: len(values) for name, values in own.items()}
            sizes = {f"{UNKNOWN_WORDS}0": 1, **shown}
            weights = system.check_weights(sizes, shown, names)
        self.weights: Weights = weights.lists if names else {**own, **weights.search}

    def close(self) -> None:
        """End the programs among the features."""
        self._stack.close()

    def __call__(self, task: SystemTask) -> SystemOutput:
        """Return the translation of a sentence."""
        kinds = {column.kind() for column in self._system.columns}
        if not self._system.search.models and "model" not in kinds:
            return self._translate(task)
        with torch_threads(1):  # torch has the caller's threads afterwards
            return self._translate(task)

    def _translate(self, task: SystemTask) -> SystemOutput:
        decoded, searched = task.decoded, None
        if decoded is None:
            assert self._translator is not None
            sentence = SentenceTask(task.number, task.sentence.tokens, {}, self._request(task))
            searched, counts = self._translator.search(sentence)
            decoded = self._translator.lines(sentence, searched, counts)
        best = decoded.output.decode().removesuffix("\n")
        if not decoded.nbest:  # not needed, or no translation within the distortion limit
            return SystemOutput(best, 0.0, b"", (), decoded.counts)
        (found,) = parse_nbest([decoded.nbest], _LIST)
        if self._scorer is None:
            scores = np.array([found.total(index) for index in range(found.num_lines)])
            order = list(range(found.num_lines))
        else:
            found, scores = self._rescore(found, task.sentence)
            order = (-scores).argsort(kind="stable").tolist()
            best = found.hypothesis(order[0]).strip(b" ").decode()
        nbest = b"".join(sorted_lines(found, scores).splitlines(True)[: task.nbest])
        shown = order[: max(1, task.nbest)] if task.explain else []
        own = None if self._scorer is not None else searched
        explained = tuple(
            self._explain(found, index, float(scores[index]), task, own) for index in shown
        )
        attention = self._attend(task, explained) if task.attention else ()
        # The curve is for lists of this size.
        listed = scores[: self._system.nbest_size]
        sure = confidence(listed, order[0], self._system.confidence)
        return SystemOutput(best, sure, nbest, explained, decoded.counts, attention)

    def _request(self, task: SystemTask) -> NbestRequest | None:
        """Return which list of the search is needed, or None if only the best translation is."""
        size = task.list_size(self._system)
        if not size:
            return None
        has_phrases = task.explain and task.sentence.tokens is task.sentence.words
        return NbestRequest("", size, distinct=True, segmentation=has_phrases)

    def _rescore(self, found: NbestList, sentence: SystemSentence) -> tuple[NbestList, Values]:
        """Return the list with the system's features, and the score of each hypothesis.

        As in files, the features have the digits of an n-best list.
        """
        assert self._scorer is not None
        each = SourcedList(0, found, sentence.words)
        values = self._scorer.score_list(each)
        (found,) = parse_nbest([rescored_lines(self._scorer, each, values)], _LIST)
        return found, WeightedSum(self.weights)(found)

    def _explain(
        self,
        found: NbestList,
        index: int,
        score: float,
        task: SystemTask,
        searched: Derivation | None,
    ) -> ExplainedHypothesis:
        """Return a hypothesis with the features whose sum is its score.

        :param searched: the best translation, if the score is the one of the search, which also has
            features that lists omit, such as UnknownWordPenalty.
        """
        words = found.hypothesis(index).strip(b" ").decode()
        values = found.features(index)
        if searched is not None:
            assert self._translator is not None
            values = self._translator.values(searched.nbest[index])
            score = searched.nbest[index].score  # with all digits, as the values
        features = [self._part(name, own) for name, own in values.items()]
        if self._omitted:
            rest = score - sum(part.contribution for part in features)
            features.append(FeaturePart(" + ".join(self._omitted), (rest,), (1.0,), rest))
        phrases: tuple[PhraseSpan, ...] = ()
        source, target = task.sentence.words, words.split(" ") if words else []
        if target and self._translator is not None and task.sentence.tokens is source:
            raw, line = found.raws[index], found.first_line + index
            phrases = tuple(parse_segmentation(raw, len(source), len(target), _LIST, line))
        return ExplainedHypothesis(words, score, tuple(features), phrases)

    def _part(self, name: str, values: tuple[float, ...]) -> FeaturePart:
        weights = self.weights.get(name, (0.0,) * len(values))
        total = sum(one * other for one, other in zip(values, weights, strict=True))
        return FeaturePart(name, values, weights, total)

    def _attend(
        self, task: SystemTask, explained: Sequence[ExplainedHypothesis]
    ) -> tuple[Attention, ...]:
        """Return the weights of the first network with attention that reads the source, if any."""
        models = () if self._scorer is None else self._scorer.request.checkpoints_of(None)
        for network in models if task.sentence.words else ():
            if network.config.network.aligns_words and not network.reverse:
                from phrasescore.report.sentences import attention_weights

                texts = (each.words.split(" ") if each.words else [] for each in explained)
                return tuple(
                    attention_weights(network, task.sentence.words, words) for words in texts
                )
        return ()


def in_order(
    pool: WorkerPool[SystemTask, SystemOutput], tasks: Iterator[SystemTask], *, is_live: bool
) -> Iterator[tuple[SystemTask, SystemOutput]]:
    """Yield tasks with their outputs, each as soon as it is ready and those before it are.

    An error in reading a task is raised after the outputs of the tasks before it.

    :param is_live: whether to yield outputs while the next task is awaited; a thread reads them.
    """
    window = _AHEAD * pool.workers
    live = _LiveTasks(tasks, window) if is_live else None
    pending: deque[tuple[SystemTask, Pending[SystemOutput]]] = deque()
    task: object = None
    problem: PhrasescoreError | None = None
    while task is not _END or pending:
        if task is not _END and len(pending) < window:
            first = pending[0][1] if pending else None
            try:
                task = next(tasks, _END) if live is None else live.next(first)
            except PhrasescoreError as error:
                task, problem = _END, error
            if isinstance(task, SystemTask):
                pending.append((task, pool.submit(task)))
            if task is not _END and not (task is None and first is not None and first.done()):
                continue
        if pending:
            done, output = pending.popleft()
            yield done, output.result()
    if problem is not None:
        raise problem


class _LiveTasks:
    """Tasks that a thread reads, so that a finished one need not wait for the next one."""

    def __init__(self, tasks: Iterator[SystemTask], size: int) -> None:
        self._room = threading.Semaphore(size)
        # A task, `_END` with an error or without one, or None: a task is finished.
        self._events: queue.SimpleQueue[tuple[object, Exception | None]] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(tasks,), daemon=True).start()

    def _read(self, tasks: Iterator[SystemTask]) -> None:
        try:
            for task in tasks:
                self._room.acquire()
                self._events.put((task, None))
            self._events.put((_END, None))
        except Exception as error:
            self._events.put((_END, error))

    def next(self, first: Pending[SystemOutput] | None) -> object:
        """Return the next task or `_END`, or None, at the latest when ``first`` is done."""
        if first is not None:
            first.add_done_callback(lambda _: self._events.put((None, None)))
        task, error = self._events.get()
        if error is not None:
            raise error
        if task is not None and task is not _END:
            self._room.release()
        return task

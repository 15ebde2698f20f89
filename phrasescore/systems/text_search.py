"""The search of a known text on an engine: each worker reads the tables once, for its sentences."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from operator import add
from typing import Self

from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.moses import ListRequest
from phrasescore.devices import usable_threads
from phrasescore.engines import open_pool
from phrasescore.io.characters import split_characters
from phrasescore.records import Weights
from phrasescore.settings.compute import Compute
from phrasescore.settings.kinds import KINDS
from phrasescore.systems.search import SearchOutput, SearchTask, SearchWork, search_weights
from phrasescore.systems.system import System
from phrasescore.systems.text import SystemSentence
from phrasescore.systems.text_checks import KnownWords, UnknownWordCheck, unknown_words_of

_logger = logging.getLogger(__name__)

_AHEAD = 8  # sentences queued per worker, so that all stay busy during a slow one


class TextSearch:
    """The workers that search translations of a known text, under weights that may change.

    A context manager, which ends the workers.

    :param compute: the engine with its workers; the engine ``here`` stands for processes on this
        machine. ``device`` and ``threads`` are for the networks.
    """

    def __init__(
        self,
        system: System,
        configuration: DecoderConfiguration,
        sentences: Sequence[SystemSentence],
        compute: Compute,
        closed: Iterable[int] = (),
    ) -> None:
        threads, device = 1, compute.device
        if compute.engine == "ray":
            device = compute.on_workers().device
        else:
            workers = min(usable_threads(compute.workers), max(1, len(sentences)))
            threads = compute.threads or max(1, usable_threads(None) // workers)
            compute = Compute(engine="here" if workers == 1 else "processes", workers=workers)
        self._work = work = SearchWork.of(
            system,
            configuration,
            search_weights(system, configuration),
            sentences=[sentence.tokens for sentence in sentences],
            threads=threads,
            device=device if system.search else "cpu",
        )
        self._unknown_words = _unknown_words(system)
        self._counts = (0, 0, 0)  # see `SearchOutput`
        with ExitStack() as stack:  # Ctrl-C ends the workers, too
            self._pool = stack.enter_context(open_pool(compute, work, closed=closed))
            copied = int(self._pool.submit(None).result().words)
            self._stack = stack.pop_all()
        words = sum(len(sentence.tokens) for sentence in sentences)
        line = f"{copied:,} of {words:,} source words are not in the table, and are copied"
        if 2 * copied > words:
            _logger.warning("%s; is it a table for this language?", line)
        else:
            _logger.info("%s", line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.__exit__(*error)  # type: ignore[arg-type]

    def decode(
        self,
        sentences: Sequence[SystemSentence],
        weights: Weights,
        request: ListRequest | None,
        *,
        explain: bool = False,
    ) -> Iterator[SearchOutput]:
        """Yield what the search finds for each sentence, in order.

        :param sentences: some of the sentences of the text.
        :param weights: weights of features that the search does not have are ignored.
        """
        own = self._work.own_weights(weights)
        sources, targets = self._unknown_words
        is_split = self._work.configuration.characters
        tasks = (
            SearchTask(number, sentence.tokens, own, request, explain)
            for number, sentence in enumerate(sentences)
        )
        found = self._pool.map(tasks, window=_AHEAD * self._pool.workers)
        for sentence, output in zip(sentences, found, strict=True):
            self._counts = tuple(map(add, self._counts, output.counts))
            if self._work.networks:
                sources.count(sentence.tokens)
                words = output.words.split()
                targets.count(split_characters(words) if is_split else words)
            yield output
        sources.warn()
        targets.warn()
        requests, distinct, calls = self._counts
        if calls:
            _logger.info(
                f"the networks scored {requests:,} words in their contexts, "
                f"{distinct / max(1, requests):.0%} of them different, "
                f"{distinct / calls:.0f} at a time"
            )


def _unknown_words(system: System) -> tuple[UnknownWordCheck, UnknownWordCheck]:
    models = []
    if system.search:
        from phrasescore.models.checkpoint import load_table_vocabularies  # imports torch
    for kind, column in zip(system.search_kinds, system.search, strict=True):
        source, target = load_table_vocabularies(column.model)
        models.append(KnownWords(column.model, source if KINDS[kind].is_aligned else None, target))
    return unknown_words_of("the source", "the translations", models)

"""Scores of whole translations, as of n-best lists, under one or several networks."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.arguments import PrecisionName
from phrasescore.config.settings import LANGUAGE_MODELS
from phrasescore.devices import GPU_THREADS
from phrasescore.engines.worker_threads import worker_threads
from phrasescore.errors import ModelError
from phrasescore.features.cslm import USUAL, CslmOptions, CslmScores
from phrasescore.features.network_scores import NetworkScores
from phrasescore.features.score_cache import ScoreCache, score_keys
from phrasescore.kernels.precision import Precision
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.records import HypothesisList
from phrasescore.scoring.hypothesis_texts import HypothesisTexts
from phrasescore.scoring.prefix_tree import PrefixTree
from phrasescore.scoring.tree_scorer import TreeLogProbs, average_models

# Distinct hypotheses that are scored together: enough to fill the matrix products of most levels,
# and few enough for every thread to get a group where a file has few lists.
GROUP_SIZE = {"cpu": 1024, "cuda": 65536}

Floats = NDArray[np.float64]


class ListScores(NamedTuple):
    """The scores of one list under the networks."""

    # A column per network, in their order, and the ensemble's last if there is one: the natural
    # log-probability of each hypothesis and its </s>, (hypotheses,).
    columns: list[Floats]
    # For each column and hypothesis the log-probabilities of the predicted words, </s> last; None
    # unless they are asked for.
    words: list[list[Floats]] | None


@dataclass
class SentenceWork:
    """How much was computed."""

    lists: int = 0
    # Of each list the distinct ones.
    hypotheses: int = 0
    # Hypotheses that were scored, identical ones once.
    scored: int = 0
    # Hypotheses found in the cache; None without a cache.
    cached: int | None = None
    # Distinct prefixes: decoder steps of one network.
    steps: int = 0
    # Words outside the shortlists, over all models: in sentences that were read, and in distinct
    # prefixes of predicted ones.
    unknown_read: int = 0
    unknown_words: int = 0

    def summary(self) -> str:
        """Return the figures as one line."""
        parts = [
            f"{self.hypotheses:,} different hypotheses in {self.lists:,} lists",
            f"{self.scored:,} scored in {self.steps:,} decoder steps",
            f"unknown words: {self.unknown_read:,} read, {self.unknown_words:,} predicted",
        ]
        if self.cached is not None:
            parts.append(f"{self.cached:,} found in the cache")
        return "; ".join(parts)


class SentenceScores:
    """log p(hypothesis ``</s>`` | source), or log p(source ``</s>`` | hypothesis).

    Natural logarithms, summed over the words of the predicted side and its ``</s>``, not divided
    by length. Which side is predicted is each model's own; a word outside its shortlist is scored
    as ``<unk>``. A value depends on source and hypothesis alone, to the last bit: not on what is
    scored beside them, on the number of threads, or on a cache.

    :param checkpoints: trained models.
    :param device: where they run.
    :param precision: of the matrix products.
    :param threads: CPU threads, each with lists of its own. A GPU has `GPU_THREADS`.
    :param ensemble: whether to add a column in which the models' probabilities are averaged at
        every word; they must then be of one direction.
    :param words: whether to give the log-probabilities of single words, too.
    :param cache: where scores of hypotheses are looked up and kept; those of single words are not.
    :param cslm: of the language models among the networks, which score the hypothesis alone.
    :raises ModelError: if the models cannot be an ensemble, or have weights that are not finite;
        with a cache the weights are looked at when the first hypothesis is scored.
    """

    def __init__(
        self,
        checkpoints: Sequence[Checkpoint],
        device: torch.device,
        *,
        precision: PrecisionName = "float32",
        threads: int = 1,
        ensemble: bool = False,
        words: bool = False,
        cache: ScoreCache | None = None,
        cslm: CslmOptions = USUAL,
    ) -> None:
        if ensemble and len({checkpoint.reverse for checkpoint in checkpoints}) > 1:
            raise ModelError("an ensemble is of models of one direction, not with some reverse")
        self._precision = Precision(precision, device)
        self._models: list[NetworkScores | CslmScores] = [
            CslmScores(checkpoint, device, self._precision, cslm)
            if checkpoint.config.kind in LANGUAGE_MODELS
            else NetworkScores(checkpoint, device, self._precision)
            for checkpoint in checkpoints
        ]
        self._is_ready = False
        self._ensemble = ensemble
        self._words = words
        self._cache = None if words else cache
        self._threads = threads if device.type == "cpu" else GPU_THREADS
        self._group_size = GROUP_SIZE[device.type]
        # The names of the columns in the cache.
        self._names = [""] * len(self._models)
        if self._cache is not None:
            self._names = [
                f"{model.fingerprint()} {precision} {device.type}" for model in self._models
            ]
        if ensemble:
            # The mean is summed in the order of the models.
            self._names.append(" + ".join(self._names))
        self.start_counting()
        if cache is None:
            self._get_ready()

    def start_counting(self) -> None:
        """Begin a new count of the work, ``self.work``."""
        self.work = SentenceWork(cached=None if self._cache is None else 0)

    def values(self, lists: Iterable[HypothesisList]) -> Iterator[ListScores]:
        """Yield the scores of each list, in order; lists are read ahead in groups.

        :raises ModelError: on reaching a hypothesis whose score is not a finite log-probability.
        """
        waiting: deque[_Pending] = deque()
        with ExitStack() as stack:
            stack.enter_context(self._precision.active())
            pool = stack.enter_context(worker_threads(self._threads, self._start_thread))
            for group in self._groups(lists):
                waiting.append(self._begin(pool, group))
                if len(waiting) > self._threads + 1:
                    yield from self._finish(waiting.popleft())
            while waiting:
                yield from self._finish(waiting.popleft())

    def _start_thread(self) -> None:
        torch.set_num_threads(1)

    def _groups(self, lists: Iterable[HypothesisList]) -> Iterator[list[HypothesisList]]:
        group: list[HypothesisList] = []
        size = 0
        for hypothesis_list in lists:
            group.append(hypothesis_list)
            size += len(set(hypothesis_list.hypotheses))
            if size >= self._group_size:
                yield group
                group, size = [], 0
        if group:
            yield group

    def _begin(self, pool: ThreadPoolExecutor, group: list[HypothesisList]) -> "_Pending":
        """Look the group up in the cache, and submit the missing hypotheses to a thread."""
        pending = _Pending(group)
        if self._cache is not None:
            for item in group:
                pending.keys.append([score_keys(name, item) for name in self._names])
            values = iter(self._cache.lookup(list(_flatten(pending.keys))))
            pending.known = [
                [list(islice(values, len(column))) for column in keys] for keys in pending.keys
            ]
        pending.missing = [
            self._missing(hypothesis_list, pending.known[place] if pending.known else None)
            for place, hypothesis_list in enumerate(group)
        ]
        wanted = [
            HypothesisList(item.source, [item.hypotheses[place] for place in missing])
            for item, missing in zip(group, pending.missing, strict=True)
            if missing
        ]
        if wanted:
            self._get_ready()
            pending.scores = pool.submit(self._score, wanted)
        return pending

    def _get_ready(self) -> None:
        """Lay out the weights; where all scores are in the cache, this is never needed."""
        if self._is_ready:
            return
        for model in self._models:
            model.lay_out()
        # Compiles the kernels before several threads do so at once.
        self._score([HypothesisList(("a",), [("a",)])])
        self._is_ready = True

    def _missing(self, item: HypothesisList, known: list[list[float | None]] | None) -> list[int]:
        if known is None:
            return list(range(len(item.hypotheses)))
        return [place for place, values in enumerate(zip(*known, strict=True)) if None in values]

    def _finish(self, pending: "_Pending") -> list[ListScores]:
        """Wait for the scores of a group's lists, return them, and store the new ones."""
        scored: list[ListScores] = []
        if pending.scores is not None:
            scored, work = pending.scores.result()
            self.work.scored += work.scored
            self.work.steps += work.steps
            self.work.unknown_read += work.unknown_read
            self.work.unknown_words += work.unknown_words
        new = iter(scored)
        keys: list[bytes] = []
        values: list[float] = []
        results = []
        for place, (item, missing) in enumerate(zip(pending.group, pending.missing, strict=True)):
            self.work.lists += 1
            self.work.hypotheses += len(item.hypotheses)
            found = next(new) if missing else None
            if self._cache is None:
                results.append(found or ListScores([np.zeros(0) for _ in self._names], None))
                continue
            self.work.cached = (self.work.cached or 0) + len(item.hypotheses) - len(missing)
            columns = [
                np.array([np.nan if value is None else value for value in column], np.float64)
                for column in pending.known[place]
            ]
            if found is not None:
                for number, (column, scores) in enumerate(zip(columns, found.columns, strict=True)):
                    column[missing] = scores
                    keys += [pending.keys[place][number][hypothesis] for hypothesis in missing]
                    values += scores.tolist()
            results.append(ListScores(columns, None))
        if self._cache is not None and keys:
            self._cache.store(keys, values)
        return results

    def _score(self, group: list[HypothesisList]) -> tuple[list[ListScores], SentenceWork]:
        work = SentenceWork()
        texts = HypothesisTexts(group)
        work.scored = texts.count_distinct()
        found: list[tuple[TreeLogProbs, PrefixTree]] = []
        for model in self._models:
            scored, tree, unknown_read, unknown_words = model.score(texts)
            work.steps += tree.num_nodes + tree.num_roots
            work.unknown_read += unknown_read
            work.unknown_words += unknown_words
            found.append((scored, tree))
        if self._ensemble:
            found.append((average_models([log_probs for log_probs, _ in found]), found[0][1]))
        columns = [log_probs.totals(tree) for log_probs, tree in found]
        words = [log_probs.words(tree) for log_probs, tree in found] if self._words else None
        scores = []
        start = 0
        for item in group:
            part = slice(start, start + len(item.hypotheses))
            start = part.stop
            of_words = None if words is None else [column[part] for column in words]
            scores.append(ListScores([column[part] for column in columns], of_words))
        return scores, work


@dataclass
class _Pending:
    """A group of lists that is being scored."""

    group: list[HypothesisList]
    # By list and column: keys, and the values in the cache.
    keys: list[list[list[bytes]]] = field(default_factory=list)
    known: list[list[list[float | None]]] = field(default_factory=list)
    # By list: the places of hypotheses that the cache lacks.
    missing: list[list[int]] = field(default_factory=list)
    scores: "Future[tuple[list[ListScores], SentenceWork]] | None" = None


def _flatten(keys: list[list[list[bytes]]]) -> Iterator[bytes]:
    return chain.from_iterable(chain.from_iterable(keys))

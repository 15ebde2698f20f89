"""Scores of whole translations, as of n-best lists, under one or several networks."""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, Self

import numpy as np
import torch

from phrasescore.arguments import PrecisionName
from phrasescore.devices import GPU_THREADS
from phrasescore.engines import open_pool
from phrasescore.engines.pool import Pending, WorkerPool
from phrasescore.errors import ModelError
from phrasescore.features.list_scoring import (
    ComputedLists,
    Floats,
    ListScores,
    ListScoring,
    SentenceWork,
    fingerprint,
)
from phrasescore.features.score_cache import ScoreCache, score_keys
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.word_scorer import USUAL, CslmOptions
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.records import HypothesisList
from phrasescore.scoring.prefix_tree import Ids
from phrasescore.settings.compute import Compute

_logger = logging.getLogger(__name__)

# Distinct hypotheses that are scored together: enough to fill the matrix products of most levels,
# and few enough for every thread to get a group where a file has few lists.
GROUP_SIZE = {"cpu": 1024, "cuda": 65536}


class SentenceScores:
    """log p(hypothesis ``</s>`` | source), or log p(source ``</s>`` | hypothesis).

    Natural logarithms, summed over the words of the predicted side and its ``</s>``, not divided
    by length. Each model predicts the side that it was trained for, from the end that it was
    trained for; a word outside its shortlist is scored as ``<unk>``. A value depends on source and
    hypothesis alone, to the last bit: not on other lists, the number of threads, or a cache. A
    joint model's depends on the affiliations, too, which its lists must have.

    A context manager, which ends the workers; threads of this process end with the object, too.

    :param precision: of the matrix products.
    :param engine: computes, each worker with one thread and lists of its own; None is one thread of
        this process. A GPU has `GPU_THREADS` here.
    :param ensemble: whether to add a column in which the models' probabilities are averaged at
        every word; they must then be of one direction. Where some predict from right to left, they
        are averaged among themselves, and so are the others; of these two log-probabilities of a
        hypothesis the column has the mean, weighted by the numbers of models.
    :param words: whether to give the log-probabilities of single words, too; not with an ensemble
        of which some models predict from right to left.
    :param cache: where scores of hypotheses are looked up and kept; it is not used with ``words``.
    :param cslm: of the language models among the networks, which score the hypothesis alone, and
        of the joint models whether log Z is left out.
    :raises ModelError: if the models cannot be an ensemble, or have weights that are not finite;
        with a cache the weights are checked when the first hypothesis is scored.
    """

    def __init__(
        self,
        checkpoints: Sequence[Checkpoint],
        device: torch.device,
        *,
        precision: PrecisionName = "float32",
        engine: Compute | None = None,
        ensemble: bool = False,
        words: bool = False,
        cache: ScoreCache | None = None,
        cslm: CslmOptions = USUAL,
    ) -> None:
        if ensemble and len({checkpoint.reverse for checkpoint in checkpoints}) > 1:
            raise ModelError("an ensemble is of models of one direction, not with some reverse")
        if ensemble and words and len({each.right_to_left for each in checkpoints}) > 1:
            problem = "an ensemble of models of which some predict from right to left has none"
            raise ModelError(f"log-probabilities of single words: {problem}")
        if ensemble and any(checkpoint.config.network.is_aligned for checkpoint in checkpoints):
            raise ModelError("a joint model reads alignments, and is in no ensemble")
        self._precision = Precision(precision, device)
        self._engine = engine or Compute(workers=1)
        if self._engine.engine == "here" and device.type != "cpu":
            self._engine = replace(self._engine, workers=GPU_THREADS)
        self._scoring = ListScoring(
            tuple(checkpoints), str(device), precision, ensemble=ensemble, words=words, cslm=cslm
        )
        if self._engine.engine == "ray":  # its workers may be elsewhere
            self._scoring = self._scoring.in_folders()
        self._pool: WorkerPool[list[HypothesisList], ComputedLists] | None = None
        self._stack = ExitStack()
        self._cache = None if words else cache
        self._group_size = GROUP_SIZE[device.type]
        # The names of the columns in the cache, and of those that depend on alignments.
        self._names = [""] * len(checkpoints)
        self._aligned: set[str] = set()
        if self._cache is not None:
            self._names = [
                f"{fingerprint(checkpoint, cslm)} {precision} {device.type}"
                for checkpoint in checkpoints
            ]
            self._aligned = {
                name
                for name, checkpoint in zip(self._names, checkpoints, strict=True)
                if checkpoint.config.network.is_aligned
            }
        # Without log Z a score is no log-probability.
        unbounded = [
            each.config.network.is_feed_forward and not cslm.normalized for each in checkpoints
        ]
        if ensemble:
            # The mean is summed in the order of the models.
            self._names.append(" + ".join(self._names))
            unbounded.append(any(unbounded))
        self._highest = np.where(unbounded, np.inf, 0.0)[:, None]  # score of each column
        self.start_counting()
        if cache is None:
            self._open_pool()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        for note in () if self._pool is None else self._pool.notes:
            _logger.warning("%s", note)

    def start_counting(self) -> None:
        """Begin a new count of the work, ``self.work``."""
        self.work = SentenceWork(cached=None if self._cache is None else 0)

    def values(self, lists: Iterable[HypothesisList]) -> Iterator[ListScores]:
        """Yield the scores of each list, in order; lists are read ahead in groups.

        :raises ModelError: on reaching a hypothesis whose score is not a finite log-probability.
        :raises PhrasescoreError: on reaching one whose score in the cache cannot be one.
        """
        waiting: deque[tuple[_ListGroup, Pending[ComputedLists] | None]] = deque()
        with self._precision.active():
            for group in self._groups(lists):
                waiting.append((group, self._submit(group)))
                # A group that the cache has whole waits for those before it alone.
                while waiting and (waiting[0][1] is None or len(waiting) >= self._window()):
                    yield from self._finish(*waiting.popleft())
            while waiting:
                yield from self._finish(*waiting.popleft())

    def _window(self) -> int:
        """Return how many groups are read and not finished at most: enough for all workers."""
        return 2 * self._open_pool().workers + 1

    def _submit(self, group: "_ListGroup") -> Pending[ComputedLists] | None:
        """Let a worker score the hypotheses that the cache lacks; None where there are none."""
        missing = [
            item.select(places)
            for item, places in zip(group.lists, group.missing, strict=True)
            if len(places)
        ]
        return self._open_pool().submit(missing) if missing else None

    def _open_pool(self) -> "WorkerPool[list[HypothesisList], ComputedLists]":
        """Return the workers; where all scores are in the cache, they are never needed."""
        if self._pool is None:
            self._pool = self._stack.enter_context(open_pool(self._engine, self._scoring))
        return self._pool

    def _groups(self, lists: Iterable[HypothesisList]) -> Iterator["_ListGroup"]:
        """Yield the lists in groups, with the scores that the cache has."""
        group: list[HypothesisList] = []
        size = 0
        for hypothesis_list in lists:
            group.append(hypothesis_list)
            size += len(set(hypothesis_list.hypotheses))
            if size >= self._group_size:
                yield self._look_up(group)
                group, size = [], 0
        if group:
            yield self._look_up(group)

    def _look_up(self, lists: list[HypothesisList]) -> "_ListGroup":
        """Return the lists with their scores in the cache."""
        shapes = [(len(self._names), len(item.hypotheses)) for item in lists]
        keys: list[list[list[bytes]]] = []
        if self._cache is None:
            known = [np.full(shape, np.nan) for shape in shapes]
        else:
            keys = [self._keys(item) for item in lists]
            wanted = [key for of_list in keys for of_column in of_list for key in of_column]
            values = iter(self._cache.lookup(wanted))
            known = [
                np.array(list(islice(values, columns * size)), np.float64).reshape(columns, size)
                for columns, size in shapes
            ]
            for scores in known:
                for wrong in scores[scores > self._highest][:1]:
                    raise self._cache.corrupt(f"the score {wrong}")
        missing = [np.flatnonzero(np.isnan(scores).any(axis=0)) for scores in known]
        return _ListGroup(lists, keys, known, missing)

    def _keys(self, item: HypothesisList) -> list[list[bytes]]:
        """Return the keys of each column's scores; only those of joint models have alignments."""
        words = item._replace(affiliations=None)
        return [score_keys(name, item if name in self._aligned else words) for name in self._names]

    def _finish(
        self, group: "_ListGroup", pending: Pending[ComputedLists] | None
    ) -> list[ListScores]:
        """Return the scores of all hypotheses of a group, and store the new ones."""
        computed, work = ([], SentenceWork()) if pending is None else pending.result()
        self.work.scored += work.scored
        self.work.steps += work.steps
        self.work.unknown_read += work.unknown_read
        self.work.unknown_words += work.unknown_words
        self.work.read += work.read
        self.work.predicted += work.predicted
        found = iter(computed)
        results = []
        keys: list[bytes] = []
        values: list[float] = []
        for number, (item, scores, missing) in enumerate(
            zip(group.lists, group.known, group.missing, strict=True)
        ):
            self.work.lists += 1
            self.work.hypotheses += len(item.hypotheses)
            words = None
            if len(missing):
                new = next(found)
                scores[:, missing] = new.columns
                words = new.words
            if self._cache is not None:
                self.work.cached = (self.work.cached or 0) + len(item.hypotheses) - len(missing)
                keys += [of_column[place] for of_column in group.keys[number] for place in missing]
                values += scores[:, missing].ravel().tolist()
            results.append(ListScores(list(scores), words))
        if self._cache is not None and keys:
            self._cache.store(keys, values)
        return results


class _ListGroup(NamedTuple):
    """Some lists that are scored together."""

    lists: list[HypothesisList]
    # By list and column; empty without a cache.
    keys: list[list[list[bytes]]]
    # By list: (columns, hypotheses), NaN where the cache has no score.
    known: list[Floats]
    # By list: the places of hypotheses that lack a score.
    missing: list[Ids]

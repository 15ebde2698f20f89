"""The scoring pipeline: reads lines with pairs, and yields them with the pairs' values."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from phrasescore.devices import GPU_THREADS, torch_threads
from phrasescore.engines import Pending, WorkerPool, open_pool, read_ahead
from phrasescore.errors import ModelError, PhrasescoreError
from phrasescore.features import BLOCK_SIZE, BlockScores, Feature
from phrasescore.io.text import NumberedLines
from phrasescore.kernels.phrases import join_blocks
from phrasescore.records import PhraseBlock, PhrasePair
from phrasescore.settings.compute import Compute
from phrasescore.workflows.scoring.columns import FeatureLoader

if TYPE_CHECKING:
    from phrasescore.features.score_cache import ScoreCache  # imports torch

_logger = logging.getLogger(__name__)

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Words = list[list[Floats]]

# Maximum number of lines in a group, per pair that it should have: few lines of a table may have
# pairs, and a list has several lines for each distinct hypothesis.
_TABLE_LINES_PER_PAIR, _LIST_LINES_PER_PAIR = 4, 16
_PAIRS_OF_TEXT = 256  # number of pairs of parallel text that are read at once


class InputPairs(NumberedLines, Protocol):
    """A block of input lines, and their pairs."""

    @property
    def block(self) -> PhraseBlock:
        """The pairs to score."""


AnyLines = TypeVar("AnyLines", bound=InputPairs)


class PairLines(NamedTuple):
    """A block of lines of parallel text, or of pairs passed from Python."""

    before: int
    block: PhraseBlock

    @property
    def num_lines(self) -> int:
        """Number of pairs in this block."""
        return len(self.block.places)


def group_pairs(pairs: Iterable[PhrasePair]) -> Iterator[PairLines]:
    """Lazily group pairs into blocks."""
    iterator, before = iter(pairs), 0
    while some := list(islice(iterator, _PAIRS_OF_TEXT)):
        yield PairLines(before, PhraseBlock.of(some))
        before += len(some)


class LineScores(NamedTuple):
    """The values of the pairs in a block of lines."""

    values: Floats  # (columns, pairs), the columns of all features one after another
    # For each column, the log-probabilities of words; see `phrasescore.features.BlockScores`.
    words: Words | None


class Item(NamedTuple):
    """A block to score, as sent to a worker."""

    block: PhraseBlock
    missing: tuple[Indices | None, ...]  # the pairs to score, per feature; None for all pairs


@dataclass(frozen=True)
class Scoring:
    """The work of scoring blocks, for workers: a :class:`phrasescore.engines.Work`."""

    loader: FeatureLoader
    fingerprints: tuple[tuple[str, ...], ...]
    # The loaded features; None on another machine, where they are loaded from the same files.
    features: Sequence[Feature] | None
    needed: tuple[int, ...] = ()  # indices of the features that are needed from the beginning

    @property
    def device(self) -> str:
        """The device that the features compute on."""
        return self.loader.device

    def in_folders(self) -> "Scoring":
        """Return a copy for workers on other machines, which have the same folders."""
        return replace(self, loader=self.loader.in_folders(), features=None)

    def load(self) -> Callable[[Item], list[BlockScores]]:
        """Load the features, and return the function that scores an item.

        :raises PhrasescoreError: if they differ from the features in the process that started the
            run.
        """
        features = self.loader.load() if self.features is None else self.features
        for feature, expected in zip(features, self.fingerprints, strict=True):
            if feature.fingerprints != expected:
                problem = f"a worker has loaded a different feature: expected {expected},"
                raise PhrasescoreError(f"{problem} found {feature.fingerprints}")
        for index in self.needed:
            features[index].prepare()
        return partial(_score_item, features)


def _score_item(features: Sequence[Feature], item: Item) -> list[BlockScores]:
    return [
        feature.score(item.block if missing is None else item.block.select(missing))
        for feature, missing in zip(features, item.missing, strict=True)
    ]


class _LineGroup(NamedTuple, Generic[AnyLines]):
    lines: list[AnyLines]
    missing: tuple[Indices | None, ...]
    # For each feature: its values, (columns, pairs), NaN where the cache has none; and the cache's
    # keys, by column and pair.
    known: list[Floats | None]
    keys: list[list[list[bytes]]]


class Scorer:
    """Scores the pairs of lines on an engine. A context manager, which ends the workers.

    A value depends only on its pair, to the last bit, and not on neighbouring lines, the engine,
    the number of workers, or a cache.

    :param engine: each of its workers has one thread.
    :param cache: stores the values of the features that use a cache.
    :param unit: the noun for an input item in messages.
    :param sets_threads: whether torch has one thread until the end; otherwise the caller sets it.
    :ivar tallies: the tally of each feature over the lines so far.
    """

    def __init__(
        self,
        loader: FeatureLoader,
        engine: Compute,
        *,
        features: Sequence[Feature] | None = None,
        cache: "ScoreCache | None" = None,
        unit: str = "line",
        sets_threads: bool = True,
    ) -> None:
        self.features = loader.load() if features is None else features
        fingerprints = tuple(feature.fingerprints for feature in self.features)
        self._work = Scoring(loader, fingerprints, self.features)
        self._cache, self._loader, self._unit = cache, loader, unit
        self._engine, self._sets_threads = engine, sets_threads
        kind = loader.device.partition(":")[0]
        sizes = [feature.group_size[kind] for feature in self.features]
        self._group_size = BLOCK_SIZE[kind] if loader.of_phrases else max(sizes, default=1)
        per_pair = _TABLE_LINES_PER_PAIR if loader.of_phrases else _LIST_LINES_PER_PAIR
        self._most_lines = per_pair * self._group_size
        self._pool: WorkerPool[Item, list[BlockScores]] | None = None
        self._stack = ExitStack()
        self.start_counting()

    def start_counting(self) -> None:
        """Reset the tallies."""
        nothing = PhraseBlock.of([])
        self.tallies: list[Any] = [feature.score(nothing).tally for feature in self.features]

    def __enter__(self) -> Self:
        """Set up torch for this run: one thread per worker, and the requested precision."""
        if self._loader.models and self._sets_threads:
            self._stack.enter_context(torch_threads(1))
        for feature in self.features:
            self._stack.enter_context(feature.computing())
        return self

    def __exit__(self, *error: object) -> None:
        for feature in self.features if any(error) else ():
            feature.stop()
        for note in () if self._pool is None else self._pool.notes:
            _logger.warning("%s", note)
        self._stack.close()

    def score(self, lines: Iterable[AnyLines]) -> Iterator[tuple[AnyLines, LineScores]]:
        """Yield lines with their pairs' values, in order; some groups are read ahead."""
        if not self.features:
            yield from ((each, LineScores(np.empty((0, 0)), None)) for each in lines)
            return
        groups = map(self._begin, self._groups(lines))
        for group, pending in read_ahead(groups, lambda: 2 * self._open_pool(()).workers):
            yield from self._finish(group, pending)

    def _groups(self, lines: Iterable[AnyLines]) -> Iterator[list[AnyLines]]:
        group: list[AnyLines] = []
        num_pairs = num_lines = 0
        for each in lines:
            group.append(each)
            num_pairs += len(each.block.places)
            num_lines += each.num_lines
            if num_pairs >= self._group_size or num_lines >= self._most_lines:
                yield group
                group, num_pairs, num_lines = [], 0, 0
        if group:
            yield group

    def _begin(
        self, lines: list[AnyLines]
    ) -> tuple[_LineGroup[AnyLines], list[Pending[list[BlockScores]]]]:
        """Look up lines in the cache, and submit the missing values, if any, to a worker."""
        block = join_blocks([each.block for each in lines])
        known: list[Floats | None] = []
        keys: list[list[list[bytes]]] = []
        missing: list[Indices | None] = []
        for feature in self.features:
            if self._cache is None or feature.highest is None:
                known.append(None)
                keys.append([])
                missing.append(None)
                continue
            keys.append(feature.cache_keys(block))
            values = np.array([self._cache.lookup(column) for column in keys[-1]], np.float64)
            for wrong in values[values > np.array(feature.highest)[:, None]][:1]:
                raise self._cache.corrupt(f"the score {wrong}")
            known.append(values)
            missing.append(np.flatnonzero(np.isnan(values).any(axis=0)))
        group = _LineGroup(lines, tuple(missing), known, keys)
        needed = [place for place, each in enumerate(missing) if each is None or len(each)]
        if not needed:
            return group, []
        return group, [self._open_pool(needed).submit(Item(block, group.missing))]

    def _open_pool(self, needed: Sequence[int]) -> WorkerPool[Item, list[BlockScores]]:
        """Return the workers, started on first use: the cache may have all values."""
        if self._pool is None:
            work = replace(self._work, needed=tuple(needed))
            pool = open_pool(self._engine, work, gpu_threads=GPU_THREADS)
            self._pool = self._stack.enter_context(pool)
        return self._pool

    def _finish(
        self, group: _LineGroup[AnyLines], pending: Sequence[Pending[list[BlockScores]]]
    ) -> Iterator[tuple[AnyLines, LineScores]]:
        """Yield the lines in a group with their values, and cache new values."""
        try:
            computed = [each.result() for each in pending]
        except ModelError as error:
            where = f"in the block that begins with {self._unit} {group.lines[0].before + 1}"
            raise ModelError(f"{error}, {where}") from error
        columns: list[Floats] = []
        words: Words = []
        for place, (known, missing) in enumerate(zip(group.known, group.missing, strict=True)):
            scores = computed[0][place] if computed else None
            if scores is not None:
                self.tallies[place] += scores.tally
                words += scores.words or []
            if known is None or missing is None:
                assert scores is not None
                columns.append(scores.values)
                continue
            if scores is not None:
                known[:, missing] = scores.values
                if self._cache is not None and len(missing):
                    keys = [
                        column[index] for column in group.keys[place] for index in missing.tolist()
                    ]
                    self._cache.store(keys, scores.values.ravel().tolist())
            cached = known.shape[1] - len(missing)
            tally = self.tallies[place]
            self.tallies[place] = replace(tally, cached=(tally.cached or 0) + cached)
            columns.append(known)
        values = np.concatenate(columns)
        ends = np.cumsum([0, *(len(each.block.places) for each in group.lines)]).tolist()
        for lines, (begin, end) in zip(group.lines, pairwise(ends), strict=True):
            of_words = [column[begin:end] for column in words] if words else None
            yield lines, LineScores(values[:, begin:end], of_words)

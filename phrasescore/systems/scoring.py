"""Score the pairs of phrase tables, n-best lists and texts with features."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import compress, pairwise
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from moses_integration.nbest_lines import check_feature_names
from moses_integration.table_line import HIGHEST_LOG
from phrasescore.arguments import StrPath
from phrasescore.devices import GPU_THREADS, torch_threads
from phrasescore.engines import Pending, WorkerPool, open_pool, read_ahead
from phrasescore.errors import ArgumentError, ModelError
from phrasescore.features.columns import Column, as_columns, check_columns, number_names
from phrasescore.features.feature import BLOCK_SIZE, BlockScores, ScoreRow
from phrasescore.features.given_scores import GivenScores, ScoreLines
from phrasescore.features.model import ENSEMBLE_NAME, Network, network_name
from phrasescore.features.request import (
    LoadedFeature,
    ScoringItem,
    ScoringRequest,
    ScoringWork,
)
from phrasescore.io.text import LARGEST_VALUE, NumberedLines
from phrasescore.kernels.phrases import join_blocks
from phrasescore.records import PhraseBlock
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import Rescoring
from phrasescore.systems.text_checks import (
    UnknownWordCheck,
    unknown_words_of,
    warn_of_shortlists,
)
from phrasescore.version import __version__

if TYPE_CHECKING:
    from phrasescore.features.networks import SentenceWork  # imports torch
    from phrasescore.features.score_cache import ScoreCache

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Maximum number of lines in a group, per pair that it should have: few lines of a table may have
# pairs, and a list has several lines for each distinct hypothesis.
_TABLE_LINES_PER_PAIR, _LIST_LINES_PER_PAIR = 4, 16


class InputPairs(NumberedLines, Protocol):
    """A block of input lines, and their pairs."""

    @property
    def block(self) -> PhraseBlock:
        """The pairs to score."""


AnyLines = TypeVar("AnyLines", bound=InputPairs)


class AddedColumn(NamedTuple):
    """A column that is added to lines."""

    name: str
    # The index of its feature, and of its row in the values of all features; None for scores given
    # in a file.
    feature: int | None = None
    row: int | None = None
    is_network: bool = False
    given: ScoreLines | None = None


class _LineGroup(NamedTuple, Generic[AnyLines]):
    lines: list[AnyLines]
    # For each feature: its values, (rows, pairs), NaN where the cache has none; the indices of the
    # pairs without a value; and the cache's keys, by row and pair, if it is cached.
    values: list[Floats]
    missing: list[Indices]
    keys: list[list[list[bytes]]]


class Scoring:
    """Scores the pairs of phrase tables, n-best lists or text with columns that are loaded.

    A context manager, which ends the workers and closes the cache; it may be entered again. A value
    depends only on its pair, to the last bit, and not on neighbouring lines, the engine, the number
    of workers, or a cache. Columns of given scores are for one input file.

    :param engine: where the columns are computed; each worker has one thread.
    :param sets_threads: whether torch is limited to one thread while this object is open.
    :ivar added: the columns that are added, in the order of the request; the ensemble is the last.
    :ivar tallies: the tally of each feature over the lines so far.
    """

    def __init__(
        self,
        request: ScoringRequest,
        engine: Compute,
        *,
        settings: Rescoring = Rescoring(),
        unit: str = "line",
        sets_threads: bool = True,
    ) -> None:
        self.request, self.settings = request, settings
        self._engine, self._unit, self._sets_threads = engine, unit, sets_threads
        loaded = request.load()
        self.features = [each.feature for each in loaded]
        self.added = added_columns(request, loaded)
        self.names = tuple(added.name for added in self.added)
        self._rows = [added.row for added in self.added if added.row is not None]
        self._unknown_words: tuple[UnknownWordCheck, UnknownWordCheck] | None = None
        rows = tuple(feature.rows for feature in self.features)
        self._work = ScoringWork(request, rows, self.features)
        self._cache: ScoreCache | None = None
        kind = request.device.partition(":")[0]
        sizes = [feature.group_size[kind] for feature in self.features]
        self._group_size = BLOCK_SIZE[kind] if request.of_phrases else max(sizes, default=1)
        per_pair = _TABLE_LINES_PER_PAIR if request.of_phrases else _LIST_LINES_PER_PAIR
        self._most_lines = per_pair * self._group_size
        self._pool: WorkerPool[ScoringItem, list[BlockScores]] | None = None
        self._computing, self._stack = ExitStack(), ExitStack()
        self._start_counting()

    @classmethod
    def of(
        cls,
        columns: Sequence[Column | StrPath],
        settings: Rescoring = Rescoring(),
        compute: Compute = Compute(),
        *,
        of_phrases: bool = False,
        sets_threads: bool = True,
    ) -> Self:
        """Check the columns, and load models and files."""
        compute = compute.on_workers()
        columns = as_columns(columns)
        check_columns(columns, of_phrases=of_phrases)
        if settings.ensemble and sum(isinstance(column, Network) for column in columns) < 2:
            raise ArgumentError("--ensemble requires at least two models")
        request = ScoringRequest.of(
            columns, compute, of_phrases=of_phrases, ensemble=settings.ensemble
        )
        for column, checkpoint in request.networks:
            column.check_config(checkpoint.config)
        if request.aligned and settings.ensemble:
            problem = "--ensemble cannot be used with a joint model, which reads alignments"
            raise ArgumentError(problem)
        scoring = cls(request, compute, settings=settings, sets_threads=sets_threads)
        if not of_phrases:
            check_feature_names(scoring.names)
        if settings.ensemble:
            warn_of_shortlists([checkpoint for _, checkpoint in request.networks])
        return scoring

    def __enter__(self) -> Self:
        """Open the cache, and set up torch: one thread per worker, and the requested precision."""
        self._start_counting()
        is_cached = any(row.highest is not None for each in self.features for row in each.rows)
        if self.settings.cache is not None and is_cached:
            from phrasescore.features.score_cache import ScoreCache

            opened = ScoreCache(os.fspath(self.settings.cache))
            self._cache = self._stack.enter_context(opened)
        if self.request.models and self._sets_threads:
            self._stack.enter_context(torch_threads(1))
        for feature in self.features:
            self._computing.enter_context(feature.computing())
        return self

    def __exit__(self, *error: Any) -> None:
        # After an error, features end work in progress, for which the workers would wait.
        stacks = (self._computing, self._stack) if any(error) else (self._stack, self._computing)
        self._pool = self._cache = None
        with ExitStack() as last:
            last.push(stacks[1])
            stacks[0].__exit__(*error)

    def _start_counting(self) -> None:
        nothing = PhraseBlock.of([])
        self.tallies: list[Any] = [feature.score(nothing).tally for feature in self.features]

    def score(
        self, lines: Iterable[AnyLines], source: str, target: str
    ) -> Iterator[tuple[AnyLines, Floats]]:
        """Yield lines with their pairs' values, in order, and count unknown words.

        The values, ``(rows, pairs)``, have a row for each of `added`, except given scores.

        :param source: the name of the sentences in messages; ``target`` names the translations.
        """
        self._start_counting()
        if self._unknown_words is None:  # counted over all files, to warn only once
            networks = ((column.model, each) for column, each in self.request.networks)
            self._unknown_words = unknown_words_of(source, target, networks)
        sources, targets = self._unknown_words
        for each, values in self.score_lines(lines):
            sources.count_side(each.block, 0)
            targets.count_side(each.block, 1)
            yield each, values[self._rows]
        sources.warn()
        targets.warn()

    def score_list(self, lines: InputPairs) -> Floats:
        """Return the values of one list's pairs, with a row for each of `added`."""
        ((_, values),) = self.score_lines([lines])
        return values[self._rows]

    @property
    def given(self) -> list[ScoreLines]:
        """The given scores among the columns."""
        return [added.given for added in self.added if added.given is not None]

    def tally(self, added: AddedColumn) -> Any:
        """Return the given scores, or the tally of a column's feature in this file so far."""
        return added.given if added.feature is None else self.tallies[added.feature]

    @property
    def networks(self) -> "SentenceWork | None":
        """The networks' counts in this file so far; None without networks."""
        return next((self.tally(added) for added in self.added if added.is_network), None)

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """The name of each column that is not a network's, and a summary of its values."""
        others = (added for added in self.added if not added.is_network)
        return tuple((added.name, str(self.tally(added))) for added in others)

    def depends_on(self) -> dict[str, str]:
        """Return everything that the values depend on besides the input."""
        settings = {"version": f"phrasescore {__version__}"}
        if self.request.models:
            import torch

            settings["version"] += f", torch {torch.__version__}"
            device = self.request.device.partition(":")[0]
            settings |= {"precision": self.request.precision, "device": device}
        rows = [row for feature in self.features for row in feature.rows]
        for position, added in enumerate(self.added, start=1):
            if added.given is not None:
                text = f"scores {added.given.fingerprint}"
            else:
                assert added.row is not None
                text = rows[added.row].fingerprint
            settings[f"feature {position}"] = f"{added.name} {text}".strip()  # a column has no name
        return settings

    def score_lines(self, lines: Iterable[AnyLines]) -> Iterator[tuple[AnyLines, Floats]]:
        """Yield lines with the values of all features, in order; some groups are read ahead."""
        if not self.features:
            yield from ((each, np.empty((0, 0))) for each in lines)
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
        group = _LineGroup(lines, [], [], [])
        for feature in self.features:
            values = np.full((len(feature.rows), len(block.places)), np.nan)
            keys: list[list[bytes]] = []
            if self._cache is not None and feature.rows[0].highest is not None:
                keys = _cache_keys(feature.rows, block)
                values = np.array([self._cache.lookup(column) for column in keys], np.float64)
                highest = np.array([[row.highest] for row in feature.rows], np.float64)
                for wrong in values[values > highest][:1]:
                    raise self._cache.corrupt(f"the score {wrong}")
            group.values.append(values)
            group.missing.append(np.flatnonzero(np.isnan(values).any(axis=0)))
            group.keys.append(keys)
        needed = [place for place, missing in enumerate(group.missing) if len(missing)]
        if not needed:
            return group, []
        some = (None if len(each) == len(block.places) else each for each in group.missing)
        return group, [self._open_pool(needed).submit(ScoringItem(block, tuple(some)))]

    def _open_pool(self, needed: Sequence[int]) -> WorkerPool[ScoringItem, list[BlockScores]]:
        """Return the workers, started on first use: the cache may have all values."""
        if self._pool is None:
            work = replace(self._work, needed=tuple(needed))
            pool = open_pool(self._engine, work, gpu_threads=GPU_THREADS)
            self._pool = self._stack.enter_context(pool)
        return self._pool

    def _finish(
        self, group: _LineGroup[AnyLines], pending: Sequence[Pending[list[BlockScores]]]
    ) -> Iterator[tuple[AnyLines, Floats]]:
        try:
            computed = [each.result() for each in pending]
        except ModelError as error:
            where = f"in the block that begins with {self._unit} {group.lines[0].before + 1}"
            raise ModelError(f"{error}, {where}") from error
        for place, (known, missing, keys) in enumerate(
            zip(group.values, group.missing, group.keys, strict=True)
        ):
            if computed:
                scores = computed[0][place]
                self.tallies[place] += scores.tally
                known[:, missing] = scores.values
                if keys and len(missing) and self._cache is not None:
                    new = [column[index] for column in keys for index in missing.tolist()]
                    self._cache.store(new, scores.values.ravel().tolist())
            if keys:
                cached = (self.tallies[place].cached or 0) + known.shape[1] - len(missing)
                self.tallies[place] = replace(self.tallies[place], cached=cached)
        values = np.concatenate(group.values)
        ends = np.cumsum([0, *(len(each.block.places) for each in group.lines)]).tolist()
        for lines, (begin, end) in zip(group.lines, pairwise(ends), strict=True):
            yield lines, values[:, begin:end]


def _cache_keys(rows: Sequence[ScoreRow], block: PhraseBlock) -> list[list[bytes]]:
    from phrasescore.features.score_cache import score_keys  # imports torch

    words = block._replace(affiliations=None)
    return [score_keys(row.fingerprint, block if row.reads_alignments else words) for row in rows]


def added_columns(request: ScoringRequest, loaded: Sequence[LoadedFeature]) -> list[AddedColumn]:
    """Return the columns to add, as requested, and the ensemble last."""
    computed: dict[int, AddedColumn] = {}  # by the identity of the column
    row, ensemble = 0, AddedColumn("")
    for index, (feature, columns) in enumerate(loaded):
        for place, column in enumerate(columns, start=row):
            name, is_network = column.name or "", isinstance(column, Network)
            computed[id(column)] = AddedColumn(name, index, place, is_network)
        if len(feature.rows) > len(columns):
            ensemble = AddedColumn("", index, row + len(columns), is_network=True)
        row += len(feature.rows)
    highest = HIGHEST_LOG if request.of_phrases else LARGEST_VALUE
    added = [
        AddedColumn(column.name or "", given=ScoreLines(column.scores, highest))
        if isinstance(column, GivenScores)
        else computed[id(column)]
        for column in request.columns
    ]
    networks = {
        id(column): network_name(
            model.config.kind, reverse=model.reverse, right_to_left=model.right_to_left
        )
        for column, model in request.networks
    }
    labels = [networks.get(id(column), column.label) for column in request.columns]
    if request.ensemble:
        added.append(ensemble)
        labels.append(ENSEMBLE_NAME)
    unnamed = [not each.name and each.given is None for each in added]
    numbered = iter(number_names(compress(labels, unnamed)))
    return [
        each._replace(name=next(numbered)) if is_unnamed else each
        for each, is_unnamed in zip(added, unnamed, strict=True)
    ]

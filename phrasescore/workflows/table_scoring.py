"""The columns of a phrase table as work for an engine: phrase pairs in, values out."""

import copy
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from moses_integration.phrase_table import TableBlock, group_blocks, join_phrases
from phrasescore.arguments import PrecisionName
from phrasescore.devices import GPU_THREADS, choose_device, torch_threads
from phrasescore.engines import open_pool
from phrasescore.engines.pool import WorkerPool
from phrasescore.errors import ModelError, PhrasescoreError
from phrasescore.features import BLOCK_SIZE, ColumnSpec, Feature, Tally
from phrasescore.records import PhraseBlock
from phrasescore.settings.compute import Compute
from phrasescore.version import __version__
from phrasescore.workflows.columns import fingerprint, make_feature

_logger = logging.getLogger(__name__)

Values = NDArray[np.float64]
# Of a feature, for the pairs of a block.
_Compute = Callable[[PhraseBlock], tuple[Values, Tally]]


class BlockScores(NamedTuple):
    """The columns of some phrase pairs."""

    # Natural logarithms, an array per column, a value per pair.
    values: list[Values]
    tallies: list[Tally]
    # All that values depend on besides the pairs, by name.
    settings: dict[str, str]


@dataclass(frozen=True)
class TableScoring:
    """Scores a block of phrase pairs as an item: a :class:`phrasescore.engines.pool.Work`."""

    columns: tuple[ColumnSpec, ...]
    precision: PrecisionName = "float32"
    device: str = "cpu"

    @property
    def has_models(self) -> bool:
        """Return whether there are networks."""
        return any(column.kind == "model" for column in self.columns)

    def in_folders(self) -> "TableScoring":
        """Return the same work for other machines, which have the same folders."""
        columns = [
            column
            if column.kind == "feature"
            else replace(column, value=os.path.abspath(column.value))
            for column in self.columns
        ]
        return replace(self, columns=tuple(columns))

    def load(self) -> Callable[[PhraseBlock], BlockScores]:
        """Load models and files. Without a network, torch is not.

        :raises DataError: if a file is not what it should be.
        :raises ModelError: if a model cannot be loaded, or does not score phrase pairs.
        """
        settings = {"version": f"phrasescore {__version__}"}
        checkpoints, networks = [], []
        if self.has_models:
            import torch

            from phrasescore.features.neural import NeuralScore
            from phrasescore.models.checkpoint import load_checkpoint

            torch.set_num_threads(1)  # of a worker of Ray: elsewhere it is so already
            place = choose_device(self.device)
            settings["version"] += f", torch {torch.__version__}"
            settings |= {"precision": self.precision, "device": place.type}
            paths = [column.value for column in self.columns if column.kind == "model"]
            checkpoints = [load_checkpoint(path) for path in paths]
            for path, checkpoint in zip(paths, checkpoints, strict=True):
                try:
                    networks.append(NeuralScore(checkpoint, place, precision=self.precision))
                except ModelError as error:
                    raise ModelError(f"{path}: {error}") from error
        computes: list[_Compute] = []
        remaining = iter(zip(checkpoints, networks, strict=True))
        for number, column in enumerate(self.columns, start=1):
            if column.kind == "model":
                checkpoint, network = next(remaining)
                computes.append(network.score_block)
                depends_on = checkpoint.fingerprint
            else:
                feature = make_feature(column, checkpoints)
                computes.append(_PairsOfBlock(feature))
                depends_on = fingerprint(column, feature, checkpoints)
            settings[f"column {number}"] = depends_on
        return _Columns(computes, settings)


class _PairsOfBlock:
    """A feature of single pairs, for blocks of them and several threads."""

    def __init__(self, feature: Feature) -> None:
        self._feature = feature

    def __call__(self, block: PhraseBlock) -> tuple[Values, Tally]:
        # A copy for each block: it shares all but the tally, and the first one's stays at nothing.
        feature = copy.copy(self._feature)
        found = feature.values(block.pairs())
        values = np.fromiter(found, np.float64, len(block.places))
        next(found, None)  # one of another package is checked to have no more values
        return values, feature.tally


class _Columns:
    """The columns of a worker."""

    def __init__(self, computes: Sequence[_Compute], settings: dict[str, str]) -> None:
        self._computes, self._settings = computes, settings

    def __call__(self, block: PhraseBlock) -> BlockScores:
        found = [compute(block) for compute in self._computes]
        return BlockScores(
            [values for values, _ in found], [tally for _, tally in found], self._settings
        )


class TableScorer:
    """Scores the lines of a phrase table on an engine; a context manager.

    :ivar settings: all that values depend on besides the lines, by name.
    :ivar tallies: of each column, over the lines so far.
    """

    settings: dict[str, str]
    tallies: list[Tally]

    def __init__(self, scoring: TableScoring, engine: Compute) -> None:
        self._scoring = scoring.in_folders() if engine.engine == "ray" else scoring
        self._engine = engine

    def __enter__(self) -> Self:
        """Start the workers.

        :raises PhrasescoreError: if no worker starts, or they cannot load the columns.
        """
        with ExitStack() as stack:
            engine = self._engine
            if self._scoring.has_models and engine.engine != "ray":
                engine = self._prepare_torch(stack)
            self._pool: WorkerPool[PhraseBlock, BlockScores] = stack.enter_context(
                open_pool(engine, self._scoring)
            )
            nothing = PhraseBlock(b"", np.empty((0, 4), np.int64))
            _, self.tallies, self.settings = self._pool.submit(nothing).result()
            self._stack = stack.pop_all()
        return self

    def _prepare_torch(self, stack: ExitStack) -> Compute:
        """Let torch compute in this process, and as before at the end; return the engine for it."""
        from phrasescore.kernels.precision import Precision

        place = choose_device(self._scoring.device)
        stack.enter_context(torch_threads(1))
        stack.enter_context(Precision(self._scoring.precision, place).active())
        if place.type == "cuda":
            return replace(self._engine, workers=GPU_THREADS)
        return self._engine

    def __exit__(self, *error: object) -> None:
        for note in self._pool.notes:
            _logger.warning("%s", note)
        self._stack.close()

    def score(self, blocks: Iterable[TableBlock]) -> Iterator[tuple[TableBlock, list[Values]]]:
        """Yield each block of lines with its values in each column.

        Some blocks are read ahead, in proportion to the number of workers.

        :raises ModelError: on reaching a block with a value that is not a finite log-probability.
        :raises PhrasescoreError: if workers have not loaded the same.
        """
        if not self._scoring.columns:  # all scores are given
            yield from ((block, []) for block in blocks)
            return
        groups: deque[list[TableBlock]] = deque()
        num_pairs = BLOCK_SIZE[self.settings.get("device", "cpu")]

        def phrases() -> Iterator[PhraseBlock]:
            for group in group_blocks(blocks, num_pairs):
                groups.append(group)
                yield join_phrases(group)

        results = self._pool.map(phrases())
        while True:
            try:
                scores = next(results, None)
            except ModelError as error:
                line = groups[0][0].before + 1
                raise ModelError(f"{error}, in the block that begins with line {line}") from error
            if scores is None:
                return
            self._add(scores)
            group = groups.popleft()
            cuts = np.cumsum([block.num_pairs for block in group])[:-1]
            columns = [np.split(values, cuts) for values in scores.values]
            for place, block in enumerate(group):
                yield block, [parts[place] for parts in columns]

    def _add(self, scores: BlockScores) -> None:
        for name, value in self.settings.items():
            if scores.settings[name] != value:
                other = scores.settings[name]
                problem = f"workers have not loaded the same: {name}: {value} and {other}"
                raise PhrasescoreError(problem)
        self.tallies = [one + more for one, more in zip(self.tallies, scores.tallies, strict=True)]

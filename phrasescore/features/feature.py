"""The contract of a feature: it computes a value for each pair in a block.

:mod:`phrasescore.features.columns` says how users request features.
"""

import math
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from phrasescore.records import PhraseBlock, Tally

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK_SIZE = {"cpu": 16384, "cuda": 65536}  # pairs that one thread scores as a whole


@dataclass(frozen=True, slots=True)
class CountTally(Tally):
    """A number and a description of what it counts."""

    name: str
    total: int

    def __str__(self) -> str:
        return f"{self.total:,} {self.name}"


@dataclass(frozen=True, slots=True)
class ValueTally(Tally):
    """The number of values, and their sum."""

    values: int = 0
    total: float = 0.0

    def __str__(self) -> str:
        mean = self.total / self.values if self.values else math.nan
        return f"{self.values:,} values, {mean:.4g} on average"


@dataclass(frozen=True, slots=True)
class CachedTally(Tally):
    """Numbers of scores, and of those that were found in the cache."""

    by: str  # what computes them
    scores: int = 0  # that were computed
    cached: int = 0

    def __str__(self) -> str:
        cached = f", {self.cached:,} of them from the cache" if self.cached else ""
        return f"{self.scores + self.cached:,} scores by {self.by}{cached}"


class BlockScores(NamedTuple):
    """The values for the pairs in a block."""

    # (rows, pairs): natural logarithms, or counts where the feature says so. A phrase table holds
    # exp() of either.
    values: "NDArray[np.float64]"
    tally: Tally


class ScoreRow(NamedTuple):
    """What the values in a row of a feature's scores depend on."""

    # Everything besides the pairs: equal fingerprints mean equal values.
    fingerprint: str = ""
    # The highest value that a cache may hold; None if no cache is used.
    highest: float | None = None
    reads_alignments: bool = False


class Feature(ABC):
    """Computes the values for every pair in a block; several threads may score at the same time."""

    rows: tuple[ScoreRow, ...] = (ScoreRow(),)
    # Number of pairs from n-best lists or parallel text that are scored together, enough to fill a
    # processor or a GPU.
    group_size: "dict[str, int]" = {"cpu": 1024, "cuda": 1024}  # noqa: RUF012

    def prepare(self) -> None:  # noqa: B027
        """Load the data that the first block needs, before several threads or processes need it."""

    def computing(self) -> AbstractContextManager[None]:
        """Return a context manager that is active while this process computes.

        If it is left because of an error, work in progress ends at once: its result is not needed.
        """
        return nullcontext()

    @abstractmethod
    def score(self, block: PhraseBlock) -> BlockScores:
        """Return the values for the pairs in a block, which may be empty."""

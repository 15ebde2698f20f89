"""The score of a translation under a network from elsewhere, computed by CTranslate2."""

import logging
import os
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import groupby, islice

from phrasescore.devices import usable_threads
from phrasescore.engines import open_pool
from phrasescore.engines.pool import Pending, WorkerPool
from phrasescore.features.score_cache import ScoreCache, score_keys
from phrasescore.foreign import ForeignText
from phrasescore.foreign.model import ForeignFolder, ForeignModel, LazyNetwork, PieceScore
from phrasescore.records import HypothesisList, PhrasePair
from phrasescore.settings.compute import Compute

_logger = logging.getLogger(__name__)

# Pairs that a worker gets at a time: with the distinct hypotheses of some forty lists, a batch of
# equal lengths has 80 of them on average.
GROUP_SIZE = 4096


@dataclass(frozen=True, slots=True)
class ForeignTally:
    """The scores of a foreign model."""

    scores: int = 0
    cached: int = 0
    # Of source and translation, of the pairs that the cache lacked; those the model does not know.
    pieces: int = 0
    unknown: int = 0

    def __add__(self, other: "ForeignTally") -> "ForeignTally":
        return ForeignTally(
            self.scores + other.scores,
            self.cached + other.cached,
            self.pieces + other.pieces,
            self.unknown + other.unknown,
        )

    def __str__(self) -> str:
        cached = f", {self.cached:,} of them from the cache" if self.cached else ""
        unknown = f"{self.unknown:,} of {self.pieces:,} pieces unknown"
        return f"{self.scores:,} scores by CTranslate2{cached}; {unknown}"


@dataclass(frozen=True)
class ForeignScoring:
    """Scores some pairs as an item: a :class:`phrasescore.engines.pool.Work`."""

    model: ForeignFolder

    @property
    def device(self) -> str:
        """Where the model computes."""
        return self.model.device

    def load(self) -> "Callable[[list[PhrasePair]], list[PieceScore]]":
        """Return what scores; each process loads the model when it is first asked."""
        lazy = LazyNetwork(self.model)
        return lambda pairs: lazy.network().score(pairs)


class ForeignScore:
    """log p(target ``</s>`` | source) under a model that CTranslate2 has converted.

    Natural logarithms, summed over the model's pieces and its end symbol, not divided by length;
    the tokens before the target are given. :class:`phrasescore.foreign.text.PieceText` makes pieces
    of words. A piece that the model does not know is scored as its ``<unk>``. What a value depends
    on, to the last bit, says :class:`phrasescore.foreign.model.ForeignNetwork`.

    :param folder: of the model.
    :raises ModelError: if the folder is not what it should be.
    """

    def __init__(self, folder: str, text: ForeignText | None = None) -> None:
        self._place = ForeignFolder(folder, text or ForeignText())
        self._model = ForeignModel(folder, self._place.text)
        self._engine = Compute(workers=1)
        self._cache: ScoreCache | None = None
        self._pool: WorkerPool[list[PhrasePair], list[PieceScore]] | None = None
        self._stack = ExitStack()
        self.tally = ForeignTally()
        _logger.info("%s reads %s", folder, self._model.frame())

    @property
    def known_words(self) -> tuple[Container[str], Container[str]]:
        """The words of source and target of which the model knows all pieces."""
        return self._model.known_words

    @property
    def fingerprint(self) -> str:
        """Everything that values depend on besides the pairs, as text."""
        return f"{self._model.fingerprint} {self._place.device.partition(':')[0]}"

    @contextmanager
    def working(
        self, engine: Compute, device: str, cache: ScoreCache | None
    ) -> "Iterator[ForeignScore]":
        """Compute with an engine and on a device meanwhile.

        :param cache: where scores are looked up and kept.
        """
        if engine.engine == "here" and device != "cpu":
            engine = replace(engine, workers=1)
        self._engine, self._cache = engine, cache
        self._place = replace(self._place, device=device)
        with self._stack:
            yield self
        self._pool = None

    def values(self, pairs: Iterable[PhrasePair]) -> Iterator[float]:
        """Yield the log-probability of each pair, in order; some thousands are read ahead.

        :raises ModelError: on reaching a pair that CTranslate2 cannot score.
        """
        waiting: deque[_ForeignGroup] = deque()
        pairs = iter(pairs)
        while group := list(islice(pairs, GROUP_SIZE)):
            waiting.append(self._begin(group))
            while waiting and (waiting[0].pending is None or len(waiting) > self._ahead()):
                yield from self._finish(waiting.popleft())
        while waiting:
            yield from self._finish(waiting.popleft())

    def _ahead(self) -> int:
        """Return how many groups wait at most: enough for all workers."""
        return 2 * self._open_pool().workers

    def _open_pool(self) -> "WorkerPool[list[PhrasePair], list[PieceScore]]":
        """Return the workers; where all scores are in the cache, they are never needed."""
        if self._pool is None:
            place = self._place
            if self._engine.engine == "here":
                place = replace(place, threads=usable_threads(self._engine.workers))
            if self._engine.engine == "ray":  # its workers may be elsewhere
                path, fingerprint = os.path.abspath(place.path), self._model.fingerprint
                place = replace(place, path=path, fingerprint=fingerprint)
            pool = open_pool(self._engine, ForeignScoring(place))
            self._pool = self._stack.enter_context(pool)
        return self._pool

    def _begin(self, pairs: list[PhrasePair]) -> "_ForeignGroup":
        """Look a group up in the cache, and let a worker score what is not there."""
        distinct = list(dict.fromkeys(pairs))
        known: dict[PhrasePair, float] = {}
        keys: dict[PhrasePair, bytes] = {}
        if self._cache is not None:
            keys = dict(zip(distinct, self._keys(distinct), strict=True))
            found = zip(distinct, self._cache.lookup(list(keys.values())), strict=True)
            known = {pair: value for pair, value in found if value is not None}
            if wrong := [value for value in known.values() if value > 0]:
                raise self._cache.corrupt(f"the score {wrong[0]}")
        missing = [pair for pair in distinct if pair not in known]
        pending = self._open_pool().submit(missing) if missing else None
        return _ForeignGroup(pairs, keys, known, missing, pending)

    def _keys(self, pairs: Sequence[PhrasePair]) -> list[bytes]:
        """Return the cache's key of each pair."""
        name, keys = self.fingerprint, []
        for source, of_source in groupby(pairs, lambda pair: pair.source):
            keys += score_keys(name, HypothesisList(source, [pair.target for pair in of_source]))
        return keys

    def _finish(self, group: "_ForeignGroup") -> list[float]:
        """Return the scores of a group, and store the new ones."""
        scores = [] if group.pending is None else group.pending.result()
        new = dict(zip(group.missing, scores, strict=True))
        if self._cache is not None and new:
            keys = [group.keys[pair] for pair in new]
            self._cache.store(keys, [score.log_prob for score in scores])
        made = [new[pair] for pair in group.pairs if pair in new]
        pieces, unknown = sum(each.pieces for each in made), sum(each.unknown for each in made)
        cached = len(group.pairs) - len(made)
        self.tally += ForeignTally(len(group.pairs), cached, pieces, unknown)
        known = group.known | {pair: score.log_prob for pair, score in new.items()}
        return [known[pair] for pair in group.pairs]


@dataclass(frozen=True)
class _ForeignGroup:
    """Some pairs that are scored together."""

    pairs: list[PhrasePair]
    # Of the distinct pairs; empty without a cache.
    keys: dict[PhrasePair, bytes]
    known: dict[PhrasePair, float]
    missing: list[PhrasePair]
    pending: Pending[list[PieceScore]] | None

"""Generate the best targets with networks, by beam search.

At each step every hypothesis is extended by every word, and the best extensions of a source are
kept, up to the width of the beam. A hypothesis that ends is complete and narrows the beam by one
(Cho et al., 2014b, section 4.2.1). A search is over when the width is 0, or when no hypothesis in
the beam can become better than the complete ones: a log-probability never increases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from phrasescore.generation.generator import (
    Generated,
    Generator,
    GeneratorLoader,
    SearchWalk,
    Source,
    TargetWork,
    batch_size,
)
from phrasescore.kernels.precision import is_fused
from phrasescore.kernels.vector_math import ELEMENTWISE, use_widest_registers
from phrasescore.scoring.prefix_tree import Ids
from phrasescore.scoring.tree_scorer import Floats
from phrasescore.vocabulary import Vocabulary

# Sources are batched so that their beams have about this many hypotheses (rows per step).
BATCH_ROWS = {"cpu": 768, "cuda": 16384}


@dataclass(frozen=True)
class BeamSettings:
    """The width and limits of a beam search."""

    width: int = 10  # number of hypotheses kept per source
    num_best: int = 1  # number of complete targets per source; at most the width
    normalize: bool = False  # sort complete targets by log p / (words + 1), not by log p
    unknown: bool = True  # whether a target may contain <unk>
    max_length: int | None = None  # in words; None for twice the source's length plus 10


class Candidates(NamedTuple):
    """Extensions of hypotheses by one word."""

    nodes: Ids  # index of the hypothesis, a node of this level
    words: Ids
    log_probs: Floats  # of the whole extended hypothesis
    roots: Ids  # index of its source

    def select(self, chosen: Ids) -> "Candidates":
        """Return the candidates with these indices."""
        return Candidates._make(values[chosen] for values in self)


def beam_work(generator: Generator | GeneratorLoader, settings: BeamSettings) -> TargetWork:
    """Return the work of finding targets on an engine; an empty source has one, with score 0."""
    size = batch_size(generator.device, BATCH_ROWS, settings.width)
    find = partial(beam_search, settings=settings)
    return TargetWork(generator, find, size, of_empty=(Generated((), 0.0),))


def beam_search(
    generator: Generator,
    sources: Sequence[Source],
    settings: BeamSettings,
    numbers: Sequence[int] = (),  # noqa: ARG001
) -> list[list[Generated]]:
    """Return up to ``settings.num_best`` targets for each source, best first.

    Ties are in the order of completion. With subwords, targets whose words are split into unusual
    pieces are omitted, unless there are no others. If no target ends within the maximum length, the
    best prefix of that length is returned, with ``finished`` False.
    """
    size = batch_size(generator.device, BATCH_ROWS, settings.width)
    # Sources of similar lengths end at about the same step, so few steps have few rows.
    order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
    targets: list[list[Generated]] = [[] for _ in sources]
    with generator.precision.active(), torch.inference_mode():
        for start in range(0, len(order), size):
            part = order[start : start + size]
            search = _SentenceBeam(generator, [sources[index] for index in part], settings)
            for index, best in zip(part, search.run(), strict=True):
                targets[index] = best
    return targets


class _Complete(NamedTuple):
    """The end of a target: its score, and the node of its last word."""

    log_prob: float
    depth: int
    node: int
    finished: bool = True


class _SentenceBeam:
    def __init__(
        self, generator: Generator, sources: Sequence[Source], settings: BeamSettings
    ) -> None:
        self._generator = generator
        self._sources = sources
        self._settings = settings
        self._limits = generator.length_limits(sources, settings.max_length)
        self._widths = np.full(len(sources), settings.width)
        # For each source, the complete targets in the order of completion, and the lowest score of
        # the best `num_best` ones, or -inf if there are fewer.
        self._complete: list[list[_Complete]] = [[] for _ in sources]
        self._to_beat = np.full(len(sources), -np.inf)
        self._levels: list[tuple[Ids, Ids]] = []  # parents and words

    def run(self) -> list[list[Generated]]:
        walk = self._generator.walk(self._sources, unknown=self._settings.unknown)
        roots = np.arange(len(self._sources))
        log_probs = np.zeros(len(roots))
        depth = 0
        while True:
            candidates = self._best_of_each_source(self._extend(walk, log_probs, roots))
            self._complete_ended(candidates, depth)
            candidates = self._without_too_long(candidates, log_probs, depth)
            open_candidates = self._open(candidates)
            if not len(open_candidates.words):
                break
            nodes, words = open_candidates.nodes, open_candidates.words
            self._levels.append((nodes, words))
            roots, log_probs = open_candidates.roots, open_candidates.log_probs
            walk.advance(nodes, words, roots)
            depth += 1
        results = []
        for complete in self._complete:
            best = sorted(complete, key=self._score, reverse=True)
            usual = (target for target, is_usual in map(self._trace, best) if is_usual)
            targets = list(islice(usual, self._settings.num_best))
            results.append(targets or [self._trace(best[0])[0]])
        return results

    def _extend(self, walk: SearchWalk, log_probs: Floats, roots: Ids) -> Candidates:
        """Return the best extensions of each hypothesis, up to the width of its beam."""
        width = self._settings.width
        words = np.concatenate([best_words(part, width) for _, part in walk.log_distributions()])
        nodes, ranks = np.nonzero(words >= 0)
        chosen = words[nodes, ranks]
        totals = log_probs[nodes] + walk.log_probs(nodes, chosen)
        return Candidates(nodes, chosen, totals, roots[nodes])

    def _best_of_each_source(self, candidates: Candidates) -> Candidates:
        """Return the candidates that the beams keep, sorted by source and score."""
        order = np.lexsort((candidates.words, candidates.nodes, -candidates.log_probs))
        order = order[np.argsort(candidates.roots[order], kind="stable")]
        roots = candidates.roots[order]
        firsts = np.searchsorted(roots, roots)
        kept = order[np.arange(len(order)) - firsts < self._widths[roots]]
        return candidates.select(kept)

    def _complete_ended(self, candidates: Candidates, depth: int) -> None:
        """Remove the extensions that end from the beams, and narrow the beams."""
        ended = np.flatnonzero(candidates.words == Vocabulary.END)
        for index in ended.tolist():
            root = int(candidates.roots[index])
            log_prob, node = float(candidates.log_probs[index]), int(candidates.nodes[index])
            self._complete[root].append(_Complete(log_prob, depth, node))
        np.subtract.at(self._widths, candidates.roots[ended], 1)
        for root in np.unique(candidates.roots[ended]).tolist():
            complete = self._complete[root]
            if len(complete) >= self._settings.num_best:
                scores = sorted(map(self._score, complete), reverse=True)
                self._to_beat[root] = scores[self._settings.num_best - 1]

    def _open(self, candidates: Candidates) -> Candidates:
        # A target's log-probability never increases.
        bounds = candidates.log_probs
        if self._settings.normalize:
            bounds = bounds / (self._limits[candidates.roots] + 1)
        is_open = candidates.words != Vocabulary.END
        kept = np.flatnonzero(is_open & (bounds > self._to_beat[candidates.roots]))
        # The networks need the extensions of one hypothesis to be adjacent.
        kept = kept[np.lexsort((candidates.words[kept], candidates.nodes[kept]))]
        return candidates.select(kept)

    def _without_too_long(
        self, candidates: Candidates, log_probs: Floats, depth: int
    ) -> Candidates:
        """Drop extensions that are too long; the best may complete a source that has no target."""
        too_long = self._limits[candidates.roots] <= depth
        for root in np.unique(candidates.roots[too_long]).tolist():
            if not self._complete[root]:
                nodes = np.unique(candidates.nodes[candidates.roots == root])
                best = int(nodes[np.argmax(log_probs[nodes])])
                cut = _Complete(float(log_probs[best]), depth, best, finished=False)
                self._complete[root].append(cut)
        return candidates.select(np.flatnonzero(~too_long))

    def _score(self, complete: _Complete) -> float:
        words_and_end = complete.depth + 1
        return complete.log_prob / words_and_end if self._settings.normalize else complete.log_prob

    def _trace(self, complete: _Complete) -> tuple[Generated, bool]:
        words = []
        node = complete.node
        for parents, numbers in reversed(self._levels[: complete.depth]):
            words.append(self._generator.words[int(numbers[node])])
            node = int(parents[node])
        target, is_usual = self._generator.in_order(words[::-1])
        return Generated(target, complete.log_prob, complete.finished, complete.depth), is_usual


def best_words(log_probs: Tensor, count: int) -> Ids:
    """Return the most probable words of each row, best first, ``(rows, count)``.

    The lower id wins a tie (on a GPU, any id). Words with -inf are never chosen; rows with fewer
    words are padded with -1. ``log_probs`` is ``(rows, words)`` float32. On a CPU, a compiled loop
    reads each probability once.
    """
    if is_fused(log_probs):
        out = np.empty((len(log_probs), count), np.int64)
        _best_words(log_probs.numpy(), out)
        return out
    values, words = torch.topk(log_probs, min(count, log_probs.shape[1]), dim=1)
    best: Ids = words.masked_fill_(values == -torch.inf, -1).cpu().numpy()
    return np.pad(best, ((0, 0), (0, count - best.shape[1])), constant_values=-1)


@ELEMENTWISE
def _best_words(log_probs, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    count = out.shape[1]
    values = np.empty(count, np.float32)
    for row in range(len(log_probs)):
        filled = 0
        out[row] = -1
        for word in range(log_probs.shape[1]):
            value = log_probs[row, word]
            if value == -np.inf or (filled == count and value <= values[count - 1]):
                continue
            slot = min(filled, count - 1)
            filled = min(filled + 1, count)
            while slot > 0 and values[slot - 1] < value:
                values[slot], out[row, slot] = values[slot - 1], out[row, slot - 1]
                slot -= 1
            values[slot], out[row, slot] = value, word

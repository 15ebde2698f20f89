"""Draw random targets word by word from networks' distributions (Cho et al., 2014, table 3).

The random numbers for a sample depend only on the seed, the source's number and the sample's
number: numpy's Philox generator with the key (seed, source) and the counter (0, 0, 0, sample)
yields one number per word (Salmon et al., 2011, "Parallel random numbers: as easy as 1, 2, 3").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from phrasescore.errors import PhrasescoreError
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
from phrasescore.kernels.vector_math import ELEMENTWISE, exp, use_widest_registers
from phrasescore.scoring.prefix_tree import Ids
from phrasescore.scoring.tree_scorer import Floats
from phrasescore.vocabulary import Vocabulary

BATCH_SAMPLES = {"cpu": 2048, "cuda": 65536}  # maximum number of samples drawn together


@dataclass(frozen=True)
class SampleSettings:
    """The number of samples per source, and the settings for drawing them."""

    count: int
    seed: int = 1  # from 0 to 2^64 - 1
    max_length: int | None = None  # in words; None for twice the source's length plus 10
    unknown: bool = True  # whether ``<unk>`` may be drawn

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**64:
            raise PhrasescoreError(f"seed: expected a number from 0 to 2^64 - 1, got {self.seed}")


def sample_work(generator: Generator | GeneratorLoader, settings: SampleSettings) -> TargetWork:
    """Return the work of drawing targets on an engine; an empty source has none."""
    size = batch_size(generator.device, BATCH_SAMPLES, settings.count)
    return TargetWork(generator, partial(sample_targets, settings=settings), size)


def sample_targets(
    generator: Generator,
    sources: Sequence[Source],
    settings: SampleSettings,
    numbers: Sequence[int] | None = None,
) -> list[list[Generated]]:
    """Return random targets for each source, ordered by sample number.

    ``finished`` is False for a target that does not end within the maximum length, and for subwords
    that split a word into unusual pieces.

    :param numbers: the number of each source, on which its samples depend; by default 0, 1, ...
    """
    numbers = range(len(sources)) if numbers is None else numbers
    size = batch_size(generator.device, BATCH_SAMPLES, settings.count)
    targets: list[list[Generated]] = []
    with generator.precision.active(), torch.inference_mode():
        for start in range(0, len(sources), size):
            part = slice(start, start + size)
            targets += _Sampler(generator, sources[part], settings, numbers[part]).run()
    return targets


def random_numbers(seed: int, numbers: Sequence[int], count: int, length: int) -> Floats:
    """Return random numbers in [0, 1), ``(sources, samples, words)``."""
    draws = np.empty((len(numbers), count, length))
    for row, number in zip(draws, numbers, strict=True):
        key = np.array([seed, number], np.uint64)
        for sample in range(count):
            counter = np.array([0, 0, 0, sample], np.uint64)
            generator = np.random.Generator(np.random.Philox(key=key, counter=counter))
            generator.random(out=row[sample])
    return draws


class _Sampler:
    """Draws the samples for a batch of sources, with a node per distinct prefix."""

    def __init__(
        self,
        generator: Generator,
        sources: Sequence[Source],
        settings: SampleSettings,
        numbers: Sequence[int],
    ) -> None:
        self._generator = generator
        self._sources = sources
        self._settings = settings
        limits = generator.length_limits(sources, settings.max_length)
        self._limits = limits.repeat(settings.count)
        length = int(limits.max()) + 1
        draws = random_numbers(settings.seed, numbers, settings.count, length)
        self._draws = draws.reshape(-1, length)

    def run(self) -> list[list[Generated]]:
        count = self._settings.count
        walk = self._generator.walk(self._sources, unknown=self._settings.unknown)
        num_words = len(self._generator.words)
        roots = np.arange(len(self._sources))
        node_log_probs = np.zeros(len(roots))
        # The numbers of the unfinished samples, and the node of each.
        active, nodes = np.arange(len(self._draws)), roots.repeat(count)
        log_probs = np.zeros(len(active))
        finished = np.zeros(len(active), bool)
        texts: list[list[int]] = [[] for _ in active]
        depth = 0
        while len(active):
            words = self._draw(walk, nodes, self._draws[active, depth])
            keys, inverse = np.unique(nodes * num_words + words, return_inverse=True)
            parents, node_words = keys // num_words, keys % num_words
            node_log_probs = node_log_probs[parents] + walk.log_probs(parents, node_words)
            ends = words == Vocabulary.END
            finished[active[ends]] = True
            log_probs[active[ends]] = node_log_probs[inverse[ends]]
            continues = ~ends & (depth < self._limits[active])
            # A word beyond the maximum length is dropped without its probability.
            for sample, word in zip(active[continues], words[continues], strict=True):
                texts[sample].append(word)
            log_probs[active[continues]] = node_log_probs[inverse[continues]]
            active = active[continues]
            if not len(active):
                break
            kept, nodes = np.unique(inverse[continues], return_inverse=True)
            roots = roots[parents[kept]]
            node_log_probs = node_log_probs[kept]
            walk.advance(parents[kept], node_words[kept], roots)
            depth += 1
        targets = [
            self._generated(text, log_prob, is_finished)
            for text, log_prob, is_finished in zip(
                texts, log_probs.tolist(), finished.tolist(), strict=True
            )
        ]
        return [targets[start : start + count] for start in range(0, len(targets), count)]

    def _draw(self, walk: SearchWalk, nodes: Ids, numbers: Floats) -> Ids:
        order = np.argsort(nodes, kind="stable")
        starts = np.searchsorted(nodes[order], np.arange(walk.num_nodes + 1))
        drawn = np.empty(len(nodes), np.int64)
        for first, log_probs in walk.log_distributions():
            borders = starts[first : first + len(log_probs) + 1]
            samples = order[borders[0] : borders[-1]]
            drawn[samples] = draw_words(log_probs, borders - borders[0], numbers[samples])
        return drawn

    def _generated(self, text: list[int], log_prob: float, finished: bool) -> Generated:
        words, is_usual = self._generator.in_order([self._generator.words[word] for word in text])
        return Generated(words, log_prob, finished and is_usual, len(text))


# A word less than e^-87 times as probable as the best is not drawn: exp() is limited.
_LOWEST = np.float32(-87)


def draw_words(log_probs: Tensor, starts: Ids, numbers: Floats) -> Ids:
    """Draw a word for each random number, in proportion to p in its row.

    A number selects the word at this point in the cumulative distribution. On a CPU, a compiled
    loop reads each probability once.

    :param log_probs: ``(rows, words)`` float32; -inf is never drawn.
    :param starts: ``(rows + 1,)``: indices at which each row's numbers begin, and their end.
    :param numbers: the numbers of all rows, concatenated, in [0, 1).
    """
    out = np.empty(len(numbers), np.int64)
    if is_fused(log_probs):
        sums = np.empty(log_probs.shape[1])
        _draw_words(log_probs.numpy(), starts, numbers, sums, out)
        return out
    highest = log_probs.max(1, keepdim=True).values
    weights = (log_probs - highest).exp().double()
    running = weights.cumsum(1)
    rows = torch.from_numpy(np.repeat(np.arange(len(starts) - 1), np.diff(starts)))
    rows = rows.to(log_probs.device)
    wanted = torch.from_numpy(numbers).to(log_probs.device) * running[rows, -1]
    indices = torch.searchsorted(running[rows], wanted.unsqueeze(1), right=True).squeeze(1)
    possible = torch.arange(weights.shape[1], device=weights.device) * (weights > 0)
    out[:] = torch.minimum(indices, possible.max(1).values[rows]).cpu().numpy()
    return out


@ELEMENTWISE
def _draw_words(log_probs, starts, numbers, sums, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    for row in range(len(log_probs)):
        highest = log_probs[row].max()
        total = 0.0
        last = 0
        for word in range(len(sums)):
            value = np.float32(log_probs[row, word] - highest)
            if value > _LOWEST:
                total += exp(value)
                last = word
            sums[word] = total
        for draw in range(starts[row], starts[row + 1]):
            # The first word with a larger running sum. Rounding may lead beyond the last word.
            index = np.searchsorted(sums, numbers[draw] * total, side="right")
            out[draw] = min(index, last)


class CountedSample(NamedTuple):
    """A target, and the number of times it was drawn."""

    target: Generated
    times: int


def count_samples(samples: Sequence[Generated]) -> list[CountedSample]:
    """Return the distinct targets with their counts, in descending order of log-probability."""
    equal: dict[tuple[str, ...], list[Generated]] = {}
    for sample in samples:
        equal.setdefault(sample.words, []).append(sample)
    counted = [CountedSample(group[0], len(group)) for group in equal.values()]
    return sorted(counted, key=lambda item: item.target.log_prob, reverse=True)

"""Word alignment of parallel text by IBM Model 1 and then an HMM, in one direction.

Brown et al. (1993); Vogel et al. (1996), with the empty words of Och and Ney (2003), section 2.1.
All sums are numpy's own, without BLAS and without logarithms, and so in one order: the links are
the same on every machine.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

MODEL1_ITERATIONS, HMM_ITERATIONS = 5, 5
# The probability that a target word has no partner, as in the experiments of Och and Ney.
EMPTY = 0.2
# Added to the expected count of each jump, so that no jump is impossible.
JUMP_SMOOTHING = 0.1
Sentences = Sequence[Sequence[str]]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def number_words(sentences: Sentences) -> list[list[int]]:
    """Return a number for each word, from 1; 0 is the empty word."""
    numbers: dict[str, int] = {}
    return [[numbers.setdefault(word, len(numbers) + 1) for word in line] for line in sentences]


def normalized(values: Floats) -> Floats:
    """Return values that sum to 1 along the last axis."""
    total: Floats = values.sum(axis=-1, keepdims=True)
    return values / total


class Aligner:
    """A model of p(target | source), where each target word has one source word or none.

    Sentence pairs of the same two lengths are a group, and are computed together. The states of the
    HMM are the source words and, after them, as many empty words: each remembers after which source
    word it comes.
    """

    def __init__(self, sources: Sentences, targets: Sentences) -> None:
        source_numbers, target_numbers = number_words(sources), number_words(targets)
        groups: dict[tuple[int, int], list[int]] = {}
        for place, pair in enumerate(zip(sources, targets, strict=True)):
            groups.setdefault((len(pair[0]), len(pair[1])), []).append(place)
        # The sentence pairs of each group.
        self.places = [*groups.values()]
        codes = []
        for places in self.places:
            source = np.array([[0, *source_numbers[place]] for place in places])
            target = np.array([target_numbers[place] for place in places])
            codes.append(source[:, None, :] << 32 | target[:, :, None])  # (pair, target, source)
        flat = np.concatenate([code.ravel() for code in codes])
        pairs, self.all_cells = np.unique(flat, return_inverse=True)
        parts = np.split(self.all_cells, np.cumsum([code.size for code in codes])[:-1])
        # Where the word pairs of each group are in `probabilities`; source 0 is the empty word.
        self.cells = [part.reshape(code.shape) for part, code in zip(parts, codes, strict=True)]
        self.source_of: Integers = pairs >> 32
        # p(target word | source word) of each word pair that occurs.
        self.probabilities: Floats = np.ones(len(pairs))
        # How likely a jump of -widest to widest words is, up to a factor.
        self.widest = max(size for size, _ in groups)
        self.jumps: Floats = np.ones(2 * self.widest + 1)

    def estimate_words(self, counts: Sequence[Floats]) -> None:
        """Set the probabilities of the words from expected counts, (pair, target, source)."""
        together = np.concatenate([count.ravel() for count in counts])
        sums = np.bincount(self.all_cells, together)
        self.probabilities = sums / np.bincount(self.source_of, sums)[self.source_of]

    def model1(self) -> None:
        """Make one iteration of expectation maximisation for IBM Model 1."""
        self.estimate_words([normalized(self.probabilities[cells]) for cells in self.cells])

    def transitions(self, size: int) -> tuple[Floats, Floats]:
        """Return p(first state) and p(next state | state), (2 * size, 2 * size)."""
        last = np.array([-1, *range(size), *range(size)])
        words = normalized(self.jumps[self.widest + np.arange(size) - last[:, None]])
        empty = (last[:, None] == np.arange(size)).astype(np.float64)
        empty[0] = 1 / size
        both = np.concatenate([(1 - EMPTY) * words, EMPTY * empty], axis=1)
        return both[0], both[1:]

    def emissions(self, cells: Integers) -> Floats:
        """Return p(target word | state), (target, pair, state)."""
        found = self.probabilities[cells].transpose(1, 0, 2)
        empty = np.broadcast_to(found[:, :, :1], found[:, :, 1:].shape)
        return np.concatenate([found[:, :, 1:], empty], axis=2)

    def hmm(self) -> None:
        """Make one iteration of expectation maximisation for the HMM (forward and backward)."""
        counts, jumps = [], np.full_like(self.jumps, JUMP_SMOOTHING)
        for cells in self.cells:
            emission, size = self.emissions(cells), cells.shape[2] - 1
            begin, move = self.transitions(size)
            forward, backward = np.empty_like(emission), np.ones_like(emission)
            forward[0] = normalized(begin * emission[0])
            for j in range(1, len(emission)):
                reached = (forward[j - 1, :, :, None] * move).sum(axis=1)
                forward[j] = normalized(reached * emission[j])
            for j in range(len(emission) - 1, 0, -1):
                after = backward[j] * emission[j]
                backward[j - 1] = normalized((move * after[:, None, :]).sum(axis=2))
            posterior = normalized(forward * backward)
            empty = posterior[:, :, size:].sum(axis=2, keepdims=True)
            count = np.concatenate([empty, posterior[:, :, :size]], axis=2)
            counts.append(count.transpose(1, 0, 2))
            jumps[self.widest + 1 :][:size] += posterior[0, :, :size].sum(axis=0)
            for j in range(1, len(emission)):
                after = backward[j] * emission[j]
                joint = forward[j - 1, :, :, None] * move * after[:, None, :]  # (pair, from, to)
                moved = (joint / joint.sum(axis=(1, 2), keepdims=True)).sum(axis=0)[:, :size]
                for i, row in enumerate(moved[:size] + moved[size:]):
                    jumps[self.widest - i :][:size] += row
        self.estimate_words(counts)
        self.jumps = jumps

    def links(self) -> list[list[int]]:
        """Return the source position of each target word in the likeliest path; -1 is none."""
        result: list[list[int]] = [[] for places in self.places for _ in places]
        for places, cells in zip(self.places, self.cells, strict=True):
            emission, size = self.emissions(cells), cells.shape[2] - 1
            begin, move = self.transitions(size)
            best, choices = normalized(begin * emission[0]), []
            for column in emission[1:]:
                paths = best[:, :, None] * move
                choices.append(paths.argmax(axis=1))
                best = normalized(paths.max(axis=1) * column)
            path = [best.argmax(axis=1)]
            for choice in reversed(choices):
                path.append(choice[np.arange(len(places)), path[-1]])
            for place, states in zip(places, np.array(path[::-1]).T.tolist(), strict=True):
                result[place] = [state if state < size else -1 for state in states]
        return result


def align(sources: Sentences, targets: Sentences) -> list[list[int]]:
    """Return the source position of each target word, -1 for none, per sentence pair."""
    aligner = Aligner(sources, targets)
    for _ in range(MODEL1_ITERATIONS):
        aligner.model1()
    for _ in range(HMM_ITERATIONS):
        aligner.hmm()
    return aligner.links()

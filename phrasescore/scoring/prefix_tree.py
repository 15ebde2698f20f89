"""The plan of a scoring run: which prefixes there are, so that each is computed once.

Word sequences that begin alike share the states of a recurrent network over what they share. A
:class:`PrefixTree` names each distinct prefix (a node) once, level by level: level t holds the
prefixes of t + 1 words. Sequences may hang under different roots (the targets of different source
phrases share nothing).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise, repeat
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.devices import move
from phrasescore.errors import ModelError
from phrasescore.kernels import tree_kernels
from phrasescore.records import PhraseBlock

Ids = NDArray[np.int64]

# Of a number that sequences are sorted by, without its sign.
_KEY_BITS = 63


class Level(NamedTuple):
    """The nodes of one depth, in the order of their parents."""

    parents: Ids  # (nodes,) position of the parent in the level above, or the root's number
    words: Ids  # (nodes,) the last word of each prefix
    ends: Ids  # (ending,) sequences that are no longer than this
    end_nodes: Ids  # (ending,) the node of this level at which each of them ends


class PrefixTree(NamedTuple):
    """All distinct prefixes of some sequences."""

    num_roots: int
    empty: Ids  # sequences without words
    empty_roots: Ids  # the root of each of them
    levels: list[Level]

    @property
    def num_nodes(self) -> int:
        """Return the number of distinct non-empty prefixes."""
        return sum(len(level.words) for level in self.levels)

    @property
    def num_parents(self) -> int:
        """Return the number of roots and nodes that have nodes below them."""
        return sum(int(np.count_nonzero(np.diff(each.parents, prepend=-1))) for each in self.levels)

    def renumber(self, ids: Ids) -> "PrefixTree":
        """Return the same tree with word ``ids[w]`` in place of each word w."""
        levels = [level._replace(words=ids[level.words]) for level in self.levels]
        return self._replace(levels=levels)

    def paths(self) -> tuple["Sequences", Ids]:
        """Return the nodes of each sequence, numbered level after level, and its root."""
        ends = [self.empty, *(level.ends for level in self.levels)]
        lengths = np.empty(sum(map(len, ends)), np.int64)
        for depth, sequences in enumerate(ends):
            lengths[sequences] = depth
        found = Sequences(np.empty(lengths.sum(), np.int64), lengths)
        starts, first = found.starts, self.num_nodes
        # Upwards: more and more sequences reach a level, each at one of its nodes.
        active = nodes = np.empty(0, np.int64)
        for depth, level in reversed(list(enumerate(self.levels))):
            first -= len(level.words)
            active = np.concatenate([active, level.ends])
            nodes = np.concatenate([nodes, level.end_nodes])
            found.ids[starts[active] + depth] = first + nodes
            nodes = level.parents[nodes]
        roots = np.empty(len(lengths), np.int64)
        roots[active], roots[self.empty] = nodes, self.empty_roots
        return found, roots

    def find_distinct(self) -> tuple[Ids, Ids]:
        """Return the first of each distinct sequence of a root, and which of them each one is.

        They are in the order of their lengths and of their nodes.
        """
        ends = [(self.empty, self.empty_roots)]
        ends += [(level.ends, level.end_nodes) for level in self.levels]
        numbers = np.empty(sum(len(sequences) for sequences, _ in ends), np.int64)
        firsts: list[Ids] = []
        count = 0
        for sequences, nodes in ends:
            _, first, inverse = np.unique(nodes, return_index=True, return_inverse=True)
            numbers[sequences] = inverse + count
            firsts.append(sequences[first])
            count += len(first)
        return np.concatenate(firsts), numbers


class Sequences(NamedTuple):
    """Many word sequences as one array of ids, one after another."""

    ids: Ids  # (all words,)
    lengths: Ids  # (sequences,)

    @property
    def starts(self) -> Ids:
        """Return the position of each sequence's first word."""
        return np.cumsum(self.lengths) - self.lengths

    def steps(self, *, reverse: bool) -> Iterator[Ids]:
        """Yield where the sequences' words of each time stand, those of the longest sequence first.

        :param reverse: whether the last word comes first.
        """
        order = np.argsort(-self.lengths, kind="stable")
        starts, lengths = self.starts[order], self.lengths[order]
        for time in range(int(lengths.max(initial=0))):
            active = int((lengths > time).sum())
            yield starts[:active] + (lengths[:active] - 1 - time if reverse else time)

    def reversed(self) -> "Sequences":
        """Return the sequences with the last word of each first."""
        total = len(self.ids)
        # Place p of a sequence from s to e has the word of place s + e - p.
        mirrors = np.repeat(2 * self.starts + self.lengths - 1, self.lengths) - np.arange(total)
        return Sequences(self.ids[mirrors], self.lengths)

    def select(self, chosen: Ids) -> "Sequences":
        """Return the chosen sequences, in that order."""
        lengths = self.lengths[chosen]
        shifts = self.starts[chosen] - (np.cumsum(lengths) - lengths)
        return Sequences(self.ids[np.arange(lengths.sum()) + np.repeat(shifts, lengths)], lengths)

    def expand(self, pieces: "Sequences") -> "Sequences":
        """Return the sequences with the pieces of each id in its place.

        :param pieces: a sequence for each id.
        """
        split = pieces.select(self.ids)
        ends = np.cumsum(np.concatenate([[0], split.lengths]))
        bounds = np.cumsum(np.concatenate([[0], self.lengths]))
        return Sequences(split.ids, np.diff(ends[bounds]))


class TreeStep(NamedTuple):
    """The nodes of a level, on the device. Those of one parent (a *family*) are neighbours."""

    parents: Tensor  # (nodes,) int64: rows of the level above, not falling
    words: Tensor  # (nodes,) int64: the last word of each prefix
    roots: Tensor  # (nodes,) int64: the root that each prefix is under
    going_on: Tensor  # (families,) int64: the distinct parents, rising
    families: Tensor  # (nodes,) int64: each node's parent, as a place in ``going_on``

    @staticmethod
    def of(parents: Ids, words: Ids, roots: Ids, device: torch.device) -> "TreeStep":
        """Return the step to these nodes."""
        begins = np.diff(parents, prepend=-1) != 0
        parts = parents, words, roots, parents[begins], np.cumsum(begins) - 1
        return TreeStep(*move(device, *(torch.from_numpy(part) for part in parts)))

    @staticmethod
    def first(count: int, word: int, device: torch.device) -> "TreeStep":
        """Return the step from each root to its empty prefix, as if ``word`` were before it."""
        roots = np.arange(count)
        return TreeStep.of(roots, np.full(count, word), roots, device)


def on_device(positions: Ids, device: torch.device) -> Tensor:
    """Return positions as a tensor on ``device``; the CPU does not wait for the copy."""
    return move(device, torch.from_numpy(np.ascontiguousarray(positions)))[0]


def build_prefix_tree(sequences: Sequences, roots: Ids, num_roots: int) -> PrefixTree:
    """Return the tree of the sequences' prefixes.

    Time grows with the number of words and its logarithm; a sequence may be of any length.

    :param roots: ``(sequences,)``: the root that each sequence hangs under, below ``num_roots``.
    """
    empty = np.flatnonzero(sequences.lengths == 0)
    # Sorted by a number that holds the root and the first words; where these are equal, by all.
    word_bits = (int(sequences.ids.max()) + 1 if len(sequences.ids) else 0).bit_length()
    num_words = (_KEY_BITS - num_roots.bit_length()) // max(1, word_bits)
    arrays = (sequences.ids, sequences.starts, sequences.lengths, roots)
    keys = tree_kernels.keys(*arrays, word_bits, num_words)
    found = tree_kernels.grow(*arrays, keys, np.argsort(keys))
    starts, parents, words, end_starts, ends, end_nodes = found
    levels = [
        Level(parents[begin:end], words[begin:end], ends[first:last], end_nodes[first:last])
        for (begin, end), (first, last) in zip(
            pairwise(starts.tolist()), pairwise(end_starts.tolist()), strict=True
        )
    ]
    return PrefixTree(num_roots, empty, roots[empty], levels)


class PairPlan(NamedTuple):
    """The work that scoring phrase pairs needs: distinct sources, target trees of bounded size."""

    sources: Sequences  # each distinct source once
    num_source_nodes: int  # distinct non-empty prefixes of sources
    pieces: list["TargetPiece"]


class TargetPiece(NamedTuple):
    """Target prefixes of some pairs, under each of their distinct sources."""

    pairs: Ids  # (pairs,) positions in the input
    sources: Ids  # (roots,) numbers of the distinct sources that are this piece's roots
    targets: PrefixTree  # sequence i is pair pairs[i]; root j is source sources[j]


def plan_pairs(sources: Sequences, targets: Sequences, piece_size: int) -> PairPlan:
    """Return the work that scoring pairs of a source and a target needs.

    :param piece_size: pairs per piece; it bounds the rows, and so the memory, of every step.
    """
    roots = np.zeros(len(sources.lengths), dtype=np.int64)
    source_tree = build_prefix_tree(sources, roots, num_roots=1)
    firsts, source_of_pair = source_tree.find_distinct()
    # Pairs of a source side by side, and the sources in the order of their tree: then a piece's
    # states lie together in memory. Within a source, pairs with a common first word are neighbours.
    first_words = np.full(len(targets.lengths), -1, dtype=np.int64)
    spoken = targets.lengths > 0
    first_words[spoken] = targets.ids[targets.starts[spoken]]
    order = np.lexsort((first_words, source_of_pair))
    pieces = []
    for start in range(0, len(order), piece_size):
        pairs = order[start : start + piece_size]
        used, roots = np.unique(source_of_pair[pairs], return_inverse=True)
        tree = build_prefix_tree(targets.select(pairs), roots, len(used))
        pieces.append(TargetPiece(pairs, used, tree))
    return PairPlan(sources.select(firsts), source_tree.num_nodes, pieces)


class HypothesisTexts:
    """The sentences and translations of a block as numbers of their distinct words.

    :ivar sources: the sentences, each of them once for all its translations that stand together.
    :ivar words: the distinct words by their numbers.
    """

    def __init__(self, block: PhraseBlock) -> None:
        self.sources: list[tuple[str, ...]] = []
        hypotheses = []
        source_of = []
        for source, hypothesis in block.pairs():
            if not self.sources or source is not self.sources[-1]:
                self.sources.append(source)
            source_of.append(len(self.sources) - 1)
            hypotheses.append(hypothesis)
        # A word's number is made where it is first looked up: how many there are before it.
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__
        self._sources = _sequences(self.sources, numbers)
        self._hypotheses = _sequences(hypotheses, numbers)
        self._source_of = np.array(source_of, np.int64)
        self._affiliations = block.affiliations
        aligned = block.affiliations or repeat(())
        self.num_distinct = len(set(zip(source_of, hypotheses, aligned, strict=False)))
        self.words = list(numbers)
        # By whether the last word of a hypothesis comes first.
        self._trees: dict[bool, PrefixTree] = {}

    def plan(self, *, reverse: bool, right_to_left: bool = False) -> tuple[PrefixTree, Sequences]:
        """Return the tree of the predicted sides, a sequence per hypothesis, and the read sides.

        A reverse model predicts the source after each distinct hypothesis: only identical
        hypotheses share work, the encoder's.

        :param right_to_left: the tree begins with the last words, so that hypotheses share their
            ends.
        """
        if not reverse:
            return self._hypothesis_tree(right_to_left=right_to_left), self._sources
        firsts, inverse = self._hypothesis_tree(right_to_left=False).find_distinct()
        sources = self._sources.reversed() if right_to_left else self._sources
        predicted = sources.select(self._source_of)
        return (
            build_prefix_tree(predicted, inverse, len(firsts)),
            self._hypotheses.select(firsts),
        )

    def _hypothesis_tree(self, *, right_to_left: bool) -> PrefixTree:
        """Return the tree of the hypotheses, which is made where it is first asked for."""
        if right_to_left not in self._trees:
            hypotheses = self._hypotheses.reversed() if right_to_left else self._hypotheses
            self._trees[right_to_left] = build_prefix_tree(
                hypotheses, self._source_of, len(self._sources.lengths)
            )
        return self._trees[right_to_left]

    def plan_aligned(self) -> tuple[PrefixTree, int]:
        """Return the tree of the hypotheses as aligned words, and how many numbers a word has.

        Where a word has n numbers, word w with the affiliation a is the number w * n + a.

        :raises ModelError: if there are no affiliations.
        """
        if self._affiliations is None:
            raise ModelError("a joint model scores aligned hypotheses, and these have none")
        found = list(chain.from_iterable(self._affiliations))
        places = int(self._sources.lengths.max(initial=0)) + 1
        ids = self._hypotheses.ids * places + np.array(found, np.int64)
        sequences = self._hypotheses._replace(ids=ids)
        return build_prefix_tree(sequences, self._source_of, len(self.sources)), places


def _sequences(sentences: Sequence[tuple[str, ...]], numbers: defaultdict[str, int]) -> Sequences:
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    total = int(lengths.sum())
    words = chain.from_iterable(sentences)
    ids = np.fromiter(map(numbers.__getitem__, words), np.int64, total)
    return Sequences(ids, lengths)

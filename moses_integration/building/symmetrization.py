"""Join the word alignments of both directions by grow-diag-final-and, as Moses' symal does."""

from collections.abc import Iterator
from itertools import islice, pairwise

import numpy as np

from moses_integration.alignments import parse_block
from phrasescore.io.corpora import read_together
from phrasescore.io.kernel_cache import kept_njit

_KERNEL = kept_njit()

_BLOCK = 5_000  # sentences

# What a cell of the matrix is: the first two are links of one direction only.
_FORWARD, _BACKWARD, _BOTH, _ADDED = 1, 2, 3, 4


def symmetrize(forward: str, backward: str) -> Iterator[bytes]:
    """Yield the joined alignment of each sentence pair, as a line without a newline.

    Both files contain links from source to target words. As in symal, links of ``forward`` come
    before links of ``backward`` in the final step.

    :param forward: the alignment in which each target word chooses at most one source word, as from
        ``fast_align`` and ``eflomal -f``.
    :param backward: the alignment in which each source word chooses at most one target word.
    :raises DataError: if a line is malformed, or the files have different lengths.
    """
    lines = read_together(forward, backward)
    before = 0
    while block := list(islice(lines, _BLOCK)):
        first, first_starts = parse_block([line for line, _ in block], forward, before)
        second, second_starts = parse_block([line for _, line in block], backward, before)
        joined, ends = _join(first, first_starts, second, second_starts)
        texts = [f"{source}-{target}" for source, target in joined.tolist()]
        for begin, end in pairwise((0, *ends.tolist())):
            yield " ".join(texts[begin:end]).encode()
        before += len(block)


@_KERNEL
def _join(first, first_starts, second, second_starts):  # type: ignore[no-untyped-def]
    """Return the joined links in symal's order, and where each sentence's links end."""
    out = np.empty((len(first) + len(second), 2), np.int32)
    ends = np.empty(len(first_starts) - 1, np.int64)
    count = 0
    for sentence in range(len(ends)):
        forward = first[first_starts[sentence] : first_starts[sentence + 1]]
        backward = second[second_starts[sentence] : second_starts[sentence + 1]]
        sources = targets = 0
        for links in (forward, backward):
            for index in range(len(links)):
                sources = max(sources, links[index, 0] + 1)
                targets = max(targets, links[index, 1] + 1)
        matrix = np.zeros((targets, sources), np.uint8)
        for index in range(len(forward)):
            matrix[forward[index, 1], forward[index, 0]] |= _FORWARD
        for index in range(len(backward)):
            matrix[backward[index, 1], backward[index, 0]] |= _BACKWARD
        count = _grow(matrix, out, count)
        ends[sentence] = count
    return out[:count], ends


@_KERNEL
def _grow(matrix, out, count):  # type: ignore[no-untyped-def]
    """Grow from the intersection to neighbouring links; append them to ``out``."""
    targets, sources = matrix.shape
    has_source, has_target = np.zeros(targets, np.bool_), np.zeros(sources, np.bool_)
    for target in range(targets):
        for source in range(sources):
            if matrix[target, source] == _BOTH:
                matrix[target, source] = _ADDED
                has_source[target] = has_target[source] = True
    steps = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
    is_growing = True
    while is_growing:
        is_growing = False
        # A link that is added behind the current one is visited in the same round, as in the
        # std::set of symal.
        for target in range(targets):
            for source in range(sources):
                if matrix[target, source] != _ADDED:
                    continue
                for down, right in steps:
                    row, column = target + down, source + right
                    if not (0 <= row < targets and 0 <= column < sources):
                        continue
                    is_link = matrix[row, column] != 0
                    if is_link and not (has_source[row] and has_target[column]):
                        matrix[row, column] = _ADDED
                        has_source[row] = has_target[column] = is_growing = True
    for kind in (_FORWARD, _BACKWARD):
        for target in range(targets):
            for source in range(sources):
                is_free = not has_source[target] and not has_target[source]
                if matrix[target, source] == kind and is_free:
                    matrix[target, source] = _ADDED
                    has_source[target] = has_target[source] = True
    for target in range(targets):
        for source in range(sources):
            if matrix[target, source] == _ADDED:
                out[count, 0], out[count, 1] = source, target
                count += 1
    return count

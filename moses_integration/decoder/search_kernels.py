"""The compiled core of the stack search: all ways to reach a stack from the smaller ones.

The hypotheses of a stack are grouped by coverage, so that everything that depends only on the
coverage (which spans may follow, and their future estimates) is computed once per group. A *block*
combines hypotheses of one coverage with the options of one span. Within a block an extension costs
an addition and a look-up, because language model scores of an option after a state are memoised.
"""

from typing import Any

import numpy as np

from moses_integration.decoder.ngram_table import END, KERNEL, score_word
from moses_integration.decoder.search_tables import add_row
from phrasescore.io.hashing import find, mix

# Columns of a block: range of hypotheses, span, range of options (ends exclusive), new coverage.
BLOCK_COLUMNS = 7
# Orientations, as lexicalised reordering counts them.
MONOTONE, SWAP, DISCONTINUOUS = 0, 1, 2
NUM_ORIENTATIONS = 3

_ONE = np.uint64(1)


@KERNEL
def is_covered(bits: Any, word: int) -> Any:
    """Return whether a source word is covered."""
    return (bits[word // 64] >> np.uint64(word % 64)) & _ONE != 0


@KERNEL
def cover(sentence: Any, coverages: Any, old: int, start: int, end: int) -> Any:
    """Return the number of a coverage with one more span; there must be room for a row."""
    bits = coverages.keys[coverages.count[0]]
    for part in range(len(bits)):
        bits[part] = coverages.keys[old, part]
    for word in range(start, end):
        bits[word // 64] |= _ONE << np.uint64(word % 64)
    row, is_new = add_row(coverages, bits)
    if is_new:
        describe_coverage(sentence, coverages, row)
    return row


@KERNEL
def describe_coverage(sentence: Any, coverages: Any, row: int) -> None:
    """Compute the first gap of a coverage, and the estimate of all its gaps."""
    bits, future, gap, word = coverages.keys[row], 0.0, -1, 0
    while word < sentence.length:
        if is_covered(bits, word):
            word += 1
            continue
        begin = word
        while word < sentence.length and not is_covered(bits, word):
            word += 1
        gap = begin if gap < 0 else gap
        future += sentence.future[begin, word]
    coverages.first_gap[row] = gap if gap >= 0 else sentence.length
    coverages.future[row] = future


@KERNEL
def list_blocks(sentence: Any, tables: Any, stack: int, blocks: Any, fill: bool) -> int:
    """Return the number of blocks that lead to a stack; with ``fill``, write them.

    Any phrase may fill the first gap. A phrase elsewhere must not end farther from the first gap
    than the distortion limit, because the search has to come back from there
    (SearchNormal::ProcessOneHypothesis).
    """
    count, limit = 0, sentence.distortion_limit
    hypotheses, coverages = tables.hypotheses, tables.coverages
    for size in range(min(sentence.spans.shape[1] - 2, stack), 0, -1):
        first, stop = hypotheses.stacks[stack - size], hypotheses.stacks[stack - size + 1]
        while first < stop:
            coverage = hypotheses.coverage[first]
            last = first + 1
            while last < stop and hypotheses.coverage[last] == coverage:
                last += 1
            gap = coverages.first_gap[coverage]
            farthest = sentence.length - size
            if limit >= 0:
                farthest = min(farthest, max(gap, gap + limit - size))
            for start in range(gap, farthest + 1):
                if _is_free(sentence, coverages.keys[coverage], start, size):
                    if fill:
                        row = blocks[count]
                        row[0], row[1], row[2], row[3] = first, last, start, start + size
                        row[4] = sentence.spans[start, size]
                        row[5] = sentence.spans[start, size + 1]
                        row[6] = cover(sentence, coverages, coverage, start, start + size)
                    count += 1
            first = last
    return count


@KERNEL
def _is_free(sentence: Any, bits: Any, start: int, size: int) -> Any:
    """Return whether a span has options and no covered word."""
    if sentence.spans[start, size] == sentence.spans[start, size + 1]:
        return False
    free = True
    for word in range(start, start + size):
        free = free and not is_covered(bits, word)
    return free


@KERNEL
def score_phrase(
    sentence: Any, states: Any, state: int, option: int, scratch: Any
) -> tuple[float, int]:
    """Return the language model's weighted score of an option, and the state after it.

    Once the model's state has no word from before the phrase, the precomputed rest is added. There
    must be room for a state.

    :param scratch: int32, with room for the longest phrase and a state.
    """
    begin, end = sentence.offsets[option], sentence.offsets[option + 1]
    width, size = states.keys.shape[1] - 1, end - begin
    for position in range(width):
        scratch[size + position] = states.keys[state, position]
    for position in range(size):
        scratch[size - 1 - position] = sentence.target[begin + position]
    length: Any = np.int64(states.keys[state, width])
    score = 0.0
    for position in range(size):
        log_prob, new_length = score_word(
            sentence.ngrams,
            scratch[size - position :],
            length,
            sentence.target[begin + position],
        )
        length = np.int64(new_length)
        score += log_prob * sentence.language_weight
        if length <= position + 1 and position + 1 < size:
            score += sentence.tail[begin + position + 1]
            length = np.int64(sentence.last_length[option])
            break
    if not sentence.keep_words:
        for position in range(length, width):
            scratch[position] = -1
    scratch[width] = length
    return score, add_row(states, scratch[: width + 1])[0]


@KERNEL
def end_score(sentence: Any, states: Any, state: int) -> Any:
    """Return the weighted score of ``</s>`` after a state."""
    if np.isnan(states.end_score[state]):
        key = states.keys[state]
        log_prob, _ = score_word(sentence.ngrams, key, key[-1], END)
        states.end_score[state] = log_prob * sentence.language_weight
    return states.end_score[state]


@KERNEL
def memo_key(sentence: Any, state: int, option: int) -> Any:
    """Return the key of an option after a state in the memo."""
    return mix(np.uint64(np.int64(state) * len(sentence.score) + option + 1))  # mix(0) is no key


@KERNEL
def score_option(
    sentence: Any, states: Any, memo: Any, state: int, option: int, scratch: Any
) -> Any:
    """Return the memo's slot for an option after a state; the memo must have room for one more."""
    key = memo_key(sentence, state, option)
    slot = find(memo.keys, key)
    if slot < 0:
        slot = -1 - slot
        score, new = score_phrase(sentence, states, state, option, scratch)
        memo.keys[slot, 0], memo.values[slot, 1], memo.keys[slot, 2] = key, score, np.uint64(new)
        memo.count[0] += 1
    return slot


@KERNEL
def find_orientation(before: int, after: int, start: int, end: int) -> int:
    """Return the orientation of a span after the span ``before .. after``."""
    if start == after:
        return MONOTONE
    return SWAP if before == end else DISCONTINUOUS


@KERNEL
def start_score(sentence: Any, hypotheses: Any, hypothesis: int, start: int, end: int) -> Any:
    """Return the score that a span adds (-inf beyond the limit), and the orientation."""
    before, after = -1, 0
    last = hypotheses.option[hypothesis]
    if last >= 0:
        before, after = sentence.start[last], sentence.end[last]
    distance = abs(after - start)
    orientation = find_orientation(before, after, start, end)
    if sentence.distortion_limit >= 0 and distance > sentence.distortion_limit:
        return -np.inf, orientation
    score = hypotheses.score[hypothesis] - distance * sentence.distortion_weight
    if last >= 0:
        score += sentence.forward[last, orientation]
    return score, orientation


@KERNEL
def add_arc(arcs: Any, score: float, parent: int, option: int, target: int) -> None:
    """Add an alternative arc to a row of the pool; there must be room."""
    row = arcs.count[0]
    arcs.count[0] = row + 1
    arcs.score[row], arcs.target[row] = score, target
    arcs.parent[row], arcs.option[row] = parent, option


@KERNEL
def offer(
    pool: Any,
    arcs: Any,
    keep_arcs: bool,
    score: float,
    parent: int,
    option: int,
    key: tuple[int, int, int],
    state: int,
) -> tuple[int, bool]:
    """Add a hypothesis to the pool, or recombine it with one that has the same key.

    Return its row, and whether its key is new. The earlier of two equal scores stays. There must be
    room.

    :param key: see `HypothesisPool`.
    """
    row, is_new = add_row(pool, key)
    if not is_new and score <= pool.score[row]:
        if keep_arcs:
            add_arc(arcs, score, parent, option, row)
        return row, False
    if keep_arcs and not is_new:
        add_arc(arcs, pool.score[row], pool.parent[row], pool.option[row], row)
    pool.score[row], pool.parent[row], pool.option[row] = score, parent, option
    pool.state[row] = state
    pool.limits[1] = max(pool.limits[1], score)
    return row, is_new

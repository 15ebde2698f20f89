"""Prepare a sentence for the search: its options, their context-free scores, and the limits."""

from typing import Any, NamedTuple

import numpy as np

from moses_integration.decoder.configuration import (
    DISTORTION,
    LANGUAGE_MODEL,
    NUM_REORDERING_SCORES,
    REORDERING,
    DecoderConfiguration,
)
from moses_integration.decoder.ngram_table import KERNEL, LN_10, NgramTables, score_next
from moses_integration.decoder.options import SentenceOptions
from moses_integration.decoder.search_kernels import NUM_ORIENTATIONS


class Sentence(NamedTuple):
    """A sentence to translate. All scores are weighted."""

    # Source words.
    length: int
    # Words; -1 for no limit.
    distortion_limit: int
    distortion_weight: float
    # For logarithms to base 10.
    language_weight: float
    # Whether states are filled up with target words, which other features need.
    keep_words: bool
    # int32 (length, longest + 2): options of a span are [start, size] .. [start, size + 1].
    spans: Any
    # int32 (options,), end exclusive.
    start: Any
    end: Any
    # int32 (options + 1,) and (words,): the target words of each option.
    offsets: Any
    target: Any
    # float64 (options,): scores with the estimate of other features; and only this estimate.
    score: Any
    expected: Any
    # float64 (options, orientations): scores of an option after another, and of what follows it.
    backward: Any
    forward: Any
    # int32 (options,): equal for options that nothing later can distinguish.
    group: Any
    # float64 (length, length + 1): the best score that covers the words i .. j - 1.
    future: Any
    # float64 (words + 1,): the language model's score of a phrase's words from this one on, given
    # only the words before it in the phrase.
    tail: Any
    # int32 (options,): words in the language model's state after the phrase alone.
    last_length: Any
    # float64 (options,): an upper bound of the language model's score.
    bound: Any


def make_sentence(
    options: SentenceOptions,
    configuration: DecoderConfiguration,
    tables: NgramTables,
    *,
    keep_words: bool,
) -> Sentence:
    """Return a sentence for the search; ``keep_words`` is for features that need the context."""
    length, count = len(options.future), len(options.start)
    sizes = options.end - options.start
    longest = int(sizes.max()) if count else 0
    reordering = configuration.weights(REORDERING, NUM_REORDERING_SCORES)
    weighted = options.reordering * np.array(reordering)
    language_weight = configuration.weights(LANGUAGE_MODEL)[0] * LN_10
    tail, lengths = np.zeros(len(options.target) + 1), np.zeros(count, np.int32)
    bound = np.zeros(count)
    _score_phrases(tables, language_weight, options.offsets, options.target, tail, lengths, bound)
    return Sentence(
        length=length,
        distortion_limit=configuration.search.distortion_limit,
        distortion_weight=configuration.weights(DISTORTION)[0],
        language_weight=language_weight,
        keep_words=keep_words,
        spans=_spans(options.start, sizes, length, longest),
        start=options.start,
        end=options.end,
        offsets=options.offsets,
        target=options.target,
        score=options.score + options.other_estimate,
        expected=options.other_estimate,
        backward=np.ascontiguousarray(weighted[:, :NUM_ORIENTATIONS]),
        forward=np.ascontiguousarray(weighted[:, NUM_ORIENTATIONS:]),
        group=_groups(options),
        future=options.future,
        tail=tail,
        last_length=lengths,
        bound=bound,
    )


def _spans(start: Any, sizes: Any, length: int, longest: int) -> Any:
    """Return where the options of each span begin; they are sorted by start and size."""
    keys = start.astype(np.int64) * (longest + 2) + sizes
    wanted = np.arange(length * (longest + 2))
    return np.searchsorted(keys, wanted).astype(np.int32).reshape(length, longest + 2)


def _groups(options: Any) -> Any:
    """Return numbers that are equal for options that nothing later can distinguish.

    These options end at the same word, begin at the same word (a swap depends on it), and have the
    same forward scores (PhraseBasedReorderingState::operator==).
    """
    spans = np.stack([options.start, options.end], axis=1).astype(np.float64)
    rows = np.hstack([spans, options.reordering[:, NUM_ORIENTATIONS:]])
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)


@KERNEL
def _score_phrases(
    tables: Any, weight: float, offsets: Any, target: Any, tail: Any, lengths: Any, bound: Any
) -> None:
    """Compute the scores of phrases that no word before them can change.

    The last state is valid after any context if the phrase has at least as many words as a state.
    """
    context = np.zeros(tables.order, np.int32)
    for option in range(len(lengths)):
        begin, end = offsets[option], offsets[option + 1]
        length: Any = 0
        for position in range(begin, end):
            log_prob, length = score_next(tables, context, length, target[position])
            tail[position] = log_prob * weight
        for position in range(end - 2, begin - 1, -1):
            tail[position] += tail[position + 1]
        lengths[option] = length
        inner = begin + tables.order - 1
        bound[option] = tail[inner] if inner < end else 0.0
        if weight < 0:
            bound[option] = np.inf

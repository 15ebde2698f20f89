"""A sentence as the search needs it, and the feature values of finished derivations."""

from typing import Any, NamedTuple

import numpy as np

from moses_integration.decoder.ngram_table import KERNEL, score_word
from moses_integration.decoder.search_kernels import (
    DISCONTINUOUS,
    LN_10,
    MONOTONE,
    NUM_ORIENTATIONS,
    SWAP,
    Sentence,
)

BEGIN, END = 1, 2


class ModelWeights(NamedTuple):
    """Weights of what a search scores itself; features that are missing have 0."""

    distortion: float
    language_model: float
    # Of the reordering table: backward and forward, three orientations each.
    reordering: tuple[float, ...]


def make_sentence(
    options: Any, weights: ModelWeights, tables: Any, limit: int, *, keep_words: bool
) -> Sentence:
    """Return a sentence in the search's own terms.

    :param options: SentenceOptions.
    :param tables: the language model's NgramTables.
    :param limit: of distortion; -1 for none.
    :param keep_words: whether other features need to know the words before a phrase.
    """
    length, count = len(options.future), len(options.start)
    sizes = options.end - options.start
    longest = int(sizes.max()) if count else 0
    weighted = options.reordering * np.array(weights.reordering)
    language_weight = weights.language_model * LN_10
    tail, lengths = np.zeros(len(options.target) + 1), np.zeros(count, np.int32)
    bound = np.zeros(count)
    scratch = np.zeros(int(np.diff(options.offsets).max(initial=0)) + 1, np.int32)
    _score_phrases(
        tables, language_weight, options.offsets, options.target, tail, lengths, bound, scratch
    )
    return Sentence(
        length=length,
        distortion_limit=limit,
        distortion_weight=float(weights.distortion),
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
    """Return where the options of each span begin: they are sorted by start and size."""
    keys = start.astype(np.int64) * (longest + 2) + sizes
    wanted = np.arange(length * (longest + 2))
    return np.searchsorted(keys, wanted).astype(np.int32).reshape(length, longest + 2)


def _groups(options: Any) -> Any:
    """Return numbers that are equal where two options go on alike.

    That is: where they end at the same place, begin at the same place (a swap depends on it), and
    have the same forward scores (PhraseBasedReorderingState::operator==).
    """
    places = np.stack([options.start, options.end], axis=1).astype(np.float64)
    rows = np.hstack([places, options.reordering[:, NUM_ORIENTATIONS:]])
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)


@KERNEL
def _score_phrases(
    tables: Any,
    weight: float,
    offsets: Any,
    target: Any,
    tail: Any,
    lengths: Any,
    bound: Any,
    scratch: Any,
) -> None:
    """Score phrases on their own: what no word before the phrase can change.

    The last state is that of any phrase of at least as many words as a state has.
    """
    for option in range(len(lengths)):
        begin, end = offsets[option], offsets[option + 1]
        length: Any = np.int64(0)
        for place in range(begin, end):
            context = scratch[len(scratch) - 1 - (place - begin) :]
            log_prob, new_length = score_word(tables, context, length, target[place])
            tail[place] = log_prob * weight
            length = np.int64(new_length)
            scratch[len(scratch) - 2 - (place - begin)] = target[place]
        for place in range(end - 2, begin - 1, -1):
            tail[place] += tail[place + 1]
        lengths[option] = length
        inner = begin + tables.order - 1
        bound[option] = tail[inner] if inner < end else 0.0
        if weight < 0:
            bound[option] = np.inf


class DerivationValues(NamedTuple):
    """Unweighted values of derivations, a row each."""

    # float64 (derivations, columns of SentenceOptions.values).
    stateless: Any
    # float64 (derivations, 6).
    reordering: Any
    # float64 (derivations,): minus the words jumped over.
    distortion: Any
    # float64 (derivations,): natural logarithms, </s> included.
    language_model: Any


def score_paths(options: Any, tables: Any, offsets: Any, path_options: Any) -> DerivationValues:
    """Return the values of derivations, computed anew from their options.

    :param offsets: int64 (derivations + 1,), where each begins in ``path_options``; the empty
        derivation has no ``</s>``, as in Moses.
    """
    count = len(offsets) - 1
    values = DerivationValues(
        np.zeros((count, options.values.shape[1])),
        np.zeros((count, options.reordering.shape[1])),
        np.zeros(count),
        np.zeros(count),
    )
    _score_paths(options, tables, offsets, path_options, values)
    return values


@KERNEL
def _score_paths(options: Any, tables: Any, offsets: Any, path_options: Any, values: Any) -> None:
    context = np.zeros(2 * tables.order, np.int32)
    for row in range(len(offsets) - 1):
        before, after, last, log_prob = -1, 0, -1, 0.0
        context[0] = BEGIN
        length: Any = np.int64(min(1, tables.order - 1))
        for place in range(offsets[row], offsets[row + 1]):
            option = path_options[place]
            start, end = options.start[option], options.end[option]
            orientation = DISCONTINUOUS
            if start == after:
                orientation = MONOTONE
            elif before == end:
                orientation = SWAP
            values.distortion[row] -= abs(after - start)
            for column in range(values.stateless.shape[1]):
                values.stateless[row, column] += options.values[option, column]
            values.reordering[row, orientation] += options.reordering[option, orientation]
            if last >= 0:
                column = NUM_ORIENTATIONS + orientation
                values.reordering[row, column] += options.reordering[last, column]
            for word in options.target[options.offsets[option] : options.offsets[option + 1]]:
                score, new_length = score_word(tables, context, length, word)
                log_prob += score
                length = np.int64(new_length)
                for older in range(tables.order - 1, 0, -1):
                    context[older] = context[older - 1]
                context[0] = word
            before, after, last = start, end, option
        if last >= 0:
            score, new_length = score_word(tables, context, length, END)
            log_prob += score
        values.language_model[row] = log_prob * LN_10

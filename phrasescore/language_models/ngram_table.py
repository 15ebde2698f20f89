"""Hash table for the n-grams of backoff language models, with compiled look-ups.

Several models share one table. The words of each have ids of their own in it, so that no two models
have an n-gram in common.

The key of an n-gram is a hash of its words from last to first, as in KenLM's probing model, because
scoring looks up the suffix of an n-gram before the n-gram. Two n-grams with the same key would be
confused; among 50 million n-grams the probability of a collision is below 1 in 10,000.

The search recombines the same hypotheses as Moses because it uses KenLM's states, and KenLM's
probabilities for *blanks*: n-grams that the file lacks although it has a longer n-gram with them as
its suffix (lm/model.cc, lm/search_hashed.cc).
"""

from typing import Any, NamedTuple

import numpy as np

from phrasescore.io.hashing import combine, find, make_table
from phrasescore.io.kernel_cache import kept_njit

MAX_ORDER = 16
UNKNOWN, BEGIN, END = range(3)  # ids of <unk>, <s> and </s>

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio

KERNEL = kept_njit()


class NgramTables(NamedTuple):
    """Language models as arrays; all logarithms are base 10.

    A backoff of -0.0 marks an n-gram that is not the beginning of a longer one; states omit it.
    """

    order: int  # the highest of all models
    # int32 (models, words + 1): a word's id in each model; the last column has the id of <unk>.
    # None if words are given as the ids of the only model: the compiler omits the look-up.
    ids: Any
    unigram_log_probs: Any  # float32, by a model's id
    unigram_backoffs: Any
    keys: Any  # uint64 (slots, 2): a table of the longer n-grams, see `phrasescore.io.hashing`
    values: Any  # float32 (slots, 4), the same memory; columns 2 and 3: log probability, backoff


def make_tables(num_ngrams: int) -> NgramTables:
    """Return tables of no model with room for ``num_ngrams`` n-grams of two or more words."""
    unigrams = np.empty(0, np.float32)
    keys = make_table(num_ngrams, 2)
    return NgramTables(1, None, unigrams, unigrams, keys, keys.view(np.float32))


@KERNEL
def first_hash(word: Any) -> Any:
    """Return the hash of a single word, the last word of an n-gram."""
    return np.uint64(word + 1) * _GOLDEN


@KERNEL
def longer_hash(suffix: Any, word: Any) -> Any:
    """Return the hash of an n-gram from its first word and the hash of all its other words."""
    return combine(suffix, np.uint64(word + 1))


@KERNEL
def _row_of(ids: Any, model: int) -> Any:
    """Return a model's row in `NgramTables.ids`."""
    if ids is None:
        return None
    return ids[model]


@KERNEL
def _id_in(ids: Any, word: Any, num_words: int) -> Any:
    """Return a model's id of a word, given the model's row and number of words."""
    if ids is None:
        return np.int64(word) if word < num_words else UNKNOWN
    return np.int64(ids[min(word, len(ids) - 1)])


@KERNEL
def extends(backoff: Any) -> Any:
    """Return whether a longer n-gram begins with the one whose backoff this is (not -0.0)."""
    return backoff != 0.0 or np.copysign(1.0, backoff) > 0.0


@KERNEL
def score_word(tables: Any, model: int, context: Any, length: int, word: int) -> tuple[float, int]:
    """Return log10 p(word | context) and the length of the state after the word.

    The new state consists of the word and the first ``new length - 1`` words of the context. As in
    KenLM, it omits words that cannot affect later scores. A word that is not in the model is scored
    as ``<unk>``.

    :param model: the index of the model.
    :param context: int32; the state before the word, with the latest word first. At the beginning
        of a sentence the state is ``<s>``, with length 1.
    :param length: the number of words in the context, less than the order.
    """
    ids, keys, values = _row_of(tables.ids, model), tables.keys, tables.values
    unigram_backoffs, num_words = tables.unigram_backoffs, len(tables.unigram_backoffs)
    own = _id_in(ids, word, num_words)
    log_prob = np.float64(tables.unigram_log_probs[own])
    new_length = 1 if extends(unigram_backoffs[own]) else 0
    matched = 1  # length of the longest n-gram found
    key = first_hash(own)
    for position in range(length):
        key = longer_hash(key, _id_in(ids, context[position], num_words))
        slot = find(keys, key)
        if slot < 0:
            break
        log_prob = np.float64(values[slot, 2])
        matched = position + 2
        if extends(values[slot, 3]):
            new_length = matched
    if matched <= length:
        # The backoffs for the latest ``matched`` to ``length`` words in the context.
        latest = _id_in(ids, context[0], num_words)
        key = first_hash(latest)
        total = np.float64(unigram_backoffs[latest]) if matched == 1 else 0.0
        for position in range(1, length):
            key = longer_hash(key, _id_in(ids, context[position], num_words))
            if position + 1 >= matched:
                slot = find(keys, key)
                if slot < 0:
                    break
                total += values[slot, 3]
        log_prob += total
    return log_prob, new_length


@KERNEL
def score_next(tables: Any, context: Any, lengths: Any, word: int, log_probs: Any) -> None:
    """Score a word with all models, and insert it into the context in place.

    :param lengths: int64 (models,); see :func:`score_word`. The new lengths replace them.
    :param log_probs: float64 (models,): the results.
    """
    for model in range(len(lengths)):
        log_probs[model], lengths[model] = score_word(tables, model, context, lengths[model], word)
    for position in range(tables.order - 1, 0, -1):
        context[position] = context[position - 1]
    context[0] = word

"""Minimum Bayes risk: the translation closest to all others that the model finds likely.

Kumar and Byrne (2004), Minimum Bayes-Risk Decoding for Statistical Machine Translation, with
smoothed sentence BLEU as the gain and the hypotheses of a list both as choices and as evidence.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tuning.bleu import NUM_STATISTICS, REFERENCE_LENGTH, TOTALS, sentence_bleu
from tuning.metric import Statistics
from tuning.ngrams import MAX_ORDER, Integers, NgramIndex, count_ngrams

# Sentences whose gains are computed at a time: so that memory does not grow with the square.
_ROWS = 256


def posterior(scores: Statistics, scale: float) -> Statistics:
    """Return softmax(scale * score) of the hypotheses of a list; their sum is 1.

    :param scores: the model's, natural logarithms up to a constant. Identical translations that
        the decoder built in several ways each have a share.
    :param scale: above 0; small makes all hypotheses alike, large leaves only the best.
    """
    weights = np.exp(scale * (scores - scores.max()))
    return np.asarray(weights / weights.sum())


def expected_gains(sentences: Sequence[Sequence[str]], probabilities: Statistics) -> Statistics:
    """Return the expected smoothed BLEU of each sentence, 0 to 1, over all as references.

    The gain is `tuning.bleu.sentence_bleu`, as in Moses' ``-mbr`` (moses/mbr.cpp); against
    itself a sentence has 1, even an empty one. Time grows with the square of the number of
    sentences.

    :param sentences: words, each sentence once.
    :param probabilities: of each; their sum is 1.
    :return: (sentences,); the greatest is the choice.
    """
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    index = NgramIndex(sentences)
    counts = [
        _unary_counts(len(sentences), size, *count_ngrams(ngrams, size))
        for ngrams, size in zip(index.ngrams, index.sizes, strict=True)
    ]
    expected = np.empty(len(sentences))
    for begin in range(0, len(sentences), _ROWS):
        rows = slice(begin, begin + _ROWS)
        statistics = np.empty((len(lengths[rows]), len(sentences), NUM_STATISTICS))
        for order, matrix in enumerate(counts):
            statistics[..., order] = matrix[rows] @ matrix.T
        totals = np.maximum(lengths[rows, None] - np.arange(MAX_ORDER), 0)
        statistics[..., TOTALS] = totals[:, None, :]
        statistics[..., REFERENCE_LENGTH] = lengths
        gains = sentence_bleu(statistics)
        own = np.arange(len(gains))
        gains[own, begin + own] = 1.0  # n-grams of one sentence alone were not counted
        expected[rows] = (gains * probabilities).sum(axis=1)
    return expected


def _unary_counts(
    num_sentences: int, size: int, sentences: Integers, ids: Integers, counts: Integers
) -> NDArray[np.float32]:
    """Return counts as rows of 0 and 1: column (n-gram, k) says whether it stands there k times.

    Then the product of two rows is the clipped number of common n-grams, min(count, count) summed,
    and a matrix product gives it for all pairs at once. Whole numbers up to 2^24 are exact in
    float32. Columns with a single 1 are left out.
    """
    parts = []
    for least in range(1, int(counts.max(initial=0)) + 1):
        enough = counts >= least
        columns = ids[enough]
        shared = np.bincount(columns, minlength=size) > 1
        kept = shared[columns]
        part = np.zeros((num_sentences, int(shared.sum())), np.float32)
        part[sentences[enough][kept], (np.cumsum(shared) - 1)[columns[kept]]] = 1.0
        parts.append(part)
    return np.concatenate(parts, axis=1) if parts else np.zeros((num_sentences, 0), np.float32)

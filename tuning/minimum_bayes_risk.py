"""Minimum Bayes risk: the translation closest to all others that the model finds likely.

Kumar and Byrne (2004), Minimum Bayes-Risk Decoding for Statistical Machine Translation, with
smoothed sentence BLEU or chrF as the gain. The hypotheses of a list are both choices and evidence.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from tuning import bleu, chrf
from tuning.metric import Statistics
from tuning.ngrams import MAX_ORDER, Integers, NgramIndex, count_ngrams, sentence_lengths
from tuning.settings import MetricName

_Matches = NDArray[np.float32]

# The number of likeliest sentences that are evidence; Moses takes 200 (-mbr-size).
MAX_EVIDENCE = 1000
# Sentences whose gains are computed at a time.
_ROWS = 256


def posterior(scores: Statistics, scale: float) -> Statistics:
    """Return softmax(scale * score) of the hypotheses of a list.

    :param scores: model scores, natural logarithms up to a constant. Each derivation of the same
        translation has a share.
    :param scale: above 0; a small one makes all hypotheses alike, a large one favours the best.
    """
    weights = np.exp(scale * (scores - scores.max()))
    return np.asarray(weights / weights.sum())


def expected_gains(
    sentences: Sequence[Sequence[str]], probabilities: Statistics, *, metric: MetricName = "bleu"
) -> Statistics:
    """Return the expected gain of each sentence, 0 to 1, with all sentences as references.

    The gain is `tuning.bleu.sentence_bleu`, as in Moses' ``-mbr`` (moses/mbr.cpp), or the chrF of a
    sentence (`tuning.chrf.chrf`; sacrebleu's sentence_chrf). It is 1 for a sentence against itself,
    even an empty one. Only the likeliest 1,000 sentences are references, so time grows linearly
    with the number of sentences.

    :param sentences: distinct sentences.
    :param probabilities: the sentences' probabilities; their sum is 1.
    """
    references = np.sort(np.argsort(-probabilities, kind="stable")[:MAX_EVIDENCE])
    shares = probabilities[references]
    if len(references) < len(sentences):
        shares /= shares.sum()
    texts = [chrf.characters(words) for words in sentences] if metric == "chrf" else sentences
    gains_of = _chrf_gains if metric == "chrf" else _bleu_gains
    max_order = chrf.CHARACTER_ORDER if metric == "chrf" else MAX_ORDER
    index = NgramIndex(texts, max_order=max_order)
    counts = [
        _unary_counts((len(texts), size), *count_ngrams(ngrams, size))
        for ngrams, size in zip(index.ngrams, index.sizes, strict=True)
    ]
    totals = np.maximum(sentence_lengths(texts)[:, None] - np.arange(max_order), 0)
    reference_counts = [matrix[references].T.tocsr() for matrix in counts]
    expected = np.empty(len(texts))
    for begin in range(0, len(texts), _ROWS):
        rows = slice(begin, begin + _ROWS)
        pairs = zip(counts, reference_counts, strict=True)
        matches = [(matrix[rows] @ columns).toarray() for matrix, columns in pairs]
        gains = gains_of(matches, totals[rows], totals[references])
        own = (references >= begin) & (references < begin + _ROWS)
        gains[references[own] - begin, own] = 1.0  # n-grams of a single sentence were not counted
        expected[rows] = (gains * shares).sum(axis=1)
    return expected


def _bleu_gains(matches: Sequence[_Matches], rows: Integers, columns: Integers) -> Statistics:
    """Return the BLEU of each row's sentence against each column's: (rows, columns).

    ``matches`` has the number of common n-grams, (rows, columns), for each order; ``rows`` and
    ``columns`` have the n-grams of the sentences, (rows, orders) and (columns, orders).
    """
    statistics = np.empty((len(rows), len(columns), bleu.NUM_STATISTICS))
    for order, common in enumerate(matches):
        statistics[..., order] = common
    statistics[..., bleu.TOTALS] = rows[:, None]
    statistics[..., bleu.REFERENCE_LENGTH] = columns[:, 0]
    return bleu.sentence_bleu(statistics)


def _chrf_gains(matches: Sequence[_Matches], rows: Integers, columns: Integers) -> Statistics:
    """Return the chrF of each row's sentence against each column's, see `_bleu_gains`.

    It equals `tuning.chrf.chrf` bit for bit, several times as fast as statistics of all pairs.
    """
    precision, recall = np.zeros((2, len(rows), len(columns)))
    for order, common in enumerate(matches):
        precision += common / np.maximum(rows[:, order, None], 1)
        recall += common / np.maximum(columns[:, order], 1)
    shared = np.minimum((rows > 0).sum(axis=1)[:, None], (columns > 0).sum(axis=1))
    orders = np.maximum(shared, 1)
    return chrf.f_score(precision / orders, recall / orders)


def _unary_counts(
    shape: tuple[int, int], sentences: Integers, ids: Integers, counts: Integers
) -> csr_array:
    """Return counts as rows of 0 and 1: column (n-gram, k) is 1 if the count is at least k.

    The product of two rows is then the clipped number of common n-grams, the sum of min(count,
    count), and a matrix product computes it for all pairs. Integers up to 2^24 are exact in
    float32. N-grams of a single sentence are left out.

    :param shape: numbers of sentences and of distinct n-grams.
    """
    parts = [csr_array(shape, dtype=np.float32)]
    for least in range(1, int(counts.max(initial=0)) + 1):
        kept = counts >= least
        kept[kept] = (np.bincount(ids[kept], minlength=shape[1]) > 1)[ids[kept]]
        ones = np.ones(int(kept.sum()), np.float32)
        parts.append(csr_array((ones, (sentences[kept], ids[kept])), shape))
    return hstack(parts, format="csr")

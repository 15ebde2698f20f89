"""Minimum Bayes risk: the translation closest to all others that the model finds likely.

Kumar and Byrne (2004), Minimum Bayes-Risk Decoding for Statistical Machine Translation, with
smoothed sentence BLEU or chrF as the gain and the hypotheses of a list both as choices and as
evidence.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from tuning import bleu, chrf
from tuning.metric import Statistics
from tuning.ngrams import MAX_ORDER, Integers, NgramIndex, count_ngrams
from tuning.settings import MetricName

_Matches = NDArray[np.float32]

# The likeliest sentences of a list, which are the evidence; Moses takes 200 (-mbr-size).
MAX_EVIDENCE = 1000
# Sentences whose gains are computed at a time.
_ROWS = 256


def posterior(scores: Statistics, scale: float) -> Statistics:
    """Return softmax(scale * score) of the hypotheses of a list; their sum is 1.

    :param scores: the model's, natural logarithms up to a constant. Identical translations that
        the decoder built in several ways each have a share.
    :param scale: above 0; small makes all hypotheses alike, large leaves only the best.
    """
    weights = np.exp(scale * (scores - scores.max()))
    return np.asarray(weights / weights.sum())


def expected_gains(
    sentences: Sequence[Sequence[str]], probabilities: Statistics, *, metric: MetricName = "bleu"
) -> Statistics:
    """Return the expected gain of each sentence, 0 to 1, over all as references.

    The gain is `tuning.bleu.sentence_bleu`, as in Moses' ``-mbr`` (moses/mbr.cpp), or the chrF of a
    sentence (`tuning.chrf.chrf`; sacrebleu's sentence_chrf). Against itself a sentence has 1, even
    an empty one. Of more than 1,000 sentences the likeliest 1,000 are the references; so time grows
    with the number of sentences, and not with its square.

    :param sentences: words, each sentence once.
    :param probabilities: of each; their sum is 1.
    :return: (sentences,); the greatest is the choice.
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
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    totals = np.maximum(lengths[:, None] - np.arange(max_order), 0)
    of_references = [matrix[references].T.tocsr() for matrix in counts]
    expected = np.empty(len(texts))
    for begin in range(0, len(texts), _ROWS):
        rows = slice(begin, begin + _ROWS)
        pairs = zip(counts, of_references, strict=True)
        matches = [(matrix[rows] @ columns).toarray() for matrix, columns in pairs]
        gains = gains_of(matches, totals[rows], totals[references])
        own = (references >= begin) & (references < begin + _ROWS)
        gains[references[own] - begin, own] = 1.0  # n-grams of one sentence alone were not counted
        expected[rows] = (gains * shares).sum(axis=1)
    return expected


def _bleu_gains(matches: Sequence[_Matches], rows: Integers, columns: Integers) -> Statistics:
    """Return the BLEU of each row's sentence against each column's: (rows, columns).

    :param matches: of each order the n-grams in common, (rows, columns).
    :param rows: n-grams of the rows' sentences, (rows, orders); ``columns``: of the others.
    """
    statistics = np.empty((len(rows), len(columns), bleu.NUM_STATISTICS))
    for order, common in enumerate(matches):
        statistics[..., order] = common
    statistics[..., bleu.TOTALS] = rows[:, None]
    statistics[..., bleu.REFERENCE_LENGTH] = columns[:, 0]
    return bleu.sentence_bleu(statistics)


def _chrf_gains(matches: Sequence[_Matches], rows: Integers, columns: Integers) -> Statistics:
    """Return the chrF of each row's sentence against each column's, as `_bleu_gains` does.

    It is `tuning.chrf.chrf`, bit for bit; to lay out the statistics of all pairs for it would take
    several times as long.
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
    """Return counts as rows of 0 and 1: column (n-gram, k) says whether it stands there k times.

    Then the product of two rows is the clipped number of common n-grams, min(count, count) summed,
    and a matrix product gives it for all pairs at once. Whole numbers up to 2^24 are exact in
    float32. What only one sentence has is left out.

    :param shape: sentences, and the n-grams that there are.
    """
    parts = [csr_array(shape, dtype=np.float32)]
    for least in range(1, int(counts.max(initial=0)) + 1):
        kept = counts >= least
        kept[kept] = (np.bincount(ids[kept], minlength=shape[1]) > 1)[ids[kept]]
        ones = np.ones(int(kept.sum()), np.float32)
        parts.append(csr_array((ones, (sentences[kept], ids[kept])), shape))
    return hstack(parts, format="csr")

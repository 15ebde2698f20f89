"""Choices from n-best lists by other means than weights: the oracle, and minimum Bayes risk.

The oracle knows the references. Minimum Bayes risk chooses the translation closest to all others
that the model finds likely: Kumar and Byrne (2004), Minimum Bayes-Risk Decoding for Statistical
Machine Translation, with smoothed sentence BLEU or chrF as the gain. The hypotheses of a list are
both choices and evidence.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from tuning.metrics import (
    CHARACTER_ORDER,
    REFERENCE_LENGTH,
    TOTALS,
    BleuScore,
    CorpusBleu,
    Statistics,
    bleu,
    characters,
    f_score,
    sentence_bleu,
)
from tuning.ngrams import (
    MAX_ORDER,
    Integers,
    NgramCounts,
    NgramIndex,
    count_ngrams,
    sentence_lengths,
)
from tuning.settings import MetricName

_Matches = NDArray[np.float32]

# More rounds than any climb has needed; each round raises BLEU.
MAX_ROUNDS = 100
# The number of likeliest sentences that are evidence; Moses takes 200 (-mbr-size).
MAX_EVIDENCE = 1000
# Sentences whose gains are computed at a time.
_ROWS = 256


def oracle_rows(statistics: Statistics, segments: Integers) -> Integers:
    """Choose a hypothesis per sentence so that corpus BLEU is high; return their rows.

    Corpus BLEU is not a sum over sentences, so the best choice cannot be found sentence by
    sentence. A climb visits the sentences in turn and gives each the hypothesis with which the
    whole corpus scores highest while all others stay, the earliest of equals, until a whole round
    changes nothing. One climb starts from the first hypothesis of each list, another from the best
    smoothed sentence BLEU, and the better one counts. The result is a lower bound of the optimum;
    on lists small enough for trying every choice, it mostly is the optimum.

    :param segments: the segment of each hypothesis, in ascending order.
    """
    if not len(segments):
        raise ValueError("expected at least one hypothesis")
    begins = np.flatnonzero(np.diff(segments, prepend=segments[0] - 1))
    ends = np.append(begins[1:], len(segments))
    smoothed = sentence_bleu(statistics)
    best = [
        begin + int(smoothed[begin:end].argmax()) for begin, end in zip(begins, ends, strict=True)
    ]
    climbs = [_climb(statistics, begins, ends, start) for start in (begins, np.array(best))]
    return max(climbs, key=lambda chosen: BleuScore.of(statistics[chosen].sum(axis=0)).bleu)


def _climb(statistics: Statistics, begins: Integers, ends: Integers, start: Integers) -> Integers:
    chosen = start.copy()
    total = statistics[chosen].sum(axis=0)
    for _ in range(MAX_ROUNDS):
        changed = False
        for segment, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            others = total - statistics[chosen[segment]]
            sums = others + statistics[begin:end]
            scores = bleu(sums)
            if not scores.any():  # so that a climb can leave 0
                scores = sentence_bleu(sums) - 1.0
            better = begin + int(scores.argmax())
            if scores[better - begin] > scores[chosen[segment] - begin]:
                chosen[segment] = better
                total = others + statistics[better]
                changed = True
        if not changed:
            break
    return chosen


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

    The gain is `tuning.metrics.sentence_bleu`, as in Moses' ``-mbr`` (moses/mbr.cpp), or the chrF
    of a sentence (`tuning.metrics.chrf`; sacrebleu's sentence_chrf). It is 1 for a sentence against
    itself, even an empty one. Only the likeliest 1,000 sentences are references, so time grows
    linearly with the number of sentences.

    :param sentences: distinct sentences.
    :param probabilities: the sentences' probabilities; their sum is 1.
    """
    references = np.sort(np.argsort(-probabilities, kind="stable")[:MAX_EVIDENCE])
    shares = probabilities[references]
    if len(references) < len(sentences):
        shares /= shares.sum()
    texts: Sequence[Sequence[str]] = sentences
    gains_of, max_order = _bleu_gains, MAX_ORDER
    if metric == "chrf":
        gains_of, max_order, texts = _chrf_gains, CHARACTER_ORDER, [*map(characters, sentences)]
    index = NgramIndex(texts, max_order=max_order)
    counts = [
        _unary_counts((len(texts), size), count_ngrams(ngrams, size))
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
    statistics = np.empty((len(rows), len(columns), CorpusBleu.num_stats))
    for order, common in enumerate(matches):
        statistics[..., order] = common
    statistics[..., TOTALS] = rows[:, None]
    statistics[..., REFERENCE_LENGTH] = columns[:, 0]
    return sentence_bleu(statistics)


def _chrf_gains(matches: Sequence[_Matches], rows: Integers, columns: Integers) -> Statistics:
    """Return the chrF of each row's sentence against each column's, see `_bleu_gains`.

    It equals `tuning.metrics.chrf` bit for bit, several times as fast as statistics of all pairs.
    """
    precision, recall = np.zeros((2, len(rows), len(columns)))
    for order, common in enumerate(matches):
        precision += common / np.maximum(rows[:, order, None], 1)
        recall += common / np.maximum(columns[:, order], 1)
    shared = np.minimum((rows > 0).sum(axis=1)[:, None], (columns > 0).sum(axis=1))
    orders = np.maximum(shared, 1)
    return f_score(precision / orders, recall / orders)


def _unary_counts(shape: tuple[int, int], ngrams: NgramCounts) -> csr_array:
    """Return counts as rows of 0 and 1: column (n-gram, k) is 1 if the count is at least k.

    The product of two rows is then the clipped number of common n-grams, the sum of min(count,
    count), and a matrix product computes it for all pairs. Integers up to 2^24 are exact in
    float32. N-grams of a single sentence are left out.

    :param shape: numbers of sentences and of distinct n-grams.
    """
    parts = [csr_array(shape, dtype=np.float32)]
    for least in range(1, int(ngrams.counts.max(initial=0)) + 1):
        kept = ngrams.counts >= least
        kept[kept] = (np.bincount(ngrams.ids[kept], minlength=shape[1]) > 1)[ngrams.ids[kept]]
        ones = np.ones(int(kept.sum()), np.float32)
        parts.append(csr_array((ones, (ngrams.sentences[kept], ngrams.ids[kept])), shape))
    return hstack(parts, format="csr")

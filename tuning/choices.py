"""Selection from n-best lists with an oracle or by minimum Bayes risk.

The oracle uses the references. Minimum Bayes risk selects the translation most similar to the other
likely translations under the model: Kumar and Byrne (2004), Minimum Bayes-Risk Decoding for
Statistical Machine Translation, with smoothed sentence BLEU or chrF as the gain. The hypotheses in
a list serve as both candidates and evidence.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tuning import metrics
from tuning.metrics import BleuScore, CorpusBleu, Statistics
from tuning.ngrams import (
    MAX_ORDER,
    Integers,
    NgramCounts,
    NgramIndex,
    count_ngrams,
    sentence_lengths,
)
from tuning.settings import GainName

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_Matches = NDArray[np.float32]

MAX_ROUNDS = 100  # rounds of a climb, more than were ever needed; each round raises BLEU
MAX_EVIDENCE = 1000  # sentences used as evidence, the most likely ones; Moses: 200 (-mbr-size)
_ROWS = 256  # number of sentences whose gains are computed at a time


def oracle_rows(statistics: Statistics, segments: Integers) -> Integers:
    """Choose a hypothesis per sentence so that corpus BLEU is high; return their rows.

    Corpus BLEU is not a sum over sentences, so the best choice cannot be found sentence by
    sentence. Instead, coordinate ascent visits the sentences in turn. It selects the hypothesis
    that gives the highest corpus score while all other sentences remain fixed, the earliest on
    ties, until a round changes nothing. One ascent starts from the first hypothesis in each list
    and another from the best smoothed sentence BLEU; the better result is returned. It is a lower
    bound on the optimum. On lists small enough for exhaustive search, it is usually the optimum.

    :param segments: the segment of each hypothesis, in ascending order.
    """
    begins = np.flatnonzero(np.diff(segments, prepend=segments[0] - 1))
    ends = np.append(begins[1:], len(segments))
    smoothed = metrics.sentence_bleu(statistics)
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
            scores = metrics.bleu(sums)
            if not scores.any():  # so that the ascent can get away from 0
                scores = metrics.sentence_bleu(sums) - 1.0
            better = begin + int(scores.argmax())
            if scores[better - begin] > scores[chosen[segment] - begin]:
                chosen[segment] = better
                total = others + statistics[better]
                changed = True
        if not changed:
            break
    return chosen


def posterior(scores: Statistics, scale: float) -> Statistics:
    """Return softmax(scale * score) over the hypotheses in a list.

    :param scores: model scores, natural logarithms up to a constant. Derivations of the same
        translation are separate hypotheses.
    :param scale: above 0. Small values flatten the distribution; large values favour the best
        hypothesis.
    """
    weights = np.exp(scale * (scores - scores.max()))
    return np.asarray(weights / weights.sum())


def expected_gains(
    sentences: Sequence[Sequence[str]], probabilities: Statistics, *, metric: GainName = "bleu"
) -> Statistics:
    """Return the expected gain of each sentence, 0 to 1, using all sentences as references.

    The gain is `tuning.metrics.sentence_bleu`, as in Moses' ``-mbr`` (moses/mbr.cpp), or sentence
    chrF (`tuning.metrics.chrf`; sentence_chrf in sacrebleu). The gain of a sentence against itself
    is 1, even if it is empty. Only the 1,000 most likely sentences are references, so time grows
    linearly with the number of sentences, which are distinct.
    """
    references, shares = _evidence(probabilities)
    texts: Sequence[Sequence[str]] = sentences
    gains_of, max_order = _bleu_gains, MAX_ORDER
    if metric == "chrf":
        gains_of, max_order, texts = (
            _chrf_gains,
            metrics.CHARACTER_ORDER,
            [*map(metrics.characters, sentences)],
        )
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
        gains[references[own] - begin, own] = 1.0  # n-grams in only one sentence were not counted
        expected[rows] = (gains * shares).sum(axis=1)
    return expected


def _evidence(probabilities: Statistics) -> tuple[Integers, Statistics]:
    """Return the indices of the most likely sentences, and their probabilities."""
    references = np.sort(np.argsort(-probabilities, kind="stable")[:MAX_EVIDENCE])
    shares = probabilities[references]
    if len(references) < len(probabilities):
        shares /= shares.sum()
    return references, shares


def _bleu_gains(matches: Sequence[_Matches], rows: Integers, columns: Integers) -> Statistics:
    """Return the BLEU of each row's sentence against each column's sentence: (rows, columns).

    :param matches: for each order, the number of common n-grams, (rows, columns).
    :param rows: the number of n-grams in each row's sentence: (rows, orders).
    :param columns: the number of n-grams in each column's sentence: (columns, orders).
    """
    statistics = np.empty((len(rows), len(columns), CorpusBleu.num_stats))
    for order, common in enumerate(matches):
        statistics[..., order] = common
    statistics[..., metrics.TOTALS] = rows[:, None]
    statistics[..., metrics.REFERENCE_LENGTH] = columns[:, 0]
    return metrics.sentence_bleu(statistics)


def _chrf_gains(matches: Sequence[_Matches], rows: Integers, columns: Integers) -> Statistics:
    """Return the chrF of each row's sentence against each column's, as `tuning.metrics.chrf`."""
    precision, recall = np.zeros((2, len(rows), len(columns)))
    for order, common in enumerate(matches):
        precision += common / np.maximum(rows[:, order, None], 1)
        recall += common / np.maximum(columns[:, order], 1)
    shared = np.minimum((rows > 0).sum(axis=1)[:, None], (columns > 0).sum(axis=1))
    orders = np.maximum(shared, 1)
    return metrics.f_score(precision / orders, recall / orders)


def _unary_counts(shape: tuple[int, int], ngrams: NgramCounts) -> "csr_array":
    """Return counts in unary: in each row, column (n-gram, k) is 1 if the count is at least k.

    The dot product of two rows is the number of common n-grams, the sum of min(count, count). A
    matrix product computes it for all pairs. Integers up to 2^24 are exact in float32. N-grams
    that occur in only one sentence are omitted.

    :param shape: the number of sentences and the number of distinct n-grams.
    """
    from scipy.sparse import csr_array, hstack

    parts = [csr_array(shape, dtype=np.float32)]
    for least in range(1, int(ngrams.counts.max(initial=0)) + 1):
        kept = ngrams.counts >= least
        kept[kept] = (np.bincount(ngrams.ids[kept], minlength=shape[1]) > 1)[ngrams.ids[kept]]
        ones = np.ones(int(kept.sum()), np.float32)
        parts.append(csr_array((ones, (ngrams.sentences[kept], ngrams.ids[kept])), shape))
    return hstack(parts, format="csr")

"""Metrics: the figures of independent slow implementations, and of sacrebleu to the last bit."""

import math
import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import sacrebleu

from tuning.metrics import (
    MAX_ORDER,
    Bleu,
    BleuScore,
    CorpusBleu,
    NgramIndex,
    bleu,
    count_ngrams,
    sentence_bleu,
)

Words = Sequence[str]


def ngrams(words: Words, n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[at : at + n]) for at in range(len(words) - n + 1))


def slow_statistics(hypothesis: Words, references: Sequence[Words]) -> list[float]:
    """Papineni et al. (2002), section 2, with counters of strings."""
    matches, totals = [], []
    for n in range(1, MAX_ORDER + 1):
        highest: Counter[tuple[str, ...]] = Counter()
        for reference in references:
            highest |= ngrams(reference, n)
        matches.append(sum((ngrams(hypothesis, n) & highest).values()))
        totals.append(max(len(hypothesis) - n + 1, 0))
    lengths = sorted(map(len, references))
    closest = min(lengths, key=lambda length: abs(length - len(hypothesis)))
    return [*matches, *totals, closest]


def random_sentences(random_numbers: random.Random, how_many: int) -> list[list[str]]:
    """Few words, so that n-grams repeat; some sentences are empty."""
    return [
        random_numbers.choices("abcd", k=random_numbers.choice([0, 1, 2, 3, 5, 8, 13]))
        for _ in range(how_many)
    ]


@pytest.mark.parametrize("num_references", [1, 2, 4])
def test_the_statistics_are_those_of_a_slow_implementation(num_references: int) -> None:
    numbers = random.Random(num_references)
    references = [random_sentences(numbers, 20) for _ in range(num_references)]
    hypotheses = random_sentences(numbers, 300)
    segments = [numbers.randrange(20) for _ in hypotheses]
    found = Bleu(references).statistics([[*words, "new"] for words in hypotheses], segments)
    expected = [
        slow_statistics([*words, "new"], [reference[segment] for reference in references])
        for words, segment in zip(hypotheses, segments, strict=True)
    ]
    assert found.tolist() == expected


def test_a_match_counts_as_often_as_a_single_reference_has_it() -> None:
    # Papineni et al. (2002), section 2.1, example 2: clipped unigram precision 2/7.
    references = [
        [["the", "cat", "is", "on", "the", "mat"]],
        [["there", "is", "a", "cat", "on", "the", "mat"]],
    ]
    (found,) = Bleu(references).statistics([["the", "the", "the", "the", "the", "the", "the"]], [0])
    assert found.tolist() == [2, 0, 0, 0, 7, 6, 5, 4, 7]


def test_of_two_references_equally_close_the_shorter_one_counts() -> None:
    # 5 words are as near to 4 as to 6: of equals the shorter counts, as in multi-bleu.perl.
    metric = Bleu([[["a"] * 6], [["a"] * 4]])
    assert metric.statistics([["a"] * 5], [0])[0, -1] == 4


def test_the_closest_reference_may_be_the_longest() -> None:
    assert Bleu([[["a"] * 9], [["a"] * 4]]).statistics([["a"] * 8], [0])[0, -1] == 9


def test_n_grams_do_not_cross_the_end_of_a_sentence() -> None:
    index = NgramIndex([["a", "b"], [], ["c", "a", "b"]])
    assert index.sizes == [3, 2, 1, 0]
    bigrams = index.ngrams[1]
    assert bigrams.sentences.tolist() == [0, 2, 2]
    assert bigrams.ids[0] == bigrams.ids[2] != bigrams.ids[1]


def test_counts_are_by_sentence_and_n_gram() -> None:
    index = NgramIndex([["a", "b", "a"], ["b"]])
    counted = [values.tolist() for values in count_ngrams(index.ngrams[0], index.sizes[0])]
    assert counted == [[0, 0, 1], [0, 1, 1], [2, 1, 1]]


def test_corpus_bleu_is_sacrebleu_s_unsmoothed_and_untokenised() -> None:
    for seed in range(20):
        numbers = random.Random(seed)
        references = [random_sentences(numbers, 30) for _ in range(2)]
        hypotheses = random_sentences(numbers, 30)
        sums = Bleu(references).statistics(hypotheses, range(30)).sum(axis=0)
        theirs = sacrebleu.corpus_bleu(
            [" ".join(words) for words in hypotheses],
            [[" ".join(words) for words in segments] for segments in references],
            tokenize="none",
            smooth_method="none",
            force=True,
        )
        ours = BleuScore.of(sums)
        assert 100 * ours.bleu == pytest.approx(theirs.score, abs=1e-9)
        assert 100 * float(bleu(sums)) == pytest.approx(theirs.score, abs=1e-9)
        assert [100 * precision for precision in ours.precisions] == pytest.approx(
            theirs.precisions
        )
        assert (ours.length, ours.reference_length) == (theirs.sys_len, theirs.ref_len)
        assert ours.brevity_penalty == pytest.approx(theirs.bp)


def test_bleu_of_many_sums_is_bleu_of_each() -> None:
    numbers = np.random.default_rng(1)
    sums = numbers.integers(0, 3, (50, 7, CorpusBleu.num_stats)).astype(float)
    sums[..., MAX_ORDER:] += 3
    each = [[BleuScore.of(row).bleu for row in rows] for rows in sums]
    np.testing.assert_allclose(bleu(sums), each, rtol=1e-12)
    assert (np.array(each) > 0).sum() > 10


@pytest.mark.parametrize(
    "sums",
    [
        [0, 0, 0, 0, 5, 4, 3, 2, 5],
        [5, 4, 3, 0, 5, 4, 3, 2, 5],
        [0, 0, 0, 0, 0, 0, 0, 0, 5],
        [0, 0, 0, 0, 0, 0, 0, 0, 0],
        [3, 2, 1, 0, 3, 2, 1, 0, 3],
    ],
)
def test_where_some_order_has_no_match_bleu_is_0(sums: list[float]) -> None:
    assert BleuScore.of(np.array(sums, float)).bleu == 0.0
    assert float(bleu(np.array(sums, float))) == 0.0


def test_the_line_is_multi_bleu_s_where_there_is_nothing_to_measure() -> None:
    # What multi-bleu.perl prints for an empty reference.
    empty = BleuScore.of(np.zeros(CorpusBleu.num_stats))
    assert str(empty) == "BLEU = 0, 0/0/0/0 (BP=0, ratio=0, hyp_len=0, ref_len=0)"


def test_sentence_bleu_adds_one_from_bigrams_on() -> None:
    # By hand: precisions 2/3, (1+1)/(2+1), (0+1)/(1+1), (0+1)/(0+1), brevity exp(1 - 4/3).
    statistics = Bleu([[["a", "b", "x", "y"]]]).statistics([["a", "b", "c"], [], ["z"]], [0, 0, 0])
    by_hand = (2 / 3 * 2 / 3 * 1 / 2 * 1) ** 0.25 * math.exp(1 - 4 / 3)
    assert sentence_bleu(statistics).tolist() == pytest.approx([by_hand, 0.0, 0.0])


def test_length_may_have_a_reward() -> None:
    # By hand: "a b c" against "a b" has 2/3, 2/3, 1/2 and 1; as short as "a" there is a penalty.
    statistics = Bleu([[["a", "b"]]]).statistics([["a", "b", "c"], ["a", "b"], ["a"]], [0, 0, 0])
    precisions = (2 / 3 * 2 / 3 * 1 / 2) ** 0.25
    rewarded = sentence_bleu(statistics, rewards_length=True)
    assert rewarded.tolist() == pytest.approx([precisions * math.exp(1 / 3), 1.0, math.exp(-1)])
    assert sentence_bleu(statistics)[0] == pytest.approx(precisions)


def test_references_without_any_word_match_nothing() -> None:
    found = Bleu([[[], []]]).statistics([["a"], []], [0, 1])
    assert found.tolist() == [[0, 0, 0, 0, 1, 0, 0, 0, 0], [0.0] * CorpusBleu.num_stats]

"""Promises of moses_integration.decoder.search: the best translations, and what they score."""

import math
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from moses_integration.decoder import search, stack_search
from moses_integration.decoder.options import SentenceOptions
from moses_integration.decoder.search import Derivation, StackDecoder
from moses_integration.decoder.search_tables import make_tables
from moses_integration.decoder.stack_kernels import Limits, offer, prune
from tests.moses_integration.decoder import small_decoder
from tests.moses_integration.decoder.given_derivations import score_derivation, values_by_name
from tests.moses_integration.decoder.small_decoder import (
    LastWords,
    SecondModel,
    SlowDerivation,
    SmallDecoder,
)

SENTENCES = ("abcd", "fade", "cab", "aaaa", "e")
LONG = "bedfacedabcafe"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallDecoder:
    return SmallDecoder(tmp_path_factory.mktemp("small"), seed=1)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> SmallDecoder:
    return SmallDecoder(tmp_path_factory.mktemp("several"), seed=2, models=3)


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> SmallDecoder:
    return SmallDecoder(tmp_path_factory.mktemp("larger"), seed=4, targets=8)


def is_same(found: Derivation, expected: SlowDerivation) -> bool:
    segments = tuple(segment[:3] for segment in found.segments)
    return segments == expected.segments and found.score == pytest.approx(expected.score, abs=1e-5)


@pytest.mark.parametrize("limit", [0, 2, -1])
@pytest.mark.parametrize("sentence", SENTENCES)
def test_without_limits_the_search_finds_the_best_of_all_derivations(
    small: SmallDecoder, sentence: str, limit: int
) -> None:
    best = small.derivations(sentence, limit)[0]  # brute force
    assert is_same(small.decoder(SENTENCES, limit=limit).translate(sentence), best)


@pytest.mark.parametrize("limit", [2, -1])
@pytest.mark.parametrize("sentence", SENTENCES)
def test_an_nbest_list_has_all_derivations_in_order(
    small: SmallDecoder, sentence: str, limit: int
) -> None:
    derivations = small.derivations(sentence, limit)  # brute force
    found = small.decoder(SENTENCES, limit=limit).translate(sentence, nbest=10**6).nbest
    expected = {derivation.segments: derivation.score for derivation in derivations}
    scores = {tuple(one[:3] for one in line.segments): line.score for line in found}
    assert len(scores) == len(found)
    assert scores == pytest.approx(expected, abs=1e-5)
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(scores.values()))


@pytest.mark.parametrize("settings", [{}, {"algorithm": 1, "pops": 10**6}])
@pytest.mark.parametrize("sentence", SENTENCES)
def test_several_language_models_score_every_derivation(
    several: SmallDecoder, sentence: str, settings: dict[str, Any]
) -> None:
    """They have other orders and other words; "u" and "v" are words of one of them."""
    derivations = several.derivations(sentence)  # brute force
    decoder = several.decoder(SENTENCES, **settings)
    found = decoder.translate(sentence, nbest=10**6).nbest
    expected = {derivation.segments: derivation.score for derivation in derivations}
    scores = {tuple(one[:3] for one in line.segments): line.score for line in found}
    assert scores == pytest.approx(expected, abs=1e-5)
    names = [slot.name for slot in several.configuration(**settings).slots]
    assert names[:5] == ["LexicalReordering0", "Distortion0", "LM0", "LM1", "LM2"]
    for line in found[::50]:
        values = dict(zip(names, (value[0] for value in line.values), strict=True))
        wanted = several.language_scores(line.words)
        assert {name: values[name] for name in wanted} == pytest.approx(wanted, abs=1e-5)


def test_other_features_go_with_several_language_models(several: SmallDecoder) -> None:
    derivations = several.derivations("abcd", context_weight=0.8)  # brute force
    decoder = several.decoder(SENTENCES, [(LastWords(), 0.8)])
    found = decoder.translate("abcd", nbest=10**6).nbest
    assert is_same(found[0], derivations[0])
    scores = [one.score for one in found]
    np.testing.assert_allclose(scores, [one.score for one in derivations], atol=1e-5)


@pytest.mark.parametrize("settings", [{"stack": 6}, {"algorithm": 1, "pops": 30}])
@pytest.mark.parametrize("parts", [(0.3, 0.4), (0.9, -0.2)])
def test_two_copies_of_a_model_are_one_with_the_sum_of_their_weights(
    larger: SmallDecoder,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    parts: tuple[float, float],
) -> None:
    once = larger.decoder([LONG], **settings).translate(LONG, nbest=200, distinct=True)
    monkeypatch.setitem(larger.models, "LM1", larger.models["LM0"])
    monkeypatch.setitem(small_decoder.WEIGHTS, "LM0", parts[:1])
    monkeypatch.setitem(small_decoder.WEIGHTS, "LM1", parts[1:])
    twice = larger.decoder([LONG], **settings).translate(LONG, nbest=200, distinct=True)
    assert [one.segments for one in twice.nbest] == [one.segments for one in once.nbest]
    totals = [one.score for one in twice.nbest]
    assert totals == pytest.approx([one.score for one in once.nbest], abs=1e-9)


def test_a_distinct_list_has_the_best_derivation_of_each_text(small: SmallDecoder) -> None:
    texts: dict[tuple[str, ...], SlowDerivation] = {}
    for derivation in small.derivations("abcd"):  # brute force
        texts.setdefault(derivation.words, derivation)
    expected = list(texts.values())[:40]
    found = small.decoder(SENTENCES).translate("abcd", nbest=40, distinct=True).nbest
    assert [one.words for one in found] == [one.words for one in expected]
    assert all(map(is_same, found, expected))


def test_the_first_of_the_list_is_the_translation(small: SmallDecoder) -> None:
    decoder = small.decoder(SENTENCES, stack=5)
    alone, listed = decoder.translate("abcd"), decoder.translate("abcd", nbest=3)
    assert alone.nbest == ()
    assert (alone.words, alone.score) == (listed.words, listed.score)
    assert listed.nbest[0].segments == listed.segments
    assert len(listed.nbest) == 3


@pytest.mark.parametrize("sentence", ["abcd", "cab"])
def test_another_feature_is_part_of_the_search(small: SmallDecoder, sentence: str) -> None:
    derivations = small.derivations(sentence, context_weight=0.8)  # brute force
    plain = small.derivations(sentence)
    order = [derivation.segments for derivation in derivations]
    assert order != [derivation.segments for derivation in plain]  # so it matters
    decoder = small.decoder(SENTENCES, [(LastWords(), 0.8)])
    found = decoder.translate(sentence, nbest=10**6).nbest
    assert len(found) == len(derivations)
    assert is_same(found[0], derivations[0])
    scores = [one.score for one in found]
    np.testing.assert_allclose(scores, [one.score for one in derivations], atol=1e-5)
    again = score_derivation(decoder, sentence, [one[:3] for one in found[7].segments])
    assert again.values[-1] == pytest.approx(found[7].values[-1])
    assert again.score == pytest.approx(found[7].score)


@pytest.mark.parametrize("stack", [3, 20])
def test_the_number_of_requests_per_call_changes_no_translation(
    larger: SmallDecoder, stack: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, calls = [], []
    for most in (1, 5, 1000):
        monkeypatch.setattr(stack_search, "_MOST_REQUESTS", most)
        feature = LastWords()
        decoder = larger.decoder([LONG], [(feature, 0.8)], stack=stack)
        results.append(decoder.translate(LONG, nbest=9))
        assert max(feature.sizes) <= most
        calls.append(len(feature.sizes))
    assert results[0] == results[1] == results[2]
    assert calls[0] > calls[1] > calls[2]


def test_fewer_candidates_are_fewer_requests(
    larger: SmallDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = []
    for candidates in (1, 10, 0):
        monkeypatch.setattr(stack_search, "_CANDIDATES", candidates)
        feature = LastWords()
        larger.decoder([LONG], [(feature, 0.8)], stack=5).translate(LONG)
        requests.append(sum(feature.sizes))
    assert requests[0] < requests[1] < requests[2]


def test_what_another_language_model_will_say_is_expected_of_words_still_to_come(
    larger: SmallDecoder,
) -> None:
    random = Random(4)
    sentences = [random.choices("abcdef", k=9) for _ in range(12)]

    def total(**settings: Any) -> float:
        features = [(SecondModel(larger), 2.0)]
        decoder = larger.decoder(sentences, features, limit=4, **settings)
        return sum(decoder.translate(sentence).score for sentence in sentences)

    best = total(stack=1000)
    blind, expecting = total(stack=3), total(stack=3, other_language_weight=2.0)
    assert blind < expecting < best
    # A loss of 31 where it was 56.
    assert best - expecting < 0.6 * (best - blind)
    # Scores are what they are without it.
    assert total(stack=1000, other_language_weight=2.0) == pytest.approx(best, abs=1e-9)


def test_a_larger_stack_finds_better_translations(larger: SmallDecoder) -> None:
    sizes = (1, 2, 5, 20)
    scores = [larger.decoder([LONG], stack=stack).translate(LONG).score for stack in sizes]
    assert scores == sorted(set(scores))
    # It loses nothing here: this is what no limit finds.
    assert scores[-1] == larger.decoder([LONG]).translate(LONG).score


def test_a_beam_leaves_out_what_is_much_worse(small: SmallDecoder) -> None:
    wide = small.decoder(SENTENCES, beam=1e-9).translate("abcd", nbest=10**6)
    narrow = small.decoder(SENTENCES, beam=0.1).translate("abcd", nbest=10**6)
    assert len(narrow.nbest) < len(wide.nbest)
    assert narrow.nbest[-1].score > narrow.score + math.log(0.1) - 1e-9


@pytest.mark.parametrize("sentence", SENTENCES)
def test_cube_pruning_without_limits_finds_all_derivations(
    small: SmallDecoder, sentence: str
) -> None:
    expected = small.decoder(SENTENCES).translate(sentence, nbest=10**6).nbest
    decoder = small.decoder(SENTENCES, algorithm=1, pops=10**6)
    found = decoder.translate(sentence, nbest=10**6).nbest
    assert {one.segments: one.score for one in found} == pytest.approx(
        {one.segments: one.score for one in expected}
    )


def test_cube_pruning_looks_at_no_more_than_its_limit_and_at_the_best_first(
    larger: SmallDecoder,
) -> None:
    scores, numbers = [], []
    for pops in (1, 20, 500):
        decoder = larger.decoder([LONG], algorithm=1, pops=pops)
        found = decoder.translate(LONG, nbest=10**4)
        scores.append(found.score)
        numbers.append(len(found.nbest))
    assert numbers == sorted(set(numbers))
    assert scores[0] < scores[1] <= scores[2] == larger.decoder([LONG]).translate(LONG).score


def test_cube_pruning_sends_requests_too(small: SmallDecoder) -> None:
    expected = small.derivations("cab", context_weight=0.8)[0]  # brute force
    decoder = small.decoder(SENTENCES, [(LastWords(), 0.8)], algorithm=1, pops=10**6)
    assert is_same(decoder.translate("cab"), expected)


def test_values_are_those_worked_out_by_hand(small: SmallDecoder) -> None:
    """Phrases 3, 1, 2 of three words: jumps of 2, 3 and 0; each after the one before it."""
    decoder = small.decoder(["abc"])
    chosen = [next(iter(small.table[(letter,)])) for letter in "cab"]
    segments = [(2, 3, chosen[0]), (0, 1, chosen[1]), (1, 2, chosen[2])]
    found = score_derivation(decoder, "abc", segments)
    values = values_by_name(decoder, found)
    assert values["Distortion0"] == (-5.0,)
    assert values["WordPenalty0"] == (-float(sum(map(len, chosen))),)
    assert values["PhrasePenalty0"] == (3.0,)
    assert values["UnknownWordPenalty0"] == (0.0,)
    logs = [np.log(small.table[(letter,)][target][1])
            for letter, target in zip("cab", chosen, strict=True)]  # fmt: skip
    # The first phrase does not begin the sentence: discontinuous (column 2). The second is
    # discontinuous, and the third monotone, to the one before; forward scores are the earlier
    # phrase's.
    expected = [logs[2][0], 0, logs[0][2] + logs[1][2], logs[1][3], 0, logs[0][5]]
    assert values["LexicalReordering0"] == pytest.approx(expected, abs=1e-6)


def test_a_phrase_before_the_last_one_is_a_swap(small: SmallDecoder) -> None:
    decoder = small.decoder(["ab"])
    first, second = next(iter(small.table[("b",)])), next(iter(small.table[("a",)]))
    found = score_derivation(decoder, "ab", [(1, 2, first), (0, 1, second)])
    values = values_by_name(decoder, found)
    logs = [np.log(small.table[("b",)][first][1]), np.log(small.table[("a",)][second][1])]
    assert values["LexicalReordering0"] == pytest.approx(
        [0, logs[1][1], logs[0][2], 0, logs[0][4], 0], abs=1e-6
    )
    assert values["Distortion0"] == (-3.0,)


def test_scores_of_given_derivations_are_the_brute_force_ones(small: SmallDecoder) -> None:
    decoder = small.decoder(["abcd"])
    for derivation in small.derivations("abcd", limit=-1)[::97]:
        found = score_derivation(decoder, "abcd", derivation.segments)
        assert is_same(found, derivation)


def test_an_unknown_word_is_its_own_translation(small: SmallDecoder) -> None:
    decoder = small.decoder([("a", "zyx")], limit=0)
    found = decoder.translate(("a", "zyx"))
    assert found.words[-1] == "zyx"
    assert values_by_name(decoder, found)["UnknownWordPenalty0"] == (-100.0,)


def test_nothing_is_translated_as_nothing(small: SmallDecoder) -> None:
    """As Moses: no </s>, all values 0."""
    found = small.decoder([()]).translate((), nbest=3)
    assert (found.words, found.score, found.segments) == ((), 0.0, ())
    assert not any(map(any, found.values))
    assert len(found.nbest) == 1


def test_a_long_sentence(small: SmallDecoder) -> None:
    tokens = "abcdef" * 50
    decoder = small.decoder([tokens], limit=12, stack=40, beam=0)
    found = decoder.translate(tokens, nbest=5)
    assert sorted(place for one in found.segments for place in range(one.start, one.end)) == list(
        range(300)
    )
    for one in found.nbest:
        again = score_derivation(decoder, tokens, [segment[:3] for segment in one.segments])
        assert again.score == pytest.approx(one.score)


class _OneTable:
    """Options that a test has made; no option covers the second word of ``abc`` alone."""

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        self.words = ["<unk>", "<s>", "</s>", "p"]
        self._spans = np.array(spans, np.int32)

    def sentence(self, tokens: str) -> SentenceOptions:
        start, end = np.ascontiguousarray(self._spans.T)
        count, length = len(start), len(tokens)
        future = np.full((length, length + 1), -np.inf)
        future[start, end] = -1.0
        for size in range(2, length + 1):
            for first in range(length - size + 1):
                for middle in range(first + 1, first + size):
                    both = future[first, middle] + future[middle, first + size]
                    future[first, first + size] = max(future[first, first + size], both)
        return SentenceOptions(
            start,
            end,
            np.arange(count + 1, dtype=np.int32),
            np.full(count, 3, np.int32),
            np.zeros((count, 5)),
            np.full(count, -0.5),
            np.zeros(count),
            np.zeros((count, 6)),
            future,
            np.arange(count, dtype=np.int32),
        )


@pytest.mark.parametrize(
    ("spans", "segments"),
    [
        ([(0, 1), (1, 2), (2, 3)], 3),
        ([(0, 2), (1, 3)], None),  # they overlap
        ([(0, 1), (2, 3)], None),  # the second word has no translation
        ([], None),
    ],
)
def test_a_sentence_that_cannot_be_covered_has_no_translation(
    small: SmallDecoder, spans: list[tuple[int, int]], segments: int | None
) -> None:
    plain = small.decoder(["abc"])
    table = _OneTable(sorted(spans)) if spans else _OneTable([(0, 1)])
    decoder = StackDecoder(plain._configuration, table, plain._lm)  # type: ignore[arg-type]
    found = decoder.translate("abc", nbest=2)
    if segments is None:
        assert (found.words, found.score, found.segments) == ((), -math.inf, ())
        assert found.nbest == ()
    else:
        assert len(found.segments) == segments


@pytest.mark.parametrize(("section", "factor"), [("", 20), ("[n-best-factor]\n3\n", 3)])
def test_distinct_lists_are_made_of_as_many_paths_as_moses_looks_at(
    small: SmallDecoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str, factor: int
) -> None:
    configuration = small.configuration()
    ini = tmp_path / "moses.ini"
    ini.write_text(f"{Path(configuration.path).read_text()}\n{section}")
    plain = small.decoder(["abcd"])
    found, original = [], search.best_paths

    def find(*arguments: Any) -> Any:
        found.append(arguments[3:5])
        return original(*arguments)

    monkeypatch.setattr(search, "best_paths", find)
    decoder = StackDecoder(type(configuration).read(str(ini)), plain._table, plain._lm)
    nbest = decoder.translate("abcd", nbest=4, distinct=True).nbest
    assert len({each.words for each in nbest}) == 4
    assert found == [(4, 4 * factor)]


def test_of_two_equal_hypotheses_the_earlier_stays_and_the_other_is_an_arc() -> None:
    *_, pool, arcs = make_tables(3, 3, 8, 8, 8, 8)
    assert offer(pool, arcs, True, -1.0, 1, 11, (0, 5, 6), 2) == 0
    assert offer(pool, arcs, True, -1.0, 2, 12, (0, 5, 6), 2) == 0
    assert (pool.count[0], pool.parent[0], pool.option[0]) == (1, 1, 11)
    assert (arcs.count[0], arcs.parent[0], arcs.option[0], arcs.target[0]) == (1, 2, 12, 0)
    # A better one takes the place, and what it displaces is an arc, too.
    assert offer(pool, arcs, True, -0.5, 3, 13, (0, 5, 6), 2) == 0
    assert (pool.count[0], pool.parent[0], pool.score[0]) == (1, 3, -0.5)
    assert (arcs.count[0], arcs.parent[1], arcs.score[1]) == (2, 1, -1.0)
    # Another coverage or key is another hypothesis.
    for row, key in enumerate(((1, 5, 6), (0, 4, 6), (0, 5, 7)), start=1):
        assert offer(pool, arcs, True, -9.0, 4, 14, key, 2) == row


def test_a_full_stack_keeps_the_best_and_of_equals_the_earlier() -> None:
    scores = [-3.0, -1.0, -2.0, -2.0, -2.0, -7.0]
    for size, beam, kept in (
        (3, -np.inf, [1, 2, 3]),
        (2, -np.inf, [1, 2]),
        (5, -1.5, [1, 2, 3, 4]),
        (5, -2.0, [0, 1, 2, 3, 4]),
        (0, -1.0, [1, 2, 3, 4]),
        (6, -0.5, [0, 1, 2, 3, 4, 5]),  # no more than there may be: no beam, as in Moses
    ):
        *_, pool, arcs = make_tables(3, 3, 8, 8, 8, 8)
        for place, score in enumerate(scores):
            offer(pool, arcs, True, score, place, 0, (place, 0, 0), 0)
            offer(pool, arcs, True, score - 1, place, 1, (place, 0, 0), 0)
        prune(pool, arcs, Limits(size, beam, keep_arcs=True, by_request=False))
        count = pool.count[0]
        assert pool.parent[:count].tolist() == kept
        # The arcs go with their hypotheses.
        assert arcs.parent[: arcs.count[0]].tolist() == kept
        assert arcs.target[: arcs.count[0]].tolist() == list(range(count))

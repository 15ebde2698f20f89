"""Beam search against enumeration of all targets, by hand, and against rescoring."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from phrasescore.errors import ModelError
from phrasescore.generation.beam_search import (
    BATCH_ROWS,
    BeamSettings,
    beam_search,
    beam_work,
    best_words,
)
from phrasescore.generation.generator import Generated, Generator
from phrasescore.models.checkpoint import Checkpoint, TrainingRecord, load_checkpoint
from phrasescore.records import HypothesisList
from phrasescore.settings import kinds
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import Config
from phrasescore.vocabulary import Vocabulary
from tests.doubles import BigramDecoder, BigramNetwork, RandomModel
from tests.random_networks import RandomNetwork
from tests.sentence_scores import SentenceScores

pytestmark = pytest.mark.usefixtures("one_thread")

THREADS = Compute(workers=2)
CPU = torch.device("cpu")
KINDS = ("rnnsearch", "grconv", "lstm")
SOURCES = [("u", "v"), ("w",), ("v", "v", "w", "u", "u"), ("nowhere", "u"), (), ("w",)]
EVERYTHING = 2000  # wider than there are targets of up to three words

# Of </s>, <unk>, a, b after each of them, in eighths.
ONE: list[list[float]] = [[1, 0.5, 4.5, 2], [5, 1, 1, 1], [2, 1, 1, 4], [3, 2, 2, 1]]
TWO: list[list[float]] = [[2, 1, 2, 3], [4, 2, 1, 1], [1, 5, 1, 1], [2, 2, 3, 1]]


def bigram(eighths: Sequence[Sequence[float]], words: str = "ab") -> Checkpoint:
    config = Config.from_dict({"kind": "lstm"}, "test")
    network = BigramNetwork([[math.log(x) for x in row] for row in eighths])
    return Checkpoint(network, config, Vocabulary(words), Vocabulary(words), TrainingRecord())


@pytest.fixture
def bigrams(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = "tests.doubles:BigramDecoder"
    monkeypatch.setitem(kinds.KINDS, "lstm", replace(kinds.KINDS["lstm"], decoder=decoder))


def all_targets(words: str, longest: int) -> list[tuple[str, ...]]:
    """Return every target of up to ``longest`` words; ``?`` is the unknown word."""
    names = ["<unk>" if word == "?" else word for word in words]
    lengths = range(longest + 1)
    return [target for length in lengths for target in itertools.product(names, repeat=length)]


def texts(found: Sequence[Generated]) -> list[str]:
    return [" ".join(target.words) for target in found]


# A beam that is wide enough finds what enumeration finds


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("unknown", [False, True])
def test_a_wide_beam_finds_the_best_of_all_targets(
    tmp_path: Path, normalize: bool, unknown: bool
) -> None:
    model = RandomModel(tmp_path / "model", "uvw", "abc", seed=2)
    generator = Generator([load_checkpoint(model.path)], CPU)
    settings = BeamSettings(EVERYTHING, 30, normalize=normalize, unknown=unknown, max_length=3)
    candidates = all_targets("abc?" if unknown else "abc", 3)
    for source, found in zip(SOURCES, beam_search(generator, SOURCES, settings), strict=True):
        # By the independent implementation, target by target.
        log_probs = {target: model.log_prob(source, target) for target in candidates}
        divisor = {target: len(target) + 1 if normalize else 1 for target in candidates}
        wanted = sorted(candidates, key=lambda words: -log_probs[words] / divisor[words])[:30]
        assert [target.words for target in found] == wanted
        scores = [log_probs[target] for target in wanted]
        assert [target.log_prob for target in found] == pytest.approx(scores, abs=1e-5)
        assert all(target.finished for target in found)
        assert [target.unknown_words for target in found] == [
            words.count("<unk>") for words in wanted
        ]


def test_a_right_to_left_network_s_targets_are_those_of_its_weights_turned_round() -> None:
    settings = BeamSettings(50, 30, max_length=3)
    found = [
        beam_search(
            Generator(
                [RandomNetwork("rnnsearch", "uv", "abc", right_to_left=order).checkpoint], CPU
            ),
            SOURCES,
            settings,
        )
        for order in (False, True)
    ]
    for plain, turned in zip(*found, strict=True):
        assert [target.words for target in turned] == [target.words[::-1] for target in plain]
        assert [target[1:] for target in turned] == [target[1:] for target in plain]
    assert any(target.words != target.words[::-1] for target in found[0][0])


@pytest.mark.usefixtures("bigrams")
def test_an_ensemble_averages_the_probability_of_each_word() -> None:
    found = beam_search(
        Generator([bigram(ONE), bigram(TWO)], CPU),
        [("x",)],
        BeamSettings(EVERYTHING, 100, max_length=3),
    )[0]
    names = ["</s>", "<unk>", "a", "b"]
    assert {target.words for target in found} <= set(all_targets("ab?", 3))
    assert len(found) == len(all_targets("ab?", 3)) == 40
    for target in found:
        path = [0, *map(names.index, target.words), 0]
        wanted = sum(
            math.log((ONE[last][word] + TWO[last][word]) / 16)
            for last, word in itertools.pairwise(path)
        )
        assert target.log_prob == pytest.approx(wanted, abs=1e-6)
    scores = [target.log_prob for target in found]
    assert scores == sorted(scores, reverse=True)


# How the beam narrows


@pytest.mark.usefixtures("bigrams")
@pytest.mark.parametrize(
    ("width", "num_best", "wanted", "rows"),
    [
        # The best word each time: a (4.5/8), b (4/8), </s> (3/8).
        (1, 1, {"a b": 4.5 * 4 * 3}, 3),
        # a and b stay; of their extensions a b (18/64) and a </s> (9/64): one place is left, and it
        # goes to a b </s>.
        (2, 2, {"a": 4.5 * 2 * 8, "a b": 4.5 * 4 * 3}, 4),
        # Step 1: a, b, <unk> and </s> (1/8), and three places are left. Step 2: a b (18/64), a
        # </s> (9/64), b </s> (6/64), and one is left for a b </s>: a <unk> and a a (4.5/64 each),
        # which a beam of four would keep, are not looked at.
        (4, 4, {"a": 72, "": 64, "a b": 54, "b": 2 * 3 * 8}, 5),
    ],
)
def test_the_beam_narrows_with_each_target_that_ends(
    width: int, num_best: int, wanted: dict[str, float], rows: int
) -> None:
    generator = Generator([bigram(ONE)], CPU)
    BigramDecoder.rows_made = 0
    (found,) = beam_search(generator, [("x",)], BeamSettings(width, num_best))
    assert texts(found) == list(wanted)
    probabilities = [math.exp(target.log_prob) * 512 for target in found]
    assert probabilities == pytest.approx(list(wanted.values()), rel=1e-5)
    assert BigramDecoder.rows_made == rows


@pytest.mark.usefixtures("bigrams")
def test_length_normalisation_changes_the_order_alone() -> None:
    generator = Generator([bigram(ONE)], CPU)
    (plain,) = beam_search(generator, [("x",)], BeamSettings(4, 4))
    (normalized,) = beam_search(generator, [("x",)], BeamSettings(4, 4, normalize=True))
    assert set(normalized) == set(plain)
    # By hand, logs of p divided by words + 1: a b -0.75, a -0.98, b -1.18, nothing -2.08.
    assert texts(normalized) == ["a b", "a", "b", ""]


def test_fewer_targets_wanted_are_the_first_of_more(tmp_path: Path) -> None:
    model = RandomModel(tmp_path / "model", "uvw", "abcdefgh", seed=5)
    generator = Generator([load_checkpoint(model.path)], CPU)
    for normalize in (False, True):
        for width in (1, 3, 8):
            many = beam_search(generator, SOURCES, BeamSettings(width, width, normalize=normalize))
            for few in range(1, width):
                settings = BeamSettings(width, few, normalize=normalize)
                # A search for few ends earlier: nothing in its beam can become better.
                assert beam_search(generator, SOURCES, settings) == [
                    targets[:few] for targets in many
                ]


@pytest.mark.usefixtures("bigrams")
def test_a_search_for_two_goes_on_while_the_second_can_become_better() -> None:
    # </s>, <unk>, a, b. Nothing: 16/32; then a: 14/32 * 1/8 and b: 1/32 * 7/8 end, and a b may be
    # 14/32 * 6/8 * 7/8: worse than the best of all, and better than the second.
    eighths = [[4, 0.25, 3.5, 0.25], [1.0, 5, 1, 1], [1, 0.5, 0.5, 6], [7, 0.25, 0.5, 0.25]]
    (found,) = beam_search(Generator([bigram(eighths)], CPU), [("x",)], BeamSettings(4, 2))
    assert texts(found) == ["", "a b"]


@pytest.mark.usefixtures("bigrams")
def test_of_equal_extensions_of_a_hypothesis_the_lower_number_stays() -> None:
    # Step 2: b </s> has 18/64; a </s> and a b have 12/64 both, and there is place for one.
    eighths = [[0.5, 0.5, 4, 3], [2.0, 2, 2, 2], [3, 0.5, 1.5, 3], [6, 0.5, 0.75, 0.75]]
    (found,) = beam_search(Generator([bigram(eighths)], CPU), [("x",)], BeamSettings(2, 2))
    assert texts(found) == ["b", "a"]


# Lengths


@pytest.mark.usefixtures("bigrams")
def test_the_best_of_the_longest_beginnings_is_what_is_cut() -> None:
    # a a (21/64) and b a (12/64) are in the beam of step 2; b is the better beginning.
    endless = [[0.5, 0.5, 3, 4], [2.0, 2, 2, 2], [0.25, 0.25, 7, 0.5], [0.5, 0.5, 4, 3]]
    generator = Generator([bigram(endless)], CPU)
    ((found,),) = beam_search(generator, [("x",)], BeamSettings(2, max_length=1))
    assert (texts([found]), found.finished) == (["b"], False)
    assert found.log_prob == pytest.approx(math.log(4 / 8), abs=1e-6)


@pytest.mark.usefixtures("bigrams")
def test_what_finds_no_end_is_cut_and_says_so() -> None:
    # The end is the worst of all words: a beam of one never sees it.
    endless = [[1, 2, 3, 2], [1, 2, 2, 3], [1, 2, 2, 3], [1, 2, 3, 2]]
    generator = Generator([bigram(endless)], CPU)
    ((found,),) = beam_search(generator, [("x",)], BeamSettings(1, max_length=3))
    assert (found.words, found.finished) == (("a", "b", "a"), False)
    assert found.log_prob == pytest.approx(3 * math.log(3 / 8), abs=1e-6)
    sources = [("x",) * length for length in (1, 4)]
    lengths = [len(best.words) for (best,) in beam_search(generator, sources, BeamSettings(1))]
    # Twice the source and 10.
    assert lengths == [12, 18]
    ((found,),) = beam_search(generator, [("x",)], BeamSettings(1, max_length=0))
    assert (found.words, found.finished, found.log_prob) == ((), False, 0.0)
    # A wider one has what ended, and nothing that is cut.
    ((found,),) = beam_search(generator, [("x",)], BeamSettings(4, max_length=3))
    assert found.finished


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_network_whose_values_are_no_numbers_is_an_error(value: float) -> None:
    checkpoint = RandomNetwork("rnnsearch", "uvw", "ab").checkpoint
    with torch.no_grad():
        dict(checkpoint.model.named_parameters())["output.bias"].fill_(value)
    with pytest.raises(ModelError, match=r"a word's score is (nan|inf), expected"):
        beam_search(Generator([checkpoint], CPU), [("u",)], BeamSettings(2))


# Every kind, and whatever is searched beside


def ensemble(kinds: Sequence[str], tmp_path: Path) -> list[Checkpoint]:
    """Return random networks of these kinds with one shortlist."""
    models = []
    for seed, kind in enumerate(kinds):
        words = "abcdefgh"
        if kind == "encoder-decoder":
            path = RandomModel(tmp_path / kind, "uvw", words, seed=seed).path
            models.append(load_checkpoint(path))
        else:
            models.append(RandomNetwork(kind, "uvw", words, seed=seed).checkpoint)
    return models


MIXES = [*((kind,) for kind in (*KINDS, "encoder-decoder")), ("rnnsearch", "encoder-decoder")]


@pytest.mark.parametrize("kinds", MIXES, ids=" ".join)
def test_a_score_is_to_the_last_bit_what_rescoring_gives(
    kinds: Sequence[str], tmp_path: Path
) -> None:
    models = ensemble(kinds, tmp_path)
    found = beam_search(Generator(models, CPU), SOURCES, BeamSettings(6, 6, unknown=False))
    lists = [
        HypothesisList(source, [target.words for target in targets if target.finished])
        for source, targets in zip(SOURCES, found, strict=True)
    ]
    scorer = SentenceScores(models, CPU, ensemble=len(models) > 1)
    for targets, scores in zip(found, scorer.values(lists), strict=True):
        wanted = [target.log_prob for target in targets if target.finished]
        assert scores.columns[-1].tolist() == wanted


@pytest.mark.parametrize("kinds", MIXES, ids=" ".join)
def test_a_target_does_not_depend_on_what_is_searched_beside_it(
    kinds: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = Generator(ensemble(kinds, tmp_path), CPU)
    sources = [*SOURCES * 12, *(("u", "v") * n for n in range(9))]
    settings = BeamSettings(5, 3)
    together = beam_search(generator, sources, settings)
    streamed = [
        targets
        for targets, source in zip(
            beam_work(generator, settings).targets(sources, THREADS), sources, strict=True
        )
        if source
    ]
    assert streamed == [item for item, source in zip(together, sources, strict=True) if source]
    monkeypatch.setitem(BATCH_ROWS, "cpu", 1)
    assert beam_search(generator, sources[-20:], settings) == together[-20:]


def test_an_empty_source_is_not_asked_about(tmp_path: Path) -> None:
    generator = Generator(ensemble(["lstm"], tmp_path), CPU)
    work = beam_work(generator, BeamSettings(2))
    found = list(work.targets([(), ("u",), ()], THREADS))
    assert found[0] == found[2] == [Generated((), 0.0)]
    assert [found[1]] == beam_search(generator, [("u",)], BeamSettings(2))
    assert list(work.targets([], THREADS)) == []


# The best words, in a compiled loop and by torch as on a GPU


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("count", [1, 4, 30, 50])
def test_the_best_words_are_those_of_a_sort(count: int) -> None:
    log_probs = torch.randn(20, 37, generator=torch.Generator().manual_seed(count))
    found = best_words(log_probs, count)
    assert found.shape == (20, count)
    for row, words in zip(log_probs.numpy(), found, strict=True):
        wanted = np.argsort(-row)[:count]
        np.testing.assert_array_equal(words[: len(wanted)], wanted)
        assert set(words[len(wanted) :].tolist()) <= {-1}


def test_of_equal_words_the_lower_number_comes_first() -> None:
    log_probs = torch.tensor([[-3.0, -1.0, -2.0, -1.0, -2.0, -1.0]])
    assert best_words(log_probs, 4).tolist() == [[1, 3, 5, 2]]
    assert best_words(log_probs, 2).tolist() == [[1, 3]]


@pytest.mark.usefixtures("way")
def test_a_word_without_probability_is_none() -> None:
    log_probs = torch.tensor([[-1.0, -torch.inf, -0.5], [-torch.inf, -torch.inf, -0.5]])
    assert best_words(log_probs, 3).tolist() == [[2, 0, -1], [2, -1, -1]]

"""The promises of every feature. A new feature is one more entry in MAKERS."""

import pkgutil
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from phrasescore.features import lexicon
from phrasescore.features.columns import COLUMN_KINDS, load_kind
from phrasescore.features.feature import Feature, ScoreRow
from phrasescore.features.foreign import ForeignScore
from phrasescore.features.language_model import LanguageModelScore
from phrasescore.features.lexicon import LexicalScore, LexiconTable
from phrasescore.features.named import FEATURES, OF_SHORTLISTS
from phrasescore.features.neural import NeuralScore
from phrasescore.features.program import ProgramScore
from phrasescore.features.word_counts import LengthRatio, NumberMismatch, TargetLength, UnknownWords
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.records import PhraseBlock, PhrasePair
from phrasescore.scoring import products
from phrasescore.scoring.tree_scorer import PairWork
from phrasescore.vocabulary import Vocabulary
from tests.doubles import RandomModel
from tests.feature_values import as_block, values_of
from tests.tiny_arpa import TINY_ARPA
from tests.tiny_translator import tiny_translator

# The pairs have unknown words, empty sides, repeated pairs and sources, long phrases, a number, and
# a punctuation mark.
PAIRS = [
    PhrasePair(("la", "maison"), ("the", "house")),
    PhrasePair(("rare",), ("rare", "house", "rare")),
    PhrasePair((), ("the",)),
    PhrasePair(("la",), ()),
    PhrasePair(("la", "maison"), ("the", "blue", "house")),
    PhrasePair(("la", "maison"), ("the", "house")),
    PhrasePair(("maison",) * 60, ("house",) * 70),
    PhrasePair(("la", "5", "?"), ("the", "house")),
] * 3
SOURCE_WORDS, TARGET_WORDS = ["la", "maison", "bleue"], ["the", "house", "blue"]


def make_neural(folder: Path) -> Feature:
    RandomModel(folder / "model", SOURCE_WORDS, TARGET_WORDS)
    return NeuralScore(load_checkpoint(folder / "model"), torch.device("cpu"))


def make_language_model(folder: Path) -> Feature:
    path = folder / "lm.arpa"
    path.write_text(TINY_ARPA.replace("la", "the").replace("maison", "house"))
    return LanguageModelScore(str(path))


def make_lexicon(_: Path, *, reverse: bool = False) -> Feature:
    entries = [("the", "la", 0.5), ("house", "maison", 0.9), ("the", "NULL", 0.25)]
    return LexicalScore(LexiconTable.from_entries("lex.f2e", entries), reverse=reverse)


def make_foreign(folder: Path) -> Feature:
    return ForeignScore(str(tiny_translator(folder / "foreign", positions=100).path))


def make_program(folder: Path) -> Feature:
    script = folder / "program.py"
    script.write_text("import sys\nfor line in sys.stdin: print(len(line), flush=True)\n")
    return ProgramScore(shlex.join([sys.executable, str(script)]))


MAKERS: dict[str, Callable[[Path], Feature]] = {
    "ctranslate2": make_foreign,
    "lm": make_language_model,
    "length_ratio": lambda _: LengthRatio(),
    "lexicon": make_lexicon,
    "reverse_lexicon": lambda folder: make_lexicon(folder, reverse=True),
    "model": make_neural,
    "number_mismatch": lambda _: NumberMismatch(),
    "command": make_program,
    "target_length": lambda _: TargetLength(),
    "unknown_words": lambda _: UnknownWords([Vocabulary(TARGET_WORDS)]),
}


@pytest.fixture(params=sorted(MAKERS))
def feature(request: pytest.FixtureRequest, tmp_path: Path) -> Feature:
    return MAKERS[request.param](tmp_path)


def test_a_value_depends_on_its_pair_alone(
    feature: Feature, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexicon, "BLOCK_ENTRIES", 4)
    values = values_of(feature, PAIRS)
    assert np.isfinite(values).all()
    assert values_of(feature, PAIRS) == values  # a second run has the same bits
    backwards = values_of(feature, PAIRS[::-1])[::-1]
    assert backwards == pytest.approx(values, rel=1e-6, abs=1e-5)
    known = dict(zip(PAIRS, values, strict=True))
    assert values == pytest.approx([known[pair] for pair in PAIRS], rel=1e-6, abs=1e-5)


def test_an_empty_block_has_no_values(feature: Feature) -> None:
    scores = feature.score(PhraseBlock.of([]))
    assert scores.values.shape == (1, 0)
    assert str(scores.tally)


def test_pairs_have_different_values(feature: Feature) -> None:
    assert len({round(value, 3) for value in values_of(feature, PAIRS)}) > 1


def test_the_size_of_blocks_changes_nothing(
    feature: Feature, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    values = values_of(feature, PAIRS)
    if isinstance(feature, NeuralScore):
        monkeypatch.setitem(products.LEVEL_ROWS, "cpu", 1)
        feature = make_neural(tmp_path)
    monkeypatch.setattr(lexicon, "BLOCK_ENTRIES", 1)
    found = [value for pair in PAIRS for value in values_of(feature, [pair])]
    assert found == pytest.approx(values, rel=1e-6, abs=1e-5)


def test_pairs_that_lie_in_a_text_have_the_same_values(tmp_path: Path) -> None:
    feature = make_neural(tmp_path)
    assert isinstance(feature, NeuralScore)
    block = as_block(PAIRS)
    assert list(block.pairs()) == PAIRS
    values, work = feature.score(block)
    assert values[0].tolist() == values_of(feature, PAIRS)
    assert isinstance(work, PairWork)


def test_tallies_of_parts_are_that_of_the_whole(feature: Feature) -> None:
    parts = [feature.score(PhraseBlock.of(pairs)).tally for pairs in (PAIRS[:7], PAIRS[7:])]
    whole = feature.score(PhraseBlock.of(PAIRS)).tally
    both = parts[0] + parts[1]
    if isinstance(both, PairWork):  # prefixes of different parts are not shared
        assert both.pairs == whole.pairs  # type: ignore[attr-defined]
    else:
        assert both == whole
    assert str(both)
    assert parts[0] != both


def test_every_feature_is_under_contract() -> None:
    kinds = COLUMN_KINDS.keys() - {"feature", "scores"}  # of which neither computes values itself
    assert sorted(MAKERS) == sorted({*FEATURES, *kinds})
    for place in FEATURES.values():
        assert pkgutil.resolve_name(place)
    for kind in COLUMN_KINDS:
        made = load_kind(kind).of("x")
        assert (kind, made.argument) == (made.kind(), "x")


def test_what_makes_a_feature_is_known_of_each() -> None:
    for name, place in FEATURES.items():
        made = pkgutil.resolve_name(place)
        if name not in OF_SHORTLISTS:
            assert made().rows == (ScoreRow(),)

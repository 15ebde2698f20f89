"""The scores of a foreign model: engines, cache, and what is said of them."""

from pathlib import Path

import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.features import foreign
from phrasescore.features.foreign import ForeignScore
from phrasescore.features.score_cache import ScoreCache
from phrasescore.foreign import ForeignText
from phrasescore.foreign.model import ForeignNetwork
from phrasescore.records import PhrasePair
from phrasescore.settings.compute import Compute
from tests.tiny_translator import TinyTranslator, tiny_translator

SOURCES = ("This is the house", "it 's Amy .", "no")
PAIRS = [
    PhrasePair(tuple(source.split()), ("maison",) * length)
    for source in SOURCES
    for length in (0, 3, 1, 3, 2)
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyTranslator:
    return tiny_translator(tmp_path_factory.mktemp("folders") / "tiny")


def test_every_engine_gives_the_same_bits(
    tiny: TinyTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = list(ForeignScore(str(tiny.path)).values(PAIRS))
    monkeypatch.setattr(foreign, "GROUP_SIZE", 2)
    for engine in (Compute(engine="here", workers=3), Compute(engine="processes", workers=2)):
        with ForeignScore(str(tiny.path)).working(engine, "cpu", None) as feature:
            assert list(feature.values(PAIRS)) == expected
            assert list(feature.values(PAIRS)) == expected


def test_the_cache_holds_the_bits_and_spares_the_network(
    tiny: TinyTranslator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Compute(workers=1)
    with ScoreCache(str(tmp_path / "cache")) as cache:
        with ForeignScore(str(tiny.path)).working(here, "cpu", cache) as feature:
            expected = list(feature.values(PAIRS[:9]))
        assert len(cache) == len(set(PAIRS[:9]))
        with ForeignScore(str(tiny.path)).working(here, "cpu", cache) as feature:
            assert list(feature.values(PAIRS))[:9] == expected
            assert str(feature.tally).startswith("15 scores by CTranslate2, 9 of them from the ")
        text = ForeignText(target_prefix="▁the")
        with ForeignScore(str(tiny.path), text).working(here, "cpu", cache) as feature:
            assert list(feature.values(PAIRS[:9])) != expected
        monkeypatch.setattr(ForeignNetwork, "score", None)
        with ForeignScore(str(tiny.path)).working(here, "cpu", cache) as feature:
            assert list(feature.values(PAIRS[:9])) == expected


def test_a_score_of_the_cache_that_cannot_be_one_is_refused(
    tiny: TinyTranslator, tmp_path: Path
) -> None:
    with (
        ScoreCache(str(tmp_path / "cache")) as cache,
        ForeignScore(str(tiny.path)).working(Compute(), "cpu", cache) as feature,
    ):
        cache.store(feature._keys(PAIRS[:1]), [0.5])
        with pytest.raises(PhrasescoreError, match=r"cache is damaged: found the score 0\.5"):
            list(feature.values(PAIRS))


def test_a_word_is_known_by_its_pieces_on_each_side(tiny: TinyTranslator) -> None:
    for words in ForeignScore(str(tiny.path)).known_words:
        assert "maison" in words
        assert "Ω" not in words

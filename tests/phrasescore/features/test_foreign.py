"""The scores of a foreign model: engines, cache, and what is said of them."""

import logging
from pathlib import Path

import pytest

from phrasescore.engines import EngineSettings
from phrasescore.errors import PhrasescoreError
from phrasescore.features import foreign
from phrasescore.features.foreign import ForeignScore
from phrasescore.features.score_cache import ScoreCache
from phrasescore.foreign import ForeignText
from phrasescore.foreign.model import ForeignNetwork
from phrasescore.records import PhrasePair
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
    for engine in (EngineSettings("here", 3), EngineSettings("processes", 2)):
        with ForeignScore(str(tiny.path)).working(engine, "cpu", None) as feature:
            assert list(feature.values(PAIRS)) == expected
            assert list(feature.values(PAIRS)) == expected


def test_the_cache_holds_the_bits_and_spares_the_network(
    tiny: TinyTranslator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = EngineSettings(workers=1)
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
        ForeignScore(str(tiny.path)).working(EngineSettings(), "cpu", cache) as feature,
    ):
        cache.store(feature._keys(PAIRS[:1]), [0.5])
        with pytest.raises(PhrasescoreError, match=r"cache is damaged: found the score 0\.5"):
            list(feature.values(PAIRS))


def test_text_that_the_model_does_not_know_is_warned_of_once(
    tiny: TinyTranslator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    known, unknown = PhrasePair(("maison",), ("maison",)), PhrasePair(("Ω",), ("Ж",))
    for pairs in ([known] * 1000, [known, unknown] * 300):
        list(ForeignScore(str(tiny.path)).values(pairs))
    assert caplog.messages == []
    feature = ForeignScore(str(tiny.path))
    for _ in range(3):
        list(feature.values([unknown] * 1000))
    (message,) = caplog.messages
    assert message.startswith(f"{tiny.path} does not know 50% of the pieces of the texts: is its ")

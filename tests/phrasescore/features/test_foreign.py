"""The scores of a foreign model: engines, cache, and what is said of them."""

from pathlib import Path

import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.features.foreign import CTranslate2Model, ForeignScore
from phrasescore.features.request import ScoringRequest
from phrasescore.features.score_cache import ScoreCache, score_keys
from phrasescore.foreign import ForeignText
from phrasescore.foreign.model import ForeignModel
from phrasescore.records import PairLines, PhraseBlock, PhrasePair
from phrasescore.settings.compute import Compute
from phrasescore.systems.scoring import Scoring
from tests.feature_values import count_scores
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


def score(
    tiny: TinyTranslator,
    engine: Compute,
    pairs: list[PhrasePair],
    cache: ScoreCache | None = None,
    text: ForeignText | None = None,
) -> tuple[list[float], str]:
    column = CTranslate2Model(str(tiny.path), **vars(text or ForeignText()))
    with Scoring(ScoringRequest((column,), callers=3), engine) as scorer:
        scorer._cache = cache
        blocks = scorer.score_lines(
            PairLines(n, PhraseBlock.of([pair])) for n, pair in enumerate(pairs)
        )
        values = [value for _, scores in blocks for value in scores[0].tolist()]
        return values, str(scorer.tallies[0])


HERE = Compute(workers=1)


def test_every_engine_gives_the_same_bits(
    tiny: TinyTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = score(tiny, HERE, PAIRS)
    monkeypatch.setattr(ForeignScore, "group_size", {"cpu": 2})
    for engine in (Compute(engine="here", workers=3), Compute(engine="processes", workers=2)):
        assert score(tiny, engine, PAIRS)[0] == expected


def test_the_cache_holds_the_bits_and_spares_the_network(
    tiny: TinyTranslator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScoreCache(str(tmp_path / "cache")) as cache:
        expected, _ = score(tiny, HERE, PAIRS[:9], cache)
        assert count_scores(tmp_path / "cache") == len(set(PAIRS[:9]))
        found, said = score(tiny, HERE, PAIRS, cache)
        assert found[:9] == expected
        assert said.startswith("15 scores by CTranslate2, 9 of them from the ")
        assert score(tiny, HERE, PAIRS[:9], cache, ForeignText(target_prefix="▁the"))[0] != expected
        monkeypatch.setattr(ForeignModel, "score", None)
        assert score(tiny, HERE, PAIRS[:9], cache)[0] == expected


def test_a_score_of_the_cache_that_cannot_be_one_is_refused(
    tiny: TinyTranslator, tmp_path: Path
) -> None:
    with ScoreCache(str(tmp_path / "cache")) as cache:
        (row,) = ForeignScore(str(tiny.path)).rows
        (key,) = score_keys(row.fingerprint, PhraseBlock.of(PAIRS[:1]))
        cache.store([key], [0.5])
        with pytest.raises(PhrasescoreError, match=r"cache is damaged: found the score 0\.5"):
            score(tiny, HERE, PAIRS, cache)

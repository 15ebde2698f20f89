"""Sentences that are not known in advance get the same options as a whole text."""

import random
from pathlib import Path

import pytest

from moses_integration.decoder import sentence_tables
from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.options import read_language_models
from moses_integration.decoder.search import StackDecoder
from moses_integration.decoder.sentence_tables import SentenceTables
from tests.moses_integration.decoder.small_decoder import SmallDecoder

Words = tuple[str, ...]


def sentences(seed: int) -> list[Words]:
    numbers = random.Random(seed)
    # "g" and "h1" are not in the table; sentences recur, and the first one is empty.
    words = [*"abcdef", "g", "h1"]
    found = [tuple(numbers.choices(words, k=numbers.randint(1, 5))) for _ in range(8)]
    return [(), *found, *found[:3]]


def derivations(decoder: StackDecoder, words: Words) -> list[tuple[object, ...]]:
    best = decoder.translate(words, nbest=20)
    return [(found.words, found.score, found.values) for found in best.nbest]


@pytest.mark.parametrize("known", [False, True], ids=["unknown", "known"])
@pytest.mark.parametrize("most", [500_000, 3])
def test_the_same_derivations_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, *, known: bool
) -> None:
    monkeypatch.setattr(sentence_tables, "_MOST_PAIRS", most)
    text, small = sentences(1), SmallDecoder(tmp_path, 2, targets=3, models=2)
    small.configuration()
    limited = (tmp_path / "moses.ini").read_text().replace("table-limit=0", "table-limit=2")
    (tmp_path / "moses.ini").write_text(f"[drop-unknown]\n1\n{limited}")
    configuration = DecoderConfiguration.read(str(tmp_path / "moses.ini"))
    model = read_language_models(configuration)
    monkeypatch.setattr(small, "configuration", lambda: configuration)
    whole = small.decoder(text)
    tables = SentenceTables(configuration, model, aligned=False, sentences=text if known else None)
    for words in text:
        decoder = StackDecoder(configuration, tables.options(words), model)
        assert derivations(decoder, words) == derivations(whole, words)
    assert tables._num_pairs <= max(most, 80)  # what the last sentence needs stays


def test_the_numbers_of_words_only_grow(tmp_path: Path) -> None:
    configuration = SmallDecoder(tmp_path, 3).configuration()
    model = read_language_models(configuration)
    tables = SentenceTables(configuration, model, aligned=False)
    first = list(tables.options(("a", "new")).words)
    second = tables.options(("b", "newer", "new")).words
    assert second[: len(first)] == first
    assert second[len(first) :] == ["newer"]

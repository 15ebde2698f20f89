"""Promises of pairs whose words have other pieces in every epoch."""

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasescore.errors import ModelError
from phrasescore.kernels.pieces import mix, split_words
from phrasescore.models.batches import BatchSide
from phrasescore.records import PhrasePair
from phrasescore.settings.config import TrainingConfig, VocabularyConfig
from phrasescore.training.draw import Draw, stream_key
from phrasescore.training.pair_store_writer import CountedPair, build_vocabulary, write_pair_store
from phrasescore.training.stores import PairStore
from phrasescore.training.subword_dropout import SplitSide, SplitStore, character_ids
from phrasescore.vocabulary import Vocabulary
from tests.reference_subwords import COUNTS, split_probabilities, vocabulary

SIZES = VocabularyConfig(source_size=100, target_size=100, subwords=40)
WORDS = sorted(COUNTS)
SENTENCES = [
    PhrasePair(
        tuple(WORDS[(number * 7 + place) % len(WORDS)] for place in range(number % 5)),
        tuple(WORDS[(1 + number * 3 + place * number) % len(WORDS)] for place in range(number % 7)),
    )
    for number in range(100)
]


KNOWN = vocabulary()
MERGES = [KNOWN.word(number) for number in range(2, len(KNOWN))]


def pairs() -> Iterator[CountedPair]:
    for number, pair in enumerate(SENTENCES):
        yield CountedPair(b"%d" % number, pair, 1.0)


def write(
    folder: Path,
    source: Vocabulary | None = None,
    *,
    keep_words: bool = True,
    backwards: bool = False,
) -> None:
    ready = iter((source, KNOWN))

    def build(counts: Mapping[str, float], size: int, subwords: int) -> Vocabulary:
        return next(ready) or build_vocabulary(counts, size, subwords)

    with patch("phrasescore.training.pair_store_writer.build_vocabulary", build):
        write_pair_store(
            *(folder, pairs(), SIZES),
            max_length=99,
            distinct=False,
            keep_words=keep_words,
            right_to_left=backwards,
        )


def settings(dropout: float = 0.3, seed: int = 3) -> TrainingConfig:
    return TrainingConfig(subword_dropout=dropout, seed=seed)


def split(words: Sequence[str], dropout: float, *, seed: int = 1, step: int = 1) -> list[list[int]]:
    states = mix(stream_key(seed, 0) + np.arange(len(words)).astype(np.uint64))
    numbers = np.arange(len(words))
    characters = character_ids(words, KNOWN)
    rows = SplitSide(characters, characters, KNOWN, dropout, step).split(numbers, states)
    return [row.tolist() for row in np.split(rows.values, rows.starts[1:-1])]


def spell(rows: Iterable[Sequence[int]]) -> list[tuple[str, ...]]:
    return [tuple(map(KNOWN.word, row)) for row in rows]


@given(st.text("maisongrdpteu&;é漢字▁", min_size=1, max_size=12))
def test_without_dropout_words_have_their_usual_pieces(word: str) -> None:
    usual = KNOWN.ids([word])
    assert split([word, "la", word], 0.0) == [usual, KNOWN.ids(["la"]), usual]
    assert split([word, "la"], 0.0, step=-1) == [usual[::-1], KNOWN.ids(["la"])]


def test_the_leftmost_of_equal_merges_is_done_first() -> None:
    # The characters 4 4 4, where 4 4 forms 3: by hand, 3 4 and not 4 3.
    pairs, merged, size = np.array([4 * 5 + 4]), np.array([3]), 5
    word = (np.array([4, 4, 4]), np.array([0, 3]), np.array([0]), np.zeros(1, np.uint64))
    pieces, lengths = split_words(*word, pairs, merged, size, 0.0, 1)
    assert (pieces.tolist(), lengths.tolist()) == ([3, 4], [2])


@given(st.text("maisongrdpteu&;", min_size=1, max_size=12))
def test_random_pieces_spell_the_word(word: str) -> None:
    assert {"".join(pieces) for pieces in spell(split([word] * 20, 0.3))} == {f"▁{word}"}
    assert spell(split([word], 1.0)) == [("▁", *word)]
    assert spell(split([word], 1.0, step=-1)) == [("▁", *word)[::-1]]


@pytest.mark.parametrize("word", ["la", "les", "rueette", "maisons"])
def test_random_pieces_are_as_frequent_as_in_slow_bpe_dropout(word: str) -> None:
    wanted = split_probabilities(MERGES, word, 0.2)
    assert sum(wanted.values()) == pytest.approx(1.0)
    if word == "la":  # by hand: first ▁l is merged, then ▁la; la alone is no piece
        by_hand = {("▁la",): 0.8 * 0.8, ("▁l", "a"): 0.8 * 0.2, ("▁", "l", "a"): 0.2}
        assert wanted == pytest.approx(by_hand)
    size = 20_000
    found = Counter(spell(split([word] * size, 0.2)))
    assert set(found) <= set(wanted)
    for pieces, probability in wanted.items():
        deviation = math.sqrt(probability * (1 - probability) / size)
        assert found[pieces] / size == pytest.approx(probability, abs=5 * deviation)


def texts(side: BatchSide, known: Vocabulary, *, backwards: bool = False) -> list[tuple[str, ...]]:
    rows = [ids[:-1] for ids in side.ids.split((side.lengths + 1).tolist())]
    pieces = [list(map(known.word, ids.tolist())) for ids in rows]
    return [known.join(row[::-1] if backwards else row) for row in pieces]


@pytest.mark.parametrize("backwards", [False, True])
def test_the_pieces_of_every_epoch_spell_the_pairs(tmp_path: Path, backwards: bool) -> None:
    write(tmp_path / "pairs", backwards=backwards)
    store = SplitStore(tmp_path / "pairs", settings())
    store.check()
    rows = np.array([7, 3, 99, 0, 3, *range(100)])
    wanted = [SENTENCES[row] for row in rows]
    vocabularies = (store.source_vocabulary, store.target_vocabulary)
    found = []
    for view in (store, store.in_epoch(0), store.in_epoch(1)):
        batch = view.batch(rows)
        for number, (side, known) in enumerate(zip(batch, vocabularies, strict=True)):
            spelt = texts(side, known, backwards=backwards and number == 1)
            assert spelt == [pair[number] for pair in wanted]
        lengths = [side.lengths.tolist() for side in batch]
        assert [each.tolist() for each in view.lengths(rows)] == lengths
        found.append(batch.target.ids.tolist())
    # The batches of the store itself, which validation uses, have the usual pieces.
    usual = [KNOWN.ids(pair.target)[:: -1 if backwards else 1] for pair in wanted]
    assert found[0] == [number for row in usual for number in (*row, 0)]
    assert found[0] != found[1] != found[2] != found[0]


def test_the_pieces_depend_on_the_seed_the_epoch_and_the_place(tmp_path: Path) -> None:
    write(tmp_path / "pairs")
    rows = np.arange(100)

    def pieces(seed: int, epoch: int) -> list[list[int]]:
        view = SplitStore(tmp_path / "pairs", settings(seed=seed)).in_epoch(epoch)
        return [side.values.tolist() for side in view.sides(rows)]

    assert pieces(3, 4) == pieces(3, 4)
    assert pieces(3, 4) != pieces(4, 4)
    # A rank's share of a batch has the pieces of the whole batch.
    view = SplitStore(tmp_path / "pairs", settings()).in_epoch(4)
    for every, some in zip(view.sides(rows), view.sides(rows[1::3]), strict=True):
        assert every.take(rows[1::3]).values.tolist() == some.values.tolist()
    # The same word has other pieces in another place.
    assert SENTENCES[48].target == ("grand",) * 6
    (row,) = spell([view.sides(np.array([48]))[1].values.tolist()])
    assert len(set(" ".join(row).split(" ▁"))) > 2


def test_without_dropout_nothing_more_is_stored(tmp_path: Path) -> None:
    write(tmp_path / "with")
    write(tmp_path / "without", keep_words=False)
    more, fewer = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("with", "without")
    )
    assert sorted(set(more) - set(fewer)) == [
        f"{side}.{name}"
        for side in ("source", "target")
        for name in ("characters", "characters.starts", "tokens", "tokens.starts")
    ]
    assert {name: more[name] for name in fewer} == fewer


def test_a_side_of_words_keeps_them(tmp_path: Path) -> None:
    write(tmp_path / "pairs", Vocabulary(WORDS))
    store = SplitStore(tmp_path / "pairs", settings())
    rows = np.arange(len(store))
    usual, other = store.sides(rows), store.in_epoch(0).sides(rows)
    assert usual[0].values.tolist() == other[0].values.tolist()
    assert usual[1].values.tolist() != other[1].values.tolist()
    assert store.in_epoch(0).lengths(rows)[0].tolist() == usual[0].lengths.tolist()


def test_windows_are_sorted_by_the_lengths_of_the_epoch(tmp_path: Path) -> None:
    write(tmp_path / "pairs")
    store = SplitStore(tmp_path / "pairs", settings())
    draw = Draw(store, TrainingConfig(batch_size=100, window_batches=2), 0)
    longer = np.maximum(*store.in_epoch(2).lengths(draw.batch(2, 0)))
    assert longer.tolist() == sorted(longer)
    usual = np.maximum(*store.lengths(draw.batch(2, 0)))
    assert usual.tolist() != sorted(usual)


def test_predicted_pieces_are_counted_as_they_are_split(tmp_path: Path) -> None:
    write(tmp_path / "pairs")
    characters = Counter("".join(f"▁{word}" for pair in SENTENCES for word in pair.target))
    wanted = {KNOWN.ids_of_pieces([each])[0]: count for each, count in characters.items()}
    found = SplitStore(tmp_path / "pairs", settings(1.0)).target_counts().tolist()
    assert {number: count for number, count in enumerate(found) if count} == wanted
    without = SplitStore(tmp_path / "pairs", settings(0.0))
    assert (
        without.target_counts().tolist() == PairStore(tmp_path / "pairs").target_counts().tolist()
    )


@pytest.mark.parametrize("name", ["source.tokens", "source.characters.starts", "target.characters"])
def test_damaged_words_are_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path / "pairs")
    path = tmp_path / "pairs" / name
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 16 * 8)
        file.write(b"\xf0" * 8)
    with pytest.raises(ModelError, match=r"\w+.tokens or \w+.characters is damaged"):
        SplitStore(tmp_path / "pairs", settings()).check()
    os.truncate(path, size - 8)
    with pytest.raises(ModelError, match=r"the sizes of \w+.tokens and \w+.characters do not mat"):
        SplitStore(tmp_path / "pairs", settings())
    path.unlink()
    with pytest.raises(ModelError, match=rf"{name}: cannot be read"):
        SplitStore(tmp_path / "pairs", settings())
    PairStore(tmp_path / "pairs").check()

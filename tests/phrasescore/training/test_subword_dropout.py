"""Promises of pairs whose words have other pieces in every epoch."""

import math
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from phrasescore.errors import ModelError
from phrasescore.models.batches import BatchSide, Pairs
from phrasescore.records import PhrasePair
from phrasescore.settings.config import TrainingConfig, VocabularyConfig
from phrasescore.training.draw import Draw
from phrasescore.training.pair_store_writer import CountedPair, Shortlist, write_pair_store
from phrasescore.training.stores import PairStore
from phrasescore.training.subword_dropout import NUM_SPLITS, SplitStore
from phrasescore.vocabulary import Vocabulary
from tests.reference_subwords import COUNTS, split_probabilities, vocabulary

SIZES = VocabularyConfig(source_size=100, target_size=100, subwords=40)
WORDS = sorted(COUNTS)
SENTENCES = [
    PhrasePair(
        tuple(WORDS[(number * 7 + place) % len(WORDS)] for place in range(number % 5)),
        tuple(WORDS[(number * 3 + place * number) % len(WORDS)] for place in range(number % 7)),
    )
    for number in range(100)
]


def pairs() -> Iterator[CountedPair]:
    for number, pair in enumerate(SENTENCES):
        yield CountedPair(b"%d" % number, pair, 1.0)


def write(folder: Path, dropout: float = 0.3, *, right_to_left: bool = False) -> SplitStore:
    shortlists = (Shortlist(), Shortlist("vocabulary v", vocabulary=vocabulary()))
    write_pair_store(
        *(folder, pairs(), SIZES),
        max_length=99,
        distinct=False,
        shortlists=shortlists,
        subword_dropout=dropout,
        seed=3,
        right_to_left=right_to_left,
    )
    return SplitStore(folder, seed=3)


def texts(side: BatchSide, known: Vocabulary, *, backwards: bool = False) -> list[tuple[str, ...]]:
    rows = [ids[:-1] for ids in side.ids.split((side.lengths + 1).tolist())]
    pieces = [list(map(known.word, ids.tolist())) for ids in rows]
    return [known.join(row[::-1] if backwards else row) for row in pieces]


@pytest.mark.parametrize("right_to_left", [False, True])
def test_the_pieces_of_every_epoch_spell_the_pairs(tmp_path: Path, right_to_left: bool) -> None:
    store = write(tmp_path / "pairs", right_to_left=right_to_left)
    store.check()
    rows = np.array([7, 3, 99, 0, 3, *range(100)])
    wanted = [SENTENCES[row] for row in rows]
    vocabularies = (store.source_vocabulary, store.target_vocabulary)
    other = []
    for view in (store, store.in_epoch(0), store.in_epoch(1)):
        batch = view.batch(rows)
        for number, (side, known) in enumerate(zip(batch, vocabularies, strict=True)):
            backwards = bool(number) and right_to_left
            assert texts(side, known, backwards=backwards) == [pair[number] for pair in wanted]
        lengths = [side.lengths.tolist() for side in batch]
        assert [each.tolist() for each in view.lengths(rows)] == lengths
        other.append(batch.target.ids.tolist())
    # The batches of the store itself, which validation uses, have the usual pieces.
    known = store.target_vocabulary
    usual = [known.ids(pair.target)[:: -1 if right_to_left else 1] for pair in wanted]
    assert other[0] == [number for row in usual for number in (*row, 0)]
    assert other[0] != other[1] != other[2] != other[0]


def test_the_pieces_depend_on_the_seed_the_epoch_and_the_pair(tmp_path: Path) -> None:
    store = write(tmp_path / "pairs")
    rows = np.arange(100)

    def pieces(view: Pairs) -> list[list[int]]:
        batch = view.batch(rows)
        return [side.ids.tolist() for side in batch]

    first = pieces(store.in_epoch(4))
    assert pieces(SplitStore(tmp_path / "pairs", seed=3).in_epoch(4)) == first
    assert pieces(SplitStore(tmp_path / "pairs", seed=4).in_epoch(4)) != first
    # A rank's share of a batch has the pieces of the whole batch.
    whole, share = store.in_epoch(4).sides(rows), store.in_epoch(4).sides(rows[1::3])
    for every, some in zip(whole, share, strict=True):
        assert every.take(rows[1::3]).values.tolist() == some.values.tolist()
    files = {path.name: path.read_bytes() for path in (tmp_path / "pairs").iterdir()}
    write(tmp_path / "again")
    assert {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()} == files


def test_each_split_is_chosen_as_often_as_any_other(tmp_path: Path) -> None:
    store = write(tmp_path / "pairs", dropout=0.2)
    row = next(row for row, pair in enumerate(SENTENCES) if pair.target == ("les",))
    epochs = 3000
    found = Counter(
        tuple(store.in_epoch(epoch).sides(np.array([row]))[1].values.tolist())
        for epoch in range(epochs)
    )
    side = store.split_sides[1]
    assert side is not None
    (word,) = side.tokens.take(np.array([row])).values
    splits = side.splits.take(NUM_SPLITS * int(word) + np.arange(NUM_SPLITS))
    stored = Counter(tuple(each.tolist()) for each in np.split(splits.values, splits.starts[1:-1]))
    assert len(stored) > 2
    assert set(found) == set(stored)
    for pieces, count in stored.items():
        share = count / NUM_SPLITS
        deviation = math.sqrt(share * (1 - share) / epochs)
        assert found[pieces] / epochs == pytest.approx(share, abs=5 * deviation)
    # Of 32 splits, a share has a deviation of at most 0.09.
    known = store.target_vocabulary
    merges = [known.word(number) for number in range(2, len(known))]
    for words, probability in split_probabilities(merges, "les", 0.2).items():
        share = stored[tuple(known.ids_of_pieces(words))] / NUM_SPLITS
        assert share == pytest.approx(probability, abs=0.3)


def test_without_dropout_nothing_more_is_stored(tmp_path: Path) -> None:
    write(tmp_path / "with")
    write_pair_store(
        *(tmp_path / "without", pairs(), SIZES),
        max_length=99,
        distinct=False,
        shortlists=(Shortlist(), Shortlist("vocabulary v", vocabulary=vocabulary())),
    )
    with_dropout, without = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("with", "without")
    )
    assert sorted(set(with_dropout) - set(without)) == [
        f"{side}.{name}"
        for side in ("source", "target")
        for name in ("splits", "splits.starts", "tokens", "tokens.starts")
    ]
    assert {name: with_dropout[name] for name in without} == without


def test_a_side_of_words_keeps_them(tmp_path: Path) -> None:
    words = Vocabulary(WORDS)
    write_pair_store(
        *(tmp_path / "pairs", pairs(), SIZES),
        max_length=99,
        shortlists=(Shortlist("vocabulary v", vocabulary=words), Shortlist()),
        subword_dropout=0.3,
    )
    store = SplitStore(tmp_path / "pairs", seed=1)
    rows = np.arange(len(store))
    usual, other = store.sides(rows), store.in_epoch(0).sides(rows)
    assert usual[0].values.tolist() == other[0].values.tolist()
    assert usual[1].values.tolist() != other[1].values.tolist()
    assert store.in_epoch(0).lengths(rows)[0].tolist() == usual[0].lengths.tolist()


def test_windows_are_sorted_by_the_lengths_of_the_epoch(tmp_path: Path) -> None:
    store = write(tmp_path / "pairs")
    draw = Draw(store, TrainingConfig(batch_size=100, window_batches=2, seed=3), 0)
    longer = np.maximum(*store.in_epoch(2).lengths(draw.batch(2, 0)))
    assert longer.tolist() == sorted(longer)
    usual = np.maximum(*store.lengths(draw.batch(2, 0)))
    assert usual.tolist() != sorted(usual)


def test_predicted_pieces_are_counted_as_they_are_split(tmp_path: Path) -> None:
    store = write(tmp_path / "pairs", dropout=1.0)
    characters = Counter("".join(f"▁{word}" for pair in SENTENCES for word in pair.target))
    known = store.target_vocabulary
    found = dict(enumerate(store.target_counts().tolist()))
    wanted = {known.ids_of_pieces([each])[0]: count for each, count in characters.items()}
    assert {number: count for number, count in found.items() if count} == wanted


@pytest.mark.parametrize("name", ["source.tokens", "source.splits.starts", "target.splits"])
def test_damaged_splits_are_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path / "pairs")
    path = tmp_path / "pairs" / name
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 16 * 8)
        file.write(b"\xf0" * 8)
    with pytest.raises(ModelError, match="the random splits of words are damaged"):
        SplitStore(tmp_path / "pairs", seed=3).check()
    os.truncate(path, size - 8)
    with pytest.raises(ModelError, match=r"the sizes of \w+.tokens and \w+.splits do not match"):
        SplitStore(tmp_path / "pairs", seed=3)
    path.unlink()
    with pytest.raises(ModelError, match=rf"{name}: cannot be read"):
        SplitStore(tmp_path / "pairs", seed=3)
    PairStore(tmp_path / "pairs").check()

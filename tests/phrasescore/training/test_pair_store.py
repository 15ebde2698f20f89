"""Promises of the stores of pairs and lists, and of the order in which pairs are drawn."""

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import phrasescore.training.pair_store_writer as writer
from phrasescore.errors import DataError, ModelError, PhrasescoreError
from phrasescore.io import ragged
from phrasescore.io.corpora import read_parallel_text
from phrasescore.io.ragged import Indices
from phrasescore.records import PhrasePair
from phrasescore.settings.config import Config, TrainingConfig, VocabularyConfig
from phrasescore.training.draw import Draw, Permutation
from phrasescore.training.pair_store_writer import CountedPair, fingerprint_input, write_pair_store
from phrasescore.training.stores import ListStoreBuilder, PairStore, word_type
from phrasescore.vocabulary import Vocabulary

SIZES = VocabularyConfig(source_size=100, target_size=100)


def counted(pairs: Iterable[tuple[str, str, float]]) -> Iterator[CountedPair]:
    for source, target, count in pairs:
        pair = PhrasePair(tuple(source.split(" ")), tuple(target.split(" ")))
        yield CountedPair(f"{source} ||| {target} ||| 1 |||  ||| 1 1 {count}".encode(), pair, count)


def texts(store: PairStore) -> list[tuple[str, str]]:
    batch = store.batch(np.arange(len(store)))
    sides = []
    vocabularies = (store.source_vocabulary, store.target_vocabulary)
    for side, vocabulary in zip(batch, vocabularies, strict=True):
        phrases = side.ids.split((side.lengths + 1).tolist())
        assert all(ids[-1] == Vocabulary.END for ids in phrases)
        sides.append([" ".join(map(vocabulary.word, ids[:-1].tolist())) for ids in phrases])
    return list(zip(*sides, strict=True))


def test_pairs_come_back_in_the_order_of_the_table(tmp_path: Path) -> None:
    rows = [("la maison", "the house", 3.0), ("la", "the", 9.0), ("une rue là", "a street", 1.0)]
    store = write_pair_store(tmp_path / "pairs", counted(rows), SIZES, max_length=9)
    assert texts(store) == [(source, target) for source, target, _ in rows]
    source_lengths, target_lengths = store.lengths(np.array([2, 0]))
    assert (source_lengths.tolist(), target_lengths.tolist()) == ([3, 2], [2, 2])


def test_a_batch_has_its_pairs_in_their_order_each_with_its_end(tmp_path: Path) -> None:
    rows = [("a b", "x", 3.0), ("", "y x", 2.0), ("b", "", 1.0)]
    pairs = (
        CountedPair(b"", PhrasePair(tuple(s.split()), tuple(t.split())), c) for s, t, c in rows
    )
    store = write_pair_store(tmp_path / "pairs", pairs, SIZES, max_length=9)
    source, target = store.batch(np.array([2, 0, 1]))  # ids: b 2, a 3; x 2, y 3
    assert (source.ids.tolist(), source.lengths.tolist()) == ([2, 0, 3, 2, 0, 0], [1, 2, 0])
    assert (target.ids.tolist(), target.lengths.tolist()) == ([0, 2, 0, 3, 2, 0], [0, 1, 2])


def test_no_other_file_is_left(tmp_path: Path) -> None:
    write_pair_store(tmp_path / "pairs", counted([("a", "b", 1.0)]), SIZES, max_length=9)
    assert [path.name for path in tmp_path.iterdir()] == ["pairs"]
    assert sorted(path.name for path in (tmp_path / "pairs").iterdir()) == [
        "pairs.json",
        *("source.starts", "source.vocab", "source.words"),
        *("target.starts", "target.vocab", "target.words"),
    ]


def test_the_same_pair_is_stored_once_wherever_its_lines_are(tmp_path: Path) -> None:
    rows = [("a b", "c", 1.0), ("a", "b c", 1.0), ("a b", "c", 1.0), ("b a", "c", 1.0)]
    # Thousands of other pairs between the first and the last, so that chunks come between.
    others = [(f"s{i}", f"t{i % 7}", 1.0) for i in range(5000)]
    sizes = VocabularyConfig(source_size=9999, target_size=9999)
    store = write_pair_store(
        tmp_path / "pairs", counted([*rows, *others, *rows]), sizes, max_length=9
    )
    wanted = [rows[0], rows[1], rows[3], *others]
    assert texts(store) == [(source, target) for source, target, _ in wanted]
    assert (store.record.duplicates, store.record.lines) == (5, 5008)


def test_duplicates_are_found_in_parts_that_fit_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(f"s{i % 50}", f"t{i % 3}", 1.0) for i in range(1000)]
    whole = write_pair_store(tmp_path / "whole", counted(rows), SIZES, max_length=9)
    monkeypatch.setattr(writer, "_HASHES", 64)
    parts = write_pair_store(tmp_path / "parts", counted(rows), SIZES, max_length=9)
    assert texts(parts) == texts(whole)
    assert len(parts) == 150  # lcm(50, 3) different pairs


def test_pairs_that_differ_only_outside_the_shortlist_are_different_pairs(tmp_path: Path) -> None:
    rows = [("la", "the", 5.0), ("x", "the", 1.0), ("y", "the", 1.0)]
    sizes = VocabularyConfig(source_size=1, target_size=1)
    store = write_pair_store(tmp_path / "pairs", counted(rows), sizes, max_length=9)
    assert texts(store) == [("la", "the"), ("<unk>", "the"), ("<unk>", "the")]


def test_a_symbol_in_the_table_is_an_unknown_word(tmp_path: Path) -> None:
    store = write_pair_store(tmp_path / "p", counted([("a </s>", "b", 1.0)]), SIZES, max_length=9)
    assert texts(store) == [("a <unk>", "b")]


def test_the_shortlist_weighs_words_by_the_counts_of_their_pairs(tmp_path: Path) -> None:
    rows = [("rare", "x", 0.5), ("rare", "y", 0.5), ("often", "x", 8.0), ("rare", "z", 1.0)]
    sizes = VocabularyConfig(source_size=1, target_size=2)
    store = write_pair_store(tmp_path / "pairs", counted(rows), sizes, max_length=9)
    assert store.source_vocabulary == Vocabulary(["often"])
    assert store.record.source_coverage == pytest.approx(8.0 / 10.0)
    # x 8.5, z 1.0, y 0.5
    assert store.target_vocabulary == Vocabulary(["x", "z"])
    assert store.record.target_coverage == pytest.approx(9.5 / 10.0)


def test_reverse_reads_the_target_side(tmp_path: Path) -> None:
    rows = [("la maison", "house", 1.0)]
    store = write_pair_store(tmp_path / "p", counted(rows), SIZES, max_length=9, reverse=True)
    assert texts(store) == [("house", "la maison")]
    assert store.record.reverse


@pytest.mark.parametrize(
    ("reverse", "stored"), [(False, ("a b", "z y x")), (True, ("x y z", "b a"))]
)
def test_right_to_left_stores_the_last_word_of_the_predicted_side_first(
    tmp_path: Path, reverse: bool, stored: tuple[str, str]
) -> None:
    rows = [("a b", "x y z", 1.0)]
    write = partial(write_pair_store, sizes=SIZES, max_length=9, reverse=reverse)
    store = write(tmp_path / "p", counted(rows), right_to_left=True)
    assert texts(store) == [stored]
    assert store.record.right_to_left
    # The record of another store is as it was before there was such a thing.
    write(tmp_path / "q", counted(rows))
    assert "right_to_left" not in (tmp_path / "q" / "pairs.json").read_text()


def test_long_pairs_are_counted_and_left_out(tmp_path: Path) -> None:
    rows = [("a b c", "x", 1.0), ("a", "x y z", 1.0), ("a b", "x y", 1.0)]
    store = write_pair_store(tmp_path / "pairs", counted(rows), SIZES, max_length=2)
    assert texts(store) == [("a b", "x y")]
    assert store.record.too_long == 2


def test_a_table_without_a_pair_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(PhrasescoreError, match="no pair to train on: 1 lines, none with at most 1"):
        write_pair_store(tmp_path / "p", counted([("a b", "x", 1.0)]), SIZES, max_length=1)
    with pytest.raises(PhrasescoreError, match="no pair to train on: 0 lines"):
        write_pair_store(tmp_path / "p", counted([]), SIZES, max_length=1)
    assert not list(tmp_path.iterdir())


def test_an_error_of_the_reader_is_passed_on_and_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[CountedPair]:
        yield from counted([("a", "x", 1.0)])
        raise ModelError("stop")

    with pytest.raises(ModelError, match="stop"):
        write_pair_store(tmp_path / "p", broken(), SIZES, max_length=1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", [b"\n", b""])
def test_the_fingerprint_is_that_of_the_uncompressed_lines(tmp_path: Path, ending: bytes) -> None:
    rows = list(counted([("a", "x", 1.0), ("b", "x", 1.0)]))
    store = write_pair_store(tmp_path / "pairs", rows, SIZES, max_length=1)
    content = b"\n".join(row.raw for row in rows) + ending
    (tmp_path / "table").write_bytes(content)
    (tmp_path / "table.gz").write_bytes(gzip.compress(content))
    assert fingerprint_input([str(tmp_path / "table")]) == store.record.fingerprint
    assert fingerprint_input([str(tmp_path / "table.gz")]) == store.record.fingerprint
    (tmp_path / "table").write_bytes(content.replace(b"b", b"c"))
    assert fingerprint_input([str(tmp_path / "table")]) != store.record.fingerprint


def test_the_fingerprint_of_parallel_text_is_that_of_its_pairs_of_lines(tmp_path: Path) -> None:
    sources, targets = tmp_path / "source.gz", tmp_path / "target"
    sources.write_bytes(gzip.compress(b"a b\nc\n"))
    targets.write_bytes(b"x\ny z")  # without a last newline
    rows = [
        CountedPair(line.raw, line.pair, 1.0)
        for line in read_parallel_text(str(sources), str(targets))
    ]
    store = write_pair_store(tmp_path / "pairs", rows, SIZES, max_length=9)
    paths = [str(sources), str(targets)]
    assert fingerprint_input(paths) == store.record.fingerprint
    assert fingerprint_input(paths[::-1]) != store.record.fingerprint
    for changed in (b"x\ny", b"x\ny z\n\n", b"x", b"x y\nz"):
        targets.write_bytes(changed)
        assert fingerprint_input(paths) != store.record.fingerprint, changed


def test_ids_take_two_bytes_as_long_as_they_fit() -> None:
    assert word_type(1 << 16) is np.uint16
    assert word_type((1 << 16) + 1) is np.int32


def test_a_store_of_another_format_or_size_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "pairs"
    write_pair_store(folder, counted([("a", "x", 1.0)]), SIZES, max_length=1)
    record = json.loads((folder / "pairs.json").read_text())
    (folder / "pairs.json").write_text(json.dumps({**record, "pairs": 2}))
    with pytest.raises(ModelError, match="do not match 2 pairs"):
        PairStore(folder)
    (folder / "pairs.json").write_text(json.dumps({**record, "format": 9}))
    with pytest.raises(DataError, match=r"pairs\.json: .*expected format 2, got 9"):
        PairStore(folder)
    (folder / "pairs.json").unlink()
    with pytest.raises(ModelError, match=r"pairs\.json: cannot be read"):
        PairStore(folder)


@pytest.mark.parametrize("name", ["source.words", "source.starts", "target.words", "target.starts"])
@pytest.mark.parametrize("lost", [1, 8, 1000])
def test_a_store_whose_files_were_cut_is_refused(tmp_path: Path, name: str, lost: int) -> None:
    folder = tmp_path / "pairs"
    write_pair_store(folder, counted([("a b c d e", "x y", 1.0)]), SIZES, max_length=7)
    size = (folder / name).stat().st_size
    os.truncate(folder / name, max(size - lost, 0))
    with pytest.raises(ModelError, match=r"do not match 1 pairs|cannot be read: "):
        PairStore(folder)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 16, 17, 100, 1023, 4097])
def test_a_permutation_has_every_number_once(size: int) -> None:
    permutation = Permutation(size, seed=5, stream=1)
    assert np.array_equal(np.sort(permutation(np.arange(size))), np.arange(size))


def test_a_permutation_can_be_entered_anywhere_and_depends_on_seed_and_stream() -> None:
    places = np.arange(1000)
    orders = [
        Permutation(1000, seed=seed, stream=stream)(places)
        for seed, stream in [(1, 0), (1, 1), (2, 0)]
    ]
    again = Permutation(1000, seed=1, stream=0)
    assert np.array_equal(again(places[500:]), orders[0][500:])
    for first, second in [(0, 1), (0, 2), (1, 2)]:
        # Two random orders agree in one place on average.
        assert (orders[first] == orders[second]).sum() < 20


def test_where_a_number_stands_is_uniform_over_the_streams() -> None:
    # Chi-square with 9 degrees of freedom: above 27.9 with a probability of 0.001.
    found = [int(Permutation(10, seed=1, stream=s)(np.array([3]))[0]) for s in range(2000)]
    expected = 200.0
    chi_square = sum((found.count(i) - expected) ** 2 / expected for i in range(10))
    assert chi_square < 27.9


def draw_config(batch_size: int, window: int) -> TrainingConfig:
    return TrainingConfig(batch_size=batch_size, window_batches=window, seed=7)


def make_draw(folder: Path, window: int, held_out: int = 30) -> tuple[PairStore, Draw]:
    if not folder.exists():
        rows = [(f"s{i}" + " s" * (i % 5), f"t{i}" + " t" * (i % 7), 1.0) for i in range(300)]
        write_pair_store(folder, counted(rows), SIZES, max_length=9)
    store = PairStore(folder)
    return store, Draw(store, draw_config(8, window), held_out)


@pytest.mark.parametrize("window", [1, 3, 1000])
def test_an_epoch_has_every_pair_once_but_the_held_out_ones(tmp_path: Path, window: int) -> None:
    store, draw = make_draw(tmp_path / "pairs", window)
    held_out = draw.held_out()
    assert len(set(held_out.tolist())) == 30
    assert draw.batches_per_epoch == 34  # 270 pairs in batches of 8, the last one of 6
    orders = []
    for epoch in (0, 1):
        batches = [draw.batch(epoch, number) for number in range(draw.batches_per_epoch)]
        assert sorted(map(len, batches)) == [6] + [8] * 33
        order = np.concatenate(batches).tolist()
        assert Counter([*order, *held_out.tolist()]) == Counter(range(len(store)))
        orders.append(order)
    assert orders[0] != orders[1]


@pytest.mark.parametrize("window", [1, 3, 1000])
@pytest.mark.parametrize("words", [1, 40, 500])
def test_batches_by_words_have_about_as_many_and_every_pair(
    tmp_path: Path, window: int, words: int
) -> None:
    store, _ = make_draw(tmp_path / "pairs", window)
    config = TrainingConfig(batch_words=words, window_batches=window, seed=7)
    draw = Draw(store, config, 30)
    batches = [draw.batch(1, number) for number in range(draw.batches_per_epoch)]
    assert Counter(np.concatenate([draw.held_out(), *batches]).tolist()) == Counter(range(300))
    assert min(map(len, batches)) > 0
    if words > 1:  # a pair has up to 8 words
        sizes = [int((store.lengths(batch)[1] + 1).sum()) for batch in batches]
        assert max(sizes) <= 1.25 * words + 8
        assert np.mean(sizes) == pytest.approx(words, rel=0.25)


@pytest.mark.parametrize("window", [1, 3])
def test_a_batch_does_not_depend_on_what_was_drawn_before(tmp_path: Path, window: int) -> None:
    _, draw = make_draw(tmp_path / "pairs", window)
    batches = [draw.batch(2, number) for number in range(draw.batches_per_epoch)]
    for number in (33, 0, 17):
        _, fresh = make_draw(tmp_path / "pairs", window)
        assert np.array_equal(fresh.batch(2, number), batches[number])


def test_a_window_makes_batches_of_like_lengths(tmp_path: Path) -> None:
    def spread(window: int) -> float:
        store, draw = make_draw(tmp_path / "pairs", window)
        lengths = [store.lengths(draw.batch(0, number))[1] for number in range(33)]
        return float(np.mean([part.max() - part.min() for part in lengths]))

    assert spread(16) < 1.5 < 4 < spread(1)


def padding(store: PairStore, batches: Iterable[Indices]) -> float:
    words, places = 0, 0
    for batch in batches:
        for lengths in store.lengths(batch):
            words += int(lengths.sum())
            places += len(lengths) * int(lengths.max())
    return 1 - words / places


def test_batches_of_sentences_have_at_most_5_percent_padding(tmp_path: Path) -> None:
    # Lengths as those of captions: 13 words on average, the sides correlated (0.9).
    generator = np.random.default_rng(1)
    sources = generator.gamma(10.0, 1.3, 12_800).astype(int) + 1
    targets = np.maximum(1, sources + generator.normal(1.0, 2.0, 12_800).round().astype(int))
    rows = [
        (f"s{i}" + " s" * (source - 1), "t" + " t" * (target - 1), 1.0)
        for i, (source, target) in enumerate(zip(sources, targets, strict=True))
    ]
    store = write_pair_store(tmp_path / "pairs", counted(rows), SIZES, max_length=99)

    def share(window: int) -> float:
        draw = Draw(store, draw_config(64, window), 0)
        return padding(store, [draw.batch(0, number) for number in range(draw.batches_per_epoch)])

    assert share(100) <= 0.05 < 0.4 < share(1)


@pytest.mark.parametrize("name", ["lstm-small", "sutskever2014"])
def test_real_sentences_have_at_most_5_percent_padding(
    shared_data: Path, tmp_path: Path, name: str
) -> None:
    config = Config.preset(name)
    lines = read_parallel_text(str(shared_data / "train.en"), str(shared_data / "train.fr"))
    store = write_pair_store(
        tmp_path / "pairs",
        (CountedPair(line.raw, line.pair, 1.0) for line in lines),
        config.vocabulary,
        max_length=config.training.max_length,
    )
    draw = Draw(store, config.training, 1000)
    batches = [draw.batch(0, number) for number in range(draw.batches_per_epoch)]
    assert padding(store, batches) <= 0.05


# Pairs by their place: sources and targets.
SOURCES: list[list[int]] = [[2], [3, 4], [], [5]]
TARGETS: list[list[int]] = [[7, 8, 9], [6], [7], []]
# Of each list the model scores and the pairs of its hypotheses, and the pairs that are taught.
LISTS = [([-1.0, -2.0], [[0, 1], [1, 1, 3]], [1]), ([-3.0], [[2]], [2]), ([-4.0], [[3, 0]], [1, 3])]


def test_a_batch_has_each_pair_once_and_what_is_known_of_the_hypotheses() -> None:
    builder = ListStoreBuilder()
    places = [builder.add_pair(*pair) for pair in zip(SOURCES, TARGETS, strict=True)]
    assert places == [0, 1, 2, 3]
    for known in LISTS:
        builder.add_list(*known)
    store = builder.build([0.5, 0.25, 1.0, 0.0], {})
    assert (len(store), len(store.gains)) == (3, 4)
    assert [sizes.tolist() for sizes in store.lengths(np.array([2, 0]))] == [[1, 2], [1, 2]]
    batch = store.batch(np.array([2, 0]))
    # Pairs 0, 1 and 3: words and </s>, which is 0.
    assert batch.pairs.source.ids.tolist() == [2, 0, 3, 4, 0, 5, 0]
    assert batch.pairs.target.ids.tolist() == [7, 8, 9, 0, 6, 0, 0]
    assert batch.pairs.target.lengths.tolist() == [3, 1, 0]
    assert batch.taught is not None
    assert batch.taught.source.ids.tolist() == [3, 4, 0, 5, 0]
    assert batch.scores.model_scores.tolist() == [-4.0, -1.0, -2.0]
    assert batch.scores.gains.tolist() == [0.0, 0.5, 0.25]
    assert (batch.scores.lists.tolist(), batch.scores.num_lists) == ([0, 1, 1], 2)
    # Sums by hand: pairs 3 and 0; 0 and 1; 1 twice and 3.
    values = batch.values(torch.tensor([-1.0, -10.0, -100.0]))
    assert values.tolist() == [-101.0, -11.0, -120.0]
    moved = batch.to(torch.device("cpu"))
    assert moved.values(torch.tensor([-1.0, -10.0, -100.0])).tolist() == values.tolist()


def test_values_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ragged, "_COUNTED", 2)
    rows = ragged.RaggedArray.from_rows([[1, 3], [], [1, 0, 1]])
    assert rows.count(5).tolist() == [1, 3, 0, 1, 0]

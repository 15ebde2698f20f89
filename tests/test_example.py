"""The shipped English-French example: its corpus, its grammar and its Moses tables."""

import gzip
import importlib
import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moses_integration.nbest import read_nbest
from tuning.metrics import Bleu

FOLDER = Path(__file__).parents[1] / "examples" / "english-french"
MODULES = ("clauses", "lexicon", "make_alignment", "make_corpus", "make_model", "moods",
           "phrase_pairs", "phrases", "tokens", "word_alignment")  # fmt: skip


@pytest.fixture(scope="module")
def example() -> Iterator[Any]:
    before = set(sys.modules)
    sys.path.insert(0, str(FOLDER))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    finally:
        sys.path.remove(str(FOLDER))
        for name in set(sys.modules) - before:
            if str(FOLDER) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


def read_text(path: Path) -> str:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()


def read_lines(name: str) -> list[str]:
    text = read_text(FOLDER / name)
    assert text.endswith("\n")
    return text.split("\n")[:-1]


def part(name: str, side: str) -> list[str]:
    return read_lines(f"{name}.{side}" + (".gz" if name == "train" else ""))


@pytest.fixture(scope="module")
def made(example: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("corpus")
    example.make_corpus.write_corpus(
        folder, example.make_corpus.SEED, example.make_corpus.NUM_TRAIN
    )
    return folder


def test_the_script_remakes_the_first_committed_sentences(example: Any) -> None:
    first = itertools.islice(example.make_corpus.examples(), 300)
    pairs = zip(part("dev", "en")[:300], part("dev", "fr")[:300], strict=True)
    assert [(found.english, found.french) for found in first] == list(pairs)


@pytest.mark.slow
def test_the_script_remakes_the_committed_corpus(made: Path) -> None:
    parts = ("dev.{}", "heldout.{}", "test.{}", "train.{}.gz")
    names = [each.format(side) for each in parts for side in ("en", "fr")]
    assert sorted(path.name for path in made.iterdir()) == [*names, "train.links.gz"]
    for name in names:
        # Compressed bytes may differ between versions of zlib; the text may not.
        assert read_text(made / name) == read_text(FOLDER / name), name


def test_another_seed_makes_another_corpus(example: Any) -> None:
    first, second = (next(example.make_corpus.examples(seed)) for seed in (1, 2))
    assert first != second


def test_parts_have_their_sizes_and_share_no_sentence() -> None:
    sizes = {"train": 8000, "dev": 500, "test": 500, "heldout": 1000}
    for side in ("en", "fr"):
        parts = {name: part(name, side) for name in sizes}
        for name, lines in parts.items():
            assert len(lines) == len(set(lines)) >= sizes[name]
        together = [line for lines in parts.values() for line in lines]
        assert len(together) == len(set(together))


@pytest.mark.parametrize("side", ["en", "fr"])
def test_vocabulary_is_large_with_a_tail(side: str) -> None:
    counts = Counter(word for line in part("train", side) for word in line.split(" "))
    assert len(counts) >= 900
    rare = sum(count <= 3 for count in counts.values())
    assert rare >= 0.2 * len(counts)
    unseen = {word for name in ("dev", "test") for line in part(name, side)
              for word in line.split(" ")} - set(counts)  # fmt: skip
    assert unseen


def test_text_has_the_form_of_the_moses_tokeniser() -> None:
    for name in ("train", "dev", "test", "heldout"):
        for side in ("en", "fr"):
            for line in part(name, side):
                assert line == line.lower()
                assert line == " ".join(line.split())
                assert not set(line) & set("'\"|_+~"), line


def points(line: str) -> list[tuple[int, ...]]:
    return [tuple(map(int, point.split("-"))) for point in line.split()]


@pytest.mark.slow
def test_every_link_is_inside_its_sentences(made: Path) -> None:
    links = read_text(made / "train.links.gz").split("\n")[:-1]
    files = part("train", "en"), part("train", "fr"), links, part("train", "align")
    for english, french, *lines in zip(*files, strict=True):
        sizes = len(english.split(" ")), len(french.split(" "))
        for found in map(points, lines):
            assert found == sorted(set(found))
            assert all(max(point[side] for point in found) < sizes[side] for side in (0, 1))
        grammar = points(lines[0])
        for side in (0, 1):
            # The grammar links every word but those that the other language lacks.
            assert len({point[side] for point in grammar}) >= sizes[side] - 2, english


@pytest.mark.slow
def test_the_script_remakes_the_committed_alignment(example: Any, made: Path) -> None:
    sides = [[line.split(" ") for line in part("train", side)] for side in ("en", "fr")]
    found = example.make_alignment.align_both_ways(*sides)
    assert [sorted(links) for links in found] == [*map(points, part("train", "align"))]
    links = read_text(made / "train.links.gz").split("\n")[:-1]
    wanted = [frozenset(points(line)) for line in links]
    assert example.make_alignment.error_rate(found, wanted) == (
        "precision 0.915, recall 0.786, alignment error rate 0.154"
    )


def test_the_error_rate_counts_links(example: Any) -> None:
    # Och and Ney (2003): 1 - (|A & S| + |A & P|) / (|A| + |S|), here of 2 right, 3 found, 5 wanted.
    found, wanted = [{(0, 0), (1, 1)}, {(0, 1)}], [{(0, 0), (1, 1), (2, 1)}, {(0, 0), (1, 1)}]
    assert example.make_alignment.error_rate(found, wanted) == (
        "precision 0.667, recall 0.400, alignment error rate 0.500"
    )


def test_links_are_symmetrised_as_symal_does(example: Any) -> None:
    symmetrise = example.make_alignment.grow_diag_final_and
    # By hand, (source, target). Both say 0-0 and 1-1. From 1-1 grows 2-2 (a diagonal), from there
    # 3-2. 0-3 is beside no link, and "final-and" adds a link only if both its words are free.
    assert symmetrise([0, 1, 2, 0], [0, 1, -1, 2]) == {(0, 0), (1, 1), (2, 2), (3, 2)}
    assert symmetrise([0, -1, -1, 3], [0, -1, -1, -1]) == {(0, 0), (3, 3)}
    # Of two that claim a word, the direct one comes first.
    assert symmetrise([0, -1, -1, -1, 2], [0, -1, 3, 4]) == {(0, 0), (2, 4)}
    assert symmetrise([-1], [-1]) == set()


def test_phrase_table_is_well_formed_and_sorted() -> None:
    lines = read_lines("phrase-table.gz")
    assert lines == sorted(lines, key=str.encode)
    assert len(lines) > 50_000
    for line in lines:
        source, target, scores, links, counts, *rest = line.split(" ||| ")
        assert rest == ["|||"]
        values = [float(score) for score in scores.split(" ")]
        assert len(values) == 4
        assert all(0 < value <= 1 for value in values), line
        n_target, n_source, joint = map(int, counts.split(" "))
        # Moses' order: p(source | target), lexical, p(target | source), lexical; 6 digits.
        assert abs(values[0] * n_target / joint - 1) < 1e-5
        assert abs(values[2] * n_source / joint - 1) < 1e-5
        sizes = len(source.split(" ")), len(target.split(" "))
        assert max(sizes) <= 7
        for link in links.split(" "):
            left, right = map(int, link.split("-"))
            assert left < sizes[0]
            assert right < sizes[1]


def test_reordering_table_has_the_same_pairs_and_its_thirds_sum_to_one() -> None:
    pairs = [line.split(" ||| ")[:2] for line in read_lines("phrase-table.gz")]
    lines = read_lines("reordering-table.wbe-msd-bidirectional-fe.gz")
    assert sorted(pairs) == sorted(line.split(" ||| ")[:2] for line in lines)
    for line in lines:
        values = [float(value) for value in line.split(" ||| ")[2].split(" ")]
        assert len(values) == 6
        assert abs(sum(values[:3]) - 1) < 1e-4 > abs(sum(values[3:]) - 1)


def test_language_model_is_a_4_gram_arpa_that_knows_every_french_word() -> None:
    text = read_text(FOLDER / "lm.fr.arpa.gz")
    assert text.startswith("\\data\\\nngram 1=")
    assert "\\4-grams:\n" in text
    assert "\\5-grams:\n" not in text
    section = text.split("\\1-grams:\n")[1].split("\n\n")[0]
    known = {line.split("\t")[1] for line in section.split("\n")}
    assert known >= {word for line in part("train", "fr") for word in line.split(" ")}


def test_corpus_and_model_have_at_most_five_megabytes_and_each_list_half_a_one() -> None:
    sizes = {path.name: path.stat().st_size for path in FOLDER.iterdir() if path.is_file()}
    for name in ("dev", "test"):
        assert sizes.pop(f"{name}.20best.gz") <= 500_000
    assert sum(sizes.values()) <= 5_250_000


# By sacrebleu 2.6.0 with --tokenize none: dev 69.32, test 65.79.
@pytest.mark.parametrize(("name", "num_lines", "bleu"), [("dev", 8729, 69.32),
                                                         ("test", 8735, 65.79)])  # fmt: skip
def test_the_n_best_lists_are_of_dev_and_test_with_different_hypotheses(
    name: str, num_lines: int, bleu: float
) -> None:
    lists = list(read_nbest(str(FOLDER / f"{name}.20best.gz")))
    assert sum(len(item.raws) for item in lists) == num_lines
    metric = Bleu([[line.split(" ") for line in part(name, "fr")]])
    first = [next(iter(item.distinct().values())) for item in lists]
    found = metric.score(metric.statistics(first, range(500)).sum(axis=0))
    assert 100 * found == pytest.approx(bleu, abs=0.005)
    assert [item.id for item in lists] == list(range(500))
    assert all(len(item.distinct()) == len(item.raws) <= 20 for item in lists)
    features = lists[0].features(0)
    assert {name: len(values) for name, values in features.items()} == {
        "LexicalReordering0": 6,
        "Distortion0": 1,
        "LM0": 1,
        "WordPenalty0": 1,
        "PhrasePenalty0": 1,
        "TranslationModel0": 4,
    }


@pytest.mark.slow
def test_the_script_remakes_the_committed_tables(example: Any) -> None:
    corpus = example.make_model.read_corpus(FOLDER)
    table = example.phrase_pairs.extract(corpus)
    assert example.phrase_pairs.table_lines(corpus, table) == read_lines("phrase-table.gz")
    lines = list(example.phrase_pairs.reordering_lines(table))
    assert lines == read_lines("reordering-table.wbe-msd-bidirectional-fe.gz")


def test_a_pair_whose_links_lead_out_of_it_is_not_extracted(example: Any) -> None:
    # red house / maison rouge: the links cross, and an unlinked "the" may join either side.
    pair = example.phrase_pairs.SentencePair(
        ["the", "red", "house"], ["maison", "rouge"], frozenset({(1, 1), (2, 0)})
    )
    assert {(s, t) for s, t in example.phrase_pairs.extract([pair])} == {
        ("red", "rouge"),
        ("the red", "rouge"),
        ("house", "maison"),
        ("red house", "maison rouge"),
        ("the red house", "maison rouge"),
    }


def test_orientations_of_a_swap_are_smoothed_by_a_half(example: Any) -> None:
    pair = example.phrase_pairs.SentencePair(
        ["red", "house"], ["maison", "rouge"], frozenset({(0, 1), (1, 0)})
    )
    lines = list(example.phrase_pairs.reordering_lines(example.phrase_pairs.extract([pair])))
    # By hand: one observation and 0.5 each: 1.5 / 2.5 = 0.6, 0.5 / 2.5 = 0.2. "maison" begins the
    # target but not the source: other, then swap; "rouge" follows in a swap and ends: other.
    assert lines == [
        "house ||| maison ||| 0.2 0.2 0.6 0.2 0.6 0.2",
        "red house ||| maison rouge ||| 0.6 0.2 0.2 0.6 0.2 0.2",
        "red ||| rouge ||| 0.2 0.6 0.2 0.2 0.2 0.6",
    ]

"""The shipped English-French example: its corpus, its grammar, and the system that build makes."""

import gzip
import importlib
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moses_integration.nbest import read_nbest
from tuning.metrics import Bleu

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDER = REPOSITORY / "examples" / "english-french"


@pytest.fixture(scope="module")
def make_corpus() -> Iterator[Any]:
    """Return the script of this name as a module."""
    before = set(sys.modules)
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("make_corpus")
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
def made(make_corpus: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("corpus")
    make_corpus.write_corpus(folder, make_corpus.SEED, make_corpus.NUM_TRAIN)
    return folder


def test_the_script_remakes_the_first_committed_sentences(make_corpus: Any) -> None:
    first = itertools.islice(make_corpus.examples(), 300)
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


def test_another_seed_makes_another_corpus(make_corpus: Any) -> None:
    first, second = (next(make_corpus.examples(seed)) for seed in (1, 2))
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
def test_the_alignment_has_the_error_rate_of_the_docs(made: Path) -> None:
    """Och and Ney (2003), with all links of the grammar as sure ones."""
    files = read_text(made / "train.links.gz").split("\n")[:-1], part("train", "align")
    wanted, found = (
        {(line, *point) for line, text in enumerate(lines) for point in points(text)}
        for lines in files
    )
    rate = 1 - 2 * len(wanted & found) / (len(wanted) + len(found))
    docs = (REPOSITORY / "docs" / "build.md").read_text(encoding="utf-8")
    (first,) = re.findall(r"rates on the shipped example are ([\d.]+),", docs)
    assert f"{100 * rate:.1f}" == first


def test_corpus_and_model_are_small_and_each_list_has_at_most_half_a_megabyte() -> None:
    sizes = {path.name: path.stat().st_size for path in FOLDER.iterdir() if path.is_file()}
    for name in ("dev", "test"):
        assert sizes.pop(f"{name}.20best.gz") <= 500_000
    assert sum(sizes.values()) <= 5_600_000


# By sacrebleu 2.6.0 with --tokenize none: dev 70.16, test 67.60.
@pytest.mark.parametrize(("name", "num_lines", "bleu"), [("dev", 8696, 70.16),
                                                         ("test", 8693, 67.60)])  # fmt: skip
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
@pytest.mark.timeout(900)
def test_the_commands_of_the_readme_make_the_committed_files(tmp_path: Path) -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    section = readme.partition("\n## Make it again\n")[2].partition("\n## ")[0]
    commands = re.findall("^    (.+)$", section, re.MULTILINE)
    assert any(command.startswith("phrasescore build train") for command in commands)
    python = shlex.quote(sys.executable)
    programs = f'python() {{ {python} "$@"; }}\nphrasescore() {{ python -m phrasescore "$@"; }}'
    shutil.copytree(FOLDER, tmp_path / "example", ignore=shutil.ignore_patterns("*.gz", "moses.*"))
    subprocess.run(
        ["bash", "-ec", "\n".join([programs, *commands])],
        cwd=tmp_path / "example",
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        check=True,
    )
    names = [path.name for path in FOLDER.iterdir() if path.suffix in (".gz", ".ini")]
    assert len(names) == 9
    for name in names:
        assert read_text(tmp_path / "example" / name) == read_text(FOLDER / name), name

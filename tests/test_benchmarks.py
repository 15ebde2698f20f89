"""The benchmarks run, and what they print is what they measured; not how fast anything is."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from tests.benchmarks import rescoring, tuning
from tests.benchmarks.commands import Cost, find_tool
from tests.benchmarks.material import write_lists, write_slices
from tests.benchmarks.run import main
from tests.benchmarks.search import Output, Runs, compare_runs, cut, read_texts, score_bleu
from tests.command_line import succeeded

TINY = (
    "model.hidden_size=8",
    "model.embedding_size=4",
    "model.maxout_size=4",
    "model.output_rank=4",
    "vocabulary.source_size=900",
    "vocabulary.target_size=900",
    "training.batch_size=8",
)


def run(repository: Path, tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """Run a part on the shipped example without Moses; return its figures."""
    example = repository / "examples" / "english-french"
    files = {
        "table": ["phrase-table.gz"],
        "nbest": ["test.20best.gz", "test.en"],
        "translate": ["moses.ini", "test.en", "test.fr"],
        "bitext": ["train.en.gz", "train.fr.gz", "train.align.gz"],
    }
    inputs = [
        word
        for option, names in files.items()
        for word in (f"--{option}", *(str(example / name) for name in names))
    ]
    sets = [part for setting in TINY for part in ("--set", setting)]
    inputs += ["--moses-bin", "", "--json", str(tmp_path / "found.json"), *sets]
    threads = torch.get_num_threads()
    done = succeeded(CliRunner().invoke(main, [*inputs, *arguments], catch_exceptions=False))
    assert torch.get_num_threads() == threads
    (report,) = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["reports"]
    for label in report["figures"]:
        assert label in done.stdout
    figures: dict[str, Any] = report["figures"]
    return figures


@pytest.mark.slow
def test_scoring_compares_the_same_values(repository: Path, tmp_path: Path) -> None:
    example = repository / "examples" / "english-french" / "phrase-table.gz"
    (table,) = write_slices(str(example), tmp_path, 600, 600)
    figures = run(repository, tmp_path, "scoring", "--table", str(table), "--slice-lines", "200")
    # float32 sums of some ten terms of size 1, in another order; a table has seven digits.
    assert figures["annotate float32, largest error in log"]["median"] < 1e-4
    assert len(figures["annotate float32 / plain float32 (target 4)"]["values"]) == 3
    # Torch alone takes more than 100 MB; nothing here needs 2 GB.
    assert 100 < figures["whole table, preset encoder-decoder-small: peak memory"]["median"] < 2000


@pytest.mark.slow
def test_training_times_both_sides(repository: Path, tmp_path: Path) -> None:
    figures = run(repository, tmp_path, "training", "--training-lines", "300", "--turns", "3")
    assert len(figures["phrasescore / plain (target 1.3)"]["values"]) == 3
    assert len(figures["plain torch loop"]["values"]) == 3


@pytest.mark.slow
def test_rescoring_compares_the_same_values(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescoring, "TURNS", 1)
    figures = run(repository, tmp_path, "rescoring", "--lists", "3")
    for name in ("lstm", "rnnsearch"):
        assert figures[f"{name}: largest difference in log"]["max"] < 1e-4
        assert len(figures[f"{name}: against plain, every line"]["values"]) == 1


@pytest.mark.slow
def test_the_transformer_has_the_scores_of_ctranslate2(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescoring, "TURNS", 1)
    figures = run(repository, tmp_path, "transformer", "--lists", "3")
    assert figures["transformer: largest difference in log"]["max"] < 1e-4


def test_lists_at_equal_distances_are_written_with_their_sources(
    repository: Path, tmp_path: Path
) -> None:
    example = repository / "examples" / "english-french"
    lists = write_lists(str(example / "test.20best.gz"), str(example / "test.en"), 4, tmp_path)
    sources = (example / "test.en").read_text().splitlines()
    step = len(sources) // 4
    wanted = [sources[place * step] for place in range(4)]
    assert (tmp_path / "source").read_text().splitlines() == wanted
    assert [" ".join(item.source) for item in lists] == wanted
    lines = gzip.decompress((tmp_path / "lists.gz").read_bytes()).splitlines()
    assert [int(line.split(b" ")[0]) for line in lines] == [
        number for number, item in enumerate(lists) for _ in item.hypotheses
    ]
    little = gzip.decompress((tmp_path / "little.gz").read_bytes()).splitlines()
    assert little == lines[: len(lists[0].hypotheses)]


@pytest.mark.slow
def test_tuning_names_seconds_and_bleu(repository: Path, tmp_path: Path) -> None:
    sizes = ("--tuning-lists", "20", "--starts", "1", "--repeats", "1")
    figures = run(repository, tmp_path, "tuning", *sizes)
    assert figures["sentences"]["median"] == 20
    for method in ("mert", "mira"):
        assert figures[f"tune, {method}: seconds of the processor"]["min"] > 0
        assert 0 < figures[f"tune, {method}: BLEU reached"]["median"] <= 100


def test_weights_are_read_as_mert_and_kbmira_write_them() -> None:
    assert tuning.read_weights("0.1 -0.2 3e-05\n") == ["0.1", "-0.2", "3e-05"]
    assert tuning.read_weights("F0 0.1\nF1 -0.2\n") == ["0.1", "-0.2"]


@pytest.mark.slow
def test_the_search_is_measured_without_moses(repository: Path, tmp_path: Path) -> None:
    figures = run(repository, tmp_path, "search", "--sentences", "6")
    assert figures["embedded: peak memory"]["min"] > 50
    assert len(figures["CSLM, unnormalized: search, processor"]["values"]) == 3
    assert 0 < figures["cube pruning, 200 pops: BLEU"]["median"] <= 100


def test_slices_cover_the_text_and_have_two_sentences_each() -> None:
    assert cut(10, 3) == [range(3), range(3, 6), range(6, 10)]
    assert cut(5, 3) == [range(2), range(2, 5)]
    assert cut(1, 3) == [range(1)]


def test_a_speed_is_without_loading_and_without_the_first_sentence() -> None:
    loading = Cost(3.0, 2.0, 1e8)
    ours = Runs([Cost(23.0, 7.0, 2e8), Cost(13.0, 12.0, 2e8)], [loading, loading])
    theirs = Runs([Cost(13.0, 4.5, 8e8), Cost(13.0, 7.0, 4e8)], [loading, loading])
    shown = {row.label: row.values for row in ours.rows("ours", [11, 21])}
    assert shown["ours: search, processor"] == [10 / 5, 20 / 10]
    assert shown["ours: loading, processor"] == [2.0, 2.0]
    assert shown["ours: peak memory"] == [200, 200]
    # The second is lower by less than what printing loses; the last is lower by 1.
    ours.outputs = [Output((w,), s) for w, s in zip("abcd", (-1, -2.00001, -1.5, -30), strict=True)]
    theirs.outputs = [Output((w,), s) for w, s in zip("abxy", (-1, -2, -2.5, -29), strict=True)]
    ratios = {row.label: row.values for row in compare_runs(ours, theirs)}
    assert ratios["times Moses' speed, search, processor (target 0.1)"] == [2.5 / 5, 5 / 10]
    assert ratios["  with loading, processor"] == [4.5 / 7, 7 / 12]
    assert ratios["identical translations"] == [50]
    assert ratios["our total is not lower (target 98)"] == [75]


def test_bleu_of_the_references_is_100() -> None:
    reference = ("a", "b", "c", "d", "e")
    assert score_bleu([reference], [reference]) == pytest.approx(100)
    # Four of five words, three of four bigrams, two of three and one of two: 0.2 ** 0.25.
    assert score_bleu([(*reference[:4], "x")], [reference]) == pytest.approx(100 * 0.2**0.25)


def test_empty_lines_are_left_out_with_their_references(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("a b\n\nc\nd\n")
    (tmp_path / "reference").write_text("A B\nX\nC\nD\n")
    found = read_texts(str(tmp_path / "source"), str(tmp_path / "reference"), 2)
    assert found == ([("a", "b"), ("c",)], [("A", "B"), ("C",)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "labels"),
    [("building", {"sentence pairs": 50}), ("language_models", {}), ("evaluation", {})],
)
def test_other_tools_are_beside_our_commands(
    repository: Path, tmp_path: Path, part: str, labels: dict[str, float]
) -> None:
    figures = run(repository, tmp_path, part, "--pairs", "50", "--repeats", "1")
    assert {label: figures[label]["median"] for label in labels} == labels
    names = {"building": "build", "language_models": "build-lm", "evaluation": "evaluate"}
    assert figures[f"{names[part]}: seconds of the processor"]["min"] > 0
    assert ("evaluate: times as fast" in figures) == (part == "evaluation")


def test_a_program_is_looked_up_in_the_folder_alone() -> None:
    assert find_tool("bash", None) is not None
    assert find_tool("bash", "") is None


def test_peak_memory_is_not_that_of_its_parent(repository: Path) -> None:
    # 200 MB here, which Linux would count for a child that were started from here.
    ballast = bytearray(b"x" * 200_000_000)
    script = repository / "tests" / "benchmarks" / "peak_memory.py"
    command = [sys.executable, str(script), sys.executable, "-c", "x = b'x' * 50_000_000"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(ballast) == 200_000_000
    assert 50e6 < json.loads(done.stdout)["bytes"] < 150e6


def test_the_file_runs_from_anywhere(repository: Path, tmp_path: Path) -> None:
    script = repository / "tests" / "benchmarks" / "run.py"
    done = subprocess.run(
        [sys.executable, str(script), "--help"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "--tuning-lists" in done.stdout


def test_slices_hold_each_line_once(tiny_table: Path, tmp_path: Path) -> None:
    paths = write_slices(str(tiny_table), tmp_path, lines=3, slice_lines=2)
    text = b"".join(gzip.decompress(path.read_bytes()) for path in paths)
    assert text == b"".join(tiny_table.read_bytes().splitlines(keepends=True)[:3])
    assert [path.name for path in paths] == ["slice-0.gz"]
    assert len(write_slices(str(tiny_table), tmp_path, lines=4, slice_lines=2)) == 2


@pytest.mark.gpu
def test_a_gpu_has_the_scores_of_the_cpu(repository: Path, tmp_path: Path) -> None:
    sizes = ("--lines", "300", "--training-lines", "300", "--turns", "2")
    figures = run(repository, tmp_path, "gpu", *sizes)
    assert figures["float32, largest error in log"]["median"] < 1e-4
    assert figures["tf32, largest error in log"]["median"] < 0.1
    assert 1e-6 < figures["bfloat16, largest error in log"]["median"] < 1
    for name in ("float32", "tf32", "bfloat16"):
        assert figures[f"{name}: annotate, from .gz to .gz"]["min"] > 0
        assert len(figures[f"{name}, phrasescore's loop"]["values"]) == 2

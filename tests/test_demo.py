"""The demo of the shipped example: what it compares, and that it runs."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moses_integration.phrase_table import read_phrase_table
from phrasescore.workflows.experiment.config import read_experiment

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDER = REPOSITORY / "examples" / "english-french"
DEMO = FOLDER / "demo.py"
EXPERIMENT = FOLDER / "experiment.toml"

# Moses' four scores, of which the third is p(e|f), and the network's. "go to the park" is too
# short of targets, "the dog" too short of words; "you go to bed now" holds "go to bed now".
ANNOTATED = """\
go to bed now ||| se coucher ||| 1 1 0.25 1 0.5 ||| ||| 3 12 3 ||| |||
go to bed now ||| aller &quot; au lit &quot; ||| 1 1 0.5 1 0.0001 ||| ||| 6 12 6 ||| |||
go to bed now ||| me couche ||| 1 1 0.0833333 1 0.125 ||| ||| 1 12 1 ||| |||
go to bed now ||| te couches ||| 1 1 0.166667 1 0.25 ||| ||| 2 12 2 ||| |||
go to the park ||| aller au parc ||| 1 1 0.75 1 0.5 ||| ||| 30 40 30 ||| |||
go to the park ||| allé au parc ||| 1 1 0.25 1 0.125 ||| ||| 10 40 10 ||| |||
is it late &apos;s ||| a ||| 1 1 0.333333 1 0.25 ||| ||| 1 3 1 ||| |||
is it late &apos;s ||| l&apos; été ||| 1 1 0.333333 1 0.5 ||| ||| 1 3 1 ||| |||
is it late &apos;s ||| c ||| 1 1 0.333333 1 0.125 ||| ||| 1 3 1 ||| |||
the dog ||| le chien ||| 1 1 0.5 1 0.5 ||| ||| 50 100 50 ||| |||
the dog ||| la chienne ||| 1 1 0.3 1 0.5 ||| ||| 30 100 30 ||| |||
the dog ||| un chien ||| 1 1 0.2 1 0.5 ||| ||| 20 100 20 ||| |||
you go to bed now ||| a ||| 1 1 0.333333 1 0.25 ||| ||| 4 12 4 ||| |||
you go to bed now ||| b ||| 1 1 0.333333 1 0.25 ||| ||| 4 12 4 ||| |||
you go to bed now ||| c ||| 1 1 0.333333 1 0.25 ||| ||| 4 12 4 ||| |||
"""

PREFERENCES = """\
  p(e|f)  the table prefers  p(e|f)  the network prefers

go to bed now  (seen 12 times, 4 targets)
   0.500  aller " au lit "    0.500  se coucher
   0.250  se coucher          0.250  te couches
   0.167  te couches          0.125  me couche

is it late 's  (seen 3 times, 3 targets)
   0.333  a                   0.500  l' été
   0.333  l' été              0.250  a
   0.333  c                   0.125  c"""


@pytest.fixture(scope="module")
def demo() -> Any:
    """Return the demo as a module; its folder stays off the path, as its names are common ones."""
    spec = importlib.util.spec_from_file_location("english_french_demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DEMO.parent)
        spec.loader.exec_module(module)
    return module


@pytest.fixture
def targets(demo: Any, tmp_path: Path) -> Any:
    path = tmp_path / "annotated.en-fr.phrase-table"
    path.write_text(ANNOTATED, encoding="utf-8")
    return demo.preferences.read_targets(str(path))


def test_the_comparison_has_the_best_three_of_both_side_by_side(demo: Any, targets: Any) -> None:
    shown = demo.preferences.preference_table(targets, ["go to bed now", "is it late &apos;s"])
    assert shown == PREFERENCES


def test_a_tiny_probability_is_not_shown_as_none(demo: Any, targets: Any) -> None:
    few = {"go to bed now": targets["go to bed now"][:2]}
    rows = demo.preferences.preference_table(few, ["go to bed now"]).split("\n")
    assert rows[-1] == '   0.250  se coucher         <0.001  aller " au lit "'


def test_frequent_phrases_are_long_have_three_targets_and_do_not_overlap(
    demo: Any, targets: Any
) -> None:
    # "the dog" and "go to the park" were seen more often.
    assert demo.preferences.frequent_sources(targets, 5) == ["go to bed now", "is it late &apos;s"]
    assert demo.preferences.frequent_sources(targets, 1) == ["go to bed now"]


def test_rare_phrases_are_those_whose_targets_were_each_seen_once(demo: Any, targets: Any) -> None:
    assert demo.preferences.rare_sources(targets, 5) == ["is it late &apos;s"]


def test_rare_phrases_are_taken_at_equal_distances(demo: Any) -> None:
    once = [demo.preferences.Target(text, 1 / 3, 0.5, 1.0) for text in "abc"]
    many = {f"a b c {place}": once for place in range(9)}
    assert demo.preferences.rare_sources(many, 3) == ["a b c 1", "a b c 4", "a b c 7"]
    assert demo.preferences.rare_sources({}, 3) == []


def test_agreement_counts_sources_where_the_table_has_one_first_choice(
    demo: Any, targets: Any
) -> None:
    # "go to bed now" (of 4): not the same; "go to the park" (of 2): the same. (1/4 + 1/2) / 2.
    assert demo.preferences.agreement(targets) == (
        "Of 2 source phrases of 4 words or more where the table prefers one of several targets,\n"
        "the network has the same first choice for 50%; by chance it would be 38%."
    )
    assert demo.preferences.agreement({}) == "The table prefers one target of several nowhere."


# Networks of a few updates and a single round of tuning.
QUICK = {
    "nbest_size = 100": "nbest_size = 5",
    "iterations = 3": "iterations = 2",
    "stack = 20": "stack = 2",
    "updates = 1000": "updates = 2\nset.model.maxout_size = 8",
    "epochs = 4": "updates = 2",
    '"+CSLM+RNN", "+RNNsearch"': '"+RNN"',
}


@pytest.fixture
def quick(tmp_path: Path) -> Path:
    text = EXPERIMENT.read_text(encoding="utf-8")
    for old, new in QUICK.items():
        assert old in text
        text = text.replace(old, new)
    for name in ("dev.en", "dev.fr", "heldout.en", "heldout.fr"):
        lines = (FOLDER / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (tmp_path / name).write_text("".join(lines[:20]), encoding="utf-8")
    for name in ("moses.ini", "train.en.gz", "train.fr.gz"):
        text = text.replace(f'"{name}"', f'"{FOLDER / name}"')
    path = tmp_path / "experiment.toml"
    path.write_text(text, encoding="utf-8")
    return path


def run_demo(output: Path, experiment: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    """Run the demo as ``make demo`` does, in a locale that has no French."""
    return subprocess.run(
        [sys.executable, str(DEMO), "--experiment", experiment, "--output", output, *more],
        capture_output=True,
        check=False,
        cwd=output.parent,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        encoding="utf-8",
    )


@pytest.mark.slow
def test_the_demo_runs_and_a_second_run_repeats_nothing(quick: Path, tmp_path: Path) -> None:
    output = tmp_path / "demo"
    first = run_demo(output, quick)
    assert first.returncode == 0, first.stderr
    assert f"$ phrasescore experiment {quick} -o {output}\n" in first.stdout
    assert "step 3 of 6: train encoder-decoder\n" in first.stderr
    # The experiment's table, and then the comparison.
    table = (output / "table.txt").read_text(encoding="utf-8")
    assert [line.split()[0] for line in table.splitlines()[1:3]] == ["Baseline", "+RNN"]
    assert first.stdout.index(table) < first.stdout.index("FREQUENT: ")
    assert first.stdout.index("FREQUENT: ") < first.stdout.index("RARE: ")
    assert "il a pris le petit-déjeuner dans le" in first.stdout  # of a rare phrase
    annotated = read_phrase_table(str(output / "tables" / "encoder-decoder" / "phrase-table.gz"))
    assert {line.num_scores for line in annotated} == {5}

    # Both rows have the same translations: there are no differences to show.
    results = {"results", "groups", "tuning"}
    networks = {"preferences", "samples", "scores", "words", "phrases", "training"}
    for page, expected in ((output / "report", results), (tmp_path / "demo-report", networks)):
        assert (page / "index.html").stat().st_size > 10_000
        report = json.loads((page / "report.json").read_text(encoding="utf-8"))
        keys = {section["key"] for section in report["sections"]}
        assert keys >= expected
        assert (keys >= networks) == (expected == networks)

    # But for the report's command, which is not run again.
    start, _, end = first.stdout.partition("\n$ phrasescore report ")
    assert start.count("$ phrasescore ") == 1
    second = run_demo(output, quick)
    assert second.stdout == start + end.partition("\n")[2]
    assert "6 of 6 steps are done" in second.stderr
    assert "step " not in second.stderr.replace("6 of 6 steps", "")

    shutil.rmtree(output / "models")
    third = run_demo(output, quick, "--fresh")
    assert third.stdout == first.stdout
    assert "0 of 6 steps are done" in third.stderr


@pytest.mark.slow
def test_a_step_that_fails_ends_the_demo_with_a_clear_line(quick: Path, tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text("nothing\n")
    ini = (FOLDER / "moses.ini").read_text("utf-8")
    broken = re.sub(r"path=\S*lm\.fr\.arpa\.gz", f"path={tmp_path}/lm.arpa", ini)
    assert broken != ini
    (tmp_path / "moses.ini").write_text(broken, "utf-8")
    given, new = f'moses_ini = "{FOLDER}/moses.ini"', f'moses_ini = "{tmp_path}/moses.ini"'
    text = quick.read_text("utf-8")
    assert given in text
    quick.write_text(text.replace(given, f'{new}\npaths_from = "{FOLDER}"'), "utf-8")
    done = run_demo(tmp_path / "demo", quick)
    assert done.returncode == 1
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("Error")]
    assert "tune Baseline seed 1 ended with exit code" in error
    assert f"{tmp_path}/lm.arpa" in error
    assert done.stdout.endswith("Run it again to go on, or with --fresh to begin anew.\n")
    assert "FREQUENT" not in done.stdout


def test_the_demo_is_the_table_of_the_paper_and_a_row_of_lists() -> None:
    wanted = read_experiment(str(EXPERIMENT))
    assert [system.name for system in wanted.systems] == ["Baseline", "+CSLM+RNN", "+RNNsearch"]
    # What a busy machine makes of them must be what a free one does.
    for model in wanted.models.values():
        assert "minutes" not in model.limits
        assert {"updates", "epochs"} & set(model.limits)

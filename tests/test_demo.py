"""The demo of the shipped example: what it compares, and that it runs."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moses_integration.moses_ini import MosesIni
from moses_integration.phrase_table import read_phrase_table

REPOSITORY = Path(__file__).resolve().parent.parent
DEMO = REPOSITORY / "examples" / "english-french" / "demo.py"

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
    """Return the targets of the hand-written table."""
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


def test_relative_paths_become_absolute_and_nothing_else_changes(demo: Any) -> None:
    before = "# x\n[feature]\nA name=T path=t.gz order=4\nB path=/opt/b num-features=1\n"
    after = "# x\n[feature]\nA name=T path=/m/t.gz order=4\nB path=/opt/b num-features=1\n"
    assert demo.absolute_paths(before, Path("/m")) == after


# As `phrasescore evaluate --format json` writes it, without what the table does not take.
EVALUATION = """\
{"sentences": 1500,
 "paired": {"kind": "bootstrap", "trials": 1000, "metrics": [{"metric": "BLEU", "systems": [
  {"score": %s, "p_value": null}, {"score": %s, "p_value": 0.0009990}]}]},
 "nbest": {"oracle": {"score": 85.376}}}
"""
RESULTS = """\
                      dev BLEU             test BLEU
  Moses                  70.65                  9.13
  even average           72.06  p = 0.001     100.00  p = 0.001
  best in the lists      85.38                 85.38

p: paired bootstrap against Moses, 1,000 samples of the
1,500 sentences of dev and 1,500 sentences of test."""


def test_the_results_are_a_table_of_sets_and_choices(demo: Any, tmp_path: Path) -> None:
    evaluations = {}
    for name, scores in (("dev", (70.6542, 72.0649)), ("test", (9.126, 100.0))):
        evaluations[name] = tmp_path / f"{name}.json"
        evaluations[name].write_text(EVALUATION % scores)
    found = demo.results.results_table(evaluations, ["Moses", "even average"])
    assert found == RESULTS


def run_demo(output: Path, *more: str) -> str:
    """Run the demo as ``make demo`` does, in a locale that has no French; return its stdout."""
    done = subprocess.run(
        [
            sys.executable,
            str(DEMO),
            "--minutes",
            "0.05",
            "--sentence-minutes",
            "0.05",
            "--output",
            str(output),
            *more,
        ],
        capture_output=True,
        check=True,
        cwd=output.parent,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    return done.stdout.decode("utf-8")


@pytest.mark.slow
def test_the_demo_runs_and_a_second_run_uses_what_is_there(demo: Any, tmp_path: Path) -> None:
    output = tmp_path / "demo"
    first = run_demo(output)
    assert "$ phrasescore train encoder-decoder examples/english-french/phrase-table.gz" in first
    assert "$ phrasescore annotate" in first
    assert "$ phrasescore rescore examples/english-french/test.20best.gz" in first
    assert "$ phrasescore tune" in first
    # Real Moses' own translations with this moses.ini, as its multi-bleu.perl measures them.
    assert re.search(r"\n  Moses' own choice +71\.47 +70\.65\n", first)
    tuned, own = (
        float(re.search(rf"\n  {row} +([0-9.]+)", first)[1])  # type: ignore[index]
        for row in (r"tuned on dev \(xbleu\)", "Moses' own choice")
    )
    assert tuned > own
    assert "the network prefers" in first
    assert "revenir" in first
    ini = MosesIni.read(str(output / "moses.ini"))
    (table,) = ini.phrase_tables()
    assert (table.path, table.num_features) == (str(output / "phrase-table.rnn.gz"), 5)
    assert f" path={demo.FOLDER}/lm.fr.arpa.gz" in (output / "moses.ini").read_text()
    assert {line.num_scores for line in read_phrase_table(str(table.path))} == {5}

    weights = (output / "model" / "model.safetensors").stat().st_mtime_ns
    second = run_demo(output)
    assert "is there from an earlier run and is used again" in second
    assert "$ phrasescore train" not in second
    assert "$ phrasescore annotate" not in second
    assert (output / "model" / "model.safetensors").stat().st_mtime_ns == weights
    # The comparison is the same.
    compared = [text[text.index("FREQUENT") : text.index("by chance")] for text in (first, second)]
    assert compared[0] == compared[1]

    (output / "model" / "source.vocab").unlink()
    third = run_demo(output)
    assert "It is not whole, so it is trained anew." in third
    assert "$ phrasescore annotate" in third
    shutil.rmtree(output)

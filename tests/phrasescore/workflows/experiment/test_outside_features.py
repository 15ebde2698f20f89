"""Rows with programs, models of CTranslate2, and features of other packages."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.features.foreign import CTranslate2Model
from phrasescore.workflows.experiment.commands import shown
from tests.phrasescore.workflows.experiment.experiment_folder import plan_of
from tests.plugin_site import GOOD, install

FEATURES = """
[features.qe]
command = "{python} qe.py --gpus 1"
[features.gpt]
ctranslate2 = "gpt"
prompt = "{{source}}\\n"
target_language = "fr"
"""


def test_programs_and_models_of_ctranslate2_are_tuned_and_rescored_with(folder: Path) -> None:
    (folder / "qe.py").write_text("")
    (folder / "gpt").mkdir()
    row = "systems = ['Baseline', {name = '+qe', rescore = ['qe', 'length_ratio', 'gpt']}]"
    plan = plan_of(folder, f"{FEATURES.format(python=sys.executable)}[tuning]\nreplicas = 1", row)
    steps = {step.name: step for step in plan.steps}
    command = f"'{sys.executable} {folder}/qe.py --gpus 1'"
    gpt = CTranslate2Model(f"{folder}/gpt", prompt="{source}\n", target_language="fr").to_toml()
    words = shown(steps["tune +qe seed 1"].words)
    assert f"--rescore-command {command} --rescore-feature length_ratio" in words
    assert f"--rescore-column {shlex.quote(gpt)}" in words
    words = shown(steps["rescore news +qe seed 1"].words)
    assert f"--command {command} --feature length_ratio --column {shlex.quote(gpt)}" in words
    for name in ("tune +qe seed 1", "rescore news +qe seed 1"):
        assert {folder / "qe.py", folder / "gpt"} <= set(steps[name].inputs)
    assert plan.runs[1].added == {
        "Program0_0": "qe",
        "LengthRatio0_0": "length_ratio",
        "CT20_0": "gpt",
    }


def test_features_of_other_packages_are_rows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "site").mkdir()
    install(GOOD, folder / "site")
    monkeypatch.syspath_prepend(str(folder / "site"))
    (folder / "list").write_text("")
    rows = "columns = ['copied_words'], rescore = ['uneven_brackets:list=list,n=2']"
    row = f"systems = ['Baseline', {{name = '+own', {rows}}}]"
    plan = plan_of(folder, "[tuning]\nreplicas = 1\nmetric = ['chrf', 'bleu=0.5']", row)
    steps = {step.name: step for step in plan.steps}
    words = shown(steps["tune +own seed 1"].words)
    assert "--metric chrf --metric bleu=0.5" in words
    assert f"--rescore-feature uneven_brackets:list={folder}/list,n=2" in words
    assert folder / "list" in steps["tune +own seed 1"].inputs
    assert "--feature copied_words" in shown(steps["annotate copied_words"].words)
    assert "for chrf, bleu=0.5, seeds 1" in " ".join(plan.notes)


@pytest.mark.parametrize(
    ("row", "more", "problem"),
    [
        ("columns = ['qe']", "", "qe scores sentences: expected it in rescore"),
        ("search = ['qe']", "", "qe scores sentences: expected it in rescore"),
        ("rescore = ['qee']", "", "unknown model or feature 'qee'; did you mean 'qe'?"),
        ("columns = ['uneven_brackets']", "", "feature uneven_brackets is only for rescore"),
        ("search = ['copied_words']", "", "unknown model or feature 'copied_words'"),
        ("rescore = ['copied_words:x']", "", "expected NAME:KEY=VALUE"),
        ("", "[features.lm]\ncommand = 'x'", "is another model's or feature's name"),
        ("", "[features.x]", "expected one of model, ctranslate2, command"),
        ("", "[features.x]\ncommand = 'x'\nctranslate2 = 'y'", "found command and ctranslate2"),
        (
            "",
            "[features.x]\ncommand = './no'",
            "x.toml: [features.x] command: there is no program './no'",
        ),
        ("", "[features.x]\ncommand = 'a \"b'", "x.toml: [features.x]: command 'a \"b'"),
        ("", "[features.x]\nctranslate2 = 'nowhere'", "nowhere: cannot open: No such file"),
        (
            "",
            "[features.x]\nmodel = 'gpt'",
            "x.toml: [features] x: expected one of ctranslate2, co",
        ),
        (
            "columns = ['x']",
            "[features.x]\nlexicon = 'lex'\nname = 'W'",
            "x has a name, which a column of a phrase table cannot have",
        ),
        ("", "[features.x]\ncomand = 'x'", "did you mean 'command'?"),
        ("", "[features.x]\nctranslate2 = 'gpt'\npromt = 'x'", "did you mean 'prompt'?"),
        ("", "[tuning]\nmetric = 'blue'", "unknown value; did you mean 'bleu'?"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch, row: str, more: str, problem: str
) -> None:
    (folder / "site").mkdir()
    install(GOOD, folder / "site")
    monkeypatch.syspath_prepend(str(folder / "site"))
    (folder / "gpt").mkdir()
    systems = f"systems = ['Baseline', {{name = '+x'{row and ', '}{row}}}]"
    with pytest.raises(PhrasescoreError, match=re.escape(problem)):
        plan_of(folder, FEATURES.format(python=sys.executable) + more, systems)


def test_any_kind_with_options_is_a_column_of_the_table_and_of_lists(folder: Path) -> None:
    (folder / "lex").write_text("la the 1\n")
    more = "[features.rare]\nlexicon = 'lex'\n[tuning]\nreplicas = 1"
    row = "systems = ['Baseline', {name = '+lex', columns = ['rare'], rescore = ['rare']}]"
    plan = plan_of(folder, more, row)
    steps = {step.name: step for step in plan.steps}
    for name in ("annotate rare", "tune +lex seed 1", "rescore news +lex seed 1"):
        assert folder / "lex" in steps[name].inputs
        assert f"lexicon {folder}/lex" in shown(steps[name].words)

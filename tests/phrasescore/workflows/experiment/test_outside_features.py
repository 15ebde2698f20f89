"""Rows with programs, models of CTranslate2, and features of other packages."""

import re
import sys
from pathlib import Path

import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.features.foreign import CTranslate2Model
from phrasescore.features.lexicon import Lexicon
from phrasescore.features.named import NamedFeature
from phrasescore.features.program import Command
from phrasescore.workflows.experiment.config import read_experiment
from phrasescore.workflows.experiment.table import describe
from tests.phrasescore.workflows.experiment.experiment_folder import plan_of, steps_of
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
    row = "systems = ['Baseline', {name = '+qe', lists = ['qe', 'length_ratio', 'gpt']}]"
    plan = plan_of(folder, f"{FEATURES.format(python=sys.executable)}[tuning]\nreplicas = 1", row)
    steps = steps_of(plan)
    lists = (
        Command(f"{sys.executable} {folder}/qe.py --gpus 1"),
        NamedFeature("length_ratio"),
        CTranslate2Model(f"{folder}/gpt", prompt="{source}\n", target_language="fr"),
    )
    for name in ("tune +qe seed 1", "translate news +qe seed 1"):
        assert steps[name].settings["parts"].lists == lists
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
    rows = "columns = ['copied_words'], lists = ['uneven_brackets']"
    row = f"systems = ['Baseline', {{name = '+own', {rows}}}]"
    plan = plan_of(folder, "[tuning]\nreplicas = 1\nmetric = 'cer'", row)
    steps = steps_of(plan)
    settings = steps["tune +own seed 1"].settings
    assert settings["settings"].metric == "cer"
    assert settings["parts"].lists == (NamedFeature("uneven_brackets"),)
    columns = steps["annotate copied_words"].settings["columns"]
    assert columns == (NamedFeature("copied_words"),)
    assert "for cer, seeds 1" in " ".join(describe(read_experiment("x.toml")))


@pytest.mark.parametrize(
    ("row", "more", "problem"),
    [
        ("columns = ['qe']", "", "qe scores sentences: expected it in lists"),
        ("search = ['qe']", "", "qe scores sentences: expected it in lists"),
        ("lists = ['qee']", "", "unknown model or feature 'qee'; did you mean 'qe'?"),
        ("columns = ['uneven_brackets']", "", "feature uneven_brackets is only for rescore"),
        ("search = ['copied_words']", "", "unknown model or feature 'copied_words'"),
        ("", "[features.length_ratio]\ncommand = 'x'", "is another model's or feature's name"),
        ("", "[features.x]", "expected one of model, ctranslate2, command"),
        ("", "[features.x]\ncommand = 'x'\nctranslate2 = 'y'", "found command and ctranslate2"),
        ("", "[features.x]\ncommand = './no'", "x.toml: [features.x] command: there is no program"),
        ("", "[features.x]\ncommand = 'a \"b'", "x.toml: [features.x]: command 'a \"b'"),
        ("", "[features.x]\nctranslate2 = 'nowhere'", "nowhere: cannot open: No such file"),
        ("", "[features.x]\nmodel = 'gpt'", "x.toml: [features] x: expected one of ctranslate2"),
        (
            "columns = ['x']",
            "[features.x]\nlexicon = 'lex'\nname = 'W'",
            "x has a name, which a column of a phrase table cannot have",
        ),
        ("", "[features.x]\ncomand = 'x'", "did you mean 'command'?"),
        ("", "[features.x]\nctranslate2 = 'gpt'\npromt = 'x'", "did you mean 'prompt'?"),
        ("", "[tuning]\nmetric = 'blue'", "[tuning] metric: expected one of bleu, word_"),
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
    row = "systems = ['Baseline', {name = '+lex', columns = ['rare'], lists = ['rare']}]"
    plan = plan_of(folder, more, row)
    steps = steps_of(plan)
    lexicon = Lexicon(str(folder / "lex"))
    assert steps["annotate rare"].settings["columns"] == (lexicon,)
    for name in ("tune +lex seed 1", "translate news +lex seed 1"):
        assert steps[name].settings["parts"].lists == (lexicon,)
        assert folder / "lex" in steps[name].inputs

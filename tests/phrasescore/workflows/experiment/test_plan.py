"""The steps of an experiment: which functions, in which order, with which settings."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moses_integration.moses_ini import MosesIni
from phrasescore.errors import ArgumentError
from phrasescore.features.language_model import LanguageModel
from phrasescore.features.lexicon import Lexicon
from phrasescore.features.model import Network
from phrasescore.features.named import NamedFeature
from phrasescore.settings.compute import Compute
from phrasescore.settings.training import ListTraining, NewNetwork
from phrasescore.workflows.experiment import config
from phrasescore.workflows.experiment.choice import Forecast, NetworkChoice, TuningPlan
from phrasescore.workflows.experiment.config import read_experiment
from phrasescore.workflows.experiment.functions import start_weights
from phrasescore.workflows.experiment.plan import Plan, build_plan
from phrasescore.workflows.experiment.table import describe
from tests.doubles import RandomModel
from tests.phrasescore.workflows.experiment.experiment_folder import (
    CONFIG,
    INI,
    names,
    plan_of,
    steps_of,
    write_tuned,
)

ONE = "[tuning]\nreplicas = 1\n"


def aligned_plan(folder: Path, before: str, more: str) -> Plan:
    (folder / "align").write_text("0-0\n0-0\n")
    config = CONFIG.replace("[engine]", "alignments = 'align'\n[engine]")
    (folder / "x.toml").write_text(f"{before}\n{config}\n{more}")
    return build_plan(read_experiment("x.toml"), folder / "out")


def test_each_row_is_tuned_and_translates_with_what_it_has(folder: Path) -> None:
    plan = plan_of(folder, f"threads = 3\nsearch.stack = 5\n{ONE}")
    verbs = ("tune", "translate news")
    assert names(plan) == [
        *(f"{verb} Baseline seed 1" for verb in verbs),
        "train encoder-decoder",
        "train cslm",
        "annotate encoder-decoder",
        "annotate encoder-decoder+unknown_words",
        *(
            f"{verb} {row} seed 1"
            for row in ("+RNN", "+CSLM+RNN", "+CSLM+RNN+WP")
            for verb in verbs
        ),
    ]
    steps, out = steps_of(plan), folder / "out"
    cslm, rnn = (Network(str(out / "models" / kind)) for kind in ("cslm", "encoder-decoder"))
    assert steps["tune +RNN seed 1"].settings["parts"].search == ()
    for name in ("tune +CSLM+RNN+WP seed 1", "translate news +CSLM+RNN+WP seed 1"):
        parts = steps[name].settings["parts"]
        assert parts.moses_ini == out / "tables" / "encoder-decoder+unknown_words" / "moses.ini"
        assert (parts.search, parts.lists, parts.limits) == ((cslm,), (), {"stack": 5})
        assert parts.columns == (
            Network(rnn.model, name="TM0_2"), NamedFeature("unknown_words", name="TM0_3")
        )  # fmt: skip
        assert steps[name].settings["compute"] == Compute(workers=2, threads=3)
        assert {Path(cslm.model), parts.moses_ini, folder / "lm.arpa"} <= set(steps[name].inputs)
    own = out / "+CSLM+RNN"
    assert steps["tune +CSLM+RNN seed 1"].settings["parts"].folder == own
    assert steps["tune +CSLM+RNN seed 1"].outputs == (
        own / "weights", own / "report.json", own / "dev.out"
    )  # fmt: skip
    assert steps["translate news +CSLM+RNN seed 1"].outputs == (own / "news.out",)
    annotate = steps["annotate encoder-decoder+unknown_words"].settings
    assert annotate["columns"] == (rnn, NamedFeature("unknown_words"))
    assert annotate["compute"] == Compute(threads=3)
    assert steps["train cslm"].settings["inputs"] == (folder / "train.fr",)


def test_replicas_have_folders_of_their_own(folder: Path) -> None:
    plan = plan_of(folder, "[tuning]\nreplicas = 2\nseed = 4", "systems = ['Baseline']")
    assert [run.folder for run in plan.runs] == [
        folder / "out" / "Baseline" / seed for seed in ("seed4", "seed5")
    ]


def test_names_of_rows_become_different_names_of_folders(folder: Path) -> None:
    rows = ("a b", "a/b", "table.txt", "...", "moses.ini")
    systems = [f"{{name = '{row}', lists = ['length_ratio']}}" for row in rows]
    plan = plan_of(folder, ONE, f"systems = [{', '.join(systems)}]")
    assert [run.folder.name for run in plan.runs] == [
        "a_b", "a_b_", "table.txt_", "_", "moses.ini_"
    ]  # fmt: skip


def test_some_rows_need_the_rows_that_they_start_from(folder: Path) -> None:
    plan = plan_of(folder, ONE, "systems = ['Baseline', '+RNN', '+LSTM', '+CSLM+RNN']")
    verbs = ("tune", "translate news")
    assert [step.name for step in plan.needed(["+LSTM"])] == [
        "tune Baseline seed 1",
        "train lstm",
        *(f"{verb} +LSTM seed 1" for verb in verbs),
    ]
    assert [step.name for step in plan.needed(["+CSLM+RNN", "Baseline"])] == [
        *(f"{verb} Baseline seed 1" for verb in verbs),
        *("train encoder-decoder", "train cslm", "annotate encoder-decoder", "tune +RNN seed 1"),
        *(f"{verb} +CSLM+RNN seed 1" for verb in verbs),
    ]
    with pytest.raises(ArgumentError, match=r"--rows: unknown row '\+LSTN'; did you mean '\+LSTM'"):
        plan.needed(["+LSTN"])


def test_with_moses_the_language_model_scores_lists(folder: Path) -> None:
    (folder / "moses").write_text("")
    plan = plan_of(folder, f'decoder = "moses"\nmoses_bin = "."\n{ONE}')
    for name in ("tune +CSLM+RNN seed 1", "translate news +CSLM+RNN seed 1"):
        step = steps_of(plan)[name]
        parts = step.settings["parts"]
        cslm = Network(str(folder / "out" / "models" / "cslm"))
        assert (parts.search, parts.lists, parts.moses_bin) == ((), (cslm,), folder)
        assert folder / "moses" in step.inputs
    assert [*describe(read_experiment("x.toml"))][-1].startswith("CSLM scores Moses' n-best lists")


def test_networks_of_the_search_are_named_by_their_kinds(folder: Path) -> None:
    before = "systems = ['Baseline', '+joint', '+CSLM+joint+RNN']"
    plan = aligned_plan(folder, before, ONE)
    train = steps_of(plan)["train joint"]
    assert train.settings["inputs"] == (folder / "train.en", folder / "train.fr")
    assert train.settings["alignments"] == folder / "align"
    assert folder / "align" in train.inputs
    assert list(plan.runs[2].added) == ["CSLM0_0", "Joint0_0", "TM0_2"]


def test_a_column_is_trained_for_bleu_with_lists_of_the_first_row(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[Any] = []
    # A table that the text does not explain is found before the first step.
    monkeypatch.setattr(config, "check_folds", lambda *inputs: checked.extend(inputs))
    before = "systems = ['Baseline', '+RNN', {name = '+tuned', columns = ['tuned']}]"
    more = "[models.encoder-decoder]\nobjective = 'bleu'\nminutes = 9\nseed = 3\nupdates = 5\n"
    more += f"[models.tuned]\nobjective = 'bleu'\nstart = 'other'\nminutes = 3\nupdates = 7\n{ONE}"
    more += "[models.other]\nkind = 'encoder-decoder'\nreverse = true\n"
    plan = aligned_plan(folder, before, more)
    assert names(plan)[:9] == [
        *("tune Baseline seed 1", "translate news Baseline seed 1", "translate folds"),
        *("train encoder-decoder.start", "train other", "train encoder-decoder", "train tuned"),
        *("annotate encoder-decoder", "annotate tuned"),
    ]
    out, steps = folder / "out", steps_of(plan)
    text = (folder / "train.en", folder / "train.fr")
    folds, weights = out / "tables" / "folds", out / "Baseline" / "weights"
    assert checked[0].moses_ini == folder / "moses.ini"
    assert checked[1:] == [*text, folder / "align"]
    assert steps["translate folds"].function == "write_fold_lists"
    assert steps["translate folds"].settings == {
        "system": out / "Baseline",
        "source": text[0],
        "target": text[1],
        "alignments": folder / "align",
        "output": folds,
        "compute": Compute(workers=2),
    }
    assert {weights, folder / "lm.arpa", *text} <= set(steps["translate folds"].inputs)
    first = steps["train encoder-decoder.start"].settings
    assert first["settings"] == NewNetwork(minutes=9, seed=3, updates=5)
    assert first["output"] == out / "models" / "encoder-decoder.start"
    # At most half of the minutes after a first part; without it, the limits are its own.
    for name, start, settings in (
        ("encoder-decoder", "encoder-decoder.start", ListTraining(minutes=4.5, seed=3)),
        ("tuned", "other", ListTraining(minutes=3, updates=7)),
    ):
        assert steps[f"train {name}"].settings == {
            "kind": "encoder-decoder",
            "model": out / "models" / start,
            "lists": folds,
            "source": text[0],
            "target": text[1],
            "settings": replace(settings, feature="TM0_2"),
            "output": out / "models" / name,
            "compute": Compute(),
        }
        assert {out / "models" / start, folds, *text} <= set(steps[f"train {name}"].inputs)
    column = Network(str(out / "models" / "tuned"))
    assert steps["annotate tuned"].settings["columns"] == (column,)
    assert [step.name for step in plan.needed(["+tuned"])] == [
        *("tune Baseline seed 1", "translate folds", "train other", "train tuned"),
        *("annotate tuned", "tune +tuned seed 1", "translate news +tuned seed 1"),
    ]


def test_features_that_are_no_networks_are_columns_and_features_of_lists(folder: Path) -> None:
    for name in ("lex.f2e", "five.arpa"):
        (folder / name).write_text("")
    before = "systems = ['Baseline', {name = '+lexicon', columns = ['lexicon', 'number_mismatch']}"
    before += ", {name = '+lm', lists = ['lm', 'lexicon', 'lstm', 'length_ratio']}]"
    features = "[features]\nlexicon.lexicon = 'lex.f2e'\nlm.lm = 'five.arpa'\n"
    (folder / "x.toml").write_text(f"{before}\n{CONFIG}\n{ONE}{features}")
    plan = build_plan(read_experiment("x.toml"), folder / "out")
    steps = steps_of(plan)
    lexicon, lm = Lexicon(str(folder / "lex.f2e")), LanguageModel(str(folder / "five.arpa"))
    annotate = steps["annotate lexicon+number_mismatch"]
    assert annotate.settings["columns"] == (lexicon, NamedFeature("number_mismatch"))
    assert folder / "lex.f2e" in annotate.inputs
    model = folder / "out" / "models" / "lstm"
    for name in ("tune +lm seed 1", "translate news +lm seed 1"):
        parts = steps[name].settings["parts"]
        assert parts.lists == (lm, lexicon, Network(str(model)), NamedFeature("length_ratio"))
        assert {folder / "lex.f2e", folder / "five.arpa", model} <= set(steps[name].inputs)
    (start,) = plan.runs[-1].earlier
    write_tuned(start, {"LM0": (5.0,)})
    (folder / "out" / "moses.ini").write_text(INI)
    tune = steps["tune +lm seed 1"].settings
    search, lists = start_weights(tune["parts"], tune["earlier"])
    assert lists == {
        "TM0": (0.5, 0.25), "LM0": (5.0,),
        "LSTM0": (0.0,), "KenLM0": (0.0,), "Lexicon0": (0.0,), "LengthRatio0": (0.0,),
    }  # fmt: skip
    assert search == {"TM0": (0.5, 0.25), "LM0": (5.0,)}


@pytest.mark.parametrize("decoder", ["embedded", "moses"])
def test_options_of_language_models_reach_all_steps_that_score_with_them(
    folder: Path, decoder: str
) -> None:
    (folder / "moses").write_text("")
    engine = f'decoder = "{decoder}"\nmoses_bin = "."\n{ONE}'
    model, backoff = str(folder / "out" / "models" / "cslm"), f"{folder}/lm.arpa"
    for setting, column in (
        ("unnormalized = true", Network(model, unnormalized=True)),
        ('backoff_lm = "lm.arpa"', Network(model, backoff_lm=backoff)),
    ):
        plan = plan_of(folder, f"{engine}[models.cslm]\n{setting}")
        parts = [step.settings["parts"] for step in plan.steps if "parts" in step.settings]
        # Of two rows: tuning, and translating the test set.
        assert [(*each.search, *each.lists) for each in parts].count((column,)) == 4


def test_settings_of_training_are_those_of_the_file(folder: Path) -> None:
    more = """
[models.reverse]
kind = "encoder-decoder"
reverse = true
preset = "encoder-decoder-small"
minutes = 1.5
set.training.batch_size = 32
set.model.hidden_size = 16
[models.old]
kind = "encoder-decoder"
path = "old"
"""
    RandomModel(folder / "old", ["a"], ["b"])
    before = 'systems = ["Baseline", "+reverse", {name = "+old", lists = "old"}]'
    plan = plan_of(folder, more, before)
    assert names(plan)[6:9] == [
        "train reverse",
        "train encoder-decoder",
        "annotate encoder-decoder+reverse",
    ]
    changes = ("training.batch_size=32", "model.hidden_size=16")
    assert plan.steps[6].settings["settings"] == NewNetwork(
        preset="encoder-decoder-small", reverse=True, minutes=1.5, changes=changes
    )
    assert plan.steps[6].partial == (folder / "out" / "models" / "reverse.work",)


def test_the_features_of_networks_are_told_apart_by_direction(folder: Path) -> None:
    more = """
[models.second]
kind = "rnnsearch"
seed = 2
[models.back]
kind = "rnnsearch"
reverse = true
[models.turned]
kind = "rnnsearch"
right_to_left = true
"""
    rows = "['rnnsearch', 'back', 'turned', 'second']"
    before = f"systems = ['Baseline', {{name = '+four', lists = {rows}}}]"
    plan = plan_of(folder, f"{ONE}{more}", before)
    settings = {name: step.settings.get("settings") for name, step in steps_of(plan).items()}
    assert settings["train turned"] == NewNetwork(right_to_left=True)
    assert settings["train back"] == NewNetwork(reverse=True)
    # As rescore names them: tests/phrasescore/cli/test_rescore.py.
    assert list(plan.runs[1].added) == [
        "RNNsearch0_0", "ReverseRNNsearch0_0", "RightToLeftRNNsearch0_0", "RNNsearch1_0",
    ]  # fmt: skip


def test_a_row_may_have_limits_of_its_own(folder: Path) -> None:
    before = "systems = ['Baseline', {name = '+x', lists = ['length_ratio'], iterations = 4, "
    plan = plan_of(
        folder, f"{ONE}metric = 'word_accuracy'", before + "nbest_size = 30, patience = 2}]"
    )
    for row, limits in (("Baseline", (100, 15, 5)), ("+x", (30, 4, 2))):
        settings = steps_of(plan)[f"tune {row} seed 1"].settings
        tuning = settings["settings"]
        assert (settings["parts"].nbest_size, tuning.iterations, tuning.patience) == limits
        assert tuning.metric == "word_accuracy"


def test_files_are_named_as_the_user_named_them_from_the_new_folder(folder: Path) -> None:
    out = folder / "out"
    paths = {
        out / "moses.ini": ("../table", f"{folder}/lm.arpa"),
        out / "tables" / "encoder-decoder" / "moses.ini": ("phrase-table.gz", f"{folder}/lm.arpa"),
    }
    before = "systems = ['Baseline', '+RNN']\n"
    for number, folders in enumerate(("", f"{folder}/")):
        config = CONFIG.replace('"moses.ini"', f'"{folders}moses.ini"')
        (folder / "x.toml").write_text(before + config)
        if number:  # named by a relative path in a file that is named by an absolute one
            paths[out / "moses.ini"] = (f"{folder}/table", f"{folder}/lm.arpa")
        plan = build_plan(read_experiment("x.toml"), out)
        written = {path: MosesIni("", text).named_paths() for path, text in plan.written.items()}
        assert {path: tuple(names) for path, names in written.items()} == paths
        assert b" # path=old\n" in plan.written[out / "moses.ini"]
    # With the column of annotate, whose weight is 0.
    text = plan.written[out / "tables" / "encoder-decoder" / "moses.ini"]
    assert b" num-features=3 path=phrase-table.gz # path=old\n" in text
    assert b"TM0= 0.5 0.25 0\n" in text


def test_a_folder_whose_name_moses_ini_cannot_hold_is_named_relatively(folder: Path) -> None:
    other = folder / "with blank"
    shutil.copytree(folder, other)
    (other / "moses.ini").write_text(INI.replace("/lm.arpa", f"{folder}/lm.arpa"))
    config = CONFIG.replace('"moses.ini"', f'"{other}/moses.ini"')
    (other / "x.toml").write_text(f"systems = ['Baseline']\n{config}")
    plan = build_plan(read_experiment("with blank/x.toml"), other / "out")
    assert b" path=../table #" in plan.written[other / "out" / "moses.ini"]


def test_a_forecast_adds_up_what_each_step_reads(folder: Path) -> None:
    (folder / "align").write_text("0-0\n0-0\n")
    config = CONFIG.replace("[engine]", "alignments = 'align'\n[engine]")
    before = "systems = ['Baseline', '+RNNsearch', '+CSLM+RNN']\n"
    model = "[models.encoder-decoder]\nobjective = 'bleu'\n"
    (folder / "x.toml").write_text(f"{before}{config}{ONE}{model}")
    sizes = {folder / "dev.en": 200, folder / "test.en": 100}
    wanted = read_experiment("x.toml")
    forecast = Forecast(
        wanted, folder / "out", sizes, pairs=1_000, words=10.0, phrases=64_000, loading=3.0,
        sentence=0.5,
    )  # fmt: skip
    bleu = ('objective = "bleu"',)
    kept = [
        NetworkChoice("rnnsearch", "rnnsearch", "lists", "RNNsearch", "", 1, 2.0, 1.0),
        NetworkChoice("cslm", "cslm", "search", "CSLM", "", 1, 1.0, 1.0),
        NetworkChoice(
            "encoder-decoder", "encoder-decoder", "columns", "RNN", "", 1, 3.0, 1.0, bleu
        ),
    ]
    plan = TuningPlan(5, 7, sentences=150)
    found = {step.name: seconds for step, seconds in forecast.steps(kept, plan).items()}
    # Every step starts in 4 s. Two processes search a sentence in 0.5 / 2 s; for each sentence, a
    # round of tuning adds 0.004 s, a network that scores the list 0.03 s, and a network in the
    # search 10 words of 0.009 s. This one has trials of 4 weights on 100 sentences. A fold's table
    # takes 40 us per line, its sentences are translated in 0.8 of the time of others, and training
    # for BLEU takes half the time of training, and reads a list in 4 ms. Columns: 6,400 lines/s.
    assert found == pytest.approx(
        {
            "train rnnsearch": 4 + 120,
            "train cslm": 4 + 60,
            "tune Baseline seed 1": 4 + 3 + 5 * 150 * (0.25 + 0.004),
            "translate news Baseline seed 1": 4 + 3 + 100 * 0.25,
            "tune +RNNsearch seed 1": 4 + 3 + 5 * 150 * (0.25 + 0.03 + 0.004),
            "translate news +RNNsearch seed 1": 4 + 3 + 100 * (0.25 + 0.03),
            "tune +CSLM seed 1": 4 + 3 + 7 * 150 * (0.295 + 0.004) + 4 * 100 * 0.295,
            "translate news +CSLM seed 1": 4 + 3 + 100 * 0.295,
            "translate folds": 4 + 4 * 64_000 * 4e-5 + 1_000 * 0.8 * 0.5,
            "train encoder-decoder.start": 4 + 180,
            "train encoder-decoder": 4 + 90 + 1_000 * 0.004,
            "annotate encoder-decoder": 4 + 10,
            "tune +RNN seed 1": 4 + 3 + 5 * 150 * (0.25 + 0.004),
            "translate news +RNN seed 1": 4 + 3 + 100 * 0.25,
            "tune +CSLM+RNN+RNNsearch seed 1": (
                4 + 3 + 7 * 150 * (0.325 + 0.004) + 4 * 100 * 0.295
            ),
            "translate news +CSLM+RNN+RNNsearch seed 1": 4 + 3 + 100 * 0.325,
        }
    )

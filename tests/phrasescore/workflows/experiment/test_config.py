"""The file of an experiment: its errors are named, and its defaults are those of the docs."""

from pathlib import Path

import pytest

from phrasescore.records import WeightPair
from phrasescore.workflows.experiment.config import read_experiment
from phrasescore.workflows.experiment.functions import start_weights
from phrasescore.workflows.experiment.steps import Step
from tests.command_line import check_refusal
from tests.phrasescore.workflows.experiment.experiment_folder import (
    CONFIG,
    INI,
    experiment,
    plan_of,
    steps_of,
    write_tuned,
)

MOSES = "decoder = 'moses'\nmoses_bin = '.'\n"
BLEU = "= 2\n[models.encoder-decoder]\nobjective = 'bleu'"
FINE = "= 2\n[models.fine]\nobjective = 'bleu'\nstart"
OTHER_BACKOFF = "[models.other]\nkind = 'cslm'\nbackoff_lm = 'lm.arpa'"
OTHER_CSLM = "[models.other]\nkind = 'cslm'\nunnormalized = true"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("processes", "proceses", "x.toml: unknown key 'proceses' in [engine]; did you mean 'pro"),
        ("[data]", "[dta]", "x.toml: unknown key 'dta'; did you mean 'data'?"),
        ('moses_ini = "moses.ini"', "", "x.toml: [data] moses_ini: is missing: expected a path"),
        ('references = "dev.fr"', "references = []", "references: expected a path, or several"),
        ("= 2", "= 0", "x.toml: [engine] processes: expected at least 1, got 0"),
        ("test.news", "test", "x.toml: [data.test.source]: expected a table"),
        ('"train.fr"]', "]", "[data] train: expected the source and the target side, got 1"),
        ("[data]", "systems = ['+RNM']\n[data]", "unknown row '+RNM'; did you mean '+RNN'?"),
        ("[data]", "systems = ['+RNN', '+RNN']\n[data]", "two rows have the name '+RNN'"),
        ("[engine]", "[engine]\nnplm = 'no'", "x.toml: [engine] nplm: is gone: export the network"),
        ("[engine]", "[tuning]\nstart = 'w'\n[engine]", "[tuning] start: is gone: a row starts"),
        (
            "[data]",
            f"systems = [{{name = 'x', search = ['cslm', 'other']}}]\n{OTHER_CSLM}\n[data]",
            "row 'x': expected models of kind cslm or joint with the same unnormalized",
        ),
        (
            "[data]",
            f"systems = [{{name = 'x', search = ['cslm', 'other']}}]\n{OTHER_BACKOFF}\n[data]",
            "row 'x': expected models of kind cslm with the same backoff_lm",
        ),
        ("[data]", "systems = [{name = 'x', rescore = []}]\n[data]", "rescore: is now lists"),
        ("[data]", "systems = [{name = 'models'}]\n[data]", "models is the name of a folder of"),
        ("[data]", "systems = ['Baseline', '+joint']\n[data]", "x.toml: [data] alignments: is mis"),
        (
            "[data]",
            "[data]\nalignments = 'moses.ini'",
            "expected as many lines as moses.ini has, found the end of the file",
        ),
        ("= 2", f"= 2\n{MOSES}[models.cslm]\nkind = 'joint'", "[engine] decoder: expected"),
        ("= 2", "= 2\n[features.lexicon]\nlexicon = 'no'", "/no: cannot open: No such file"),
        ("= 2", f"{BLEU}\npath = 'dev.en'", "objective: is for a encoder-decoder that is trained"),
        ("= 2", "= 2\n[models.lstm]\nobjective = 'bleu'", "objective: is for a encoder-decoder"),
        ("= 2", "= 2\nsearch.buffer_size = 9", "buffer_size: is gone: it changed only the speed"),
        ("= 2", "= 2\n[models.x.xbleu]", 'xbleu: is gone: objective = "bleu" does it, or train'),
        ("= 2", BLEU.replace("bleu", "ter"), "objective: expected one of likelihood, bleu, got"),
        ("= 2", BLEU, "[models.encoder-decoder] objective: needs [data] train and alignments"),
        ("= 2", f"{FINE} = 'x'", "[models.fine] start: expected a network that is trained on the"),
        ("= 2", f"{FINE} = 'lstm'", "[models.fine] objective: is for a encoder-decoder that is"),
        (
            "= 2",
            f"{FINE} = 'other'\n{BLEU[4:].replace('encoder-decoder', 'other')}\nkind = 'lstm'",
            "[models.fine] start: expected a network that is trained on the table, got 'other'",
        ),
        (
            "= 2",
            f"{FINE} = 'encoder-decoder'\nreverse = true",
            "[models.fine] reverse: is copied from encoder-decoder: remove it",
        ),
        (
            "= 2",
            f"{FINE} = 'encoder-decoder'".replace("objective = 'bleu'", ""),
            '[models.fine] start: is for objective = "bleu"',
        ),
        (
            "[data]",
            f"systems = ['+RNN']\n{BLEU[4:]}\n[data]\nalignments = 'train.en'",
            "[models.encoder-decoder] objective: needs a first row without networks and features",
        ),
        ("dev.en", "dev.de", "dev.de: cannot open: No such file"),
        ('"table"', '"tabel"', "tabel: cannot open: No such file"),
        ("[data]", "[data", "x.toml: expected TOML"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_wrong_in_the_file_is_named(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    assert_refused(tmp_path, old, new, problem)


@pytest.mark.parametrize(
    ("row", "data", "problem"),
    [
        ("columns = ['cslm']", "", "row 'x': expected a encoder-decoder, but cslm is a cslm"),
        ("columns = ['unknown_words']", "", "add a network"),
        ("lists = ['reverze']", "", "row 'x': unknown model or feature 'reverze'; did you mean "),
        ("lists = ['lm']", "lm = 'lm.arpa'", "[data] lm: is gone: name the file in a table [featu"),
        ("columns = ['length_ratio']", "", "row 'x': length_ratio can only be used on n-best"),
        ("search = ['number_mismatch']", "", "unknown model or feature 'number_mismatch'"),
        ("lists = ['joint']", "", "row 'x': joint is a joint, which can only be used in the"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_wrong_in_a_row_is_named(tmp_path: Path, row: str, data: str, problem: str) -> None:
    new = f"systems = [{{name = 'x', {row}}}]\n[data]\n{data}"
    assert_refused(tmp_path, "[data]", new, problem)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("[tuning]\nmethod = 'mart'", "method: expected one of mert, mira, xbleu, got"),
        ("[tuning]\nmethod = 'xbleu'\nreplicas = 3", "nothing is random in xbleu: all"),
        ("decoder = 'moses'", "[engine] moses_bin: is missing"),
        ("[models.mine]\nminutes = 1", "[models.mine] kind: unknown kind of network; "),
        ("[models.encoder-decoder]\nminuts = 1", "key 'minuts' in [models.encoder-decoder]; did"),
        ("search.stak = 3", "[engine.search] stak: unknown limit; did you mean 'stack"),
        (
            "[models.encoder-decoder]\nset.model.hiden_size = 3",
            "x.toml: [models.encoder-decoder.set]: unknown",
        ),
        ("[models.length_ratio]\nkind = 'cslm'", "[models] length_ratio: is the name of a feature"),
        (
            "[models.encoder-decoder]\nunnormalized = true",
            "[models.encoder-decoder] unnormalized: can only be used with a csl",
        ),
        ("[models.cslm]\nunnormalized = 1", "unnormalized: expected true or false"),
        ("[models.cslm]\nunnormalized = true\nbackoff_lm = 'lm.arpa'", "[models.cslm] backoff_lm"),
        ("[models.cslm]\nbackoff_lm = 'no.arpa'", "no.arpa: cannot open: No such"),
        ("iterations = 1", "x.toml: [engine] iterations: expected at least 2, got 1"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_wrong_in_the_engine_tuning_and_models_is_named(
    tmp_path: Path, more: str, problem: str
) -> None:
    assert_refused(tmp_path, "= 2", f"= 2\n{more}", problem)


def assert_refused(folder: Path, old: str, new: str, problem: str) -> None:
    text = CONFIG if old in CONFIG else CONFIG.replace("[data]\n", '[data]\ntable = "table"\n')
    (folder / "x.toml").write_text(text.replace(old, new, 1))
    result = experiment("--dry-run")
    assert result.exit_code == 1
    assert problem in result.stderr or problem in result.stderr.replace(str(folder) + "/", "")
    assert not (folder / "out").exists()


def test_the_rows_of_the_paper_are_the_usual_ones(folder: Path) -> None:
    found = read_experiment("x.toml").systems
    assert [system.name for system in found] == ["Baseline", "+RNN", "+CSLM+RNN", "+CSLM+RNN+WP"]
    assert found[3].columns == ("encoder-decoder", "unknown_words")
    assert found[3].search == ("cslm",)
    assert folder.exists()


def test_a_method_without_chance_has_one_replica_and_others_have_three(folder: Path) -> None:
    for method, seeds in (("xbleu", {1}), ("mert", {1, 2, 3})):
        plan = plan_of(folder, f"[tuning]\nmethod = '{method}'")
        assert {run.seed for run in plan.runs} == seeds


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("[models.encoder-decoder]\nminutes = nan", "[models.encoder-decoder] minutes: expected"),
        ("[models.encoder-decoder]\nthreads = 0", "[models.encoder-decoder] threads: expected at"),
        ("[engine.search]\nstack = 'abc'", "[engine.search] stack: expected a whole number from 0"),
    ],
)
@pytest.mark.parametrize("option", [[], ["--dry-run"]])
def test_what_a_step_would_refuse_is_refused_before_the_first(
    folder: Path, more: str, problem: str, option: list[str]
) -> None:
    (folder / "x.toml").write_text(CONFIG.replace("[engine]\nprocesses = 2\n", "") + more)
    check_refusal(experiment(*option), problem)
    assert not (folder / "out").exists()


def test_a_name_of_references_stands_for_the_numbered_files(tmp_path: Path) -> None:
    text = CONFIG.replace('"dev.fr"', '"dev.ref"')
    (tmp_path / "x.toml").write_text(text)
    for number in range(2):
        (tmp_path / f"dev.ref{number}").touch()
    found = read_experiment(str(tmp_path / "x.toml")).data.dev.references
    assert [path.name for path in found] == ["dev.ref0", "dev.ref1"]


def start_of(step: Step) -> WeightPair:
    settings = step.settings
    return start_weights(settings["parts"], settings["earlier"])


def test_a_row_starts_from_the_best_row_on_dev_whose_features_it_has(folder: Path) -> None:
    systems = ["Baseline", "+LSTM", "+RNN", "+CSLM+RNN", "+reverse"]
    plan = plan_of(
        folder,
        "[models.reverse]\nkind = 'encoder-decoder'\nreverse = true\n",
        f"systems = {systems}",
    )
    starts = {run.row.name: [each.row.name for each in run.earlier] for run in plan.runs}
    assert starts == {
        "Baseline": [], "+LSTM": ["Baseline"], "+RNN": ["Baseline"],
        "+CSLM+RNN": ["Baseline", "+RNN"], "+reverse": ["Baseline", "+RNN"],
    }  # fmt: skip
    assert all(each.seed == run.seed for run in plan.runs for each in run.earlier)
    baseline, _, rnn, cslm, _ = plan.runs[:5]
    step = steps_of(plan)["tune +CSLM+RNN seed 1"]
    assert {rnn.weights, rnn.report, baseline.weights, baseline.report} <= set(step.inputs)
    cslm.parts.moses_ini.parent.mkdir(parents=True)
    text = INI.replace("num-features=2", "num-features=3").replace("0.5 0.25", "0.5 0.25 0")
    cslm.parts.moses_ini.write_text(text)
    # Of equally good ones the one with more features.
    for scores, best in (((50.0, 49.9), 1.0), ((50.0, 50.0), 2.0), ((50.0, 50.1), 2.0)):
        write_tuned(baseline, {"LM0": (1.0,), "TM0": (0.5, 0.5)}, scores[0])
        write_tuned(rnn, {"LM0": (2.0,), "TM0": (0.5, 0.5, 0.5)}, scores[1])
        assert start_of(step).lists["LM0"] == (best,)


def test_weights_are_carried_to_the_columns_of_the_next_row(folder: Path) -> None:
    before = "systems = ['Baseline', '+reverse', {name = '+wide', "
    before += "columns = ['unknown_words', 'reverse', 'encoder-decoder'], search = ['cslm'], "
    before += "lists=['lstm']}]"
    more = "[models.reverse]\nkind = 'encoder-decoder'\nreverse = true\n"
    plan = plan_of(folder, f"{more}[tuning]\nreplicas = 1", before)
    _, reverse, new = plan.runs
    write_tuned(plan.runs[0], {"LM0": (7.0,)}, 40.0)
    write_tuned(reverse, {"TM0": (1.0, 2.0, 3.0, 4.0), "LM0": (5.0,)})
    new.parts.moses_ini.parent.mkdir(parents=True)
    text = INI.replace("num-features=2", "num-features=5").replace("0.5 0.25", "0.5 0.25 0 0 0")
    new.parts.moses_ini.write_text(text)
    search, lists = start_of(steps_of(plan)["tune +wide seed 1"])
    assert lists == {
        "TM0": (1.0, 2.0, 0.0, 4.0, 3.0), "LM0": (5.0,), "CSLM0": (0.0,), "LSTM0": (0.0,),
    }  # fmt: skip
    # The decoder does not know the LSTM.
    assert search == {
        "TM0": (1.0, 2.0, 0.0, 4.0, 3.0), "LM0": (5.0,), "CSLM0": (0.0,),
    }  # fmt: skip

"""``phrasescore experiment`` as a user meets it: its file, its plan, its table."""

import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from moses_integration.moses_ini import MosesIni
from moses_integration.weights import load_weights
from phrasescore.cli import main
from phrasescore.workflows.experiment.config import read_experiment
from phrasescore.workflows.experiment.plan import build_plan
from tests.doubles import RandomModel
from tests.phrasescore.workflows.experiment.experiment_folder import (
    CONFIG,
    INI,
    experiment,
    names,
    plan_of,
    write_tuned,
)

OTHER_CSLM = "[models.other]\nkind = 'cslm'\nunnormalized = true"


# The file


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("processes", "proceses", "x.toml: unknown key 'proceses' in [engine]; did you mean 'pro"),
        ("[data]", "[dta]", "x.toml: [data] moses_ini: is missing: expected a path"),
        ("= 2", '= "2"', "x.toml: [engine] processes: expected a whole number, got '2'"),
        ("= 2", "= 0", "x.toml: [engine] processes: must be at least 1, got 0"),
        ("= 2", "= 2\n[tuning]\nmethod = 'mart'", "unknown value; did you mean 'mert'?"),
        ("= 2", "= 2\n[tuning]\nmethod = 'xbleu'\nreplicas = 3", "nothing is random in xbleu: all"),
        ("= 2", "= 2\ndecoder = 'moses'", "[engine] moses_bin: is missing"),
        ("= 2", "= 2\n[models.mine]\nminutes = 1", "[models.mine] kind: is missing"),
        ("= 2", "= 2\n[models.rnn]\nminuts = 1", "key 'minuts' in [models.rnn]; did you mean 'min"),
        (
            "= 2",
            "= 2\nsearch.stak = 3",
            "[engine.search] stak: unknown limit; did you mean 'stack'?",
        ),
        ("= 2", "= 2\n[models.rnn]\npreset = 'smal'", "unknown value; did you mean 'small'?"),
        ("= 2", "= 2\n[models.rnn]\nset.model.hiden_size = 3", "did you mean 'hidden_size'?"),
        ("test.news", "test", "x.toml: [data.test.source]: expected a table"),
        ('"train.fr"]', "]", "[data] train: expected the source and the target side, got 1"),
        ("[data]", "systems = ['+RNM']\n[data]", "unknown row '+RNM'; did you mean '+RNN'?"),
        ("[data]", "systems = ['+RNN', '+RNN']\n[data]", "two rows are called '+RNN'"),
        (
            "[data]",
            "systems = [{name = 'x', columns = ['cslm']}]\n[data]",
            "row 'x': expected a encoder-decoder, cslm is a cslm",
        ),
        (
            "[data]",
            "systems = [{name = 'x', columns = ['unknown_words']}]\n[data]",
            "name one, too",
        ),
        (
            "[data]",
            "systems = [{name = 'x', rescore = ['lexikon']}]\n[data]",
            "row 'x': unknown model or feature 'lexikon'; did you mean 'lexicon'?",
        ),
        (
            "[data]",
            "systems = [{name = 'x', rescore = ['lm']}]\n[data]",
            "row 'x': lm needs a file: expected [data] lm",
        ),
        (
            "[data]",
            "systems = [{name = 'x', columns = ['lm']}]\n[data]\nlm = 'lm.arpa'",
            "row 'x': lm is for n-best lists alone",
        ),
        (
            "[data]",
            "systems = [{name = 'x', columns = ['length_ratio']}]\n[data]",
            "row 'x': length_ratio is for n-best lists alone: the ratios of its phrases",
        ),
        (
            "[data]",
            "systems = [{name = 'x', search = ['number_mismatch']}]\n[data]",
            "unknown model or feature 'number_mismatch'",
        ),
        ("[data]", "[data]\nlexicon = 'no.f2e'", "no.f2e: cannot open: No such file"),
        ("= 2", "= 2\n[models.lm]\nkind = 'cslm'", "[models] lm: is the name of a feature"),
        (
            "[data]",
            "systems = [{name = 'x', search = ['cslmm']}]\n[data]",
            "unknown model or feature 'cslmm'",
        ),
        (
            "= 2",
            "= 2\n[models.rnn]\nunnormalized = true",
            "[models.rnn] unnormalized: is of a cslm",
        ),
        ("= 2", "= 2\n[models.cslm]\nunnormalized = 1", "unnormalized: expected true or false"),
        (
            "= 2",
            "= 2\n[models.cslm]\nunnormalized = true\nbackoff_lm = 'lm.arpa'",
            "[models.cslm] backoff_lm: divides the probabilities of words: not with unnormalized",
        ),
        ("= 2", "= 2\n[models.cslm]\nbackoff_lm = 'no.arpa'", "no.arpa: cannot open: No such"),
        (
            "[data]",
            f"systems = [{{name = 'x', search = ['cslm', 'other']}}]\n{OTHER_CSLM}\n[data]",
            "row 'x': expected models of kind cslm with the same backoff_lm and unnormalized",
        ),
        ("= 2", "= 2\niterations = 1", "x.toml: [engine] iterations: must be at least 2, got 1"),
        ("= 2", "= 2\njobs = 0", "x.toml: [engine] jobs: must be at least 1, got 0"),
        ("dev.en", "dev.de", "dev.de: cannot open: No such file"),
        ('"table"', '"tabel"', "tabel: cannot open: No such file"),
        ("[data]", "[data", "x.toml: expected TOML"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_wrong_in_the_file_is_named(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    text = CONFIG if old in CONFIG else CONFIG.replace("[data]\n", '[data]\ntable = "table"\n')
    (tmp_path / "x.toml").write_text(text.replace(old, new, 1))
    result = experiment("--dry-run")
    assert result.exit_code == 1
    assert problem in result.stderr or problem in result.stderr.replace(str(tmp_path) + "/", "")
    assert not (tmp_path / "out").exists()


def test_the_rows_of_the_paper_are_the_usual_ones(folder: Path) -> None:
    found = read_experiment("x.toml").systems
    assert [system.name for system in found] == ["Baseline", "+RNN", "+CSLM+RNN", "+CSLM+RNN+WP"]
    assert found[3].columns == ("rnn", "unknown_words")
    assert found[3].search == ("cslm",)
    assert folder.exists()


# The plan


def test_each_row_is_tuned_and_decoded_with_what_it_has(folder: Path) -> None:
    plan = plan_of(folder, "[tuning]\nreplicas = 1")
    verbs = ("tune", "decode news")
    assert names(plan) == [
        *(f"{verb} Baseline seed 1" for verb in verbs),
        "train rnn",
        "train cslm",
        "annotate rnn",
        "annotate rnn+unknown_words",
        *(
            f"{verb} {system} seed 1"
            for system in ("+RNN", "+CSLM+RNN", "+CSLM+RNN+WP")
            for verb in verbs
        ),
    ]
    commands = {step.name: step.shown() for step in plan.steps}
    assert "--feature cslm --model" not in commands["tune +RNN seed 1"]
    for name in ("tune +CSLM+RNN seed 1", "decode news +CSLM+RNN seed 1"):
        assert f"--config {folder}/out/tables/rnn/moses.ini" in commands[name]
        assert f"--feature cslm --model {folder}/out/models/cslm --processes 2" in commands[name]
    tune = commands["tune +CSLM+RNN seed 1"]
    assert tune.startswith("phrasescore tune --decoder embedded --decoder-flags '--feature cslm")
    output = f"{folder}/out/systems/+CSLM+RNN/seed1"
    assert f"--translations {output}/dev.out -o {output}/weights" in tune
    assert commands["annotate rnn+unknown_words"].startswith(
        f"phrasescore annotate {folder}/table --model {folder}/out/models/rnn "
        "--feature unknown_words -o"
    )
    assert f"phrasescore train cslm {folder}/train.fr -o" in commands["train cslm"]


def test_threads_are_those_of_every_network(folder: Path) -> None:
    plan = plan_of(folder, "threads = 3\n[tuning]\nreplicas = 1")
    for step in plan.steps:
        words = shlex.split(step.shown())
        flags = "--decoder-flags"
        decoder = words[words.index(flags) + 1] if flags in words else ""
        assert ("--threads 3" in shlex.join(words).replace(shlex.quote(decoder), "")) == (
            words[1] in ("train", "annotate", "tune") or "--feature" in words
        )
        # In the command that tune is given, too.
        assert ("--threads 3" in decoder) == ("--feature cslm" in decoder)


def test_with_moses_the_language_model_scores_lists(folder: Path) -> None:
    (folder / "moses").write_text("")
    plan = plan_of(folder.joinpath(), 'decoder = "moses"\nmoses_bin = "."\n[tuning]\nreplicas = 1')
    commands = {step.name: step.shown() for step in plan.steps}
    assert f"--rescore {folder}/out/models/cslm" in commands["tune +CSLM+RNN seed 1"]
    assert "--feature cslm" not in commands["tune +CSLM+RNN seed 1"]
    moses = (
        f"phrasescore tune --decoder '{folder}/moses -threads 2' --config {folder}/out/moses.ini"
    )
    assert moses in commands["tune Baseline seed 1"]
    assert "rerank news +CSLM+RNN seed 1" in commands
    assert "CSLM scores Moses' n-best lists: Moses' search does not know it." in plan.notes


def test_features_that_are_no_networks_are_columns_and_features_of_lists(folder: Path) -> None:
    for name in ("lex.f2e", "five.arpa"):
        (folder / name).write_text("")
    before = "systems = ['Baseline', {name = '+lexicon', columns = ['lexicon', 'number_mismatch']}"
    before += ", {name = '+lm', rescore = ['lm', 'lexicon', 'lstm', 'length_ratio']}]"
    config = CONFIG.replace("[engine]", "lexicon = 'lex.f2e'\nlm = 'five.arpa'\n[engine]")
    (folder / "x.toml").write_text(f"{before}\n{config}\n[tuning]\nreplicas = 1\n")
    plan = build_plan(read_experiment("x.toml"), folder / "out")
    steps = {step.name: step for step in plan.steps}
    lexicon, lm = folder / "lex.f2e", folder / "five.arpa"
    annotate = steps["annotate lexicon+number_mismatch"]
    assert f"/table --lexicon {lexicon} --feature number_mismatch -o " in annotate.shown()
    assert lexicon in annotate.inputs
    tune, rescore = steps["tune +lm seed 1"], steps["rescore news +lm seed 1"]
    model = folder / "out" / "models" / "lstm"
    assert (
        f"--rescore-lm {lm} --rescore-lexicon {lexicon} --rescore {model} "
        "--rescore-feature length_ratio --translations"
    ) in tune.shown()
    assert (
        f"--lm {lm} --lexicon {lexicon} --model {model} --feature length_ratio -o"
    ) in rescore.shown()
    for step in (tune, rescore):
        assert {lexicon, lm, model} <= set(step.inputs)
    run = plan.runs[-1]
    run.folder.mkdir(parents=True)
    (start,) = run.parts
    write_tuned(start, {"LM0": (5.0,)})
    (folder / "out" / "moses.ini").write_text(INI)
    tune.prepare()
    assert load_weights(str(run.folder / "start")).lists == {
        "TM0": (0.5, 0.25), "LM0": (5.0,),
        "LSTM0": (0.0,), "KenLM0": (0.0,), "Lexicon0": (0.0,), "LengthRatio0": (0.0,),
    }  # fmt: skip
    assert load_weights(str(run.folder / "start")).search == {"TM0": (0.5, 0.25), "LM0": (5.0,)}


@pytest.mark.parametrize("decoder", ["embedded", "moses"])
def test_options_of_language_models_reach_all_commands_that_score_with_them(
    folder: Path, decoder: str
) -> None:
    (folder / "moses").write_text("")
    engine = f'decoder = "{decoder}"\nmoses_bin = "."\n[tuning]\nreplicas = 1\n'
    for setting, option in (
        ("unnormalized = true", "--unnormalized"),
        ('backoff_lm = "lm.arpa"', f"--backoff-lm {folder}/lm.arpa"),
    ):
        plan = plan_of(folder, f"{engine}[models.cslm]\n{setting}")
        for step in plan.steps:
            scores = f"{folder}/out/models/cslm" in step.shown() and "train" not in step.name
            assert (option in step.shown()) == scores
            if scores:
                assert option.startswith("--un") or folder / "lm.arpa" in step.inputs
        # Of two rows: tuning, and decoding or rescoring the test set.
        assert sum(option in step.shown() for step in plan.steps) == 4


def test_options_of_training_are_those_of_the_command_line(folder: Path) -> None:
    more = """
[models.reverse]
preset = "small"
minutes = 1.5
set.training.batch_size = 32
set.model.hidden_size = 16
[models.old]
kind = "encoder-decoder"
path = "old"
"""
    RandomModel(folder / "old", ["a"], ["b"])
    before = 'systems = ["Baseline", "+reverse", {name = "+old", rescore = "old"}]'
    plan = plan_of(folder, more, before)
    assert names(plan)[6:9] == ["train reverse", "train rnn", "annotate rnn+reverse"]
    assert (
        plan.steps[6]
        .shown()
        .endswith(
            "models/reverse --preset small --reverse --minutes 1.5 --set training.batch_size=32 "
            "--set model.hidden_size=16"
        )
    )
    assert plan.steps[6].partial == (folder / "out" / "models" / "reverse.work",)


@pytest.mark.parametrize(
    ("row", "name", "reverse", "problem"),
    [
        ("+LSTM", "lstm", False, "[models.lstm]: path: old is of the kind encoder-decoder, exp"),
        ("+RNN", "rnn", True, "of the direction source-given-target: expected reverse = true"),
        ("+reverse", "reverse", False, "expected a model that was trained with --reverse"),
    ],
)
def test_a_network_that_is_another_than_its_name_says_is_refused_at_once(
    folder: Path, row: str, name: str, reverse: bool, problem: str
) -> None:
    RandomModel(folder / "old", ["a"], ["b"], reverse=reverse)
    more = f"[models.{name}]\npath = 'old'\n"
    (folder / "x.toml").write_text(f"systems = ['Baseline', '{row}']\n{CONFIG}{more}")
    result = experiment("--dry-run")
    assert result.exit_code == 1
    assert problem in result.stderr.replace(f"{folder}/", "")


def test_a_model_that_is_still_being_trained_is_named_and_does_not_stop_a_dry_run(
    folder: Path,
) -> None:
    more = "[models.rnn]\npath = 'net'\n"
    (folder / "x.toml").write_text(f"systems = ['Baseline', '+RNN']\n{CONFIG}{more}")
    for option in ([], ["--dry-run"]):
        result = experiment(*option)
        assert result.exit_code == 1
        assert f"[models.rnn]: path: there is no model {folder}/net\n" in result.stderr
    (folder / "net.work").mkdir()
    problem = f"there is no model {folder}/net yet: its training is at work, or was stopped, in"
    refused = experiment()
    assert (refused.exit_code, problem in refused.stderr) == (1, True)
    shown = experiment("--dry-run")
    assert (shown.exit_code, problem in shown.stderr) == (0, True)
    assert "annotate rnn: phrasescore annotate" in shown.stdout


@pytest.mark.parametrize("name", ["dev.fr", "test.fr"])
def test_a_text_of_other_length_than_its_references_is_refused_at_once(
    folder: Path, name: str
) -> None:
    (folder / name).write_text("a\n")
    result = experiment("--dry-run")
    assert result.exit_code == 1
    source = name.replace(".fr", ".en")
    problem = f"{folder}/{name}: expected 2 lines, as {folder}/{source} has, found 1"
    assert problem in result.stderr


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("[models.rnn]\nupdates = 0", "[models.rnn] updates: expected a number above 0, got 0"),
        ("[models.rnn]\nminutes = nan", "[models.rnn]: [training] minutes: must be"),
        ("[models.rnn]\nthreads = 0", "[models.rnn] threads: must be at least 1, got 0"),
        (
            "[engine.search]\nstack = 'abc'",
            "[engine.search] stack: expected `int`, got `str`",
        ),
    ],
)
@pytest.mark.parametrize("option", [[], ["--dry-run"]])
def test_what_a_step_would_refuse_is_refused_before_the_first(
    folder: Path, more: str, problem: str, option: list[str]
) -> None:
    (folder / "x.toml").write_text(CONFIG.replace("[engine]\nprocesses = 2\n", "") + more)
    result = experiment(*option)
    assert result.exit_code == 1
    assert problem in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (folder / "out").exists()


def test_sides_of_other_lengths_are_refused_at_once(folder: Path) -> None:
    (folder / "train.fr").write_text("a\n")
    result = experiment("--dry-run")
    assert result.exit_code == 1
    expected = f"train.fr: expected 2 lines, as {folder}/train.en has, found 1"
    assert expected in result.stderr


@pytest.mark.parametrize("name", ["name", "rounds", "remarks"])
def test_a_text_is_not_called_as_the_key_beside_it(folder: Path, name: str) -> None:
    (folder / "x.toml").write_text(CONFIG.replace("test.news", f"test.{name}"))
    result = experiment("--dry-run")
    assert result.exit_code == 1
    assert f"[data]: test.{name}: expected names of letters" in result.stderr


@pytest.mark.parametrize("output", [".", "theirs", ""])
@pytest.mark.parametrize("option", [[], ["--dry-run"]])
def test_a_folder_with_other_things_in_it_is_left_alone(
    folder: Path, output: str, option: list[str]
) -> None:
    (folder / "theirs" / "models" / "rnn").mkdir(parents=True)
    (folder / "theirs" / "models" / "rnn" / "model.safetensors").write_text("mine")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    result = CliRunner().invoke(main, ["experiment", "x.toml", "-o", output, *option])
    assert result.exit_code == (1 if output else 2)
    expected = "expected a new folder, or that of an experiment, found other things in it, such as"
    assert (expected if output else "expected the name of a folder, found ''") in result.stderr
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert after == before


def test_a_row_starts_from_the_best_row_on_dev_whose_features_it_has(folder: Path) -> None:
    systems = ["Baseline", "+LSTM", "+RNN", "+CSLM+RNN", "+reverse"]
    plan = plan_of(folder, "", f"systems = {systems}")
    starts = {run.system.name: [each.system.name for each in run.parts] for run in plan.runs}
    assert starts == {
        "Baseline": [], "+LSTM": ["Baseline"], "+RNN": ["Baseline"],
        "+CSLM+RNN": ["Baseline", "+RNN"], "+reverse": ["Baseline", "+RNN"],
    }  # fmt: skip
    assert all(each.seed == run.seed for run in plan.runs for each in run.parts)
    alone = plan_of(folder, '[tuning]\nstart = "moses.ini"')
    tunes = [step for step in alone.steps if step.name.startswith("tune")]
    assert not any(each.weights in step.inputs for step in tunes for each in alone.runs)
    baseline, _, rnn, cslm, _ = plan.runs[:5]
    step = next(step for step in plan.steps if step.name == "tune +CSLM+RNN seed 1")
    assert {rnn.weights, rnn.report, baseline.weights, baseline.report} <= set(step.inputs)
    cslm.ini.parent.mkdir(parents=True)
    text = INI.replace("num-features=2", "num-features=3").replace("0.5 0.25", "0.5 0.25 0")
    cslm.ini.write_text(text)
    cslm.folder.mkdir(parents=True)
    # Of equally good ones the one with more features.
    for scores, best in (((50.0, 49.9), 1.0), ((50.0, 50.0), 2.0), ((50.0, 50.1), 2.0)):
        write_tuned(baseline, {"LM0": (1.0,)}, scores[0])
        write_tuned(rnn, {"LM0": (2.0,), "TM0": (0.5, 0.5, 0.5)}, scores[1])
        step.prepare()
        assert load_weights(str(cslm.folder / "start")).lists["LM0"] == (best,)


def test_a_row_may_have_limits_of_its_own(folder: Path) -> None:
    before = "systems = ['Baseline', {name = '+x', rescore = ['length_ratio'], iterations = 4, "
    plan = plan_of(folder, "[tuning]\nreplicas = 1", before + "nbest_size = 30, patience = 2}]")
    commands = {step.name: step.shown() for step in plan.steps}
    assert "--nbest-size 100 --iterations 15 --patience 5" in commands["tune Baseline seed 1"]
    assert "--nbest-size 30 --iterations 4 --patience 2" in commands["tune +x seed 1"]
    assert "news.nbest.gz 30 --distinct" in commands["decode news +x seed 1"]


def test_weights_are_carried_to_the_columns_of_the_next_row(folder: Path) -> None:
    before = "systems = ['Baseline', '+reverse', {name = '+wide', "
    before += "columns = ['unknown_words', 'reverse', 'rnn'], search = ['cslm'], rescore=['lstm']}]"
    plan = plan_of(folder, "[tuning]\nreplicas = 1", before)
    _, reverse, new = plan.runs
    write_tuned(plan.runs[0], {"LM0": (7.0,)}, 40.0)
    write_tuned(reverse, {"TM0": (1.0, 2.0, 3.0, 4.0), "LM0": (5.0,)})
    new.ini.parent.mkdir(parents=True)
    text = INI.replace("num-features=2", "num-features=5").replace("0.5 0.25", "0.5 0.25 0 0 0")
    new.ini.write_text(text)
    new.folder.mkdir(parents=True)
    next(step for step in plan.steps if step.name == "tune +wide seed 1").prepare()
    assert load_weights(str(new.folder / "start")).lists == {
        "TM0": (1.0, 2.0, 0.0, 4.0, 3.0), "LM0": (5.0,), "CSLM0": (0.0,), "LSTM0": (0.0,),
    }  # fmt: skip
    # The decoder does not know the LSTM.
    assert load_weights(str(new.folder / "start")).search == {
        "TM0": (1.0, 2.0, 0.0, 4.0, 3.0), "LM0": (5.0,), "CSLM0": (0.0,),
    }  # fmt: skip


def test_paths_of_the_model_begin_in_its_folder(folder: Path) -> None:
    plan = plan_of(folder)
    (text,) = plan.written.values()
    assert f" path={folder}/table # path=old\n".encode() in text
    ini = MosesIni("written", text)
    assert [dict(feature.arguments).get("path") for feature in ini.features] == [
        None, f"{folder}/table", f"{folder}/lm.arpa",
    ]  # fmt: skip


def test_a_folder_whose_name_moses_ini_cannot_hold_is_named_from_here(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = folder / "with blank"
    shutil.copytree(folder, other)
    (other / "moses.ini").write_text(INI.replace("/lm.arpa", f"{folder}/lm.arpa"))
    monkeypatch.chdir(other)
    (text,) = plan_of(other).written.values()
    assert b" path=table #" in text
    monkeypatch.chdir(folder)
    (other / "x.toml").rename(folder / "y.toml")
    (folder / "y.toml").write_text(CONFIG.replace('"moses.ini"', '"with blank/moses.ini"'))
    result = CliRunner().invoke(main, ["experiment", "y.toml", "-o", "out"])
    assert result.exit_code == 1
    assert "moses.ini:3: [feature] TM0: expected a path without blanks" in result.stderr

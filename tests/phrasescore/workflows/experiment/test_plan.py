"""The steps of an experiment: which commands, in which order, of which files."""

import shlex
import shutil
from pathlib import Path

import pytest

from moses_integration.moses_ini import MosesIni, load_weights
from phrasescore.features.model import Network
from phrasescore.workflows.experiment.choice import NetworkChoice, TuningPlan
from phrasescore.workflows.experiment.commands import shown
from phrasescore.workflows.experiment.config import read_experiment
from phrasescore.workflows.experiment.forecast import Forecast
from phrasescore.workflows.experiment.plan import build_plan
from tests.doubles import RandomModel
from tests.phrasescore.workflows.experiment.experiment_folder import (
    CONFIG,
    INI,
    names,
    plan_of,
    write_tuned,
)


def test_each_row_is_tuned_and_decoded_with_what_it_has(folder: Path) -> None:
    plan = plan_of(folder, "[tuning]\nreplicas = 1")
    verbs = ("tune", "decode news")
    assert names(plan) == [
        *(f"{verb} Baseline seed 1" for verb in verbs),
        "train encoder-decoder",
        "train cslm",
        "annotate encoder-decoder",
        "annotate encoder-decoder+unknown_words",
        *(
            f"{verb} {system} seed 1"
            for system in ("+RNN", "+CSLM+RNN", "+CSLM+RNN+WP")
            for verb in verbs
        ),
    ]
    commands = {step.name: shown(step.words) for step in plan.steps}
    assert "--feature cslm --model" not in commands["tune +RNN seed 1"]
    for name in ("tune +CSLM+RNN seed 1", "decode news +CSLM+RNN seed 1"):
        assert f"--config {folder}/out/tables/encoder-decoder/moses.ini" in commands[name]
        assert f"--feature cslm --model {folder}/out/models/cslm --processes 2" in commands[name]
    tune = commands["tune +CSLM+RNN seed 1"]
    assert tune.startswith("phrasescore tune --decoder embedded --decoder-flags '--feature cslm")
    output = f"{folder}/out/systems/+CSLM+RNN/seed1"
    assert f"--translations {output}/dev.out -o {output}/weights" in tune
    assert commands["annotate encoder-decoder+unknown_words"].startswith(
        f"phrasescore annotate {folder}/table --model {folder}/out/models/encoder-decoder "
        "--feature unknown_words -o"
    )
    assert f"phrasescore train cslm {folder}/train.fr -o" in commands["train cslm"]


def test_threads_are_those_of_every_network(folder: Path) -> None:
    plan = plan_of(folder, "threads = 3\n[tuning]\nreplicas = 1")
    for step in plan.steps:
        words = ["phrasescore", *step.words]
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
    commands = {step.name: shown(step.words) for step in plan.steps}
    assert f"--rescore-model {folder}/out/models/cslm" in commands["tune +CSLM+RNN seed 1"]
    assert "--feature cslm" not in commands["tune +CSLM+RNN seed 1"]
    moses = (
        f"phrasescore tune --decoder '{folder}/moses -threads 2' --config {folder}/out/moses.ini"
    )
    assert moses in commands["tune Baseline seed 1"]
    assert "rerank news +CSLM+RNN seed 1" in commands
    assert (
        "CSLM scores Moses' n-best lists, because Moses' search does not support it." in plan.notes
    )


def test_networks_of_the_search_are_named_by_their_kinds(folder: Path) -> None:
    (folder / "align").write_text("0-0\n0-0\n")
    before = "systems = ['Baseline', '+joint', '+CSLM+joint+RNN']\n"
    config = CONFIG.replace("[engine]", "alignments = 'align'\n[engine]")
    (folder / "x.toml").write_text(f"{before}{config}\n[tuning]\nreplicas = 1\n")
    plan = build_plan(read_experiment("x.toml"), folder / "out")
    steps = {step.name: step for step in plan.steps}
    joint, cslm = (folder / "out" / "models" / name for name in ("joint", "cslm"))
    train = (
        f"train joint {folder}/train.en {folder}/train.fr -o {joint} --alignments {folder}/align"
    )
    assert shown(steps["train joint"].words) == f"phrasescore {train}"
    assert folder / "align" in steps["train joint"].inputs
    search = f"--feature cslm --model {cslm} --feature joint --model {joint}"
    assert search in shown(steps["tune +CSLM+joint+RNN seed 1"].words)
    assert search in shown(steps["decode news +CSLM+joint+RNN seed 1"].words)
    assert list(plan.runs[2].added) == ["CSLM0_0", "Joint0_0", "TM0_2"]


def test_a_network_is_trained_on_with_the_weights_of_an_earlier_row(folder: Path) -> None:
    (folder / "lists").write_text("")
    before = (
        "systems = ['Baseline', '+RNN', '+RNNsearch', {name = '+tuned', columns = ['column'], "
        "rescore = ['sentence']}]"
    )
    more = "[tuning]\nreplicas = 2\n"
    for name, model, row in (
        ("column", "encoder-decoder", "+RNN"),
        ("sentence", "rnnsearch", "+RNNsearch"),
    ):
        more += (
            f"[models.{name}]\nminutes = 3\nxbleu = {{model = '{model}', row = '{row}', "
            "lists = ['lists'], source = 'train.en', references = 'train.fr'}\n"
        )
    plan = plan_of(folder, more, before)
    late = ["train column", "train sentence", "annotate column"]
    assert [name for name in names(plan) if name in late] == late
    assert names(plan).index("train column") > names(plan).index("tune +RNNsearch seed 1")
    steps = {step.name: step for step in plan.steps}
    out = folder / "out"
    weights = out / "systems" / "+RNN" / "seed1" / "weights"
    assert shown(steps["train column"].words) == (
        f"phrasescore train encoder-decoder --objective xbleu --from {out}/models/encoder-decoder "
        f"-o {out}/models/column --lists {folder}/lists --source {folder}/train.en "
        f"--references {folder}/train.fr --weights {weights} --feature TM0_2 --minutes 3"
    )
    assert {out / "models" / "encoder-decoder", folder / "lists", weights} <= set(
        steps["train column"].inputs
    )
    assert " --feature RNNsearch0 " in shown(steps["train sentence"].words)
    assert f"--model {out}/models/column -o" in shown(steps["annotate column"].words)
    assert list(plan.runs[3].added) == ["RNNsearch0_0", "TM0_2"]


def test_a_joint_model_is_trained_on_with_alignments(folder: Path) -> None:
    (folder / "lists").write_text("")
    (folder / "align").write_text("0-0\n0-0\n")
    before = "systems = ['+joint', {name = '+tuned', search = ['fine']}]"
    more = (
        "[models.fine]\nxbleu = {model = 'joint', row = '+joint', lists = ['lists'], "
        "source = 'train.en', references = 'train.fr', alignments = 'align'}\n"
    )
    config = CONFIG.replace("[engine]", "alignments = 'align'\n[engine]")
    (folder / "x.toml").write_text(f"{before}\n{config}{more}")
    step = {step.name: step for step in build_plan(read_experiment("x.toml"), folder / "out").steps}
    command = shown(step["train fine"].words)
    assert f" --references {folder}/train.fr --alignments {folder}/align --weights " in command
    assert " --feature Joint0" in command
    assert folder / "align" in step["train fine"].inputs


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
    assert f"/table --lexicon {lexicon} --feature number_mismatch -o " in shown(annotate.words)
    assert lexicon in annotate.inputs
    tune, rescore = steps["tune +lm seed 1"], steps["rescore news +lm seed 1"]
    model = folder / "out" / "models" / "lstm"
    assert (
        f"--rescore-lm {lm} --rescore-lexicon {lexicon} --rescore-model {model} "
        "--rescore-feature length_ratio --translations"
    ) in shown(tune.words)
    assert (f"--lm {lm} --lexicon {lexicon} --model {model} --feature length_ratio -o") in shown(
        rescore.words
    )
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
    model = str(folder / "out" / "models" / "cslm")
    backoff = f"{folder}/lm.arpa"
    for setting, option, column in (
        ("unnormalized = true", "--unnormalized", Network(model, unnormalized=True)),
        ('backoff_lm = "lm.arpa"', f"--backoff-lm {backoff}", Network(model, backoff_lm=backoff)),
    ):
        plan = plan_of(folder, f"{engine}[models.cslm]\n{setting}")
        for step in plan.steps:
            scores = f"{folder}/out/models/cslm" in shown(step.words) and "train" not in step.name
            given = (option, shlex.quote(column.to_toml()))
            has_option = any(each in shown(step.words) for each in given)
            assert has_option == scores
            if scores:
                assert option.startswith("--un") or folder / "lm.arpa" in step.inputs
        # Of two rows: tuning, and decoding or rescoring the test set.
        assert sum(any(each in shown(step.words) for each in given) for step in plan.steps) == 4


def test_options_of_training_are_those_of_the_command_line(folder: Path) -> None:
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
    before = 'systems = ["Baseline", "+reverse", {name = "+old", rescore = "old"}]'
    plan = plan_of(folder, more, before)
    assert names(plan)[6:9] == [
        "train reverse",
        "train encoder-decoder",
        "annotate encoder-decoder+reverse",
    ]
    assert shown(plan.steps[6].words).endswith(
        "models/reverse --preset encoder-decoder-small --reverse --minutes 1.5 "
        "--set training.batch_size=32 "
        "--set model.hidden_size=16"
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
    before = f"systems = ['Baseline', {{name = '+four', rescore = {rows}}}]"
    plan = plan_of(folder, f"[tuning]\nreplicas = 1\n{more}", before)
    commands = {step.name: shown(step.words) for step in plan.steps}
    assert commands["train turned"].endswith("models/turned --right-to-left")
    assert "--right-to-left" not in commands["train back"] + commands["train second"]
    # As rescore names them: tests/phrasescore/cli/test_rescore.py.
    assert list(plan.runs[1].added) == [
        "RNNsearch0_0", "ReverseRNNsearch0_0", "RightToLeftRNNsearch0_0", "RNNsearch1_0",
    ]  # fmt: skip


def test_a_row_may_have_limits_of_its_own(folder: Path) -> None:
    before = "systems = ['Baseline', {name = '+x', rescore = ['length_ratio'], iterations = 4, "
    plan = plan_of(folder, "[tuning]\nreplicas = 1", before + "nbest_size = 30, patience = 2}]")
    commands = {step.name: shown(step.words) for step in plan.steps}
    assert "--nbest-size 100 --iterations 15 --patience 5" in commands["tune Baseline seed 1"]
    assert "--nbest-size 30 --iterations 4 --patience 2" in commands["tune +x seed 1"]
    assert "news.nbest.gz --nbest-size 30 --distinct" in commands["decode news +x seed 1"]


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


def test_another_metric_is_an_option_of_tuning(folder: Path) -> None:
    (tune,) = [
        step
        for step in plan_of(
            folder, "[tuning]\nmetric = 'word_accuracy'\nreplicas = 1", "systems = ['Baseline']"
        ).steps
        if step.words[0] == "tune"
    ]
    assert tune.words[tune.words.index("--metric") + 1] == "word_accuracy"
    usual = plan_of(folder)
    assert not any("--metric" in step.words for step in usual.steps)


def test_a_forecast_adds_up_what_each_step_reads(folder: Path) -> None:
    before = "systems = ['Baseline', '+RNNsearch', '+CSLM']\n"
    (folder / "x.toml").write_text(f"{before}{CONFIG}[tuning]\nreplicas = 1\n")
    sizes = {folder / "dev.en": 200, folder / "test.en": 100}
    wanted = read_experiment("x.toml")
    forecast = Forecast(wanted, folder / "out", sizes, 10.0, 64_000, loading=3.0, sentence=0.5)
    kept = [
        NetworkChoice("rnnsearch", "rnnsearch", "+RNNsearch", "", 1, minutes=2.0, least=1.0),
        NetworkChoice("cslm", "cslm", "+CSLM", "", 1, minutes=1.0, least=1.0),
    ]
    plan = TuningPlan(5, 7, sentences=150)
    found = {step.name: seconds for step, seconds in forecast.steps(kept, plan).items()}
    # Every step starts in 4 s. Two processes search a sentence in 0.5 / 2 s; for each sentence, a
    # round of tuning adds 0.004 s, a network that scores the list 0.03 s, and a network in the
    # search 10 words of 0.009 s. This one has trials of 4 weights on 100 sentences.
    assert found == pytest.approx(
        {
            "train rnnsearch": 4 + 120,
            "train cslm": 4 + 60,
            "tune Baseline seed 1": 4 + 3 + 5 * 150 * (0.25 + 0.004),
            "decode news Baseline seed 1": 4 + 3 + 100 * 0.25,
            "tune +RNNsearch seed 1": 4 + 3 + 5 * 150 * (0.25 + 0.03 + 0.004),
            "decode news +RNNsearch seed 1": 4 + 3 + 100 * 0.25,
            "rescore news +RNNsearch seed 1": 4 + 100 * 0.03,
            "rerank news +RNNsearch seed 1": 4,
            "tune +CSLM seed 1": 4 + 3 + 7 * 150 * (0.295 + 0.004) + 4 * 100 * 0.295,
            "decode news +CSLM seed 1": 4 + 3 + 100 * 0.295,
        }
    )

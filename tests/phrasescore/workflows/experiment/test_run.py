"""``phrasescore experiment`` from end to end, with commands that are doubles."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import phrasescore
from phrasescore.evaluation.systems_table import SystemsTable
from phrasescore.progress import Progress
from phrasescore.records import ConfidenceCurve
from phrasescore.settings.evaluation import Evaluating
from phrasescore.systems.system import read_system
from phrasescore.workflows.experiment.config import read_experiment
from phrasescore.workflows.experiment.functions import run_step, written
from phrasescore.workflows.experiment.plan import build_plan
from phrasescore.workflows.experiment.table import measure
from tests.command_line import check_refusal, run, succeeded
from tests.phrasescore.workflows.experiment.experiment_folder import (
    CONFIG,
    experiment,
    plan_of,
    planned,
    steps_of,
    write_tuned,
)


def calls(folder: Path) -> list[str]:
    found = (folder / "calls").read_text().split()
    (folder / "calls").unlink()
    return found


def test_a_run_makes_the_table_and_the_next_one_has_nothing_to_do(doubles: Path) -> None:
    result = succeeded(experiment())
    row = ["tune", "translate"]
    assert calls(doubles) == [*row, "train", "annotate", *row]
    assert "step 3 of 6: train encoder-decoder\n" in result.stderr
    assert "$ " not in result.stderr  # only with --verbose
    assert re.search(
        r"phrasescore: step 3 of 6: train encoder-decoder took \d+:\d\d", result.stderr
    )
    assert result.stdout.splitlines()[0].split() == ["dev", "news", "rounds"]
    assert (doubles / "out" / "table.txt").read_text() == result.stdout
    assert "phrasescore: tune +RNN seed 1: round 1: BLEU 12.34\n" in result.stderr
    again = experiment()
    assert again.stdout == result.stdout
    assert "6 of 6 steps are done" in again.stderr
    assert not (doubles / "calls").exists()


def test_what_a_command_warns_of_is_said_and_stands_under_the_table(doubles: Path) -> None:
    with (doubles / "commands.py").open("a") as code:
        code.write("if verb == 'tune': print(json.dumps({'warning': 'odd lists'}))\n")
    result = experiment()
    assert "phrasescore: warning: tune Baseline seed 1: odd lists\n" in result.stderr
    assert "Warning of tune Baseline seed 1: odd lists.\n" in result.stdout
    again = experiment()
    assert (again.stdout, "warning" in again.stderr) == (result.stdout, False)
    seen: list[Progress] = []
    phrasescore.run_experiment("x.toml", "out", progress=seen.append)
    assert (seen[0].note, seen[-1].note, seen[-1].share) == ("0 of 6 steps", "6 of 6 steps", 1)


@pytest.mark.usefixtures("doubles")
def test_the_table_so_far_is_shown_and_the_bar_of_a_step_ends() -> None:
    shown: list[list[list[str]]] = []  # the texts with scores of each row

    def show(table: SystemsTable) -> None:
        shown.append([sorted(row.scores) for row in table.rows])

    seen: list[Progress] = []
    phrasescore.run_experiment("x.toml", "out", show=show, progress=seen.append)
    ended = [each.task for each in seen if each.finished]
    assert ended == [name for _, name in planned()]  # whose bars are removed
    both = ["dev", "news"]
    assert shown == [[["dev"], []], [both, []], [both, ["dev"]], [both, both]]
    phrasescore.run_experiment("x.toml", "out", show=show)
    assert shown[4:] == [[both, both]]


def test_only_what_depends_on_a_change_is_repeated(doubles: Path) -> None:
    experiment()
    calls(doubles)
    (doubles / "test.en").write_text("c\nd\n")
    experiment()
    assert calls(doubles) == ["translate"] * 2
    text = (doubles / "x.toml").read_text()
    (doubles / "x.toml").write_text(f"{text}[models.encoder-decoder]\nminutes = 2\n")
    # The double writes the same model whatever the minutes.
    experiment()
    assert calls(doubles) == ["train"]
    (doubles / "x.toml").write_text(text.replace("replicas = 1", "replicas = 2"))
    experiment()
    assert sorted(calls(doubles)) == sorted(["train", *["tune", "translate"] * 4])


def test_some_rows_are_made_and_the_others_stay_in_the_table(doubles: Path) -> None:
    text = (doubles / "x.toml").read_text()
    (doubles / "x.toml").write_text(text.replace("'+RNN']", "'+RNN', '+LSTM', '+RNNsearch']"))
    succeeded(experiment("--rows", "+LSTM"))
    assert calls(doubles) == ["tune", "train", "tune", "translate"]
    assert [state for state, _ in planned("--rows", "+RNN,Baseline")] == ["done", *["to do"] * 5]
    result = succeeded(experiment("--rows", "+RNN,Baseline"))
    assert "1 of 6 steps are done" in result.stderr
    assert calls(doubles) == ["translate", "train", "annotate", "tune", "translate"]
    cells = {line.split()[0]: line.split()[1:3] for line in result.stdout.splitlines()[1:5]}
    assert "-" not in {*cells["Baseline"], *cells["+RNN"], *cells["+LSTM"]}
    assert cells["+RNNsearch"] == ["-", "-"]
    check_refusal(experiment("--rows", "+LSTN"), "--rows: unknown row '+LSTN'", 2)


def test_a_dry_run_lists_the_steps_and_writes_nothing(doubles: Path) -> None:
    assert [state for state, _ in planned()] == ["to do"] * 6
    assert max(map(len, experiment("--dry-run").stdout.splitlines())) <= 80
    assert not (doubles / "out").exists()
    experiment()
    lines = planned()
    assert [state for state, _ in lines] == ["done"] * 6
    assert lines[2][1] == "train encoder-decoder"
    assert lines[-1][1] == "translate news +RNN seed 1"
    (doubles / "dev.fr").write_text("c\nd\n")
    assert [state for state, _ in planned()] == [*["to do"] * 2, *["done"] * 2, *["to do"] * 2]


def test_translations_are_measured_as_text_and_by_a_program_too(folder: Path) -> None:
    raw = "".join(f"The house of {number} is small, and old.\n" for number in range(40))
    for name in ("test.raw", "test.en", "test.fr"):
        (folder / name).write_text(raw)
    code = "import sys\nfor line in sys.stdin: print(line.count('old'), flush=True)\n"
    (folder / "qe.py").write_text(code)
    config = CONFIG.replace('["test.fr"]', '["test.fr"], raw = ["test.raw", "test.raw"]')
    more = "[tuning]\nreplicas = 1\n[metrics]\ncommand = 'python qe.py'\nname = 'OLD'\n"
    (folder / "x.toml").write_text(f"systems = ['Baseline', '+RNN']\n{config}{more}")
    plan = build_plan(wanted := read_experiment("x.toml"), folder / "out")
    (text,), made = wanted.data.tests, set()
    for each, end in zip(plan.runs, ("new.", "old."), strict=True):
        write_tuned(each, {"LM0": (1.0,)}, 60.0)
        each.output(text).write_text("other words\n" * 40)
        each.restored(text).write_text(raw.replace("old.", end))
        settings = written(steps_of(plan)[f"measure news {each.row.name} seed 1"].settings)
        message = {"function": "measure", "settings": settings, "resume": False}
        run_step(json.dumps(message).encode(), None)
        made |= {each.output(text), each.report, each.scores(text)}
    rows = measure(wanted, plan, made).rows
    metrics: dict[str, Any] = {"metrics": ("bleu", "chrf++"), "tokenize": "13a"}
    metrics |= {"commands": ("python qe.py",), "names": ("OLD",), "paired": "approximate"}
    found = phrasescore.evaluate(
        [str(each.restored(text)) for each in plan.runs], ["test.raw"], source="test.raw",
        settings=Evaluating(**metrics),
    )  # fmt: skip
    for name, tested in zip(rows[0].others, found.comparisons, strict=True):
        scores = [row.others[name] for row in rows]
        expected: Any = [(pytest.approx(each.score), each.p_value) for each in tested.systems]
        assert [(score.mean, score.p_value) for score in scores] == expected
    assert [*rows[1].others] == ["news BLEU-13a", "news chrF2++", "news OLD"]


@pytest.mark.parametrize("output", [".", "theirs", ""])
@pytest.mark.parametrize("option", [[], ["--dry-run"]])
def test_a_folder_with_other_things_in_it_is_left_alone(
    folder: Path, output: str, option: list[str]
) -> None:
    (folder / "theirs" / "models" / "encoder-decoder").mkdir(parents=True)
    (folder / "theirs" / "models" / "encoder-decoder" / "model.safetensors").write_text("mine")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    result = run("experiment", "x.toml", "-o", output, *option)
    assert result.exit_code == (1 if output else 2)
    expected = (
        "expected a new folder, or the folder of an experiment, found other files in it, such as"
    )
    assert (expected if output else "expected the name of a folder, found ''") in result.stderr
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert after == before


def test_the_table_has_means_spreads_and_what_chance_says(folder: Path) -> None:
    plan = plan_of(folder, "[tuning]\nreplicas = 2", 'systems = ["Baseline", "+RNN"]')
    wanted = read_experiment("x.toml")
    words = [f"a b c d e f g{number} h" for number in range(40)]
    spoilt = [line.replace(" c", " x") if number % 2 else line for number, line in enumerate(words)]
    for name in ("dev.fr", "test.fr"):
        (folder / name).write_text("".join(f"{line}\n" for line in words))
    made = set()
    for each, lines in zip(plan.runs, (spoilt, words, spoilt, spoilt), strict=True):
        # TM0_2, the column of the network, moves nothing.
        write_tuned(each, {"LM0": (1.0,)}, 60.0 if each.row.name == "Baseline" else 59.0)
        for path in map(each.output, wanted.data.texts):
            path.write_text("".join(f"{line}\n" for line in lines))
            made |= {path, each.report}
    table = measure(wanted, plan, made)
    # multi-bleu.perl of the spoilt text, by hand: 300/320, 240/280, 180/240, 140/200 n-grams.
    bad = 100 * (300 / 320 * 240 / 280 * 180 / 240 * 140 / 200) ** 0.25
    # Each row had its choice of weights on dev: a p-value says nothing there.
    for row in table.rows:
        assert (row.scores["dev"].p_value, row.scores["dev"].interval) == (None, None)
    first, second = (row.scores["news"] for row in table.rows)
    assert first.replicas == pytest.approx([bad, bad])
    assert second.replicas == pytest.approx([100, bad])
    assert second.difference == pytest.approx((100 - bad) / 2)
    assert second.p_value is not None
    assert second.p_value < 0.01
    text = table.to_text().splitlines()
    assert text[0].split() == ["dev", "news", "rounds"]
    mean, deviation = (100 + bad) / 2, (100 - bad) / 2**0.5
    expected = f"+RNN *    {mean:.2f} ± {deviation:.2f}  {mean:.2f} ± {deviation:.2f} "
    assert text[2].startswith(f"{expected}(+{(100 - bad) / 2:.2f}, p")
    assert text[2].endswith("  2+, 2+  best")
    assert "\n".join(text).count(", p ") == 1
    gain = f"{(100 - bad) / 2:.2f} more"
    assert " ".join(map(str.strip, text[4:6])) == (
        f"+RNN is best on dev, with {mean:.2f} BLEU, {gain} than Baseline. On news it is better: "
        f"{gain} (p < 0.001)."
    )
    assert "* +RNN: tuning found no use for encoder-decoder (weight 0, or nearly)." in text
    assert max(map(len, text)) <= 80
    assert table.rows[1].rounds == ("2+", "2+")
    assert table.texts[0].references == ("../dev.fr",)
    assert table.rows[1].outputs["dev"] == tuple(f"+RNN/seed{seed}/dev.out" for seed in (1, 2))
    assert (table.rows[1].system, table.best) == ("+RNN/seed1", "+RNN")


def test_the_page_of_a_run_has_its_results_and_texts(doubles: Path) -> None:
    succeeded(experiment())
    page = doubles / "out" / "report"
    report = json.loads((page / "report.json").read_text("utf-8"))
    keys = [section["key"] for section in report["sections"]]
    assert keys == ["results", "groups"]  # the translations do not differ
    assert report["title"] == "Translation of news"
    assert report["command"].startswith("phrasescore")
    assert report["sections"][0]["blocks"][0]["caption"] == "+RNN: columns encoder-decoder."


def test_the_confidence_that_was_calibrated_is_in_the_system(doubles: Path) -> None:
    succeeded(experiment())
    system = read_system(doubles / "out" / "+RNN")
    assert system.confidence == ConfidenceCurve(0.5, 1e-6, -2.0)


def test_a_page_can_be_made_again_with_more_in_it(doubles: Path) -> None:
    succeeded(experiment())
    first = (doubles / "out" / "report" / "report.json").read_text("utf-8")
    succeeded(run("report", "--experiment", "out", "-o", "again"))
    again = json.loads((doubles / "again" / "report.json").read_text("utf-8"))
    assert again["sections"] == json.loads(first)["sections"]
    # Without the texts, what is measured is still there.
    (doubles / "test.fr").unlink()
    succeeded(run("report", "--experiment", "out", "-o", "again"))
    again = json.loads((doubles / "again" / "report.json").read_text("utf-8"))
    assert [section["key"] for section in again["sections"]] == ["results"]


def test_an_interrupted_run_says_that_the_same_command_continues(
    doubles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["phrasescore", "experiment", "a b.toml"])
    with (doubles / "commands.py").open("a") as code:
        code.write("if verb == 'train': sys.exit(130)\n")
    result = experiment()
    assert result.exit_code == 130
    same = "the same command continues: phrasescore experiment 'a b.toml'"
    said = f"phrasescore: stopped; {same}\nphrasescore: interrupted\n"
    assert result.stderr.endswith(said)


def test_the_table_the_page_and_the_next_step_have_one_verdict(doubles: Path) -> None:
    code = (doubles / "commands.py").read_text()
    # Of +RNN, whose weights come from another folder, both translations are right; on dev alone.
    code += "if output.name == '+RNN': translations.write_text('a\\nb\\n')\n"
    source = 'translations.write_text(pathlib.Path(settings["source"]).read_text())'
    code = code.replace(source, "translations.write_text('x\\nb\\n')")
    (doubles / "commands.py").write_text(code)
    for name in ("dev", "test"):
        for end in ("en", "fr"):
            (doubles / f"{name}.{end}").write_text("a\nb\n")
    (doubles / "x.toml").write_text(
        (doubles / "x.toml").read_text() + "metric = 'word_accuracy'\nmethod = 'xbleu'\n"
    )
    result = succeeded(experiment())
    verdict = (
        "+RNN is best on dev, with 100.00 word accuracy, 50.00 more than Baseline. On news it is "
        "not shown to be better: 0.00 more (p = 1.000)."
    )
    assert verdict in re.sub("\n +", " ", result.stdout)
    assert "; next, translate with +RNN:\n" in result.stderr
    report = json.loads((doubles / "out" / "report" / "report.json").read_text("utf-8"))
    assert report["lead"] == verdict
    assert ", p " not in result.stdout.splitlines()[1]
    written = tomllib.loads((doubles / "out" / "table.toml").read_text())
    assert (written["metric"], written["best"]) == ("word_accuracy", "+RNN")
    assert written["row"][1]["scores"]["dev"] == {"mean": 100.0, "replicas": [100.0]}
    # What evaluate is asked for on dev is left out, and on the test set it is there.
    for name, has_test in (("dev", False), ("news", True)):
        systems = [f"out/{row}/{name}.out" for row in ("Baseline", "+RNN")]
        options = ("--references", "test.fr", "--paired", "approximate", "--metric", "chrf")
        found = succeeded(run("evaluate", *systems, *options))
        assert ("randomization" in found.stdout) == has_test
        assert ("the weights were tuned on this text" in found.stderr) != has_test

"""An experiment as a Snakefile: its text, its steps one by one, and real Snakemake."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import phrasescore
from phrasescore.errors import ArgumentError, ConfigError, PhrasescoreError
from phrasescore.workflows.experiment import snakemake
from tests.children import leashed
from tests.command_line import check_refusal, run
from tests.phrasescore.workflows.experiment.experiment_folder import CONFIG, experiment, plan_of

REPOSITORY = Path(__file__).resolve().parents[4]
SNAKEMAKE = shutil.which("snakemake")
SMALL = CONFIG.replace("processes = 2", "processes = 2\nthreads = 1") + "[tuning]\nreplicas = 1\n"


@pytest.fixture
def small(doubles: Path) -> Path:
    (doubles / "x.toml").write_text(f"systems = ['Baseline', '+RNN']\n{SMALL}")
    return doubles


def export(folder: Path, output: str = "out") -> dict[str, dict[str, str]]:
    phrasescore.export_experiment("x.toml", "Snakefile", output)
    rules = re.findall(r"^rule (\w+):\n((?: .*\n)+)", (folder / "Snakefile").read_text(), re.M)
    parts = re.compile(r"^    (\w+):(.*(?:\n {8}.*)*)", re.M)
    return {name: dict(parts.findall(text)) for name, text in rules}


def values(part: str) -> Any:
    return literal_eval(f"[{part}]".replace("directory(", "('folder', "))


def test_every_step_is_a_rule_and_the_first_one_is_the_table(small: Path) -> None:
    rules = export(small)
    assert list(rules) == [
        *("table", "tune_Baseline_seed_1", "decode_news_Baseline_seed_1", "train_rnn"),
        *("annotate_rnn", "tune__RNN_seed_1", "decode_news__RNN_seed_1"),
    ]
    out = small / "out"
    table = [str(out / f"table.{ending}") for ending in ("txt", "toml")]
    assert values(rules["table"]["output"]) == table
    train = rules["train_rnn"]
    assert values(train["input"]) == [str(small / "table")]
    assert values(train["output"]) == [("folder", str(out / "models" / "rnn"))]
    assert (train["threads"], train["resources"]) == (" 1", " mem_mb=4000")
    assert train["shell"] == " '{PHRASESCORE} train_rnn'"
    made = values(train["output"])[0][1]
    assert values(rules["annotate_rnn"]["input"]) == [str(small / "table"), made]
    # The moses.ini of a table is written by the jobs themselves.
    assert values(rules["tune__RNN_seed_1"]["input"])[0] == str(small / "moses.ini")
    assert rules["tune__RNN_seed_1"]["threads"] == " 2"
    assert "4000 + int(4 * input.size_mb)" in rules["tune__RNN_seed_1"]["resources"]
    everything = [each for name, rule in rules.items() if name != "table"
                  for each in values(rule["output"])]  # fmt: skip
    assert values(rules["table"]["input"]) == [
        each if isinstance(each, str) else each[1] for each in everything
    ]


def test_a_search_with_networks_asks_for_the_threads_of_each_process(small: Path) -> None:
    config = SMALL.replace("threads = 1", "threads = 3")
    (small / "x.toml").write_text(f"systems = ['Baseline', '+CSLM+RNN']\n{config}")
    threads = {name: rule["threads"] for name, rule in export(small).items() if name != "table"}
    assert (threads["tune_Baseline_seed_1"], threads["decode_news_Baseline_seed_1"]) == (" 3", " 2")
    assert {threads[name] for name in threads if "CSLM" in name} == {" 6"}


def test_what_a_killed_step_goes_on_with_is_in_no_output(small: Path) -> None:
    export(small)
    plan = plan_of(small, before="systems = ['Baseline', '+RNN']")
    outputs = {path for step in plan.steps for path in step.outputs}
    for step in plan.steps:
        for path in step.partial:
            assert outputs.isdisjoint((path, *path.parents)), path


def test_names_of_rows_and_paths_are_quoted(small: Path) -> None:
    (small / "te st'é").write_text("a\nb\n")
    text = (small / "x.toml").read_text().replace('"test.en"', '"te st\'é"')
    rows = "systems = [{ name = '+a' }, { name = '-a' }, { name = 'a{b} c' }]\n"
    (small / "x.toml").write_text(rows + text.partition("\n")[2])
    rules = export(small)
    assert [name for name in rules if name.startswith("tune")] == [
        *("tune__a_seed_1", "tune__a_seed_1_", "tune_a_b__c_seed_1")
    ]
    decode = rules["decode_news__a_seed_1"]
    assert str(small / "te st'é") in values(decode["input"])
    command = literal_eval(decode["params"].partition("=")[2].strip())
    assert shlex.split(command)[:3] == ["phrasescore", "decode", str(small / "te st'é")]
    assert (small / "Snakefile").read_text().isascii()


def test_the_steps_one_by_one_make_the_table_of_a_whole_run(small: Path) -> None:
    with (small / "commands.py").open("a") as code:
        code.write("if verb == 'tune': print(json.dumps({'warning': 'odd lists'}))\n")
    assert experiment().exit_code == 0
    head, *_ = re.findall(r"^PHRASESCORE = (.+)$", _exported(small, "jobs"), re.M)
    words = shlex.split(literal_eval(head))
    assert words[:4] == [sys.executable, "-m", "phrasescore", "experiment"]
    for rule in [*list(export(small, "jobs"))[1:], "table"]:
        result = run(*words[3:], rule)
        assert (result.exit_code, result.stdout) == (0, ""), result.output
    for name in ("table.txt", "table.toml"):
        assert (small / "jobs" / name).read_bytes() == (small / "out" / name).read_bytes()
    pages = (json.loads((small / name / "report" / "report.json").read_text("utf-8"))
             for name in ("jobs", "out"))  # fmt: skip
    first, other = (page["sections"] for page in pages)
    assert first[:-1] == other[:-1]  # the steps have other times
    assert "Warning of tune +RNN seed 1: odd lists.\n" in (small / "jobs/table.txt").read_text()


def _exported(folder: Path, output: str) -> str:
    export(folder, output)
    return (folder / "Snakefile").read_text()


def test_a_step_whose_outputs_snakemake_deleted_goes_on(small: Path) -> None:
    (small / "commands.py").write_text(
        "import pathlib, sys\n"
        "output = pathlib.Path(sys.argv[sys.argv.index('-o') + 1])\n"
        "with open(output.parent / 'calls', 'a') as calls:\n"
        "    calls.write(f'{sys.argv[-1]}\\n')\n"
        "if '--resume' not in sys.argv:\n"
        "    sys.exit(9)\n"
        "output.mkdir()\n"
    )
    with pytest.raises(PhrasescoreError, match="train rnn ended with exit code 9"):
        snakemake.run_step("x.toml", "out", "train_rnn")
    shutil.rmtree(small / "out" / "models" / "rnn", ignore_errors=True)
    snakemake.run_step("x.toml", "out", "train_rnn")
    assert (small / "out" / "models" / "calls").read_text().split()[-1] == "--resume"
    (small / "out" / "models" / "rnn" / ".snakemake_timestamp").touch()
    snakemake.run_step("x.toml", "out", "train_rnn")
    assert len((small / "out" / "models" / "calls").read_text().split()) == 2


def test_the_table_refuses_steps_of_other_settings(small: Path) -> None:
    for rule in [name for name in export(small) if name != "table"]:
        snakemake.run_step("x.toml", "out", rule)
    text = (small / "x.toml").read_text()
    (small / "x.toml").write_text(f"{text}[models.rnn]\nminutes = 2\n")
    with pytest.raises(PhrasescoreError, match=r"^train rnn: its outputs are not from these"):
        snakemake.run_step("x.toml", "out", "table")
    assert not (small / "out" / "table.txt").exists()


def test_wrong_input_is_refused(small: Path) -> None:
    with pytest.raises(ArgumentError, match=r"--step: x\.toml has no 'train_cslm'"):
        snakemake.run_step("x.toml", "out", "train_cslm")
    with pytest.raises(PhrasescoreError, match=r"/a\{b\}/.*: Snakemake treats text in braces"):
        export(small, "a{b}")
    with pytest.raises(PhrasescoreError, match=r"x\.toml: would overwrite another file"):
        phrasescore.export_experiment("x.toml", "x.toml", "out")
    (small / "theirs").mkdir()
    (small / "theirs" / "models").touch()
    with pytest.raises(
        PhrasescoreError, match="or the folder of an exported experiment, found other"
    ):
        export(small, "theirs")
    (small / "x.toml").write_text(CONFIG)
    with pytest.raises(ConfigError, match=r"x.toml: \[engine\] threads: is missing: expected a nu"):
        export(small)
    assert not (small / "out").exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--export", "snakemake", "--dry-run"], "--dry-run cannot be used with --export"),
        (["--folder", "out"], "--folder can only be used with --export"),
        (["--step", "table", "--dry-run"], "--dry-run cannot be used with --step"),
        (["--export", "snakemake", "-o", "-"], "--folder is required"),
    ],
)
@pytest.mark.usefixtures("small")
def test_options_that_do_not_go_together(options: list[str], problem: str) -> None:
    check_refusal(experiment(*options), problem, 2)


def test_the_default_folder_is_beside_the_file(small: Path) -> None:
    result = run("experiment", "x.toml", "-o", "all.smk", "--export", "snakemake")
    assert (result.exit_code, result.stdout) == (0, "")
    assert f" -o {small}/all.smk.out --step'" in (small / "all.smk").read_text()
    assert not (small / "all.smk.out").exists()


EXAMPLE = REPOSITORY / "examples" / "english-french"
# The shipped example, cut down to seconds.
QUICK = f"""\
systems = ["Baseline", "+RNN"]
[data]
moses_ini = "{EXAMPLE}/moses.ini"
dev = {{ source = "dev.en", references = "dev.fr" }}
test.test = {{ source = "heldout.en", references = "heldout.fr" }}
[engine]
processes = 1
threads = 1
nbest_size = 20
iterations = 4
search = {{ stack = 5 }}
[tuning]
replicas = 1
[models.rnn]
updates = 60
set.model.hidden_size = 32
set.training.checkpoint_updates = 5
"""


@pytest.mark.slow
@pytest.mark.skipif(SNAKEMAKE is None, reason="needs snakemake")
def test_snakemake_makes_the_same_table_also_where_jobs_are_killed(tmp_path: Path) -> None:
    for name in ("dev.en", "dev.fr", "heldout.en", "heldout.fr"):
        lines = (EXAMPLE / name).read_text().splitlines(keepends=True)
        (tmp_path / name).write_text("".join(lines[:30]))
    (tmp_path / "x.toml").write_text(QUICK)
    out = tmp_path / "out"
    phrasescore.export_experiment(tmp_path / "x.toml", tmp_path / "Snakefile", out)
    work = out / "models" / "rnn.work"
    assert _run_snakemake(tmp_path, "train", work, "state-*") != 0
    assert [path.name for path in work.parent.iterdir()] == ["rnn.work"]
    tuning = out / "systems" / "+RNN" / "seed1" / "tuning"
    assert _run_snakemake(tmp_path, "tune", tuning, "run2*") != 0
    assert _run_snakemake(tmp_path) == 0
    for log in ("train.rnn.log", "tune.+RNN.seed.1.log"):
        commands = re.findall(r"^\$ .*", (out / "logs" / log).read_text(), re.M)
        assert [line.endswith("--resume") for line in commands] == [False, True]
    phrasescore.run_experiment(tmp_path / "x.toml", tmp_path / "ours")
    for name in ("table.txt", "table.toml"):
        assert (out / name).read_bytes() == (tmp_path / "ours" / name).read_bytes()


def _run_snakemake(folder: Path, verb: str = "", work: Path | None = None, begun: str = "") -> int:
    """Run all; kill the step of a verb when such a file is in its work folder."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = leashed([str(SNAKEMAKE), "--cores", "2"])
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
    while work is not None and not any(work.glob(begun)):
        assert process.poll() is None, f"no {begun} in {work}"
        time.sleep(0.02)
    if work is not None:
        for pid in _steps_at_work(verb, work.with_suffix("")):
            os.kill(pid, signal.SIGKILL)
    return process.wait()


def _steps_at_work(verb: str, work: Path) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            is_step = words[2:4] == ["phrasescore.cli.step", verb]
            if is_step and str(work) in words:
                yield int(path.parent.name)

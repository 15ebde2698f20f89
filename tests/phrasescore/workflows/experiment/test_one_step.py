"""The steps of an experiment one by one, as a job system runs them."""

import json
import shutil
from pathlib import Path

import pytest

from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.workflows.experiment.one_step import run_step
from tests.command_line import check_refusal, run
from tests.phrasescore.workflows.experiment.experiment_folder import CONFIG, experiment

SMALL = CONFIG.replace("processes = 2", "processes = 2\nthreads = 1") + "[tuning]\nreplicas = 1\n"
STEPS = (
    *("tune_Baseline_seed_1", "decode_news_Baseline_seed_1", "train_encoder_decoder"),
    *("annotate_encoder_decoder", "tune__RNN_seed_1", "decode_news__RNN_seed_1"),
)


@pytest.fixture
def small(doubles: Path) -> Path:
    (doubles / "x.toml").write_text(f"systems = ['Baseline', '+RNN']\n{SMALL}")
    return doubles


def test_the_steps_one_by_one_make_the_table_of_a_whole_run(small: Path) -> None:
    with (small / "commands.py").open("a") as code:
        code.write("if verb == 'tune': print(json.dumps({'warning': 'odd lists'}))\n")
    assert experiment().exit_code == 0
    for step in (*STEPS, "table"):
        result = run("experiment", "x.toml", "-o", "jobs", "--step", step)
        assert (result.exit_code, result.stdout) == (0, ""), result.output
    for name in ("table.txt", "table.toml"):
        assert (small / "jobs" / name).read_bytes() == (small / "out" / name).read_bytes()
    pages = (json.loads((small / name / "report" / "report.json").read_text("utf-8"))
             for name in ("jobs", "out"))  # fmt: skip
    first, other = (page["sections"] for page in pages)
    assert first[:-1] == other[:-1]  # the steps have other times
    assert "Warning of tune +RNN seed 1: odd lists.\n" in (small / "jobs/table.txt").read_text()


def test_a_step_whose_outputs_were_deleted_goes_on(small: Path) -> None:
    (small / "commands.py").write_text(
        "import pathlib, sys\n"
        "output = pathlib.Path(sys.argv[sys.argv.index('-o') + 1])\n"
        "with open(output.parent / 'calls', 'a') as calls:\n"
        "    calls.write(f'{sys.argv[-1]}\\n')\n"
        "if '--resume' not in sys.argv:\n"
        "    sys.exit(9)\n"
        "output.mkdir()\n"
    )
    with pytest.raises(PhrasescoreError, match="train encoder-decoder ended with exit code 9"):
        run_step("x.toml", "out", "train_encoder_decoder")
    shutil.rmtree(small / "out" / "models" / "encoder-decoder", ignore_errors=True)
    run_step("x.toml", "out", "train_encoder_decoder")
    assert (small / "out" / "models" / "calls").read_text().split()[-1] == "--resume"
    (small / "out" / "models" / "encoder-decoder" / ".timestamp").touch()
    run_step("x.toml", "out", "train_encoder_decoder")
    assert len((small / "out" / "models" / "calls").read_text().split()) == 2


def test_the_table_refuses_steps_of_other_settings(small: Path) -> None:
    for step in STEPS:
        run_step("x.toml", "out", step)
    text = (small / "x.toml").read_text()
    (small / "x.toml").write_text(f"{text}[models.encoder-decoder]\nminutes = 2\n")
    with pytest.raises(
        PhrasescoreError, match=r"^train encoder-decoder: its outputs are not from these"
    ):
        run_step("x.toml", "out", "table")
    assert not (small / "out" / "table.txt").exists()


def test_wrong_input_is_refused(small: Path) -> None:
    with pytest.raises(ArgumentError, match=r"--step: x\.toml has no 'train_cslm'"):
        run_step("x.toml", "out", "train_cslm")
    (small / "theirs").mkdir()
    (small / "theirs" / "models").touch()
    with pytest.raises(PhrasescoreError, match="folder of an experiment's single steps, found oth"):
        run_step("x.toml", "theirs", "train_encoder_decoder")
    assert not (small / "out").exists()


@pytest.mark.usefixtures("small")
def test_a_step_is_not_shown() -> None:
    check_refusal(experiment("--step", "table", "--dry-run"), "--dry-run cannot be used with", 2)

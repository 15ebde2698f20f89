"""Promises of phrasescore.training.ranks: one run in several processes, started by torchrun."""

import os
import re
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from phrasescore.training.ranks import RankLostError, Ranks, joined_ranks
from tests.command_line import run, succeeded

# 64 pairs to learn from in batches of 9: the last one has a pair, and two ranks of three none.
TINY = (
    *("--set=model.hidden_size=6", "--set=model.embedding_size=4", "--set=model.maxout_size=3"),
    *("--set=model.output_rank=4", "--set=training.batch_size=9", "--set=training.loss=mean"),
    *("--set=training.validation_updates=10", "--set=training.validation_share=0.2"),
    *("--set=training.checkpoint_updates=4", "--epochs=3", "--threads=1", "--device=cpu"),
)


@pytest.fixture(name="table", scope="module")
def written_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranks") / "table"
    with path.open("w", encoding="utf-8") as file:
        for i in range(80):
            source = " ".join(f"s{(i * 7 + j) % 11}" for j in range(1 + i % 3))
            file.write(f"{source} ||| t{i % 9} é{i} ||| 0.5 0.25 ||| 0-0 ||| 4 2 {1 + i % 2}\n")
    return path


def command(table: Path, model: Path, *more: str) -> list[str]:
    return ["train", "encoder-decoder", str(table), "-o", str(model), *TINY, *more]


def launch(processes: int, *words: str) -> "subprocess.CompletedProcess[str]":
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    launched = [*launcher, f"--nproc-per-node={processes}", *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(launched, capture_output=True, text=True, timeout=240, env=environment)


def train(
    table: Path, model: Path, processes: int, *more: str
) -> "subprocess.CompletedProcess[str]":
    return launch(processes, "-m", "phrasescore", *command(table, model, *more))


def perplexity(stderr: str) -> float:
    found = re.search(r"validation perplexity ([\d.]+) after", stderr)
    assert found is not None, stderr
    return float(found[1])


def test_a_run_alone_is_the_only_rank() -> None:
    alone = Ranks()
    assert alone.is_first
    assert alone.sum([1e9 + 1]) == [1e9 + 1]


@pytest.mark.timeout(600)
def test_ranks_learn_what_one_process_learns(table: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    alone = succeeded(run(*command(table, one)))
    shared = train(table, two, 2)
    assert shared.returncode == 0, shared.stderr
    # The sums of floats differ in their order alone.
    assert perplexity(shared.stderr) == pytest.approx(perplexity(alone.stderr), rel=1e-4)
    expected, found = load_file(one / "model.safetensors"), load_file(two / "model.safetensors")
    for name, weights in expected.items():
        torch.testing.assert_close(found[name], weights, rtol=1e-3, atol=1e-4)
    assert shared.stderr.count("distinct pairs") == 1
    assert not (tmp_path / "two.work").exists()


@pytest.mark.slow
def test_killed_ranks_go_on_to_the_same_bits(table: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    more = ("--set=model.dropout=0.3",)
    assert train(table, whole, 3, *more).returncode == 0
    # It stops while the second rank is about to make its 14th update, by a signal for all.
    program = """
import os, signal, sys
from phrasescore.cli import main
from phrasescore.training.loop import TrainingLoop
update, calls = TrainingLoop._update, []
def deadly(self, *batch):
    calls.append(1)
    if len(calls) == 14 and os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    return update(self, *batch)
TrainingLoop._update = deadly
main()
"""
    script = tmp_path / "deadly.py"
    script.write_text(program)
    begin = time.monotonic()
    run = launch(3, str(script), *command(table, killed, *more))
    assert run.returncode != 0
    assert run.stderr.count("another process of this run has ended") == 1
    assert time.monotonic() - begin < 120
    other = train(table, killed, 2, *more, "--resume")
    assert other.returncode == 1
    assert "was started with 3 processes, not 2" in other.stderr
    resumed = train(table, killed, 3, *more, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    weights = [path / "model.safetensors" for path in (whole, killed)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_a_machine_that_vanishes_is_not_waited_for_half_an_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options: dict[str, timedelta] = {}

    def init(_backend: str, **given: timedelta) -> None:
        options.update(given)
        raise RuntimeError("connect() timed out")

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(torch.distributed, "init_process_group", init)
    with pytest.raises(RankLostError), joined_ranks(torch.device("cpu")):
        pass
    assert options["timeout"] <= timedelta(minutes=10)


def test_a_lost_rank_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_arguments: object) -> None:
        raise RuntimeError("[pair.cc:553] Connection closed by peer")

    monkeypatch.setattr(torch.distributed, "new_group", lambda **_options: None)
    monkeypatch.setattr(torch.distributed, "all_reduce", gone)
    with pytest.raises(RankLostError, match=r"^another process of this run has ended"):
        Ranks(0, 2).sum([1.0])

"""Promises of ``phrasescore train``, as a user meets them."""

import os
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from phrasescore.cli import main
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.settings.kinds import KINDS
from phrasescore.vocabulary import Vocabulary
from tests.command_line import check_refusal, run, succeeded

TINY = [
    "--set=model.hidden_size=6",
    "--set=model.embedding_size=4",
    "--set=model.maxout_size=3",
    "--set=model.output_rank=4",
    "--set=training.batch_size=5",
    "--set=training.validation_updates=10",
    "--set=training.validation_share=0.2",
    "--set=training.checkpoint_updates=7",
    "--threads=1",
    "--device=cpu",
]


@pytest.fixture(name="table")
def written_table(tmp_path: Path) -> Path:
    path = tmp_path / "table"
    with path.open("w", encoding="utf-8") as file:
        for i in range(80):
            source = " ".join(f"s{(i * 7 + j) % 11}" for j in range(1 + i % 3))
            file.write(f"{source} ||| t{i % 9} é{i} ||| 0.5 0.25 ||| 0-0 ||| 4 2 {1 + i % 2}\n")
    return path


def train(*arguments: object) -> Result:
    return CliRunner().invoke(
        main, ["train", "encoder-decoder", *map(str, arguments)], catch_exceptions=False
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_share_of_words_that_the_vocabulary_covers_is_told(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_text("a ||| x ||| 1 ||| ||| 9 9 99999\nb ||| x ||| 1 ||| ||| 9 9 1\n")
    options = ("--set=vocabulary.source_size=1", *TINY)
    result = succeeded(train(table, "-o", tmp_path / "model", "--updates", 1, *options))
    # One word of 100,000 is missing: rounded, the share would be 100.00%.
    covers = "the vocabulary covers 99.99% of the words read and all words predicted"
    assert covers in result.stderr


def test_a_table_becomes_a_model(table: Path, tmp_path: Path) -> None:
    result = succeeded(train(table, "-o", tmp_path / "model", "--updates", "20", *TINY))
    assert result.stdout == ""
    assert "80 distinct pairs; 16 held out; the vocabulary covers all words; " in result.stderr
    assert "model: limit of updates reached; validation perplexity" in result.stderr
    assert names(tmp_path) == ["model", "table"]
    checkpoint = load_checkpoint(tmp_path / "model")
    assert checkpoint.record.updates == 20
    assert checkpoint.config.model.hidden_size == 6
    assert checkpoint.config.training.optimizer == "adam"  # the preset is small


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_the_state_and_is_the_exit_code(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    from phrasescore.models.encoder_decoder import EncoderDecoder

    forward = EncoderDecoder.forward

    def interrupted(self: EncoderDecoder, batch: object) -> object:
        os.kill(os.getpid(), number)
        return forward(self, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(EncoderDecoder, "forward", interrupted)
    result = train(table, "-o", tmp_path / "model", "--updates", "20", *TINY)
    assert result.exit_code == code
    assert "stopped after update 1; --resume continues from there" in result.stderr
    assert names(tmp_path) == ["model.work", "table"]


def test_a_table_on_stdin_is_trained_on(table: Path, tmp_path: Path) -> None:
    command = ["train", "encoder-decoder", "-", "-o", str(tmp_path / "model"), "--updates=3"]
    succeeded(run(*command, *TINY, stdin=table.read_bytes()))
    assert train(table, "-o", tmp_path / "same", "--updates", "3", *TINY).exit_code == 0
    records = [load_checkpoint(tmp_path / name).record for name in ("model", "same")]
    assert records[0].data_fingerprint == records[1].data_fingerprint


def test_a_reverse_model_predicts_the_source(table: Path, tmp_path: Path) -> None:
    train(table, "-o", tmp_path / "model", "--updates", "3", "--reverse", *TINY)
    checkpoint = load_checkpoint(tmp_path / "model")
    assert checkpoint.reverse
    assert "t1" in checkpoint.source_vocabulary
    assert "s1" in checkpoint.table_source_vocabulary


def test_the_joint_counts_of_the_table_weigh_the_words(tmp_path: Path) -> None:
    (tmp_path / "table").write_text(
        "a ||| x ||| 1 ||| ||| 9 9 1\nb ||| x ||| 1 ||| ||| 9 9 5\nc ||| y ||| 1 ||| ||| 9 9 2\n"
    )
    # Without a held-out part: 3 pairs are too few.
    train(tmp_path / "table", "-o", tmp_path / "model", "--updates", "1", *TINY)
    checkpoint = load_checkpoint(tmp_path / "model")
    assert checkpoint.source_vocabulary == Vocabulary(["b", "c", "a"])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--set=model.hiden_size=3"], 1, "did you mean 'hidden_size'?"),
        (["--preset=cho2014", "--config=x.toml"], 2, "cannot be combined"),
        (["--config=none.toml"], 1, "none.toml: cannot be read"),
        (["--minutes=-1"], 2, "--minutes: expected at least 0, got -1.0"),
        (["-o", "."], 1, ".: expected the name of a folder for the model"),
        (["-o", "-"], 1, "-: expected the name of a folder for the model"),
        (["--set=model.hidden_size=10000000"], 1, "hidden_size: expected a number from 1"),
        (["--device=tpu"], 2, "expected auto, cpu, cuda or cuda:N"),
    ],
)
def test_a_mistake_is_said_in_one_line_and_leaves_nothing(
    table: Path, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    check_refusal(
        train(table, "-o", tmp_path / "model", "--updates", "3", *TINY, *arguments), message, code
    )
    assert names(tmp_path) == ["table"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [(b"only one field", "expected at least 3 fields"), (b"\xff ||| x ||| 1 1", "expected UTF-8")],
)
def test_a_bad_table_is_said_with_its_line_and_leaves_nothing(
    table: Path, tmp_path: Path, line: bytes, problem: str
) -> None:
    with table.open("ab") as file:
        file.write(line + b"\n")
    result = train(table, "-q", "-o", tmp_path / "model", "--updates", "3", *TINY)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: {table}:81: ")
    assert problem in result.stderr
    assert result.stderr.count("\n") == 1
    assert names(tmp_path) == ["table"]


def test_a_run_that_cannot_begin_leaves_no_folder_above_its_own(
    table: Path, tmp_path: Path
) -> None:
    there = tmp_path / "not" / "there"
    result = train(tmp_path / "none", "-o", there / "model", "--updates", "3", *TINY)
    assert result.exit_code == 1
    assert names(tmp_path) == ["table"]
    result = succeeded(train(table, "-o", there / "model", "--updates", "3", *TINY))
    assert names(tmp_path) == ["not", "table"]
    assert names(there) == ["model"]


def test_resuming_a_run_that_has_ended_gives_one_message(table: Path, tmp_path: Path) -> None:
    train(table, "-o", tmp_path / "model", "--updates", "3", *TINY)
    before = (tmp_path / "model" / "training.json").read_bytes()
    result = train(table, "-o", tmp_path / "model", "--updates", "9", *TINY, "--resume")
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"Error: {tmp_path / 'model'}: already exists, and ")
    assert f"{tmp_path / 'model.work'} holds no run to continue" in line
    assert (tmp_path / "model" / "training.json").read_bytes() == before


def test_counts_beyond_reason_leave_the_coverage_a_number(tmp_path: Path) -> None:
    (tmp_path / "table").write_text("a ||| x ||| 1 ||| ||| 9 9 1e308\n" * 3 + "b ||| y ||| 1\n")
    succeeded(train(tmp_path / "table", "-o", tmp_path / "model", "--updates", "1", *TINY))
    assert load_checkpoint(tmp_path / "model").record.source_coverage == 1.0


def test_settings_of_a_file_are_used(table: Path, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("[training]\nseed = 7\nupdates = 2\n")
    train(table, "-o", tmp_path / "model", "--config", tmp_path / "my.toml", *TINY)
    assert load_checkpoint(tmp_path / "model").record.seed == 7
    train(table, "-o", tmp_path / "other", "--config", tmp_path / "my.toml", *TINY, "--seed", "8")
    assert load_checkpoint(tmp_path / "other").record.seed == 8


def test_the_help_names_every_kind_of_network() -> None:
    text = " ".join(run("train", "--help").output.split())
    *kinds, last = sorted(KINDS)
    assert f"KIND is {', '.join(kinds)} or {last}." in text

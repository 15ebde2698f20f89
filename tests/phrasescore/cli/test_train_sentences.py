"""Promises of ``phrasescore train`` on parallel text, as a user meets them."""

import gzip
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from phrasescore.cli import main
from phrasescore.models.batches import PairBatch
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.models.lstm import LstmNetwork
from tests.command_line import check_refusal, run, succeeded
from tests.forked import Forked, run_command

RUN = [
    "--set=training.batch_size=5",
    "--set=training.validation_updates=10",
    "--set=training.validation_share=0.2",
    "--set=training.checkpoint_updates=7",
    "--threads=1",
    "--device=cpu",
]
TINY = ["--set=model.hidden_size=6", "--set=model.embedding_size=4", *RUN]


@pytest.fixture(name="text")
def written_text(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "train.en", tmp_path / "train.fr"
    with source.open("w") as sources, target.open("w") as targets:
        for i in range(80):
            sources.write(" ".join(f"s{(i * 7 + j) % 11}" for j in range(1 + i % 7)) + "\n")
            targets.write(f"t{i % 9} é{i}" + " t" * (i % 4) + "\n")
    return source, target


def train(kind: str, *arguments: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(
        main, ["train", kind, *map(str, arguments)], catch_exceptions=False, input=stdin
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_parallel_text_becomes_a_model(text: tuple[Path, Path], tmp_path: Path) -> None:
    result = succeeded(train("lstm", *text, "-o", tmp_path / "model", "--updates", "20", *TINY))
    assert result.stdout == ""
    assert "80 lines, 80 distinct pairs; 16 held out" in result.stderr
    assert "model: limit of updates reached; validation perplexity" in result.stderr
    assert names(tmp_path) == ["model", "train.en", "train.fr"]
    checkpoint = load_checkpoint(tmp_path / "model")
    assert isinstance(checkpoint.model, LstmNetwork)
    assert checkpoint.record.updates == 20
    assert checkpoint.config.model.dropout == 0.25  # the preset is lstm-small
    assert "s1" in checkpoint.source_vocabulary
    assert "é1" in checkpoint.target_vocabulary


def test_an_encoder_decoder_learns_from_parallel_text_too_in_any_direction(
    text: tuple[Path, Path], tmp_path: Path
) -> None:
    sizes = ["--set=model.maxout_size=3", "--set=model.output_rank=4"]
    command = [*text, "-o", tmp_path / "model", "--updates", "3", *TINY, *sizes]
    assert train("encoder-decoder", *command, "--right-to-left", "--reverse").exit_code == 0
    checkpoint = load_checkpoint(tmp_path / "model")
    assert checkpoint.config.kind == "encoder-decoder"
    assert (checkpoint.reverse, checkpoint.right_to_left) == (True, True)
    shown = " ".join(run("show", tmp_path / "model").stdout.split())  # without line breaks
    assert "direction source-given-target-right-to-left" in shown


# Programs that kill themselves by the signal that nothing can catch.


def run_until_the_27th_batch(*arguments: str) -> None:
    forward, calls = LstmNetwork.forward, []

    def deadly(self: LstmNetwork, *batch: Any) -> Any:
        calls.append(1)
        if len(calls) == 27:  # in the middle of an update
            os.kill(os.getpid(), signal.SIGKILL)
        return forward(self, *batch)

    pytest.MonkeyPatch().setattr(LstmNetwork, "forward", deadly)
    run_command(*arguments)


def test_a_killed_run_with_dropout_is_resumed_to_the_same_bits(
    text: tuple[Path, Path], tmp_path: Path
) -> None:
    command = ["--updates", "40", *TINY]
    assert train("lstm", *text, "-o", tmp_path / "whole", *command).exit_code == 0
    arguments = ["train", "lstm", *map(str, text), "-o", str(tmp_path / "killed"), *command]
    killed = Forked(run_until_the_27th_batch, *arguments)
    _, errors = killed.communicate()
    assert killed.returncode == -signal.SIGKILL, errors
    check_refusal(
        train("lstm", *text, "-o", tmp_path / "killed", *command),
        "killed.work: holds an unfinished run; continue it with --resume",
    )
    resumed = succeeded(
        train("lstm", *text, "-o", tmp_path / "killed", "--resume", "--threads=1", "--device=cpu")
    )
    assert "continuing after update 21" in resumed.stderr
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "killed")]
    assert weights[0] == weights[1]


@pytest.fixture(name="stopped")
def stopped_run(
    text: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[object]:
    forward = LstmNetwork.forward

    def interrupted(self: LstmNetwork, batch: PairBatch) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return forward(self, batch)

    command = ["-o", tmp_path / "model", "--updates", "3", *TINY]
    with monkeypatch.context() as patch:
        patch.setattr(LstmNetwork, "forward", interrupted)
        assert train("lstm", *text, *command).exit_code == 130
    return command


def test_resuming_where_no_run_is_says_that_a_new_one_begins(
    text: tuple[Path, Path], tmp_path: Path
) -> None:
    command = [*text, "-o", tmp_path / "model", "--updates", "3", *TINY, "--resume"]
    result = succeeded(train("lstm", *command))
    assert f"{tmp_path / 'model.work'}: no unfinished run found; starting a new one" in (
        result.stderr
    )


def test_a_run_is_resumed_with_the_same_text_only(
    text: tuple[Path, Path], tmp_path: Path, stopped: list[object]
) -> None:
    other = tmp_path / "other.fr"
    other.write_bytes(text[1].read_bytes().replace(b"t8", b"t7"))
    again = tmp_path / "again.en"
    again.write_bytes(text[0].read_bytes())
    for wrong in ((text[0], other), text[::-1], (text[0], again)):
        check_refusal(
            train("lstm", *wrong, *stopped, "--resume"),
            f"{wrong[0]}, {wrong[1]}: not the text that the run in",
        )
    packed = tmp_path / "train.fr.gz"
    packed.write_bytes(gzip.compress(text[1].read_bytes()))
    assert train("lstm", text[0], packed, *stopped, "--resume").exit_code == 0


def test_a_run_is_not_resumed_as_another_kind(
    text: tuple[Path, Path], stopped: list[object]
) -> None:
    check_refusal(
        train("encoder-decoder", *text, *stopped, "--resume"),
        "--resume: kind: the settings are for 'lstm', not 'encoder-decoder'",
    )


@pytest.mark.parametrize("place", [0, 1])
def test_one_side_may_come_from_stdin(text: tuple[Path, Path], tmp_path: Path, place: int) -> None:
    inputs: list[object] = list(text)
    inputs[place] = "-"
    command = ["--updates", "3", *TINY]
    stdin = text[place].read_bytes()
    succeeded(train("lstm", *inputs, "-o", tmp_path / "model", *command, stdin=stdin))
    assert train("lstm", *text, "-o", tmp_path / "same", *command).exit_code == 0
    records = [load_checkpoint(tmp_path / name).record for name in ("model", "same")]
    assert records[0].data_fingerprint == records[1].data_fingerprint


def test_sentences_that_are_too_long_are_left_out_and_counted(
    text: tuple[Path, Path], tmp_path: Path
) -> None:
    with text[0].open("a") as sources, text[1].open("a") as targets:
        sources.write("s " * 61 + "\n")
        targets.write("t\n")
    result = train("lstm", *text, "-o", tmp_path / "model", "--updates", "3", *TINY)
    assert "81 lines, 80 distinct pairs; 1 with more than 60 words left out" in result.stderr
    assert load_checkpoint(tmp_path / "model").record.too_long == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["lstm", "{en}"], 2, "lstm is trained on parallel text: name two files"),
        (["lstm", "{en}", "{fr}", "{fr}"], 2, "expected a phrase table or two files"),
        (["lstm", "-", "-"], 2, "two files cannot share stdin"),
        (["lstm", "{en}", "{en}"], 2, "SOURCE and TARGET are the same file"),
        (["lstm"], 2, "Missing argument"),
        (["lstn", "{en}", "{fr}"], 2, "KIND: unknown kind of network; did you mean 'lstm'?"),
        (["GRU", "{en}", "{fr}"], 2, "expected one of: cslm, encoder-decoder, grconv, joint"),
        (["lstm", "{en}", "none.fr"], 1, "none.fr: cannot open"),
        (
            ["lstm", "{en}", "{fr}", "--preset=encoder-decoder-small"],
            1,
            "the settings are for 'encoder-decoder', ",
        ),
        (["lstm", "{en}", "{fr}", "--config={en}.toml"], 1, ".toml: kind: the settings are for 'e"),
        (["lstm", "{en}", "{fr}", "--set=model.maxout_size=3"], 1, "unknown key 'maxout_size' in "),
    ],
)
def test_a_mistake_is_said_in_one_line_and_leaves_nothing(
    text: tuple[Path, Path], tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    (tmp_path / "train.en.toml").write_text("[training]\nseed = 3\n")
    before = names(tmp_path)
    given = [argument.format(en=text[0], fr=text[1]) for argument in arguments]
    check_refusal(train(*given, "-o", tmp_path / "model", "--updates", "3", *RUN), message, code)
    assert names(tmp_path) == before

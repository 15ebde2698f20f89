"""Promises of ``phrasescore train --objective bleu``, as a user meets them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from phrasescore.cli import main
from phrasescore.models.checkpoint import load_checkpoint
from tests.command_line import check_refusal, succeeded
from tests.tiny_lists import ListTask

pytestmark = pytest.mark.usefixtures("one_thread")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_network_is_trained_on_and_show_tells_it(tmp_path: Path) -> None:
    task = ListTask(tmp_path, "encoder-decoder")
    before = names(tmp_path)
    done = succeeded(
        run(*task.arguments("encoder-decoder"), "--updates=20", "--set=training.batch_size=8")
    )
    assert done.stdout == ""
    assert "40 lists, 200 hypotheses; 4 lists held out; TranslationModel0_1 with the" in done.stderr
    assert "update 0, 0.0 minutes: loss 0.000, expected BLEU " in done.stderr
    assert "model: limit of updates reached; expected BLEU " in done.stderr
    assert names(tmp_path) == sorted([*before, "model"])
    shown = " ".join(run("show", tmp_path / "model").stdout.split())
    start = load_checkpoint(task.model).fingerprint
    assert f"for bleu from 36 n-best lists (4 held out), begun as {start}" in shown
    assert "TranslationModel0_1 with the weight 1; scale " in shown
    path = tmp_path / "model" / "training.json"
    record = json.loads(path.read_text())
    assert record["fine_tuning"]["objective"] == "bleu"
    assert record["curve"][0]["expected_bleu"] > 0
    path.write_text(path.read_text().replace('"bleu"', '"xbleu"'))  # as in older models
    shown = " ".join(succeeded(run("show", tmp_path / "model")).stdout.split())
    assert f"for xbleu from 36 n-best lists (4 held out), begun as {start}" in shown


@pytest.mark.parametrize(
    ("added", "code", "problem"),
    [
        (["{references}"], 2, "Error: TABLE|TEXT...|SOURCE TARGET cannot be used with --objective"),
        (["--preset=lstm-small"], 2, "--preset cannot be used with --objective bleu and --lists"),
        (["--set=model.hidden_size=3"], 1, "--set: [model]: a trained network keeps its sizes"),
        (["--feature=LM0_5"], 1, "weights: expected one weight for LM0_5: name the network's fe"),
        (["--set=training.validation_share=0.01"], 1, "no list would be held out of 40 lists"),
        (["--set=training.batch_words=9"], 1, "--set: [training] batch_words: cannot be used with"),
        (["--set=training.average_checkpoints=2"], 1, "average_checkpoints: cannot be used with"),
        (["--set=training.subword_dropout=0.1"], 1, "[training] subword_dropout: cannot be used"),
        (["--from={source}"], 1, "source: expected the folder of a trained model"),
        (["--lists={lists}"], 1, "nbest:1: expected lists of the 40 sentences of"),
    ],
)
def test_a_mistake_is_said_in_one_line_and_leaves_nothing(
    tmp_path: Path, added: list[str], code: int, problem: str
) -> None:
    task = ListTask(tmp_path, "lstm")
    before = names(tmp_path)
    check_refusal(
        run(*task.arguments("lstm"), *(argument.format(**vars(task)) for argument in added)),
        problem,
        code,
    )
    assert names(tmp_path) == before


@pytest.mark.parametrize("left_out", ["from", "lists", "source", "references", "weights"])
def test_what_is_needed_is_named(tmp_path: Path, left_out: str) -> None:
    task = ListTask(tmp_path, "lstm")
    arguments = task.arguments("lstm")
    place = arguments.index(f"--{left_out}")
    done = run(*arguments[:place], *arguments[place + 2 :])
    assert (done.exit_code, names(tmp_path)) == (2, names(task.folder))
    assert f"--objective bleu requires --{left_out}" in done.stderr


def test_options_of_lists_need_the_objective(tmp_path: Path) -> None:
    check_refusal(
        run("train", "lstm", "a", "b", "-o", tmp_path / "model", "--lists=c", "--likelihood=1"),
        "--lists, --likelihood can only be used with --objective bleu",
        2,
    )

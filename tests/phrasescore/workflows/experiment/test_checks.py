"""The checks of texts and networks before the first step."""

from pathlib import Path

import pytest

from tests.command_line import check_refusal
from tests.doubles import RandomModel
from tests.phrasescore.workflows.experiment.experiment_folder import CONFIG, experiment

RNN = "[models.encoder-decoder]\npath = 'old'\n"
WAY = "target-given-source"


@pytest.mark.parametrize(
    ("row", "trained", "model", "problem"),
    [
        ("+LSTM", {}, "[models.lstm]\npath = 'old'\n", f"encoder-decoder, {WAY}, expected lstm"),
        ("+RNN", {"reverse": True}, RNN, f"source-given-target, expected encoder-decoder, {WAY}"),
        (
            *("+reverse", {}, RNN.replace("encoder-decoder", "reverse")),
            f"{WAY}, expected encoder-decoder, source-given-target",
        ),
        ("+RNN", {"right_to_left": True}, RNN, f"{WAY}-right-to-left, expected encoder-decoder"),
        (
            *("+RNN", {}, f"{RNN}right_to_left = true\n"),
            f"{WAY}, expected encoder-decoder, {WAY}-right-to-left",
        ),
    ],
)
def test_a_network_that_is_another_than_the_file_says_is_refused_at_once(
    folder: Path, row: str, trained: dict[str, bool], model: str, problem: str
) -> None:
    RandomModel(folder / "old", ["a"], ["b"], **trained)
    if row == "+reverse":
        model += "kind = 'encoder-decoder'\nreverse = true\n"
    (folder / "x.toml").write_text(f"systems = ['Baseline', '{row}']\n{CONFIG}{model}")
    check_refusal(experiment("--dry-run"), problem)


def test_a_network_whose_weights_are_damaged_is_refused_at_once(folder: Path) -> None:
    RandomModel(folder / "old", ["a"], ["b"])
    weights = folder / "old" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    (folder / "x.toml").write_text(f"systems = ['Baseline', '+RNN']\n{CONFIG}{RNN}")
    check_refusal(experiment("--dry-run"), "model.safetensors")


def test_a_network_that_is_not_there_is_refused_at_once(folder: Path) -> None:
    (folder / "x.toml").write_text(f"systems = ['Baseline', '+RNN']\n{CONFIG}{RNN}")
    check_refusal(experiment("--dry-run"), f"{folder}/old")


@pytest.mark.parametrize("name", ["dev.fr", "test.fr", "train.fr"])
def test_a_text_of_other_length_than_its_references_is_refused_at_once(
    folder: Path, name: str
) -> None:
    (folder / name).write_text("a\n")
    source = name.replace(".fr", ".en")
    problem = f"{folder}/{name}:2: expected as many lines as {folder}/{source} has, found the end"
    check_refusal(experiment("--dry-run"), problem)


def test_a_test_set_is_not_called_as_the_text_of_tuning(folder: Path) -> None:
    (folder / "x.toml").write_text(CONFIG.replace("test.news", "test.dev"))
    check_refusal(
        experiment("--dry-run"), "x.toml: [data] test.dev: expected another name than 'dev'"
    )

"""The checks of texts and networks before the first step."""

from pathlib import Path

import pytest

from tests.command_line import check_refusal
from tests.doubles import RandomModel
from tests.phrasescore.workflows.experiment.experiment_folder import CONFIG, experiment, planned

RNN = "[models.encoder-decoder]\npath = 'old'\n"


@pytest.mark.parametrize(
    ("row", "trained", "model", "problem"),
    [
        ("+LSTM", {}, "[models.lstm]\npath = 'old'\n", "old is of the kind encoder-decoder, expec"),
        ("+RNN", {"reverse": True}, RNN, "direction source-given-target: expected reverse = true"),
        (
            *("+reverse", {}, RNN.replace("encoder-decoder", "reverse")),
            "expected a model that was trained with --reverse",
        ),
        (
            *("+RNN", {"right_to_left": True}, RNN),
            "the direction target-given-source-right-to-left: expected right_to_left = true",
        ),
        (
            *("+RNN", {}, f"{RNN}right_to_left = true\n"),
            "expected a model that was trained with --right-to-left",
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


def test_a_model_that_is_still_being_trained_is_named_and_does_not_stop_a_dry_run(
    folder: Path,
) -> None:
    more = "[models.encoder-decoder]\npath = 'net'\n"
    (folder / "x.toml").write_text(f"systems = ['Baseline', '+RNN']\n{CONFIG}{more}")
    for option in ([], ["--dry-run"]):
        check_refusal(
            experiment(*option),
            f"x.toml: [models.encoder-decoder] path: there is no model {folder}/net\n",
        )
    (folder / "net.work").mkdir()
    problem = f"there is no model {folder}/net yet: its training is running, or was stopped, in"
    check_refusal(experiment(), problem)
    shown = experiment("--dry-run")
    assert (shown.exit_code, problem in shown.stderr) == (0, True)
    assert any(line.endswith(" tables/encoder-decoder/phrase-table.gz") for _, line in planned())


@pytest.mark.parametrize("name", ["dev.fr", "test.fr", "train.fr"])
def test_a_text_of_other_length_than_its_references_is_refused_at_once(
    folder: Path, name: str
) -> None:
    (folder / name).write_text("a\n")
    source = name.replace(".fr", ".en")
    problem = f"{folder}/{name}: expected 2 lines, as {folder}/{source} has, found 1"
    check_refusal(experiment("--dry-run"), problem)


def test_a_test_set_is_not_called_as_the_text_of_tuning(folder: Path) -> None:
    (folder / "x.toml").write_text(CONFIG.replace("test.news", "test.dev"))
    check_refusal(
        experiment("--dry-run"), "x.toml: [data] test.dev: expected another name than 'dev'"
    )

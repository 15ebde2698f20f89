"""The checks of texts and networks before the first step."""

from pathlib import Path

import pytest

from tests.command_line import check_refusal
from tests.doubles import RandomModel
from tests.phrasescore.workflows.experiment.experiment_folder import CONFIG, experiment


@pytest.mark.parametrize(
    ("row", "name", "reverse", "problem"),
    [
        ("+LSTM", "lstm", False, "x.toml: [models.lstm] path: old is of the kind encoder-decod"),
        (
            "+RNN",
            "encoder-decoder",
            True,
            "the direction source-given-target: expected reverse = true",
        ),
    ],
)
def test_a_network_that_is_another_than_its_name_says_is_refused_at_once(
    folder: Path, row: str, name: str, reverse: bool, problem: str
) -> None:
    RandomModel(folder / "old", ["a"], ["b"], reverse=reverse)
    more = f"[models.{name}]\npath = 'old'\n"
    (folder / "x.toml").write_text(f"systems = ['Baseline', '{row}']\n{CONFIG}{more}")
    result = experiment("--dry-run")
    assert result.exit_code == 1
    assert problem in result.stderr.replace(f"{folder}/", "")


def test_a_network_that_predicts_the_other_side_is_refused_at_once(folder: Path) -> None:
    RandomModel(folder / "old", ["a"], ["b"])
    more = "[models.reverse]\nkind = 'encoder-decoder'\nreverse = true\npath = 'old'\n"
    (folder / "x.toml").write_text(f"systems = ['Baseline', '+reverse']\n{CONFIG}{more}")
    check_refusal(experiment("--dry-run"), "expected a model that was trained with --reverse")


@pytest.mark.parametrize(
    ("right_to_left", "problem"),
    [
        (True, "the direction target-given-source-right-to-left: expected right_to_left = true"),
        (False, "expected a model that was trained with --right-to-left"),
    ],
)
def test_a_network_that_predicts_from_the_other_end_is_refused_at_once(
    folder: Path, right_to_left: bool, problem: str
) -> None:
    RandomModel(folder / "old", ["a"], ["b"], right_to_left=right_to_left)
    wanted = str(not right_to_left).lower()
    more = f"[models.encoder-decoder]\npath = 'old'\nright_to_left = {wanted}\n"
    (folder / "x.toml").write_text(f"systems = ['Baseline', '+RNN']\n{CONFIG}{more}")
    check_refusal(experiment("--dry-run"), problem)


def test_a_network_whose_weights_are_damaged_is_refused_at_once(folder: Path) -> None:
    RandomModel(folder / "old", ["a"], ["b"])
    weights = folder / "old" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    more = "[models.encoder-decoder]\npath = 'old'\n"
    (folder / "x.toml").write_text(f"systems = ['Baseline', '+RNN']\n{CONFIG}{more}")
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
    assert "columns in tables/encoder-decoder/phrase-table.gz" in shown.stdout


@pytest.mark.parametrize("name", ["dev.fr", "test.fr"])
def test_a_text_of_other_length_than_its_references_is_refused_at_once(
    folder: Path, name: str
) -> None:
    (folder / name).write_text("a\n")
    result = experiment("--dry-run")
    assert result.exit_code == 1
    source = name.replace(".fr", ".en")
    problem = f"{folder}/{name}: expected 2 lines, as {folder}/{source} has, found 1"
    assert problem in result.stderr


def test_sides_of_other_lengths_are_refused_at_once(folder: Path) -> None:
    (folder / "train.fr").write_text("a\n")
    result = experiment("--dry-run")
    assert result.exit_code == 1
    expected = f"train.fr: expected 2 lines, as {folder}/train.en has, found 1"
    assert expected in result.stderr


def test_a_test_set_is_not_called_as_the_text_of_tuning(folder: Path) -> None:
    (folder / "x.toml").write_text(CONFIG.replace("test.news", "test.dev"))
    check_refusal(
        experiment("--dry-run"), "x.toml: [data] test.dev: expected another name than 'dev'"
    )

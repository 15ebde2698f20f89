"""What ``show`` tells of systems and experiments."""

import json
from pathlib import Path

import pytest

from phrasescore.io.journal import FORMAT
from tests.command_line import check_refusal, run, succeeded

INI = """\
[feature]
UnknownWordPenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=2 path=phrase-table
KENLM name=LM0 path=lm.arpa order=3
[weight]
UnknownWordPenalty0= 1
TranslationModel0= 0.25 0.5
LM0= 0.5
"""


def _rows(text: str) -> dict[str, str]:
    lines = (line.partition("  ") for line in text.splitlines())
    return {name: value.strip() for name, _, value in lines}


def test_the_folder_of_a_system_has_its_files_and_weights(tmp_path: Path) -> None:
    (tmp_path / "moses.ini").write_text(INI)
    (tmp_path / "phrase-table").write_bytes(b"x" * 1_250_000)
    assert _rows(succeeded(run("show", tmp_path)).stdout) == {
        "phrase-table": "1.2 MB",  # lm.arpa is not there
        "TranslationModel0": "weights 0.25 0.5",
        "LM0": "weights 0.5",
    }


def test_an_experiment_has_its_table_and_systems(tmp_path: Path) -> None:
    done = {"begun": "x", "done": "x", "seconds": 60.0}
    steps = {"tune": done, "decode": {"begun": "y"}}
    journal = {"format": FORMAT, "steps": steps, "files": {}}
    (tmp_path / "steps.json").write_text(json.dumps(journal))
    rows = _rows(succeeded(run("show", tmp_path)).stdout)
    assert rows == {"steps done": "1 of 2, in 1:00"}
    (tmp_path / "table.txt").write_text("      dev\n+RNN  9.9\n")
    system = tmp_path / "systems" / "+RNN" / "seed1" / "system.toml"
    system.parent.mkdir(parents=True)
    system.write_text('weights = "w"\nnbest_size = 100\n[[rescore]]\nmodel = "rnn"\n')
    text = succeeded(run("show", tmp_path)).stdout
    assert text.endswith("\n\n      dev\n+RNN  9.9\n")
    assert _rows(text)["to translate"] == str(system)
    found = json.loads(run("show", tmp_path, "--format", "json").stdout)
    assert found["facts"]["to translate"] == str(system)
    rows = _rows(succeeded(run("show", system)).stdout)
    assert rows == {"weights": "w", "nbest_size": "100", "rescore": "model rnn"}
    check_refusal(run("show", system, "--model", "m"), "show does not read phrase tables", 2)


@pytest.mark.parametrize("name", ["none.toml", "odd.toml"])
def test_a_damaged_file_is_an_error_in_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "odd.toml").write_text("weights = \n")
    check_refusal(run("show", tmp_path / name), f"{name}: ")

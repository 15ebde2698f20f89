"""What ``show`` tells of systems, of experiments and of this machine."""

import importlib.metadata
import json
import re
import sys
from pathlib import Path

import pytest
import torch

import phrasescore
from phrasescore import __version__
from phrasescore.io.journal import FORMAT
from phrasescore.kernels import precision
from phrasescore.workflows import show as module
from phrasescore.workflows.show import Overview
from tests.command_line import check_refusal, run, succeeded
from tests.small_system import SYSTEM, WEIGHTS, write_system


def _rows(text: str) -> dict[str, str]:
    lines = (line.partition("  ") for line in text.splitlines())
    return {name: value.strip() for name, _, value in lines}


def test_a_system_has_its_files_weights_and_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write_system(tmp_path))
    more = 'columns = [{ model = "cslm", name = "TM0_1" }]\ntext = { lowercase = true }\n'
    program = '{ command = "cat -" }, { feature = "unknown_words"'
    system = SYSTEM.replace('{ feature = "unknown_words"', program) + more
    Path("system.toml").write_text(system)
    weights = WEIGHTS.replace("RNNsearch0", "Program0= 0.5\nRNNsearch0")
    Path("weights").write_text(weights)
    shown = json.loads(succeeded(run("show", ".", "--format", "json")).stdout)["facts"]
    sizes = {name: re.sub(r"[\d.]+ kB", "N kB", text) for name, text in shown.items()}
    assert sizes == {
        "system": "./system.toml",
        "decoder": "the search of this package",
        "feature UnknownWordPenalty0": "",
        "feature PhrasePenalty0": "",
        "feature WordPenalty0": "weights -0.5; in the lists -0.25",
        "table TM0": "table (N kB); weights 1 0; in the lists 0.5 0.5",
        "feature Distortion0": "weights 1; in the lists 1",
        "language model LM0": "lm.arpa (N kB); weights 0.5; in the lists 0.25",
        "in the search CSLM0": "cslm (cslm, N kB); weights 0.25; in the lists 0.5",
        "in the lists RNNsearch0": "rnnsearch (rnnsearch, N kB); weight 3",
        "in the lists Program0": "cat -; weight 0.5",
        "in the lists UnknownWords0": "unknown_words; weight -0.5",
        "column TM0_1": f"{tmp_path}/cslm; name TM0_1",
        "text": "lowercase",
        "limits": "distortion-limit 2, stack 30",
        "size of the lists": "9",
        "programs that it runs": "cat -",
        "ready": "yes",
    }
    Path("table").rename("elsewhere")
    shown = json.loads(succeeded(run("show", ".", "--format", "json")).stdout)["facts"]
    assert shown["table TM0"].startswith("table (missing); weights 1 0")
    assert shown["ready"].startswith(f"no: {tmp_path}/moses.ini:9: [feature] TM0: cannot open ")


def test_an_experiment_has_its_table(tmp_path: Path) -> None:
    done = {"begun": "x", "done": "x", "seconds": 60.0}
    steps = {"tune": done, "decode": {"begun": "y"}}
    journal = {"format": FORMAT, "steps": steps, "files": {}}
    (tmp_path / "steps.json").write_text(json.dumps(journal))
    rows = _rows(succeeded(run("show", tmp_path)).stdout)
    assert rows["steps done"] == "1 of 2, in 1:00"
    (tmp_path / "table.txt").write_text("      dev\n+RNN  9.9\n")
    text = succeeded(run("show", tmp_path)).stdout
    assert text.endswith("\n\n      dev\n+RNN  9.9\n")


@pytest.mark.parametrize("name", ["none.toml", "odd.toml"])
def test_a_damaged_file_is_an_error_in_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "odd.toml").write_text("weights = \n")
    check_refusal(run("show", tmp_path / name), f"{name}: ")


# Without an argument


def facts() -> dict[str, str]:
    found = phrasescore.show()
    assert isinstance(found, Overview)
    return found.facts


def test_this_machine_has_a_line_for_each_thing() -> None:
    shown = facts()
    names = "versions/processor/fast --precision/threads/GPU/moses/kenlm/ctranslate2/ray/matplotlib"
    assert list(shown)[:10] == names.split("/")
    assert all(shown.values())
    assert shown["versions"].startswith(f"phrasescore {__version__}, Python 3.")
    assert json.loads(succeeded(run("show", "--format", "json")).stdout)["facts"] == shown


@pytest.mark.parametrize(
    ("quota", "found"),
    [
        ("max 100000\n", "8 of 64 cores"),
        ("800000 100000\n", "8 of 64 cores"),
        ("250000 100000\n", "8 of 64 cores, but this container is limited to 2.5: --threads 2"),
        (None, "8 of 64 cores"),
    ],
)
def test_a_container_may_have_less_time_than_cores(
    quota: str | None, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if quota is not None:
        (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(module, "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(module, "usable_threads", lambda _: 8)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    assert facts()["threads"] == found


def test_a_gpu_that_torch_cannot_use_is_told_from_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GPU_FILE", tmp_path / "nvidia0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert facts()["GPU"].startswith("none;")
    (tmp_path / "nvidia0").touch()
    assert facts()["GPU"].startswith("unusable: install a torch with CUDA")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", ["A", "B"].__getitem__)
    assert facts()["GPU"] == "A, B"


def test_what_is_missing_is_said_with_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setitem(sys.modules, "kenlm", None)
    monkeypatch.setattr(precision, "lacks_units", lambda name: name != "int8")
    monkeypatch.setenv("PATH", str(tmp_path))
    shown = facts()
    assert shown["fast --precision"] == "int8"
    assert shown["moses"].startswith("missing on the PATH;")
    assert shown["kenlm"].startswith(
        "kenlm is not installed, which reads KenLM's binary files: pip"
    )
    assert shown["ray"] == "missing, for --engine ray: pip install 'phrasescore[cluster]'"
    (tmp_path / "moses").write_text("#!/bin/sh\n")
    (tmp_path / "moses").chmod(0o755)
    assert facts()["moses"] == f"{tmp_path}/moses"

"""What the tests of ``phrasescore experiment`` share."""

from pathlib import Path

import pytest

from tests.phrasescore.workflows.experiment.experiment_folder import CONFIG, INI
from tests.phrasescore.workflows.experiment.steps_folder import Steps


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("train.en", "train.fr", "dev.en", "dev.fr", "test.en", "test.fr", "table"):
        (tmp_path / name).write_text("a\nb\n")
    (tmp_path / "lm.arpa").write_text("")
    (tmp_path / "moses.ini").write_text(INI.replace("/lm.arpa", f"{tmp_path}/lm.arpa"))
    (tmp_path / "x.toml").write_text(CONFIG)
    return tmp_path


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    return Steps(tmp_path)

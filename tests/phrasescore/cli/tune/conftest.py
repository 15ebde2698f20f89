"""The folders that the tests of tuning share."""

from pathlib import Path

import pytest

from tests.phrasescore.cli.tune.loop_folder import Folder
from tests.phrasescore.cli.tune.tune_folder import TuneFolder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path)


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TuneFolder:
    monkeypatch.chdir(tmp_path)
    return TuneFolder(tmp_path)


@pytest.fixture(autouse=True)
def _few_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    # MERT would start 240 times near the best weights of pools as small as those of tests.
    monkeypatch.setattr("tuning.mert.SMALL", 1)
    # Every test would get the warning about few sentences.
    monkeypatch.setattr("phrasescore.systems.tuning.FEW_SENTENCES", 0)

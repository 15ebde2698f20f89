"""The models of all tests of reports, and the folder that each begins with."""

from pathlib import Path

import pytest

from tests.phrasescore.report.report_folder import Folder, save_models


@pytest.fixture(scope="session")
def report_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models")
    save_models(path)
    return path


@pytest.fixture
def folder(report_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path, report_models)

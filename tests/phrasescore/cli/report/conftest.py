"""The folder that every test of ``phrasescore report`` begins with."""

from pathlib import Path

import pytest

from tests.report_folder import Folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path)

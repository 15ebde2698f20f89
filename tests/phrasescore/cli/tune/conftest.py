"""The folder that the tests of the tuning loop share."""

from pathlib import Path

import pytest

from tests.phrasescore.workflows.tune.loop_folder import Folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path)

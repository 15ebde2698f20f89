"""Promises of phrasescore.io.file_names."""

from pathlib import Path

import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.io import file_names
from phrasescore.io.file_names import check_files
from phrasescore.models import checkpoint


def test_the_names_are_those_of_a_model() -> None:
    written = (
        *(checkpoint._WEIGHTS, checkpoint._CONFIG, checkpoint._RECORD),
        *(checkpoint._SOURCE, checkpoint._TARGET),
    )
    assert set(written) == file_names._FILES_OF_A_MODEL


@pytest.mark.parametrize("name", sorted(file_names._FILES_OF_A_MODEL))
def test_a_part_of_a_model_is_not_written_over(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / "model" / ".." / "model" / name)
    (tmp_path / "model").mkdir()
    check_files((), (path,))  # a folder that is no model
    (tmp_path / "model" / "model.safetensors").touch()
    with pytest.raises(PhrasescoreError, match="would overwrite a part of a model; name another"):
        check_files(("text",), (None, path))
    check_files((), (str(tmp_path / name), str(tmp_path / "model" / "out"), "-"))

"""The inputs of reports: which kind a file is of, the names of models, and lengths of texts."""

import shutil

import pytest

from tests.log import warnings
from tests.phrasescore.report.report_folder import BASELINE, REFERENCE, Folder

pytestmark = pytest.mark.usefixtures("one_thread")


def test_models_have_the_last_parts_of_their_paths_or_whole_paths_where_these_are_equal(
    folder: Folder,
) -> None:
    for parent in ("one", "two"):
        shutil.copytree(folder.model("rnn"), folder.path / parent / "rnn")
    one, two = (str(folder.path / parent / "rnn") for parent in ("one", "two"))
    report = folder.make(models=one, only=["training"])
    assert report["title"] == "Report on rnn"
    report = folder.make(models=f"{one} {two}", only=["training"])
    assert [row[0] for row in report["sections"][0]["blocks"][-1]["rows"]] == [one, two]


def test_translations_of_another_length_are_warned_of(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write("other", "the\nhouse\n\n")
    translations = [("same", "base"), ("other", "other")]
    folder.summary(references=["ref"], translations=translations, only=["results"])
    words, reference_words = 2, len(REFERENCE.split())
    assert 2 * len(BASELINE.split()) > reference_words
    (warning,) = warnings(caplog)
    assert warning.startswith(f"other has {words} words, the references {reference_words}: ")
